/* Goal: arrivals on another group's rail reach their landing, in order, and no message that ends
 * them passes them. Method: two lands in two joined groups. One is given arrivals and ends of
 * epochs; the other's answers are read. */
#include "tests/support/check.h"

#include "base/rng.h"
#include "decode-agent/land.h"
#include "fabric/sim/fabric_sim.h"

#define SLOT     7
#define TRANSFER 42
#define CHUNKS   3
#define RING     64

static struct land lands[2];
static struct kvr_group *groups[2];
static struct kvr_group_user users[2];
static struct kvr_sim_net *net;
static struct kvr_sim_host *host;
static struct landing landing;
static uint64_t bits[KVR_SLOT_CHUNKS / 64];
static uint32_t wakes;

static void wake(void *self, uint32_t number)
{
    (void)self;
    wakes |= 1u << number;
}

static int open_lands_with(uint32_t ring_entries)
{
    static struct kvr_rng rng;
    static struct kvr_rail *rails[2];
    static struct kvr_fabric fabric;
    struct kvr_sim_options net_options = {.rng = &rng};
    struct kvr_rail_facts facts = {
        .write = {.pieces_local = 1, .pieces_remote = 1, .bytes_max = 4096, .outstanding_max = 4}};
    struct kvr_rail_options wanted = {.provider = "sim"};

    memset(lands, 0, sizeof(lands));
    memset(&landing, 0, sizeof(landing));
    memset(bits, 0, sizeof(bits));
    wakes = 0;
    kvr_rng_init(&rng, 1);
    net = kvr_sim_net_open(&net_options);
    host = kvr_sim_host_open(net, NULL, &facts);
    fabric = kvr_sim_host_fabric(host);
    for (uint32_t i = 0; i < 2; i++) {
        struct kvr_group_options options = {.fabric = &fabric,
                                            .rails = rails,
                                            .rail_first = i,
                                            .rail_count = 1,
                                            .number = i,
                                            .ring_entries = ring_entries,
                                            .wake = wake};

        assert_int_equal(fabric.ops->rail_open(host, &wanted, &rails[i], NULL), KVR_OK);
        options.user = users[i] = land_user(&lands[i]);
        assert_int_equal(kvr_group_open(&options, &groups[i], NULL), KVR_OK);
    }
    assert_int_equal(kvr_groups_join(groups, 2, NULL), KVR_OK);
    return 0;
}

static int open_lands(void **state)
{
    (void)state;
    return open_lands_with(RING);
}

static int open_lands_wide(void **state)
{
    (void)state;
    return open_lands_with(2 * RING);
}

static int close_lands(void **state)
{
    (void)state;
    kvr_group_close(groups[0]);
    kvr_group_close(groups[1]);
    kvr_sim_host_die(host);
    kvr_sim_net_close(net);
    return 0;
}

static void tell(uint32_t group, union land_message message)
{
    message.transfer = TRANSFER;
    assert_true(kvr_group_command(groups[group], &message.any));
    while (kvr_group_step(groups[group], KVR_S))
        ;
}

/* The number of such messages of group 0 since the last call. */
static uint32_t told(uint32_t kind)
{
    struct kvr_group_message message;
    uint32_t count = 0;

    while (kvr_group_event(groups[0], &message))
        count += message.head.kind == kind;
    return count;
}

static void arrives(uint32_t chunk)
{
    users[1].arrived(&lands[1], KVR_S, 1, 1, SLOT << 16 | chunk);
}

static void step(uint32_t group)
{
    (void)kvr_group_step(groups[group], KVR_S);
}

static void landing_fill(void)
{
    landing.transfer = TRANSFER;
    landing.slots[0] = SLOT;
    landing.slot_count = 1;
    landing.bits = bits;
}

/* For a landing of group 0 with writes over rail 1 of group 1 too. */
static void forward_open(void)
{
    landing_fill();
    tell(0, LAND_MESSAGE(LAND_OPEN, .opened = &landing));
    tell(1, LAND_MESSAGE(LAND_FORWARD, .forward = {&landing, 0}));
    tell(0, LAND_MESSAGE(LAND_FINAL, .chunks = CHUNKS));
    assert_int_equal(told(LAND_FIRST), 0);
}

static void an_arrival_elsewhere_is_handed_over(void **state)
{
    (void)state;
    forward_open();
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        arrives(chunk);
    assert_false(kvr_group_may_sleep(groups[0])); /* another group has handed it something */
    step(1);
    assert_int_equal(wakes, 1);
    step(0);
    assert_int_equal(told(LAND_ALL), 1);
    assert_int_equal(landing.arrived.counts[0].rail, 1);
    assert_int_equal(landing.arrived.counts[0].count, CHUNKS);
    assert_int_equal(atomic_load(&lands[0].unexpected[1][UNEXPECTED_IDLE_SLOT]) +
                         atomic_load(&lands[1].unexpected[1][UNEXPECTED_IDLE_SLOT]),
                     0);
}

/* No landing was announced there. */
static void an_arrival_for_nobody_is_stale(void **state)
{
    (void)state;
    arrives(0);
    assert_int_equal(atomic_load(&lands[1].unexpected[1][UNEXPECTED_IDLE_SLOT]), 1);
}

static void an_epoch_is_closed_behind_its_last_arrival(void **state)
{
    static struct landing_quiet quiet = {
        .count = 1, .closed_only = true, .counts = {{.rail = 1, .epoch = 1}}};

    (void)state;
    forward_open();
    tell(0, LAND_MESSAGE(LAND_QUIET, .quiet = &quiet));
    arrives(0);
    users[1].epoch_closed(&lands[1], KVR_S, 1, 1);
    assert_int_equal(told(LAND_IS_QUIET), 0);
    step(0);
    assert_int_equal(landing.chunk_count, 1);
    assert_int_equal(told(LAND_IS_QUIET), 1);
}

/* More than the ring takes: the messages are kept, in order, and no thread waits. */
static void a_full_ring_keeps_the_order(void **state)
{
    (void)state;
    forward_open();
    for (uint32_t chunk = 0; chunk < 3 * RING; chunk++)
        arrives(chunk % CHUNKS);
    users[1].epoch_closed(&lands[1], KVR_S, 1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lands[0].epoch_closed[1], 0);
        assert_false(kvr_group_may_sleep(groups[1]));
        step(0);
        step(1);
    }
    step(0);
    assert_int_equal(lands[0].epoch_closed[1], 1);
    assert_int_equal(landing.arrived.counts[0].count, 3 * RING);
    assert_true(kvr_group_may_sleep(groups[1]));
    kvr_group_awake(groups[1]);
}

static void forwarding_ends_behind_its_last_arrival(void **state)
{
    (void)state;
    forward_open();
    arrives(0);
    tell(1, LAND_MESSAGE(LAND_FORWARD_END, .forward = {&landing, 0}));
    arrives(1); /* now it has no landing */
    step(0);
    assert_int_equal(landing.chunk_count, 1);
    assert_int_equal(told(LAND_FORWARD_ENDED), 1);
    assert_int_equal(atomic_load(&lands[1].unexpected[1][UNEXPECTED_IDLE_SLOT]), 1);
}

/* An arrival may be quicker than the loop's command, which has more commands before it than one
 * step takes. */
static void an_arrival_handed_over_waits_for_its_grant(void **state)
{
    const union land_message closed = {.head.kind = LAND_EPOCH_CLOSED, .epoch.rail = 2};
    const union land_message open = LAND_MESSAGE(LAND_OPEN, .opened = &landing);

    (void)state;
    landing_fill();
    for (uint32_t i = 0; i < RING; i++)
        assert_true(kvr_group_command(groups[0], &closed.any));
    assert_true(kvr_group_command(groups[0], &open.any));
    tell(1, LAND_MESSAGE(LAND_FORWARD, .forward = {&landing, 0}));
    arrives(0);
    step(0);
    assert_int_equal(atomic_load(&lands[0].unexpected[1][UNEXPECTED_IDLE_SLOT]), 0);
    assert_int_equal(landing.chunk_count, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_lands, close_lands)
    const struct CMUnitTest tests[] = {
        CASE(an_arrival_elsewhere_is_handed_over),
        CASE(an_arrival_for_nobody_is_stale),
        CASE(an_epoch_is_closed_behind_its_last_arrival),
        CASE(a_full_ring_keeps_the_order),
        CASE(forwarding_ends_behind_its_last_arrival),
        cmocka_unit_test_setup_teardown(an_arrival_handed_over_waits_for_its_grant, open_lands_wide,
                                        close_lands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
