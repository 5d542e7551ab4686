/* Which rails a provider offers, and what each can do. */
#include "fabric/fabric_ofi_state.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric_ofi.h"

#define API_VERSION FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)

/* In the order of preference within one spelling. `tcp` is the native RDM provider, which libfabric
 * 1.17 calls net and 2.x calls tcp; 1.17's own tcp has RDM only below ofi_rxm, and so another name;
 * its fi_trywait does nothing before 1.19, so that a queue's descriptor stays readable for ever.
 * EFA turns a write with an immediate and more than one piece into sends (its source says so),
 * and one larger than its card's largest, which it does not tell, into several, each with that
 * immediate: so far below it, and no less than what verbs takes. ofi_rxm has two pools of 1024
 * buffers an endpoint, of 16 KiB unless told otherwise, and fills them again with every eighth
 * connection; both sides of a connection must have the same size. An injected write that is to be
 * completed is one that ofi_rxm copies first and then posts like any other: nothing is gained. */
static const struct ofi_provider_facts provider_facts[] = {
    {.spelling = "tcp",
     .prov_name = "tcp",
     .by_address = true,
     .hang_up_first = true,
     .completes_early = true,
     .injects = true,
     .memory_unlocked = true,
     .trywait_since = FI_VERSION(1, 19)},
    {.spelling = "tcp",
     .prov_name = "net",
     .by_address = true,
     .hang_up_first = true,
     .completes_early = true,
     .injects = true,
     .memory_unlocked = true,
     .trywait_since = FI_VERSION(1, 19)},
    {.spelling = "shm",
     .prov_name = "shm",
     .same_host_only = true,
     .target_copies = true,
     .window_bytes =
         8 << 20, /* of each of two (kvr_provider_rails): what the target copies at once */
     .peers_stay = true,
     .injects = true},
    {.spelling = "verbs",
     .prov_name = "verbs;ofi_rxm",
     .by_address = true,
     .environment = "FI_OFI_RXM_BUFFER_SIZE",
     .environment_value = "256",
     .device_memory = true,
     .own_buffers = 2 * 1024,
     .own_buffer_extra = 512},
    {.spelling = "efa",
     .prov_name = "efa",
     .fabric_name = "efa",
     .device_memory = true,
     .pieces_local = 1,
     .pieces_remote = 1,
     .bytes_max = 8 << 20,
     .doorbells = true,
     .environment = "FI_EFA_ENABLE_SHM_TRANSFER",
     .environment_value = "0"},
};
#define PROVIDERS (sizeof(provider_facts) / sizeof(provider_facts[0]))

const struct ofi_provider_facts *ofi_provider_list(unsigned *ret_count)
{
    *ret_count = PROVIDERS;
    return provider_facts;
}

const struct ofi_provider_facts *ofi_provider_of(const char *spelling, const struct fi_info *info)
{
    for (size_t i = 0; i < PROVIDERS; i++) {
        const struct ofi_provider_facts *provider = &provider_facts[i];

        if (strcmp(provider->spelling, spelling) == 0 &&
            strcmp(provider->prov_name, info->fabric_attr->prov_name) == 0 &&
            (provider->fabric_name == NULL ||
             strcmp(provider->fabric_name, info->fabric_attr->name) == 0))
            return provider;
    }
    return NULL;
}

bool ofi_name_is_address(const char *name)
{
    uint8_t address[16];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static struct fi_info *make_hints(const struct ofi_provider_facts *provider, bool device_memory)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL)
        return NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->cq_data_size = sizeof(uint32_t);
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(provider->prov_name);
    if (device_memory) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    return hints;
}

/* libfabric's shm provider takes over SIGINT, SIGTERM, SIGSEGV and SIGBUS of its host program at
 * the first look-up. A program that means to drain at SIGTERM wants its own back; what a killed
 * process leaves behind is removed at the next start instead. */
static int getinfo_keeping_signals(const char *source, const struct fi_info *hints,
                                   struct fi_info **ret_list)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction saved[4];
    int code;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < 4; i++)
        sigaction(signals[i], NULL, &saved[i]);
    code = fi_getinfo(API_VERSION, source, NULL, source != NULL ? FI_SOURCE : 0, hints, ret_list);
    for (int i = 0; i < 4; i++)
        sigaction(signals[i], &saved[i], NULL);
    pthread_mutex_unlock(&lock);
    return code;
}

/* A cache of registrations between us and the card (verbs has one) opens all that it holds to reads
 * and writes from remote, even pages that we may only read, and holds it, under a key that goes on
 * working, after it was released. Ours are made once and kept: there is nothing to gain. */
static void refuse_registration_cache(void)
{
    setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
}

/* libfabric reads its environment once, at its first look-up, whichever provider that is for. */
static void prepare_environment(void)
{
    refuse_registration_cache();
    for (size_t i = 0; i < PROVIDERS; i++) {
        if (provider_facts[i].environment != NULL)
            setenv(provider_facts[i].environment, provider_facts[i].environment_value, 0);
    }
}

uint64_t ofi_own_buffer_bytes(const struct ofi_provider_facts *provider)
{
    const char *value = provider->own_buffers > 0 ? getenv(provider->environment) : NULL;

    return value != NULL
               ? provider->own_buffers * (strtoull(value, NULL, 10) + provider->own_buffer_extra)
               : 0;
}

/* Link-local addresses reach nobody without a scope that the other side does not know. */
static bool link_local(const struct fi_info *info)
{
    const struct sockaddr_in6 *address = info->src_addr;

    return info->addr_format == FI_SOCKADDR_IN6 && address != NULL &&
           IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr);
}

/* This provider itself, not another that layers on it, and able to do what we need. */
bool ofi_usable(const struct ofi_provider_facts *provider, const struct fi_info *info)
{
    return ofi_provider_of(provider->spelling, info) == provider && !link_local(info) &&
           info->domain_attr->cq_data_size >= sizeof(uint32_t) &&
           (info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0;
}

static void keep_usable(const struct ofi_provider_facts *provider, struct fi_info **list)
{
    struct fi_info **at = list;

    while (*at != NULL) {
        struct fi_info *info = *at;

        if (ofi_usable(provider, info)) {
            at = &info->next;
            continue;
        }
        *at = info->next;
        info->next = NULL;
        fi_freeinfo(info);
    }
}

kvr_status ofi_getinfo(const char *spelling, const char *source, struct fi_info **ret_list,
                       struct kvr_error *error)
{
    bool known = false;
    int code = -FI_ENODATA;

    prepare_environment();
    for (size_t i = 0; i < PROVIDERS; i++) {
        const struct ofi_provider_facts *provider = &provider_facts[i];
        struct fi_info *hints, *list = NULL;

        if (strcmp(provider->spelling, spelling) != 0)
            continue;
        known = true;
        hints = make_hints(provider, false);
        if (hints == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a look-up");
        code = getinfo_keeping_signals(provider->by_address ? source : NULL, hints, &list);
        fi_freeinfo(hints);
        if (code != 0)
            continue;
        keep_usable(provider, &list);
        if (list != NULL) {
            *ret_list = list;
            return KVR_OK;
        }
    }
    if (!known)
        return kvr_error_set(error, KVR_INVALID, "fabric",
                             "unknown provider '%s'; known are tcp, shm, verbs and efa", spelling);
    (void)kvr_error_set(
        error, KVR_NOT_FOUND, "fabric",
        "libfabric %s offers no %s rail%s%s with RDMA writes and immediates on this "
        "host; `fi_info` lists what there is",
        kvr_fabric_ofi_version(), spelling, source != NULL ? " at " : "",
        source != NULL ? source : "");
    if (error != NULL)
        error->provider_code = code;
    return KVR_NOT_FOUND;
}

struct fi_info *ofi_getinfo_device(const struct ofi_provider_facts *provider,
                                   const struct fi_info *info)
{
    struct fi_info *list = NULL, *found = NULL, *hints;

    hints = provider->device_memory ? make_hints(provider, true) : NULL;
    if (hints == NULL)
        return NULL;
    if (getinfo_keeping_signals(NULL, hints, &list) != 0)
        list = NULL;
    for (const struct fi_info *at = list; at != NULL && found == NULL; at = at->next)
        if (ofi_usable(provider, at) && (at->caps & FI_HMEM) != 0 &&
            at->addr_format == info->addr_format &&
            strcmp(at->domain_attr->name, info->domain_attr->name) == 0)
            found = fi_dupinfo(at);
    fi_freeinfo(list);
    fi_freeinfo(hints);
    return found;
}

static void copy_text(char *ret_text, size_t capacity, const char *text)
{
    snprintf(ret_text, capacity, "%s", text != NULL ? text : "");
}

static void source_text(const struct fi_info *info, char ret_text[KVR_NAME_BYTES])
{
    const struct sockaddr_in *v4 = info->src_addr;
    const struct sockaddr_in6 *v6 = info->src_addr;

    ret_text[0] = '\0';
    if (info->src_addr == NULL)
        return;
    if (info->addr_format == FI_SOCKADDR_IN)
        inet_ntop(AF_INET, &v4->sin_addr, ret_text, KVR_NAME_BYTES);
    else if (info->addr_format == FI_SOCKADDR_IN6)
        inet_ntop(AF_INET6, &v6->sin6_addr, ret_text, KVR_NAME_BYTES);
    else if (info->addr_format == FI_ADDR_STR)
        copy_text(ret_text, KVR_NAME_BYTES, info->src_addr);
}

/* An address belongs to an interface when it lies in the network of one of its addresses: 127.0.0.2
 * is lo's although lo says 127.0.0.1/8. An exact match goes before a network. */
static bool interface_matches(const struct ifaddrs *entry, const struct fi_info *info, bool exact)
{
    const struct sockaddr_in *wanted4 = info->src_addr;
    const struct sockaddr_in6 *wanted6 = info->src_addr;
    int family = info->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6;

    if (entry->ifa_addr == NULL || entry->ifa_addr->sa_family != family)
        return false;
    if (family == AF_INET6) {
        const struct sockaddr_in6 *have = (const struct sockaddr_in6 *)(void *)entry->ifa_addr;

        return memcmp(&have->sin6_addr, &wanted6->sin6_addr, sizeof(have->sin6_addr)) == 0;
    }
    if (entry->ifa_netmask == NULL)
        return false;
    const struct sockaddr_in *have = (const struct sockaddr_in *)(void *)entry->ifa_addr;
    const struct sockaddr_in *mask = (const struct sockaddr_in *)(void *)entry->ifa_netmask;
    uint32_t bits = exact ? UINT32_MAX : mask->sin_addr.s_addr;

    return ((have->sin_addr.s_addr ^ wanted4->sin_addr.s_addr) & bits) == 0;
}

static void find_interface(const struct fi_info *info, char ret_name[KVR_NAME_BYTES])
{
    struct ifaddrs *list;

    ret_name[0] = '\0';
    if (info->src_addr == NULL ||
        (info->addr_format != FI_SOCKADDR_IN && info->addr_format != FI_SOCKADDR_IN6) ||
        getifaddrs(&list) != 0)
        return;
    for (int pass = 0; pass < 2 && ret_name[0] == '\0'; pass++) {
        for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
            if (interface_matches(entry, info, pass == 0)) {
                copy_text(ret_name, KVR_NAME_BYTES, entry->ifa_name);
                break;
            }
        }
    }
    freeifaddrs(list);
}

/* From sysfs, where libfabric does not know the card (tcp). */
static void read_card(struct kvr_rail_facts *facts)
{
    char path[256], link[256];
    long long megabits = 0;
    ssize_t length;
    FILE *file;

    if (facts->interface[0] == '\0')
        return;
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", facts->interface);
    length = readlink(path, link, sizeof(link) - 1);
    if (facts->pci[0] == '\0' && length > 0) {
        const char *last;
        unsigned domain, bus, device, function;

        link[length] = '\0';
        last = strrchr(link, '/');
        if (last != NULL && sscanf(last, "/%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
            snprintf(facts->pci, sizeof(facts->pci), "%04x:%02x:%02x.%x", domain & 0xffff,
                     bus & 0xff, device & 0xff, function & 0xf);
    }
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", facts->interface);
    file = facts->speed_bps == 0 ? fopen(path, "re") : NULL;
    if (file == NULL)
        return;
    if (fscanf(file, "%lld", &megabits) == 1 && megabits > 0)
        facts->speed_bps = (uint64_t)megabits * 1000000u;
    fclose(file);
}

static void read_nic(const struct fi_info *info, struct kvr_rail_facts *facts)
{
    const struct fid_nic *nic = info->nic;

    if (nic == NULL)
        return;
    if (nic->bus_attr != NULL && nic->bus_attr->bus_type == FI_BUS_PCI)
        snprintf(facts->pci, sizeof(facts->pci), "%04x:%02x:%02x.%x",
                 nic->bus_attr->attr.pci.domain_id, nic->bus_attr->attr.pci.bus_id,
                 nic->bus_attr->attr.pci.device_id, nic->bus_attr->attr.pci.function_id & 0xf);
    if (nic->link_attr != NULL)
        facts->speed_bps = nic->link_attr->speed;
}

static uint32_t to_u32(size_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* A limit of 0 in the attributes means that the provider does not say: one piece is always good. */
static uint32_t pieces(size_t advertised, unsigned known)
{
    uint32_t limit = advertised > 0 ? to_u32(advertised) : 1;

    if (known > 0 && known < limit)
        limit = known;
    return limit < KVR_IOV_MAX ? limit : KVR_IOV_MAX;
}

static uint64_t bytes_max(uint64_t advertised, uint64_t known)
{
    return known > 0 && known < advertised ? known : advertised;
}

void ofi_facts(const struct ofi_provider_facts *provider, const struct fi_info *info,
               struct kvr_rail_facts *ret_facts)
{
    struct kvr_rail_facts facts = {
        .write =
            {
                .pieces_local = pieces(info->tx_attr->iov_limit, provider->pieces_local),
                .pieces_remote = pieces(info->tx_attr->rma_iov_limit, provider->pieces_remote),
                .bytes_max = bytes_max(info->ep_attr->max_msg_size, provider->bytes_max),
                .outstanding_max = to_u32(info->tx_attr->size),
                .window_bytes = provider->window_bytes,
                .doorbells = provider->doorbells,
                .inject_bytes = to_u32(info->tx_attr->inject_size),
            },
        .progress_manual = info->domain_attr->data_progress == FI_PROGRESS_MANUAL,
        .same_host_only = provider->same_host_only,
        .target_copies = provider->target_copies,
        .pins_memory = (info->domain_attr->mr_mode & FI_MR_ALLOCATED) != 0,
    };

    copy_text(facts.provider, sizeof(facts.provider), provider->spelling);
    copy_text(facts.provider_path, sizeof(facts.provider_path), info->fabric_attr->prov_name);
    source_text(info, facts.source);
    find_interface(info, facts.interface);
    /* Asked for an address, 1.17 names the domain after itself; the interface says more. */
    if (facts.interface[0] != '\0' &&
        strcmp(info->domain_attr->name, info->fabric_attr->prov_name) == 0)
        copy_text(facts.name, sizeof(facts.name), facts.interface);
    else
        copy_text(facts.name, sizeof(facts.name), info->domain_attr->name);
    read_nic(info, &facts);
    read_card(&facts);
    *ret_facts = facts;
}
