/* Goal: an agent's thread gets the cores beside its cards. Method: the list of --cores is read; two
 * described hosts (two nodes, a GPU and two cards at each) are searched for the places of their
 * rails. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/agent_cores.h"
#include "fabric/host_rails.h"

static void agent_cores_reads_a_list(void **state)
{
    static const char *const wrong[] = {"", "x", "3-", "3-1", "-2", "1,,2", "0-3;8", "99999"};
    int cores[KVR_CORES_MAX];
    uint32_t count;
    struct kvr_error error;

    (void)state;
    assert_int_equal(agent_cores_parse("0-3,8", cores, &count, &error), KVR_OK);
    assert_int_equal(count, 5);
    assert_int_equal(cores[3], 3);
    assert_int_equal(cores[4], 8);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(agent_cores_parse(wrong[i], cores, &count, &error), KVR_INVALID);
        assert_non_null(strstr(error.detail, "--cores"));
    }
}

static struct kvr_topology host = {
    .node_count = 2,
    .nodes = {{.number = 0, .core_first = 0, .core_count = 4},
              {.number = 1, .core_first = 4, .core_count = 4}},
    .core_count = 8,
    .core_threads = 1,
    .cores = {0, 1, 2, 3, 4, 5, 6, 7},
    .card_count = 7,
    .cards = {{.kind = KVR_CARD_GPU, .name = "g0", .pci = "0000:10:00.0", .node = 0},
              {.kind = KVR_CARD_GPU, .name = "g1", .pci = "0000:90:00.0", .node = 1},
              {.kind = KVR_CARD_RDMA, .name = "a", .pci = "0000:11:00.0", .node = 0},
              {.kind = KVR_CARD_RDMA, .name = "b", .pci = "0000:12:00.0", .node = 0},
              {.kind = KVR_CARD_RDMA, .name = "c", .pci = "0000:91:00.0", .node = 1},
              {.kind = KVR_CARD_INTERFACE, .name = "eth0", .pci = "0000:92:00.0", .node = 1},
              {.kind = KVR_CARD_INTERFACE, .name = "lo", .node = KVR_NODE_UNKNOWN}},
};
static struct kvr_rail_facts offered[] = {
    {.provider = "verbs", .name = "a", .pci = "0000:11:00.0"},
    {.provider = "verbs", .name = "b", .pci = "0000:12:00.0"},
    {.provider = "verbs", .name = "c", .pci = "0000:91:00.0"},
    {.provider = "tcp", .name = "eth0", .interface = "eth0", .source = "192.0.2.1"},
    {.provider = "tcp", .name = "eth0", .interface = "eth0", .source = "192.0.2.2"},
    {.provider = "tcp", .name = "lo", .interface = "lo", .source = "127.0.0.1"},
    {.provider = "local", .name = "local", .same_host_only = true},
};
#define OFFERED (sizeof(offered) / sizeof(offered[0]))

static struct kvr_host_groups groups;
static struct kvr_host_place place;

static void place_of(const struct kvr_rail_facts *first, const struct kvr_rail_facts *second)
{
    const struct kvr_rail_facts *rails[] = {first, second};

    groups.topology = &host;
    kvr_host_rails_choose(&groups, offered, OFFERED);
    kvr_host_groups_make(&groups);
    kvr_host_rails_place(&groups, rails, second != NULL ? 2 : 1, &place);
}

static void host_rails_are_cards_that_leave_the_host(void **state)
{
    (void)state;
    place_of(&offered[0], NULL);
    assert_int_equal(groups.rail_count, 4); /* eth0 once; loopback and local are left out */
    assert_string_equal(groups.rails[3].pci, "0000:92:00.0");
}

static void host_rails_of_one_gpu_lie_in_its_node(void **state)
{
    (void)state;
    place_of(&offered[2], NULL);
    assert_int_equal(place.group_count, 1);
    assert_int_equal(place.group, 1);
    assert_int_equal(place.node, 1);
    assert_int_equal(place.core_count, 4);
    assert_int_equal(place.cores[0], 4);
    place_of(&offered[0], &offered[1]);
    assert_int_equal(place.group_count, 1);
    assert_int_equal(place.group, 0);
    assert_int_equal(place.node, 0);
}

static void host_rails_of_two_nodes_have_no_node(void **state)
{
    (void)state;
    place_of(&offered[0], &offered[2]);
    assert_int_equal(place.group_count, 2);
    assert_int_equal(place.node, KVR_NODE_UNKNOWN);
    assert_int_equal(place.core_count, 8);
}

static void host_rails_of_loopback_lie_nowhere(void **state)
{
    (void)state;
    place_of(&offered[5], NULL);
    assert_int_equal(place.group_count, 0);
    assert_int_equal(place.core_count, 0);
}

/* In a container no card shows a PCI address; its interfaces still count. */
static void host_rails_without_pci_count_alone(void **state)
{
    static struct kvr_topology container = {
        .node_count = 1,
        .nodes = {{.core_count = 2}},
        .core_count = 2,
        .core_threads = 1,
        .cores = {0, 1},
        .card_count = 1,
        .cards = {{.kind = KVR_CARD_INTERFACE, .name = "eth0", .node = KVR_NODE_UNKNOWN}}};

    (void)state;
    groups.topology = &container;
    kvr_host_rails_choose(&groups, &offered[3], OFFERED - 3);
    kvr_host_groups_make(&groups);
    assert_int_equal(groups.rail_count, 1);
    assert_int_equal(groups.group_count, 1);
    assert_int_equal(groups.groups[0].node, 0);
    assert_int_equal(groups.groups[0].core_count, 2);
}

/* One group holds all rails: an agent that uses only the first group would otherwise lose the
 * others. */
static void host_rails_without_pci_are_one_group(void **state)
{
    static const struct kvr_topology none = {
        .node_count = 1, .nodes = {{.core_count = 2}}, .core_count = 2, .core_threads = 1};
    static const struct kvr_rail_facts veths[] = {
        {.provider = "tcp", .name = "rail1", .interface = "rail1", .source = "10.0.1.1"},
        {.provider = "tcp", .name = "rail2", .interface = "rail2", .source = "10.0.2.1"},
        {.provider = "tcp", .name = "rail3", .interface = "rail3", .source = "10.0.3.1"}};

    (void)state;
    groups.topology = &none;
    kvr_host_rails_choose(&groups, veths, 3);
    kvr_host_groups_make(&groups);
    assert_int_equal(groups.rail_count, 3);
    assert_int_equal(groups.group_count, 1);
    assert_int_equal(groups.groups[0].rail_count, 3);
}

/* Two groups at GPU g0, one at g1; a rail without a card is near no GPU. */
static void host_rails_near_a_gpu(void **state)
{
    const struct kvr_rail_facts *rails[] = {&offered[0], &offered[2], &offered[1], &offered[5]};
    static const uint32_t first[] = {0, 1, 2, 3, 4};

    (void)state;
    assert_int_equal(kvr_host_rails_near(&host, "0000:10:00.0", rails, first, 4), 1 | 4);
    assert_int_equal(kvr_host_rails_near(&host, "0000:90:00.0", rails, first, 4), 2);
    assert_int_equal(kvr_host_rails_near(&host, "0000:90:00.0", rails + 3, first, 1), 0);
    assert_int_equal(kvr_host_rails_near(&host, "0000:11:00.0", rails, first, 4), 0); /* no GPU */
    assert_int_equal(kvr_host_rails_near(&host, "0000:ff:00.0", rails, first, 4), 0);
    assert_int_equal(kvr_host_rails_near(&host, "", rails, first, 4), 0);
}

static struct kvr_host_cards cards;

static void cards_of(const struct kvr_rail_facts *facts, uint32_t count)
{
    groups.topology = &host;
    kvr_host_rails_choose(&groups, facts, count);
    kvr_host_cards_usable(&groups, facts[0].provider, facts, count, &cards);
}

/* A bond or a bridge of containers beside cards is named, and not taken. */
static void host_cards_leave_out_what_is_no_card(void **state)
{
    static const struct kvr_rail_facts tcp[] = {
        {.provider = "tcp", .name = "eth0", .interface = "eth0", .source = "192.0.2.1"},
        {.provider = "tcp", .name = "eth0", .interface = "eth0", .source = "192.0.2.2"},
        {.provider = "tcp", .name = "lo", .interface = "lo", .source = "127.0.0.1"},
        {.provider = "tcp", .name = "bond0", .interface = "bond0", .source = "192.0.2.3"}};

    (void)state;
    cards_of(tcp, 4);
    assert_int_equal(cards.count, 1);
    assert_string_equal(groups.rails[cards.rails[0]].source, "192.0.2.1");
    assert_int_equal(cards.left_out_count, 1);
    assert_string_equal(cards.left_out[0], "bond0 (192.0.2.3): it lies on no PCI card, and others "
                                           "do; name it by --rail to use it");
    cards_of(&tcp[3], 1);
    assert_int_equal(cards.count, 1);
    assert_string_equal(groups.rails[cards.rails[0]].name, "bond0");
}

/* Of a card with an RDMA device and an interface each provider looks at its own. */
static void host_cards_know_the_link_of_their_kind(void **state)
{
    struct kvr_topology_card *rdma = &host.cards[2], *interface = &host.cards[5];

    (void)state;
    memcpy(interface->pci, rdma->pci, sizeof(rdma->pci));
    interface->down = true;
    cards_of(offered, 3);
    assert_int_equal(cards.count, 3);
    cards_of(&offered[3], 1);
    assert_int_equal(cards.count, 0);
    assert_string_equal(cards.left_out[0], "eth0 (0000:11:00.0): its link is down");
    interface->down = false;
    rdma->down = true;
    cards_of(offered, 3);
    assert_int_equal(cards.count, 2);
    cards_of(&offered[3], 1);
    assert_int_equal(cards.count, 1);
    rdma->down = false;
    snprintf(interface->pci, sizeof(interface->pci), "0000:92:00.0");
}

/* In a container the topology may lack cards that the provider lists. */
static void host_cards_need_no_topology(void **state)
{
    static const struct kvr_rail_facts efa[] = {
        {.provider = "efa", .name = "rdmap1s0", .pci = "0000:01:00.0"},
        {.provider = "efa", .name = "rdmap2s0", .pci = "0000:02:00.0"}};

    (void)state;
    cards_of(efa, 2);
    assert_int_equal(cards.count, 2);
    assert_int_equal(cards.left_out_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agent_cores_reads_a_list),
        cmocka_unit_test(host_rails_are_cards_that_leave_the_host),
        cmocka_unit_test(host_rails_of_one_gpu_lie_in_its_node),
        cmocka_unit_test(host_rails_of_two_nodes_have_no_node),
        cmocka_unit_test(host_rails_of_loopback_lie_nowhere),
        cmocka_unit_test(host_rails_without_pci_count_alone),
        cmocka_unit_test(host_rails_without_pci_are_one_group),
        cmocka_unit_test(host_rails_near_a_gpu),
        cmocka_unit_test(host_cards_leave_out_what_is_no_card),
        cmocka_unit_test(host_cards_know_the_link_of_their_kind),
        cmocka_unit_test(host_cards_need_no_topology),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
