/* Goal: on published hosts every GPU gets the cards on its own switch and cores of its own, and
 * each fault of a host is reported. Method: hwloc reads the XML that tests/support/host_xml.awk
 * made of the descriptions in tests/unit/topology; the folder is in KVRAIL_HOSTS. */
#include "tests/support/check.h"

#include <stdio.h>

#include "fabric/fabric_provider.h"
#include "topology/host_groups.h"

static struct kvr_host_groups groups;
static struct kvr_oddities odd;

static void read_host(const char *name)
{
    struct kvr_topology *topology = NULL;
    struct kvr_error error;
    char path[512];

    snprintf(path, sizeof(path), "%s/%s.xml", KVRAIL_HOSTS, name);
    assert_int_equal(kvr_topology_read(path, &topology, &error), KVR_OK);
    kvr_host_rails_of_cards(topology, kvr_provider_of_card, &groups);
    kvr_host_groups_make(&groups);
    kvr_host_groups_odd(&groups, kvr_provider_of_card, NULL, 0, &odd);
}

static int forget_host(void **state)
{
    (void)state;
    kvr_topology_free((struct kvr_topology *)groups.topology);
    memset(&groups, 0, sizeof(groups));
    return 0;
}

static const struct kvr_host_rail *rail_of(uint32_t group, uint32_t rail)
{
    return &groups.rails[groups.groups[group].rails[rail].rail];
}

static bool says(const char *part)
{
    for (uint32_t i = 0; i < odd.count; i++)
        if (strstr(odd.list[i].text, part) != NULL)
            return true;
    return false;
}

/* No core is in two groups, and each is in one. */
static void assert_cores_divided(uint32_t count)
{
    bool seen[KVR_CORES_MAX] = {false};
    uint32_t cores = 0;

    for (uint32_t g = 0; g < groups.group_count; g++)
        for (uint32_t i = 0; i < groups.groups[g].core_count; i++) {
            assert_false(seen[groups.groups[g].cores[i]]);
            seen[groups.groups[g].cores[i]] = true;
            cores++;
        }
    assert_int_equal(cores, count);
}

static void assert_gpus(uint32_t gpus, uint32_t rails_each, const char *provider, uint64_t gbps)
{
    assert_int_equal(groups.group_count, gpus);
    for (uint32_t g = 0; g < gpus; g++) {
        const struct kvr_host_group *group = &groups.groups[g];

        assert_non_null(group->gpu);
        assert_int_equal(group->gpu_number, g);
        assert_int_equal(group->node, g / (gpus / 2));
        assert_int_equal(group->rail_count, rails_each);
        for (uint32_t i = 0; i < rails_each; i++) {
            assert_int_equal(group->rails[i].distance.nearness, KVR_NEAR_SWITCH);
            assert_string_equal(rail_of(g, i)->provider, provider);
            assert_int_equal(rail_of(g, i)->speed_bps, gbps * 1000000000u);
        }
    }
    assert_int_equal(odd.count, 0);
}

static void host_groups_of_a_p5(void **state)
{
    (void)state;
    read_host("p5");
    assert_int_equal(groups.rail_count, 32);
    assert_gpus(8, 4, "efa", 100);
    assert_string_equal(groups.groups[0].gpu->pci, "0000:4f:00.0");
    assert_string_equal(rail_of(0, 0)->name, "rdmap80s0");
    assert_string_equal(rail_of(7, 3)->pci, "0000:c4:00.0");
    assert_cores_divided(192);
    /* Both threads of a core are the same group's. */
    assert_int_equal(groups.groups[0].core_count, 24);
    assert_int_equal(groups.groups[0].cores[0], 0);
    assert_int_equal(groups.groups[0].cores[1], 96);
    assert_int_equal(groups.groups[4].cores[0], 48);
}

static void host_groups_of_a_p5en(void **state)
{
    (void)state;
    read_host("p5en");
    assert_int_equal(groups.rail_count, 16);
    assert_gpus(8, 2, "efa", 200);
    assert_cores_divided(192);
}

/* The system's user guide lists the card of each GPU. */
static void host_groups_of_a_dgx_h100(void **state)
{
    static const char *const cards[] = {"mlx5_0", "mlx5_3", "mlx5_4",  "mlx5_5",
                                        "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"};

    (void)state;
    read_host("dgx_h100");
    assert_int_equal(groups.rail_count, 8); /* an RDMA device and its interface are one card */
    assert_gpus(8, 1, "verbs", 400);
    for (uint32_t g = 0; g < 8; g++)
        assert_string_equal(rail_of(g, 0)->name, cards[g]);
    assert_cores_divided(224);
}

static void host_groups_without_a_gpu_are_nodes(void **state)
{
    char name[KVR_NAME_BYTES];

    (void)state;
    read_host("two_sockets"); /* its display adapter is no GPU */
    assert_int_equal(groups.group_count, 2);
    for (uint32_t g = 0; g < 2; g++) {
        assert_null(groups.groups[g].gpu);
        assert_int_equal(groups.groups[g].node, g);
        assert_int_equal(groups.groups[g].rail_count, 1);
    }
    assert_string_equal(kvr_host_group_name(&groups, 1, name), "NUMA node 1");
    assert_string_equal(rail_of(1, 0)->name, "mlx5_1");
    assert_cores_divided(32);
    assert_int_equal(odd.count, 0);
}

static void host_groups_of_nothing(void **state)
{
    (void)state;
    read_host("vm");
    assert_int_equal(groups.group_count, 0);
    assert_int_equal(groups.rail_count, 0);
    assert_int_equal(odd.count, 1);
    assert_true(says("no network card"));
}

static void host_groups_say_what_is_odd(void **state)
{
    (void)state;
    read_host("odd");
    assert_true(says("cards of GPU 0 have unequal speeds: mlx5_0 400 Gb/s, rdmap18s0 100 Gb/s"));
    assert_true(says("link of card mlx5_0 (0000:11:00.0) is down"));
    assert_string_equal(rail_of(1, 0)->name,
                        "mlx5_1"); /* GPU 1's own card, though not on its switch */
    assert_true(says("GPU 2 (0000:90:00.0) has no card of its own and shares those of GPU 1"));
    assert_int_equal(groups.groups[2].owner, 1);
    assert_true(says("card mlx5_1 (0001:40:00.0) is far from GPU 2 (0000:90:00.0)"));
    assert_true(says("card mlx5_1 (0001:40:00.0) can do 400 Gb/s, its PCIe slot only 126"));
}

/* A card at another node is better than none, and is reported. */
static void host_groups_give_a_far_card(void **state)
{
    static struct kvr_topology host = {
        .node_count = 2,
        .nodes = {{.number = 0, .core_first = 0, .core_count = 2},
                  {.number = 1, .core_first = 2, .core_count = 2}},
        .core_count = 4,
        .core_threads = 1,
        .cores = {0, 1, 2, 3},
        .card_count = 2,
        .cards = {{.kind = KVR_CARD_GPU, .name = "gpu", .pci = "0000:10:00.0", .node = 1},
                  {.kind = KVR_CARD_RDMA, .name = "far0", .pci = "0000:90:00.0", .node = 0}},
    };

    (void)state;
    kvr_host_rails_of_cards(&host, kvr_provider_of_card, &groups);
    kvr_host_groups_make(&groups);
    kvr_host_groups_odd(&groups, kvr_provider_of_card, NULL, 0, &odd);
    assert_int_equal(groups.group_count, 1);
    assert_int_equal(groups.groups[0].rails[0].distance.nearness, KVR_NEAR_NOT);
    assert_int_equal(groups.groups[0].cores[0], 2);
    assert_int_equal(odd.count, 1);
    assert_true(says("far0 (0000:90:00.0) is far from GPU 0"));
    assert_true(says("on NUMA node 0 and the GPU on NUMA node 1"));
    groups.topology = NULL;
}

/* Four GPUs and four cards on one bus, as virtual machines have them: all are equally near, so each
 * GPU gets one. */
static void host_groups_divide_equals(void **state)
{
    static struct kvr_topology host = {.node_count = 1,
                                       .nodes = {{.core_count = 2}},
                                       .core_count = 2,
                                       .core_threads = 1,
                                       .cores = {0, 1},
                                       .card_count = 8};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        struct kvr_topology_card *card = &host.cards[i];

        card->kind = i < 4 ? KVR_CARD_GPU : KVR_CARD_RDMA;
        card->bridge_count = card->bridges[0] = 1;
        snprintf(card->name, sizeof(card->name), "device%u", i);
        snprintf(card->pci, sizeof(card->pci), "0000:00:%02x.0", i);
    }
    kvr_host_rails_of_cards(&host, kvr_provider_of_card, &groups);
    kvr_host_groups_make(&groups);
    assert_int_equal(groups.group_count, 4);
    for (uint32_t g = 0; g < 4; g++) {
        assert_int_equal(groups.groups[g].rail_count, 1);
        assert_int_equal(groups.groups[g].rails[0].rail, g);
        assert_int_equal(groups.groups[g].core_count, 2); /* fewer cores than groups */
    }
    groups.topology = NULL;
}

static void host_groups_miss_a_provider(void **state)
{
    static const struct kvr_host_offer offers[] = {
        {"efa", 0, "no device of the efa provider"}, {"verbs", 0, "not built in"}, {"tcp", 1, ""}};

    (void)state;
    read_host("p5");
    kvr_host_groups_odd(&groups, kvr_provider_of_card, offers, 3, &odd);
    assert_int_equal(odd.count, 1);
    assert_true(says("rdmap80s0 (0000:50:00.0) is made for provider efa, but libfabric offers "
                     "none: no device of the efa provider"));
}

/* A port of InfiniBand has its IP address, another has none: libfabric lists the first alone. */
static void host_groups_miss_a_rail(void **state)
{
    static struct kvr_topology host = {
        .node_count = 1,
        .nodes = {{.core_count = 2}},
        .core_count = 2,
        .core_threads = 1,
        .cores = {0, 1},
        .card_count = 4,
        .cards = {{.kind = KVR_CARD_RDMA, .name = "mlx5_0", .pci = "0000:10:00.0"},
                  {.kind = KVR_CARD_RDMA, .name = "mlx5_1", .pci = "0000:10:00.1"},
                  {.kind = KVR_CARD_RDMA, .name = "mlx5_2", .pci = "0000:20:00.0", .down = true},
                  {.kind = KVR_CARD_INTERFACE, .name = "eth0", .pci = "0000:30:00.0"}},
    };
    static const struct kvr_host_offer offers[] = {{"verbs", 1, ""}, {"tcp", 1, ""}};

    (void)state;
    kvr_host_rails_of_cards(&host, kvr_provider_of_card, &groups);
    groups.rail_count = 1; /* mlx5_0's */
    kvr_host_groups_make(&groups);
    kvr_host_groups_odd(&groups, kvr_provider_of_card, offers, 2, &odd);
    assert_int_equal(odd.count, 2);
    assert_true(says("link of card mlx5_2 (0000:20:00.0) is down"));
    assert_true(says("card mlx5_1 (0000:10:00.1) is up, but libfabric offers no verbs rail on it"));
    assert_int_equal(odd.list[1].kind, KVR_ODD_CARD_UNUSED);
    assert_non_null(strstr(kvr_odd_remedy(KVR_ODD_CARD_UNUSED), "IPoIB"));
    groups.topology = NULL;
}

int main(void)
{
#define HOST_TEST(name) cmocka_unit_test_setup_teardown(name, NULL, forget_host)
    const struct CMUnitTest tests[] = {
        HOST_TEST(host_groups_of_a_p5),         HOST_TEST(host_groups_of_a_p5en),
        HOST_TEST(host_groups_of_a_dgx_h100),   HOST_TEST(host_groups_without_a_gpu_are_nodes),
        HOST_TEST(host_groups_of_nothing),      HOST_TEST(host_groups_say_what_is_odd),
        HOST_TEST(host_groups_give_a_far_card), HOST_TEST(host_groups_divide_equals),
        HOST_TEST(host_groups_miss_a_provider), HOST_TEST(host_groups_miss_a_rail),
    };
#undef HOST_TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
