/* Goal: a simulated agent that stands still is not idle while a command waits for its rail thread,
 * however long it stands still. Method: one rail group of a target, and its events by hand. */
#include "tests/support/check.h"

#include "tools/sim/sim_world.h"

#define COMMAND_AT (1000 * KVR_S)
#define SERIAL     7

static struct sim_world world;
static struct land land;
static struct kvr_rail *rail;
static struct kvr_rail_address address = {.bytes = sizeof(uint32_t)};

static struct sim_agent *target(void)
{
    return &world.agents[SIM_SOURCES];
}

static struct sim_group *threads(void)
{
    return &target()->group[0];
}

static int open_world(void **state)
{
    static struct kvr_fabric fabric;
    struct sim_agent *agent = target();
    struct kvr_sim_options net = {.rng = &world.rng};
    struct kvr_rail_facts facts = {
        .write = {.pieces_local = 1, .pieces_remote = 1, .bytes_max = 4096, .outstanding_max = 4}};
    struct kvr_rail_options wanted = {.provider = "sim"};
    struct kvr_group_options options = {
        .fabric = &fabric, .rails = &rail, .rail_count = 1, .ring_entries = 16};

    (void)state;
    memset(&world, 0, sizeof(world));
    memset(&land, 0, sizeof(land));
    kvr_rng_init(&world.rng, 1);
    sim_history_reset(&world.history);
    world.now = COMMAND_AT;
    world.step_ns = 5 * KVR_US;
    world.net = kvr_sim_net_open(&net);
    agent->world = &world;
    agent->alive = true;
    agent->groups.count = 1;
    agent->host = kvr_sim_host_open(world.net, NULL, &facts);
    fabric = kvr_sim_host_fabric(agent->host);
    assert_int_equal(fabric.ops->rail_open(agent->host, &wanted, &rail, NULL), KVR_OK);
    *threads() = (struct sim_group){.agent = agent, .land = &land};
    options.user = land_user(&land);
    assert_int_equal(kvr_group_open(&options, &threads()->group, NULL), KVR_OK);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    sim_group_close(threads());
    kvr_sim_host_die(target()->host);
    kvr_sim_net_close(world.net);
    free(world.events);
    free(world.history.lines);
    return 0;
}

/* The only event that waits: the thread's next step. */
static void step(void)
{
    struct sim_event event = world.events[0];

    assert_int_equal(world.event_count, 1);
    world.event_count = 0;
    world.now = event.at;
    event.run(&world, &event);
}

/* The answer gives the address back to the loop. */
static bool answered(void)
{
    struct kvr_group_message message;
    bool came = false;

    while (kvr_group_event(threads()->group, &message))
        came = came || (message.head.kind == KVR_GROUP_SENDER_SET &&
                        message.sender.serial == SERIAL && message.sender.address == &address);
    return came;
}

static void waits_for(kvr_ns stop)
{
    struct kvr_group_message sender = {
        .head.kind = KVR_GROUP_SENDER,
        .sender = {.peer = 1, .rail = 0, .serial = SERIAL, .address = &address}};

    target()->stopped_until = world.now + stop;
    sim_group_command(target(), &sender);
    assert_false(sim_group_idle(threads()));
    step(); /* its thread stands still */
    assert_false(answered());
    assert_false(sim_group_idle(threads()));
    step();
    assert_true(world.now >= COMMAND_AT + stop);
    assert_true(answered());
}

static void a_short_stop_is_waited_for(void **state)
{
    (void)state;
    waits_for(KVR_S);
}

static void a_long_stop_is_waited_for(void **state)
{
    (void)state;
    waits_for(25 * KVR_S);
}

/* Else a world would never end: a warm-up is repeated at any time. */
static void a_far_step_is_not_waited_for(void **state)
{
    (void)state;
    threads()->armed = true;
    threads()->at = world.now + 25 * KVR_S;
    assert_true(sim_group_idle(threads()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_short_stop_is_waited_for, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_long_stop_is_waited_for, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_far_step_is_not_waited_for, open_world, close_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
