/* Goal: `kvrail doctor` finds nothing on a good host, and names each fault with its check, its
 * state and a remedy. Method: facts by hand, of a host with two cards and a GPU; one fault at a
 * time. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tools/doctor.h"

static struct kvr_topology topology;
static struct topo host;
static struct doctor_facts facts;
static struct doctor_findings findings;

static void rail_set(struct kvr_rail_facts *rail, const char *provider, const char *name)
{
    *rail =
        (struct kvr_rail_facts){.pins_memory = true, .device = {KVR_WHY_NOTHING, KVR_WHY_NOTHING}};
    snprintf(rail->provider, sizeof(rail->provider), "%s", provider);
    snprintf(rail->name, sizeof(rail->name), "%s", name);
}

static int good_host(void **state)
{
    (void)state;
    memset(&host, 0, sizeof(host));
    memset(&facts, 0, sizeof(facts));
    topology = (struct kvr_topology){
        .node_count = 1,
        .nodes = {{.memory_bytes = 64ull << 30}},
        .card_count = 3,
        .cards = {{.kind = KVR_CARD_RDMA, .name = "mlx5_0", .vendor = 0x15b3},
                  {.kind = KVR_CARD_RDMA, .name = "mlx5_1", .vendor = 0x15b3},
                  {.kind = KVR_CARD_GPU, .name = "gpu", .vendor = 0x10de}},
    };
    host.topology = &topology;
    rail_set(&host.rails[0], "verbs", "mlx5_0");
    rail_set(&host.rails[1], "verbs", "mlx5_1");
    host.rail_count = host.groups.rail_count = 2;
    for (unsigned i = 0; i < 2; i++)
        host.trials[i] = (struct topo_trial){.wanted = true, .result = TOPO_TAKEN};
    host.provider_count = 2;
    host.providers[0] = (struct topo_provider){
        .provider = "verbs", .rails = &host.rails[0], .listed = 2, .count = 2};
    host.providers[1] = (struct topo_provider){.provider = "efa"};
    (void)kvr_error_set(&host.providers[1].error, KVR_NOT_FOUND, "fabric", "no rail of efa");
    host.gpu_count = 1;
    host.gpus[0] =
        (struct kvr_device_cuda_facts){.gpu = {.pci = "0000:9a:00.0"}, .order = KVR_ORDER_KEPT};
    host.groups.group_count = 1;
    host.groups.groups[0].gpu = &topology.cards[2];
    facts.host = &host;
    facts.provider = "";
    facts.opened_count = 1;
    facts.opened[0].provider = "verbs";
    facts.opened[0].cards.count = 2;
    snprintf(facts.opened[0].names, sizeof(facts.opened[0].names), "mlx5_0, mlx5_1");
    facts.libfabric.text = "libfabric 2.1.0 of FILE";
    facts.libfabric.api = UINT32_C(2) << 16;
    facts.nodes.control = facts.nodes.memory = true;
    facts.nodes.gpus = 1;
    facts.process.every_user = true;
    facts.process.files_limit = 524288;
    facts.process.locked_limit = UINT64_MAX;
    facts.memory = (struct doctor_memory){64ull << 30, 4096, 0};
    facts.clock.synchronised = true;
    facts.clock.error_us = 1500;
    return 0;
}

static const struct doctor_finding *find(const char *check, doctor_state of)
{
    for (uint32_t i = 0; i < findings.count; i++)
        if (strcmp(findings.list[i].check, check) == 0 && findings.list[i].state == of)
            return &findings.list[i];
    return NULL;
}

/* One finding of the check is in that state and has the part in its sentence. */
static void expect(const char *check, doctor_state state, const char *part)
{
    const struct doctor_finding *finding;

    doctor_judge(&facts, &findings);
    finding = find(check, state);
    if (finding == NULL || strstr(finding->found, part) == NULL)
        fail_msg("%s is not '%s' with '%s', but: %s", check, doctor_state_name(state), part,
                 finding != NULL ? finding->found : "there is none");
    if (state == DOCTOR_WARNING || state == DOCTOR_WRONG)
        assert_true(finding->remedy[0] != '\0');
    assert_int_equal(findings.wrong, state == DOCTOR_WRONG);
    assert_int_equal(findings.warnings, state == DOCTOR_WARNING);
}

static void set_error(struct kvr_error *error, const char *detail)
{
    (void)kvr_error_set(error, KVR_SYSTEM, "test", "%s", detail);
}

static void a_good_host_has_every_check(void **state)
{
    static const char *const checks[] = {
        "libfabric",  "rails",         "cards",      "card_rails",    "card_address",
        "card_link",  "card_speed",    "card_mtu",   "card_subnet",   "gpu_cards",
        "gpu_nodes",  "device_memory", "gpu_driver", "locked_memory", "user_namespace",
        "gpu_order",  "open_files",    "memfd",      "pidfd",         "clock",
        "gpu_copies", "rail_all",      "rail_filter"};

    (void)state;
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.wrong, 0);
    assert_int_equal(findings.warnings, 0);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (find(checks[i], DOCTOR_OK) == NULL)
            fail_msg("%s is not ok", checks[i]);
    assert_non_null(find("rdma_write", DOCTOR_ABSENT));
    assert_non_null(find("huge_pages", DOCTOR_ABSENT));
    expect("rails", DOCTOR_ABSENT, "no rail of efa");
    expect("rails", DOCTOR_OK, "verbs: 2 rails: mlx5_0, mlx5_1");
    expect("clock", DOCTOR_OK, "1.5 ms");
}

static void every_oddity_is_judged(void **state)
{
    (void)state;
    for (kvr_odd kind = 0; kind < KVR_ODD_END; kind++) {
        uint32_t fine;

        host.oddities.count = 0;
        doctor_judge(&facts, &findings);
        fine = findings.count;
        kvr_oddity_add(&host.oddities, kind, "oddity %d", (int)kind);
        doctor_judge(&facts, &findings);
        assert_int_equal(findings.wrong + findings.warnings, 1);
        assert_int_equal(findings.count, fine); /* in place of its check's "ok" */
        for (uint32_t i = 0; i < findings.count; i++)
            if (findings.list[i].state == DOCTOR_WRONG || findings.list[i].state == DOCTOR_WARNING)
                assert_string_equal(findings.list[i].remedy, kvr_odd_remedy(kind));
    }
    host.oddities.count = 0;
    kvr_oddity_add(&host.oddities, KVR_ODD_SHARED_SUBNET, "eth0 and 1 other");
    expect("card_subnet", DOCTOR_WRONG, "eth0 and 1 other");
    host.oddities.list[0].kind = KVR_ODD_SMALL_MTU;
    expect("card_mtu", DOCTOR_WARNING, "eth0");
    host.oddities.list[0].kind = KVR_ODD_CARD_DOWN;
    expect("card_link", DOCTOR_WARNING, "eth0");
    host.oddities.list[0].kind = KVR_ODD_RAIL_DOWN;
    expect("card_link", DOCTOR_WRONG, "eth0");
}

static void libfabric_is_judged_by_what_needs_it(void **state)
{
    (void)state;
    facts.libfabric.api = UINT32_C(1) << 16 | 17;
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.wrong + findings.warnings, 0); /* no card needs more */
    topology.cards[0].vendor = 0x1d0f;
    topology.cards[0].device = 0xefa1;
    expect("libfabric", DOCTOR_WRONG, "too old for card mlx5_0 (provider efa)");
    topology.cards[0].vendor = 0x15b3;
    set_error(&facts.libfabric.error, "libfabric cannot be loaded");
    expect("libfabric", DOCTOR_WRONG, "cannot be loaded");
    facts.provider = "local";
    expect("libfabric", DOCTOR_ABSENT, "cannot be loaded");
}

static void an_old_libfabric_matters_to_gpus(void **state)
{
    (void)state;
    host.rails[0].device.dmabuf = host.rails[1].device.dmabuf = KVR_WHY_OLD_BUILD;
    expect("libfabric", DOCTOR_WARNING, "from 1.20 on");
    host.rails[0].device.dmabuf = host.rails[1].device.dmabuf = KVR_WHY_OLD_LIBRARY;
    expect("libfabric", DOCTOR_WARNING, "from 1.20 on");
    topology.cards[2].vendor = 0x1002;
    host.gpu_count = 0;
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.warnings, 0);
    expect("gpu_driver", DOCTOR_ABSENT, "of the 1 others");
}

static void the_provider_that_is_asked_for_must_be_there(void **state)
{
    (void)state;
    facts.provider = "efa";
    expect("rails", DOCTOR_WRONG, "no rail of efa");
    facts.provider = "local";
    kvr_oddity_add(&host.oddities, KVR_ODD_NO_CARD, "no card");
    host.groups.rail_count = 0;
    expect("cards", DOCTOR_ABSENT, "provider local needs none");
    facts.provider = "";
    expect("cards", DOCTOR_WRONG, "no card");
}

static void cards_say_how_they_write_and_reach_gpus(void **state)
{
    (void)state;
    host.rails[0].writes = KVR_WRITES_RDMA;
    expect("rdma_write", DOCTOR_OK, "1 rail writes");
    host.rails[1].writes = KVR_WRITES_EMULATED;
    expect("rdma_write", DOCTOR_WARNING, "rail mlx5_1 has no RDMA write");
    host.rails[1].writes = KVR_WRITES_RDMA;
    host.trials[1].result = TOPO_REFUSED;
    host.rails[1].device.hmem = KVR_WHY_NO_HMEM;
    set_error(&host.trials[1].error, "the provider's own sentence");
    expect("device_memory", DOCTOR_WARNING, "the provider's own sentence");
    expect("device_memory", DOCTOR_WARNING, "rail mlx5_1: pages on GPUs pass through host memory");
    assert_string_equal(find("device_memory", DOCTOR_OK)->found,
                        "1 of 2 rails reach pages on GPUs");
}

static void untried_device_memory_is_a_warning(void **state)
{
    (void)state;
    host.trials[0].result = TOPO_UNTRIED;
    set_error(&host.trials[0].error, "GPU 0 gives no dmabuf");
    expect("device_memory", DOCTOR_WARNING, "GPU 0 gives no dmabuf");
    rail_set(&host.rails[0], "tcp", "eth0");
    rail_set(&host.rails[1], "tcp", "eth1");
    expect("device_memory", DOCTOR_WARNING, "no card here could reach GPUs");
}

static void gpus_are_judged_by_their_driver(void **state)
{
    (void)state;
    set_error(&facts.gpus[0].slower, "the driver is older than the toolkit");
    expect("gpu_copies", DOCTOR_WARNING, "GPU 0000:9a:00.0 copies piece by piece: the driver");
    set_error(&facts.gpus[0].opened, "out of memory");
    expect("gpu_copies", DOCTOR_WRONG, "out of memory");
    facts.gpus[0] = (struct doctor_gpu){.opened = {.status = KVR_OK}};
    host.gpus[0].order = KVR_ORDER_FLUSHED;
    expect("gpu_order", DOCTOR_OK, "after a flush");
    host.gpus[0].order = KVR_ORDER_NONE;
    expect("gpu_order", DOCTOR_WARNING, "in no order");
    host.gpus[0].order = KVR_ORDER_KEPT;
    facts.nodes.control = false;
    expect("gpu_nodes", DOCTOR_WRONG, "/dev/nvidiactl is missing");
    facts.nodes.control = true;
    facts.nodes.memory = false;
    expect("gpu_nodes", DOCTOR_WRONG, "/dev/nvidia-uvm is missing");
    facts.nodes.memory = true;
    facts.nodes.gpus = 0;
    expect("gpu_nodes", DOCTOR_WRONG, "0 nodes");
    facts.nodes.gpus = 1;
    host.gpu_count = 0;
    set_error(&host.driver, "no libcuda.so.1");
    expect("gpu_driver", DOCTOR_WRONG, "1 GPU on PCI, and none can be used: no libcuda.so.1");
    topology.card_count = 2;
    facts.nodes = (struct doctor_nodes){.gpus = 0};
    host.groups.groups[0].gpu = NULL;
    expect("gpu_driver", DOCTOR_ABSENT, "there is no GPU");
    expect("gpu_nodes", DOCTOR_ABSENT, "there is no GPU");
    expect("device_memory", DOCTOR_ABSENT, "there is no GPU");
    expect("gpu_cards", DOCTOR_ABSENT, "there is no GPU");
}

static void limits_are_judged_by_the_rails(void **state)
{
    (void)state;
    set_error(&facts.process.locked, "RLIMIT_MEMLOCK allows 64 KiB");
    expect("locked_memory", DOCTOR_WARNING, "allows 64 KiB");
    facts.process.every_user = false;
    doctor_judge(&facts, &findings);
    assert_non_null(find("user_namespace", DOCTOR_WARNING));
    facts.process.locked.status = KVR_OK;
    expect("user_namespace", DOCTOR_OK, "by RLIMIT_MEMLOCK alone");
    host.rails[0].pins_memory = host.rails[1].pins_memory = false;
    expect("locked_memory", DOCTOR_ABSENT, "no rail here pins");
}

static void the_kernel_is_judged(void **state)
{
    (void)state;
    set_error(&facts.process.files, "RLIMIT_NOFILE allows 1024");
    expect("open_files", DOCTOR_WRONG, "allows 1024");
    facts.process.files.status = KVR_OK;
    expect("open_files", DOCTOR_OK, "524288");
    set_error(&facts.process.memfd, "memfd_create is refused");
    expect("memfd", DOCTOR_WRONG, "refused");
    facts.process.memfd.status = KVR_OK;
    set_error(&facts.process.pidfd, "pidfd_open is refused");
    expect("pidfd", DOCTOR_WARNING, "pidfd_open is refused");
    facts.process.pidfd.status = KVR_OK;
    set_error(&facts.process.filter, "it cannot be reached");
    expect("rail_filter", DOCTOR_ABSENT, "provider tcp");
    facts.provider = "tcp+local";
    expect("rail_filter", DOCTOR_WARNING, "it cannot be reached");
    facts.process.network_alone = true;
    expect("rail_filter", DOCTOR_OK, "no other process");
    facts.process.filter.status = KVR_OK;
    expect("rail_filter", DOCTOR_OK, "answers this user");
    facts.clock.synchronised = false;
    expect("clock", DOCTOR_WARNING, "not synchronised");
    set_error(&facts.clock.error, "adjtimex is refused");
    expect("clock", DOCTOR_ABSENT, "adjtimex");
}

/* A card of EFA maps few pages. */
static void huge_pages_matter_where_pages_are_counted(void **state)
{
    (void)state;
    rail_set(&host.rails[0], "efa", "rdmap0");
    expect("huge_pages", DOCTOR_OK, "98 GB in small pages");
    facts.memory.bytes = 2ull << 40;
    expect("huge_pages", DOCTOR_WARNING, "this host has 2199 GB");
    facts.memory.huge_bytes = 1ull << 40;
    expect("huge_pages", DOCTOR_OK, "1100 GB are reserved");
}

static void a_file_has_cards_alone(void **state)
{
    (void)state;
    topology.from_file = true;
    set_error(&facts.process.memfd, "not asked");
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.wrong, 0);
    assert_null(find("memfd", DOCTOR_WRONG));
    expect("card_link", DOCTOR_OK, "no card's link is down");
    expect("card_mtu", DOCTOR_ABSENT, "a file does not have it");
}

/* The list has room for the worst host. */
static void the_worst_host_fits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KVR_HOST_RAILS_MAX; i++) {
        rail_set(&host.rails[i], "efa", "rdmap0");
        host.rails[i].writes = KVR_WRITES_EMULATED;
        host.rails[i].device.hmem = KVR_WHY_NO_HMEM;
        host.trials[i] = (struct topo_trial){.wanted = true, .result = TOPO_REFUSED};
        set_error(&host.trials[i].error, "refused");
    }
    host.rail_count = KVR_HOST_RAILS_MAX;
    host.gpu_count = KVR_HOST_GROUPS_MAX;
    for (unsigned i = 0; i < KVR_HOST_GROUPS_MAX; i++)
        set_error(&facts.gpus[i].opened, "out of memory");
    for (unsigned i = 0; i < KVR_ODDITIES_MAX; i++)
        kvr_oddity_add(&host.oddities, KVR_ODD_FAR, "far");
    host.provider_count = KVR_PROVIDERS_MAX;
    for (unsigned i = 0; i < KVR_PROVIDERS_MAX; i++)
        host.providers[i] = host.providers[1];
    facts.opened[0].cards.left_out_count = KVR_LEFT_OUT_MAX + 1;
    facts.opened_count = KVR_PROVIDERS_MAX;
    for (unsigned i = 1; i < KVR_PROVIDERS_MAX; i++)
        facts.opened[i] = facts.opened[0];
    doctor_judge(&facts, &findings);
    assert_true(findings.count > 2 * KVR_HOST_RAILS_MAX + KVR_HOST_GROUPS_MAX);
    assert_true(findings.count <= DOCTOR_FINDINGS_MAX);
}

static void leave_out(const char *why)
{
    struct kvr_host_cards *cards = &facts.opened[0].cards;

    snprintf(cards->left_out[cards->left_out_count++], KVR_LEFT_OUT_BYTES, "%s", why);
}

static void cards_of_an_agent_are_judged(void **state)
{
    (void)state;
    expect("rail_all", DOCTOR_OK, "an agent of provider verbs opens 2 cards: mlx5_0, mlx5_1");
    leave_out("mlx5_2 (0000:9b:00.0): its link is down");
    expect("rail_all", DOCTOR_WARNING, "leaves out mlx5_2 (0000:9b:00.0): its link is down");
    facts.opened[0].cards.left_out_count = 0;
    facts.opened[0].cards.count = KVR_AGENT_CARDS_MAX + 1;
    expect("rail_all", DOCTOR_WARNING, "33 usable cards, and an agent uses at most 32");
    facts.opened[0].cards.count = 0;
    expect("rail_all", DOCTOR_WARNING, "finds no usable card");
    facts.provider = "verbs";
    expect("rail_all", DOCTOR_WRONG, "finds no usable card");
    facts.opened_count = 0;
    expect("rail_all", DOCTOR_ABSENT, "no provider here");
}

static void efa_direct_is_said_where_it_is_offered(void **state)
{
    (void)state;
    expect("efa_direct", DOCTOR_ABSENT, "no card");
    facts.opened[0].provider = "efa";
    expect("efa_direct", DOCTOR_OK, "not efa-direct, which needs libfabric 2.4");
    facts.opened_count = 2;
    facts.opened[1] = facts.opened[0];
    facts.opened[1].provider = "efa-direct";
    expect("efa_direct", DOCTOR_OK, "--provider efa-direct, all of a fleet or none");
}

/* A sentence of a driver may have any bytes. */
static void json_has_every_finding(void **state)
{
    json_t *json, *list;

    (void)state;
    set_error(&facts.process.files, "files \xff");
    doctor_judge(&facts, &findings);
    json = doctor_json(&findings);
    assert_non_null(json);
    assert_int_equal(json_integer_value(json_object_get(json, "wrong")), 1);
    assert_int_equal(json_integer_value(json_object_get(json, "warnings")), 0);
    list = json_object_get(json, "findings");
    assert_int_equal(json_array_size(list), findings.count);
    for (uint32_t i = 0; i < findings.count; i++) {
        const json_t *finding = json_array_get(list, i), *remedy;
        bool fine = findings.list[i].state != DOCTOR_WRONG;

        remedy = json_object_get(finding, "remedy");
        assert_string_equal(json_string_value(json_object_get(finding, "check")),
                            findings.list[i].check);
        assert_string_equal(json_string_value(json_object_get(finding, "state")),
                            doctor_state_name(findings.list[i].state));
        assert_true(fine ? json_is_null(remedy) : json_is_string(remedy));
        if (!fine)
            assert_string_equal(json_string_value(json_object_get(finding, "found")), "files ?");
    }
    json_decref(json);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, good_host)
    const struct CMUnitTest tests[] = {
        CASE(a_good_host_has_every_check),
        CASE(every_oddity_is_judged),
        CASE(libfabric_is_judged_by_what_needs_it),
        CASE(an_old_libfabric_matters_to_gpus),
        CASE(the_provider_that_is_asked_for_must_be_there),
        CASE(cards_say_how_they_write_and_reach_gpus),
        CASE(untried_device_memory_is_a_warning),
        CASE(gpus_are_judged_by_their_driver),
        CASE(limits_are_judged_by_the_rails),
        CASE(the_kernel_is_judged),
        CASE(huge_pages_matter_where_pages_are_counted),
        CASE(a_file_has_cards_alone),
        CASE(cards_of_an_agent_are_judged),
        CASE(efa_direct_is_said_where_it_is_offered),
        CASE(the_worst_host_fits),
        CASE(json_has_every_finding),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
