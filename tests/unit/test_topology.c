/* Goal: the host that this test runs on is described without contradiction, and one drawn by hand
 * (two nodes, four cards) is searched rightly. Method: hwloc reads the real one; it can also be
 * told to read a synthetic one through HWLOC_SYNTHETIC, which gives two nodes everywhere. */
#include "tests/support/check.h"

#include "topology/topology.h"

static void topology_describes_this_host(void **state)
{
    struct kvr_topology *topology = NULL;
    struct kvr_error error;
    const struct kvr_topology_card *loopback;
    uint32_t cores = 0;

    (void)state;
    assert_int_equal(kvr_topology_read(&topology, &error), KVR_OK);
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
    assert_int_equal(kvr_topology_read(&topology, &error), KVR_OK);
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(topology->node_count, 2);
    assert_int_equal(topology->nodes[1].number, 1);
    assert_int_equal(topology->nodes[1].core_first, 6);
    assert_int_equal(topology->nodes[1].core_count, 6);
    assert_int_equal(topology->cores[6], 6);
    kvr_topology_free(topology);
}

static void topology_places_rails(void **state)
{
    static struct kvr_topology host = {
        .node_count = 2,
        .card_count = 4,
        .cards = {{KVR_CARD_INTERFACE, "eth0", "", "0000:9d:00.0", 0, 1, true},
                  {KVR_CARD_RDMA, "mlx5_0", "", "0000:9d:00.0", 0, 1, false},
                  {KVR_CARD_RDMA, "mlx5_1", "", "0000:1a:00.0", 0, 0, false},
                  {KVR_CARD_INTERFACE, "lo", "", "", 0, KVR_NODE_UNKNOWN, true}},
    };

    (void)state;
    assert_int_equal(kvr_topology_node_of(&host, "0000:1a:00.0", ""), 0);
    assert_int_equal(kvr_topology_node_of(&host, "", "eth0"), 1);
    assert_int_equal(kvr_topology_node_of(&host, "0000:ff:00.0", "eth0"), 1);
    assert_int_equal(kvr_topology_node_of(&host, "", "lo"), KVR_NODE_UNKNOWN);
    assert_int_equal(kvr_topology_node_of(&host, "", ""), KVR_NODE_UNKNOWN);
    host.node_count = 1; /* no choice, no doubt */
    assert_int_equal(kvr_topology_node_of(&host, "", "lo"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topology_describes_this_host),
        cmocka_unit_test(topology_knows_two_nodes),
        cmocka_unit_test(topology_places_rails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
