/* Goal: without --rail an agent of a provider of cards uses every usable card of its host, and each
 * GPU's pages leave by the cards beside that GPU. Cards that cannot be used are left out and named.
 * Method: the agent's shell opens its rails on published hosts (tests/unit/topology), over a
 * provider that lists their cards (fake_ofi.h). */
#include "tests/support/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "fabric/fabric_provider.h"
#include "tests/support/fake_ofi.h"

#define WORDS_BYTES 8192

/* What the agent finds, and what it says. */
static struct {
    char host[16], down[64]; /* down: a card that is */
    const struct kvr_topology *topology;
    struct kvr_agent agent;
    struct kvr_agent_config config;
    struct kvr_error error;
    char log[WORDS_BYTES];
} t;

/* ---- in the place of the rest of an agent ---------------------------------------------------- */

kvr_status __real_kvr_topology_read(const char *xml, struct kvr_topology **ret_topology,
                                    struct kvr_error *error);
kvr_status __wrap_kvr_topology_read(const char *xml, struct kvr_topology **ret_topology,
                                    struct kvr_error *error);
kvr_status __wrap_agent_groups_open(struct kvr_agent *agent, struct kvr_error *error);
kvr_status __wrap_agent_groups_start(struct kvr_agent *agent, struct kvr_error *error);
kvr_status __wrap_agent_revocation_open(struct kvr_agent *agent, struct kvr_error *error);
void __wrap_agent_trial(const struct kvr_agent *agent);
void __wrap_kvr_log(kvr_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

kvr_status __wrap_kvr_topology_read(const char *xml, struct kvr_topology **ret_topology,
                                    struct kvr_error *error)
{
    char path[512];

    assert_null(xml);
    snprintf(path, sizeof(path), "%s/%s.xml", KVRAIL_HOSTS, t.host);
    KVR_TRY(__real_kvr_topology_read(path, ret_topology, error));
    for (uint32_t i = 0; i < (*ret_topology)->card_count; i++) {
        struct kvr_topology_card *card = &(*ret_topology)->cards[i];

        if (card->kind == KVR_CARD_RDMA && t.down[0] != '\0' &&
            (strcmp(t.down, "every") == 0 || strcmp(t.down, card->name) == 0))
            card->down = true;
    }
    return KVR_OK;
}

kvr_status __wrap_agent_groups_open(struct kvr_agent *agent, struct kvr_error *error)
{
    (void)agent, (void)error;
    return KVR_OK;
}

kvr_status __wrap_agent_groups_start(struct kvr_agent *agent, struct kvr_error *error)
{
    (void)agent, (void)error;
    return KVR_OK;
}

kvr_status __wrap_agent_revocation_open(struct kvr_agent *agent, struct kvr_error *error)
{
    (void)agent, (void)error;
    return KVR_OK;
}

void __wrap_agent_trial(const struct kvr_agent *agent)
{
    (void)agent;
}

void __wrap_kvr_log(kvr_log_level level, const char *format, ...)
{
    size_t used = strlen(t.log);
    va_list arguments;

    (void)level;
    va_start(arguments, format);
    vsnprintf(t.log + used, sizeof(t.log) - used, format, arguments);
    va_end(arguments);
    used = strlen(t.log);
    snprintf(t.log + used, sizeof(t.log) - used, "\n");
}

static kvr_status init(const struct kvr_agent_config *config, const struct kvr_ports *ports,
                       struct kvr_buddy *memory, const struct kvr_rail_groups *groups,
                       const struct kvr_write_limits *limits)
{
    (void)config, (void)ports, (void)memory, (void)groups, (void)limits;
    return KVR_OK;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
    static const struct kvr_agent_program program = {.init = init};

    (void)state;
    fake_ofi_reset();
    memset(&t, 0, sizeof(t));
    t.agent.config = &t.config;
    t.agent.program = &program;
    t.config.posting.chunk_bytes_max = 1 << 20;
    t.config.time_scale = 100;
    snprintf(t.config.cores, sizeof(t.config.cores), "any");
    snprintf(t.config.device, sizeof(t.config.device), "none");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    agent_rails_close(&t.agent);
    kvr_topology_free((struct kvr_topology *)t.topology);
    fake_ofi_reset();
    return 0;
}

/* A host with those cards of its own that the provider is made for; `without` has no IP address. */
static void host_has(const char *host, const char *provider, const char *without)
{
    struct kvr_topology *topology = NULL;
    unsigned number = 0;

    snprintf(t.host, sizeof(t.host), "%s", host);
    snprintf(t.config.provider, sizeof(t.config.provider), "%s", provider);
    assert_int_equal(__wrap_kvr_topology_read(NULL, &topology, &t.error), KVR_OK);
    t.topology = topology;
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];
        struct fi_info *info;
        char text[32];

        if (strcmp(kvr_provider_of_card(card), provider) != 0)
            continue;
        if (strcmp(provider, "efa") == 0) {
            info = fake_ofi_add_efa(card->name);
        } else if (strcmp(without, card->name) == 0 || strcmp(without, "every") == 0) {
            info = fake_ofi_add_ib(card->name);
        } else { /* a network of benchmarks, which no host has */
            snprintf(text, sizeof(text), "198.18.%u.1", number++);
            info = fake_ofi_add_verbs(card->name, text);
        }
        fake_ofi_set_pci(info, card->pci);
    }
}

static void name_rail(const char *name)
{
    struct kvr_option_list *rails = &t.config.rails;

    snprintf(rails->items[rails->count++], sizeof(rails->items[0]), "%s", name);
}

static void open_rails(uint32_t count)
{
    if (agent_rails_open(&t.agent, &t.error) != KVR_OK)
        fail_msg("%s", t.error.detail);
    assert_int_equal(t.agent.rail_count, count);
}

static void refuses(kvr_status status, const char *sentence)
{
    assert_int_equal(agent_rails_open(&t.agent, &t.error), status);
    if (strstr(t.error.detail, sentence) == NULL)
        fail_msg("it says: %s", t.error.detail);
}

static void says(const char *sentence)
{
    if (strstr(t.log, sentence) == NULL)
        fail_msg("not said: %s\nbut:\n%s", sentence, t.log);
}

static const struct kvr_rail_facts *facts_of(uint32_t rail)
{
    return t.agent.fabric.ops->rail_facts(t.agent.rails[rail]);
}

static uint32_t home_of(uint32_t engine, const char *gpu)
{
    struct kvr_req_region region = {.memory = KVR_MEMORY_DMABUF};

    snprintf(region.gpu.pci, sizeof(region.gpu.pci), "%s", gpu);
    return agent_home_of(&t.agent, engine, &region, -1);
}

/* Every GPU's group has that many cards, all of them on its own switch; no group serves two. */
static void assert_own_cards(uint32_t gpus, uint32_t each)
{
    uint32_t taken = 0, found = 0;

    assert_int_equal(t.agent.groups.count, gpus);
    for (uint32_t i = 0; i < t.topology->card_count; i++) {
        const struct kvr_topology_card *gpu = &t.topology->cards[i];
        const uint32_t *first = t.agent.groups.first;
        uint32_t home;

        if (gpu->kind != KVR_CARD_GPU)
            continue;
        home = home_of(found++, gpu->pci);
        assert_int_equal(taken >> home & 1, 0);
        taken |= 1u << home;
        assert_int_equal(first[home + 1] - first[home], each);
        for (uint32_t rail = first[home]; rail < first[home + 1]; rail++) {
            const struct kvr_topology_card *card =
                kvr_topology_find_card(t.topology, facts_of(rail)->pci, "");

            assert_non_null(card);
            assert_int_equal(kvr_topology_distance(gpu, card).nearness, KVR_NEAR_SWITCH);
        }
    }
    assert_int_equal(found, gpus);
}

/* ---- every card ------------------------------------------------------------------------------ */

static void a_p5_serves_each_gpu_by_its_own_cards(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    open_rails(32);
    assert_own_cards(8, 4);
    says("rails 0 to 3: rdmap80s0, rdmap81s0, rdmap82s0, rdmap83s0 over efa");
    assert_null(strstr(t.log, "leaves out"));
}

static void a_p5en_serves_each_gpu_by_its_own_cards(void **state)
{
    (void)state;
    host_has("p5en", "efa", "");
    open_rails(16);
    assert_own_cards(8, 2);
}

static void a_dgx_serves_each_gpu_by_its_own_card(void **state)
{
    (void)state;
    host_has("dgx_h100", "verbs", "");
    open_rails(8);
    assert_own_cards(8, 1);
}

static void all_is_a_word_too(void **state)
{
    (void)state;
    host_has("dgx_h100", "verbs", "");
    name_rail("all");
    open_rails(8);
}

static void named_cards_are_the_only_ones(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    name_rail("rdmap80s0");
    name_rail("rdmap196s0");
    open_rails(2);
    assert_int_equal(t.agent.groups.count, 2);
}

static void groups_are_the_only_ones(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    t.config.groups.count = 1;
    snprintf(t.config.groups.items[0], sizeof(t.config.groups.items[0]), "rdmap80s0+rdmap196s0");
    open_rails(2);
    assert_int_equal(t.agent.groups.count, 1);
}

/* ---- planes ---------------------------------------------------------------------------------- */

static void name_plane(const char *text)
{
    struct kvr_option_list *planes = &t.config.planes;

    snprintf(planes->items[planes->count++], sizeof(planes->items[0]), "%s", text);
}

static uint32_t rail_named(const char *name)
{
    uint32_t rail = 0;

    while (strcmp(facts_of(rail)->name, name) != 0)
        rail++;
    return rail;
}

/* Rails get other numbers than those in which they were named. */
static void labels_stay_with_their_cards(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    name_rail("rdmap80s0@red");
    name_rail("rdmap196s0@blue.2");
    name_rail("rdmap81s0");
    open_rails(3);
    assert_string_equal(t.agent.planes.of[rail_named("rdmap80s0")], "red");
    assert_string_equal(t.agent.planes.of[rail_named("rdmap196s0")], "blue.2");
    assert_string_equal(t.agent.planes.of[rail_named("rdmap81s0")], "");
    says("rdmap80s0@red");
}

static void groups_have_labels_too(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    t.config.groups.count = 1;
    snprintf(t.config.groups.items[0], sizeof(t.config.groups.items[0]),
             "rdmap80s0@red+rdmap196s0@blue");
    open_rails(2);
    assert_string_equal(t.agent.planes.of[0], "red");
    assert_string_equal(t.agent.planes.of[1], "blue");
}

static void patterns_name_planes(void **state)
{
    (void)state;
    host_has("dgx_h100", "verbs", "");
    name_plane("mlx5_[03]=even");
    name_plane("mlx5_*=rest");
    name_plane("eth*=none");
    open_rails(8);
    for (uint32_t i = 0; i < 8; i++) {
        bool even = i == rail_named("mlx5_0") || i == rail_named("mlx5_3");

        assert_string_equal(t.agent.planes.of[i], even ? "even" : "rest");
    }
    says("--plane eth*=none: no card that this agent uses matches");
}

static void bad_labels_are_refused(void **state)
{
    static const char *const bad[] = {"rdmap80s0@", "rdmap80s0@a/b", "@red", "rdmap80s0@a=b",
                                      "rdmap80s0@-red"};
    static const char *const bad_patterns[] = {"rdmap80s0", "=red", "rdmap*=", "rdmap*=1/2"};
    char name[KVR_OPTION_ITEM_BYTES], label[KVR_PLANE_BYTES], text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(agent_plane_split(bad[i], name, label, &t.error), KVR_INVALID);
    snprintf(text, sizeof(text), "a@%047d", 0);
    assert_int_equal(agent_plane_split(text, name, label, &t.error), KVR_OK);
    assert_string_equal(name, "a");
    snprintf(text, sizeof(text), "a@%048d", 0);
    assert_int_equal(agent_plane_split(text, name, label, &t.error), KVR_INVALID);
    t.config.planes.count = 1;
    for (size_t i = 0; i < sizeof(bad_patterns) / sizeof(bad_patterns[0]); i++) {
        snprintf(t.config.planes.items[0], sizeof(t.config.planes.items[0]), "%s", bad_patterns[i]);
        assert_int_equal(agent_planes_find(&t.agent, &t.error), KVR_INVALID);
    }
}

static void all_has_no_label(void **state)
{
    (void)state;
    host_has("dgx_h100", "verbs", "");
    name_rail("all@red");
    refuses(KVR_INVALID, "--plane PATTERN=PLANE");
}

static void two_addresses_on_a_card_are_one_rail(void **state)
{
    struct fi_info *second;

    (void)state;
    host_has("dgx_h100", "verbs", "");
    second = fake_ofi_add_verbs("mlx5_0", "198.18.99.1");
    fake_ofi_set_pci(second, "0000:18:00.0");
    open_rails(8);
    assert_string_equal(facts_of(0)->source, "198.18.0.1");
}

static void both_addresses_of_a_card_can_be_named(void **state)
{
    struct fi_info *second;

    (void)state;
    host_has("dgx_h100", "verbs", "");
    second = fake_ofi_add_verbs("mlx5_0", "198.18.99.1");
    fake_ofi_set_pci(second, "0000:18:00.0");
    name_rail("198.18.99.1");
    name_rail("198.18.0.1");
    open_rails(2);
}

/* ---- cards that cannot be used --------------------------------------------------------------- */

static void a_card_without_a_link_is_left_out(void **state)
{
    (void)state;
    snprintf(t.down, sizeof(t.down), "rdmap81s0");
    host_has("p5", "efa", "");
    open_rails(31);
    says("--rail all leaves out rdmap81s0 (0000:51:00.0): its link is down");
    assert_int_equal(t.agent.groups.count, 8);
    assert_int_equal(t.agent.groups.first[1], 3);
    assert_int_equal(home_of(0, "0000:4f:00.0"), 0);
}

/* A DGX's cards have an interface each, which may be off while the RDMA device works. */
static void the_link_is_that_of_the_rdma_device(void **state)
{
    (void)state;
    snprintf(t.down, sizeof(t.down), "mlx5_3");
    host_has("dgx_h100", "verbs", "");
    open_rails(7);
    says("leaves out mlx5_3 (0000:40:00.0): its link is down");
}

static void a_port_without_an_ip_address_is_left_out(void **state)
{
    (void)state;
    host_has("dgx_h100", "verbs", "mlx5_4");
    open_rails(7);
    says("leaves out mlx5_4 (0000:4f:00.0): libfabric offers no rail on it; a rail needs an IP "
         "address (InfiniBand: IPoIB)");
}

static void a_named_card_is_taken_as_it_is(void **state)
{
    (void)state;
    snprintf(t.down, sizeof(t.down), "rdmap81s0");
    host_has("p5", "efa", "");
    name_rail("rdmap81s0");
    open_rails(1);
    assert_null(strstr(t.log, "leaves out"));
}

static void many_that_are_left_out_take_few_lines(void **state)
{
    unsigned lines = 0;

    (void)state;
    host_has("p5", "efa", "");
    fi_freeinfo(fake_ofi.infos->next); /* all but one */
    fake_ofi.infos->next = NULL;
    open_rails(1);
    says("rdmap81s0 (0000:51:00.0): libfabric offers no rail on it; rdmap82s0");
    says("rdmap196s0 (0000:c4:00.0): libfabric offers no rail on it\n");
    for (const char *at = t.log; (at = strstr(at, "leaves out")) != NULL; at++)
        lines++;
    assert_in_range(lines, 1, 5);
}

static void no_usable_card_is_an_error(void **state)
{
    (void)state;
    snprintf(t.down, sizeof(t.down), "every");
    host_has("dgx_h100", "verbs", "");
    refuses(KVR_NOT_FOUND, "provider verbs has no usable card on this host; of 8 the first is "
                           "mlx5_0 (0000:18:00.0): its link is down");
}

static void no_card_is_an_error(void **state)
{
    (void)state;
    host_has("dgx_h100", "verbs", "every");
    refuses(KVR_NOT_FOUND, "give each port an IP address (IPoIB)");
}

static void more_cards_than_an_agent_takes_are_refused(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    fake_ofi_set_pci(fake_ofi_add_efa("rdmap254s0"), "0000:fe:00.0");
    refuses(KVR_TOO_LARGE, "provider efa has 33 usable cards on this host, and an agent uses at "
                           "most 32: name its cards by --rail");
    assert_int_equal(t.agent.rail_count, 0);
}

/* ---- words that contradict each other -------------------------------------------------------- */

static void all_and_a_card_are_refused(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    name_rail("rdmap80s0");
    name_rail("all");
    refuses(KVR_INVALID, "--rail all is every card");
}

static void a_group_of_all_is_refused(void **state)
{
    (void)state;
    host_has("p5", "efa", "");
    t.config.groups.count = 1;
    snprintf(t.config.groups.items[0], sizeof(t.config.groups.items[0]), "all");
    refuses(KVR_INVALID, "--group is 'all', but its cards are named one by one");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_p5_serves_each_gpu_by_its_own_cards),
        CASE(a_p5en_serves_each_gpu_by_its_own_cards),
        CASE(a_dgx_serves_each_gpu_by_its_own_card),
        CASE(all_is_a_word_too),
        CASE(named_cards_are_the_only_ones),
        CASE(groups_are_the_only_ones),
        CASE(labels_stay_with_their_cards),
        CASE(groups_have_labels_too),
        CASE(patterns_name_planes),
        CASE(bad_labels_are_refused),
        CASE(all_has_no_label),
        CASE(two_addresses_on_a_card_are_one_rail),
        CASE(both_addresses_of_a_card_can_be_named),
        CASE(a_card_without_a_link_is_left_out),
        CASE(the_link_is_that_of_the_rdma_device),
        CASE(a_port_without_an_ip_address_is_left_out),
        CASE(a_named_card_is_taken_as_it_is),
        CASE(many_that_are_left_out_take_few_lines),
        CASE(no_usable_card_is_an_error),
        CASE(no_card_is_an_error),
        CASE(more_cards_than_an_agent_takes_are_refused),
        CASE(all_and_a_card_are_refused),
        CASE(a_group_of_all_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
