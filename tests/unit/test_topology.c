/* Goal: the description of this host has no contradiction, and one drawn by hand (two nodes, four
 * cards) is searched and measured rightly. Method: hwloc reads the real host. Through
 * HWLOC_SYNTHETIC it also reads a synthetic one, which gives two nodes everywhere. */
#include "tests/support/check.h"

#include "topology/topology.h"

static void topology_describes_this_host(void **state)
{
    struct kvr_topology *topology = NULL;
    struct kvr_error error;
    const struct kvr_topology_card *loopback;
    uint32_t cores = 0;

    (void)state;
    assert_int_equal(kvr_topology_read(NULL, &topology, &error), KVR_OK);
    assert_true(topology->node_count >= 1 && topology->core_count >= 1);
    assert_false(topology->truncated);
    for (uint32_t i = 0; i < topology->node_count; i++) {
        assert_int_equal(topology->nodes[i].core_first, cores);
        cores += topology->nodes[i].core_count;
    }
    assert_int_equal(cores, topology->core_count);
    for (uint32_t i = 0; i < topology->card_count; i++) {
        assert_true(topology->cards[i].node == KVR_NODE_UNKNOWN ||
                    topology->cards[i].node < topology->node_count);
        assert_true(topology->cards[i].name[0] != '\0' || topology->cards[i].pci[0] != '\0');
    }
    loopback = kvr_topology_find_card(topology, "", "lo");
    assert_non_null(loopback);
    assert_int_equal(loopback->kind, KVR_CARD_INTERFACE);
    assert_string_equal(loopback->pci, "");
    assert_null(kvr_topology_find_card(topology, "", "no-such-card"));
    kvr_topology_free(topology);
    kvr_topology_free(NULL);
}

static void topology_knows_two_nodes(void **state)
{
    struct kvr_topology *topology = NULL;
    struct kvr_error error;

    (void)state;
    setenv("HWLOC_SYNTHETIC", "numa:2 core:3 pu:2", 1);
    assert_int_equal(kvr_topology_read(NULL, &topology, &error), KVR_OK);
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(topology->node_count, 2);
    assert_int_equal(topology->nodes[1].number, 1);
    assert_int_equal(topology->nodes[1].core_first, 6);
    assert_int_equal(topology->nodes[1].core_count, 6);
    assert_int_equal(topology->cores[6], 6);
    kvr_topology_free(topology);
}

static void topology_finds_the_card_of_a_rail(void **state)
{
    static struct kvr_topology host = {
        .node_count = 2,
        .card_count = 4,
        .cards = {{.kind = KVR_CARD_INTERFACE, .name = "eth0", .pci = "0000:9d:00.0", .node = 1},
                  {.kind = KVR_CARD_RDMA, .name = "mlx5_0", .pci = "0000:9d:00.0", .node = 1},
                  {.kind = KVR_CARD_RDMA, .name = "mlx5_1", .pci = "0000:1a:00.0", .node = 0},
                  {.kind = KVR_CARD_INTERFACE, .name = "lo", .node = KVR_NODE_UNKNOWN}},
    };

    (void)state;
    assert_ptr_equal(kvr_topology_card_of(&host, "0000:1a:00.0", ""), &host.cards[2]);
    assert_ptr_equal(kvr_topology_card_of(&host, "", "eth0"), &host.cards[0]);
    assert_ptr_equal(kvr_topology_card_of(&host, "0000:ff:00.0", "eth0"), &host.cards[0]);
    assert_ptr_equal(kvr_topology_card_of(&host, "", "lo"), &host.cards[3]);
    assert_null(kvr_topology_card_of(&host, "", ""));
}

static struct kvr_distance between(const uint64_t *a, const uint64_t *b, uint32_t node_of_b)
{
    struct kvr_topology_card from = {.node = 0}, to = {.node = node_of_b};

    for (; a[from.bridge_count] != 0; from.bridge_count++)
        from.bridges[from.bridge_count] = a[from.bridge_count];
    for (; b[to.bridge_count] != 0; to.bridge_count++)
        to.bridges[to.bridge_count] = b[to.bridge_count];
    return kvr_topology_distance(&from, &to);
}

/* The order by distance: one switch, several, the host bridge, the node, another node. */
static void topology_measures_distance(void **state)
{
    static const uint64_t here[] = {1, 2, 3, 0}, same[] = {1, 2, 3, 0}, cousin[] = {1, 2, 4, 5, 0},
                          root[] = {1, 9, 0}, other[] = {7, 8, 0}, none[] = {0};
    struct kvr_distance steps[] = {
        between(here, same, 0),  between(here, cousin, 0), between(here, root, 0),
        between(here, other, 0), between(here, other, 1),
    };

    (void)state;
    assert_int_equal(steps[0].nearness, KVR_NEAR_SWITCH);
    assert_int_equal(steps[0].distance, 2);
    assert_int_equal(steps[1].nearness, KVR_NEAR_SWITCH);
    assert_int_equal(steps[2].nearness, KVR_NEAR_HOST);
    assert_int_equal(steps[3].nearness, KVR_NEAR_NODE);
    assert_int_equal(steps[4].nearness, KVR_NEAR_NOT);
    for (int i = 1; i < 5; i++)
        assert_true(steps[i].distance > steps[i - 1].distance);
    assert_int_equal(between(none, none, 0).nearness, KVR_NEAR_NODE);
    assert_int_equal(between(none, none, KVR_NODE_UNKNOWN).nearness, KVR_NEAR_NOT);
}

static void topology_refuses_what_is_no_topology(void **state)
{
    struct kvr_topology *topology = NULL;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_topology_read("/nowhere.xml", &topology, &error), KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "/nowhere.xml"));
    assert_int_equal(kvr_topology_read("/proc/self/status", &topology, &error), KVR_MALFORMED);
    assert_null(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topology_describes_this_host),
        cmocka_unit_test(topology_knows_two_nodes),
        cmocka_unit_test(topology_finds_the_card_of_a_rail),
        cmocka_unit_test(topology_measures_distance),
        cmocka_unit_test(topology_refuses_what_is_no_topology),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
