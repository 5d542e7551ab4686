#include "fabric/fabric_provider.h"

#include <rdma/fabric.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "fabric/local/fabric_local.h"
#include "fabric/ofi/fabric_ofi.h"

static const char *libfabric_version(void)
{
    static char text[32];

    snprintf(text, sizeof(text), "libfabric %s", kvr_fabric_ofi_version());
    return text;
}

static const char *own_version(void)
{
    return "kvrail " KVRAIL_VERSION;
}

static unsigned local_list(const char *provider, struct kvr_rail_facts *ret_facts,
                           unsigned capacity, struct kvr_error *error)
{
    (void)provider, (void)error;
    if (capacity > 0)
        kvr_fabric_local_facts(&ret_facts[0]);
    return 1;
}

static const struct kvr_provider_code libfabric = {
    .open = kvr_fabric_ofi, .list = kvr_fabric_ofi_list, .version = libfabric_version};
static const struct kvr_provider_code local = {
    .open = kvr_fabric_local, .list = local_list, .version = own_version};

/* What is published of 100 Gb/s cards: 1.25 µs a write; 64 KiB in 6.3 µs. */
#define CARD_COSTS                                                                                 \
    {                                                                                              \
        .write = 1250, .piece = 50, .wire_byte = 0.08                                              \
    }

/* Of both fabrics of EFA. Its cards write one piece, from and to one place. bytes_max is far below
 * the limit of any card, and no less than the limit of verbs. Asked for an API below 1.18,
 * libfabric leaves RDMA off on cards 0xefa0 and 0xefa1 (p4d, p5). Others found that a card maps
 * about 24 million pages. */
#define EFA_FACTS                                                                                  \
    .prov_names = {"efa"}, .api_since = FI_VERSION(1, 18), .sized_queues = true,                   \
    .efa_options = true, .device_memory = true, .pieces_local = 1, .pieces_remote = 1,             \
    .bytes_max = 8 << 20, .pages_max = 24000000, .doorbells = true,                                \
    .environment = "FI_EFA_ENABLE_SHM_TRANSFER", .environment_value = "0"

static const struct kvr_provider rows[] = {
    /* The card's own path, without the protocol that fabric efa lays over it: a write is what the
     * card writes, or it is refused. The target must know the writer, which fabric efa arranges by
     * messages of its own. So endpoints of the two fabrics cannot write to each other, and agents
     * name one of them. It came with libfabric 2.1; others prefer it from 2.4 on, where a card that
     * would need receive buffers for immediates is left out. Cards name fabric efa as theirs, which
     * every libfabric has. */
    {.name = "efa-direct",
     .code = &libfabric,
     .default_rail = "",
     .all_cards = true,
     .costs = CARD_COSTS,
     .libfabric = {EFA_FACTS, .fabric_name = "efa-direct", .library_since = FI_VERSION(2, 4),
                   .needs_senders = true}},
    /* Fabric efa turns a write with an immediate and more than one piece into sends (its source
     * says so). It cuts a write above its card's limit, which it does not name, into several, each
     * with the immediate. */
    {.name = "efa",
     .code = &libfabric,
     .default_rail = "",
     .all_cards = true,
     .card = {true, KVR_CARD_RDMA, 0x1d0f, 0xefa0, 0xfff0},
     .costs = CARD_COSTS,
     .libfabric = {EFA_FACTS, .fabric_name = "efa"}},
    /* ofi_rxm has two pools of 1024 buffers an endpoint, of 16 KiB by default, and fills
     * them again with every eighth connection; both sides of a connection must have the same size.
     * It copies an injected write that asks for a completion first and posts it like any other:
     * injecting gains nothing. It closes a connection when the address is removed, and the target
     * does so when it hears of that. A card then drops what the target has not read of its queue:
     * a target reads 32 arrivals, and may close connections before it reads the next ones. */
    {.name = "verbs",
     .code = &libfabric,
     .default_rail = "",
     .all_cards = true,
     .card = {true, KVR_CARD_RDMA, 0, 0, 0},
     .rail_ports = true,
     .costs = CARD_COSTS,
     .libfabric = {.prov_names = {"verbs;ofi_rxm"},
                   .by_address = true,
                   .environment = "FI_OFI_RXM_BUFFER_SIZE",
                   .environment_value = "256",
                   .closes_removed = true,
                   .rest_ns = 100 * KVR_MS,
                   .device_memory = true,
                   .own_buffers = 2 * 1024,
                   .own_buffer_extra = 512}},
    /* The native RDM provider, which libfabric 1.17 calls net and 2.x calls tcp. 1.17's own tcp has
     * RDM only below ofi_rxm, and so another name. fi_trywait does nothing before 1.19, so that a
     * queue's descriptor stays readable for ever. Costs: processor time of an end, from replays of
     * pages of 256 B and 1 KiB (tests/bench/RESULTS.md), the runs of a write included. */
    {.name = "tcp",
     .code = &libfabric,
     .default_rail = "127.0.0.1",
     .card = {true, KVR_CARD_INTERFACE, 0, 0, 0},
     .loopback = true,
     .exposed = true,
     .kernel_tcp = true,
     .rail_ports = true,
     .costs = {.write = 2200, .wire_byte = 0.27, .processors = true},
     .libfabric = {.prov_names = {"tcp", "net"},
                   .by_address = true,
                   .hang_up_first = true,
                   .completes_early = true,
                   .injects = true,
                   .memory_unlocked = true,
                   .memory_cheap = true,
                   .trywait_since = FI_VERSION(1, 19)}},
    /* Costs measured like those of tcp. */
    {.name = KVR_FABRIC_LOCAL,
     .code = &local,
     .default_rail = "",
     .loopback = true,
     .same_host_only = true,
     .target_copies = true,
     .costs = {.write = 500, .wire_byte = 0.55, .processors = true}},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROWS <= KVR_PROVIDERS_MAX, "KVR_PROVIDERS_MAX sizes tables of others");

const struct kvr_provider *kvr_provider_find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

const struct kvr_provider *kvr_provider_at(unsigned index)
{
    return index < ROWS ? &rows[index] : NULL;
}

const char *kvr_provider_of_card(const struct kvr_topology_card *card)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct kvr_provider_card *made = &rows[i].card;

        if (made->some && made->kind == card->kind &&
            (made->device_mask == 0 ||
             (made->vendor == card->vendor && (card->device & made->device_mask) == made->device)))
            return rows[i].name;
    }
    return "";
}

#define CHOICES_BYTES (KVR_PROVIDERS_MAX * KVR_PROVIDERS_MAX * 16)

static void add_choice(char text[CHOICES_BYTES], const char *name, const char *beside)
{
    size_t used = strlen(text);

    snprintf(text + used, CHOICES_BYTES - used, "%s%s%s%s", used > 0 ? "|" : "", name,
             beside != NULL ? "+" : "", beside != NULL ? beside : "");
}

const char *kvr_provider_choices(void)
{
    static char text[CHOICES_BYTES];

    text[0] = '\0';
    for (size_t i = 0; i < ROWS; i++)
        add_choice(text, rows[i].name, NULL);
    return text;
}

const char *kvr_provider_choices_mixed(void)
{
    static char text[CHOICES_BYTES];

    snprintf(text, sizeof(text), "%s", kvr_provider_choices());
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i].same_host_only)
            add_choice(text, rows[i].name, KVR_FABRIC_LOCAL);
    }
    return text;
}

const char *kvr_provider_choices_loopback(void)
{
    static char text[CHOICES_BYTES];

    text[0] = '\0';
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].loopback)
            add_choice(text, rows[i].name, NULL);
    }
    return text;
}

bool kvr_provider_by_rdma_cm(const char *name)
{
    const struct kvr_provider *provider = kvr_provider_find(name);

    return provider != NULL && provider->rail_ports && !provider->kernel_tcp;
}

bool kvr_provider_cards(const char *mixed, char ret_provider[16])
{
    size_t bytes = strcspn(mixed, "+");

    snprintf(ret_provider, 16, "%.*s", (int)(bytes < 16 ? bytes : 15), mixed);
    return mixed[bytes] == '+';
}

static const struct kvr_provider_code *code_of(const char *provider)
{
    const struct kvr_provider *row = kvr_provider_find(provider);

    return row != NULL ? row->code : &libfabric; /* its rail_open refuses the name */
}

void kvr_fabric_of(const char *provider, struct kvr_fabric *ret_fabric)
{
    code_of(provider)->open(ret_fabric);
}

const char *kvr_fabric_version(const char *provider)
{
    return code_of(provider)->version();
}

unsigned kvr_fabric_list(const char *provider, struct kvr_rail_facts *ret_facts, unsigned capacity,
                         struct kvr_error *error)
{
    return code_of(provider)->list(provider, ret_facts, capacity, error);
}
