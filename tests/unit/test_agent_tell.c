/* Goal: engines hear when a card or another agent goes and comes, each change once. An engine that
 * is not attached hears nothing. Method: the agent's shell with one card and a port that records.
 */
#include "tests/support/check.h"

#include "agent/agent_state.h"

static struct kvr_agent agent;
static struct kvr_engines engines;
static struct kvr_rail_facts facts;
static struct kvr_fabric_ops ops;
static struct kvr_notice last;
static uint32_t told;

/* Replaces the port's function. */
void kvr_engine_port_notify(struct kvr_engine_port *port, uint32_t engine,
                            const struct kvr_notice *notice)
{
    (void)port;
    assert_int_equal(engine, 3);
    last = *notice;
    told++;
}

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    (void)rail;
    return &facts;
}

static int one_engine(void **state)
{
    (void)state;
    memset(&agent, 0, sizeof(agent));
    memset(&facts, 0, sizeof(facts));
    ops.rail_facts = rail_facts;
    agent.fabric.ops = &ops;
    agent.machine.engines = &engines;
    engines.local[3].attached = true;
    strcpy(facts.name, "mlx5_0");
    told = 0;
    return 0;
}

static void a_card_is_told_when_it_changes(void **state)
{
    (void)state;
    agent_tell_rail(&agent, 0, KVR_OK, ""); /* recycled: the rail never was down */
    assert_int_equal(told, 0);
    agent_tell_rail(&agent, 0, KVR_SYSTEM, "rail mlx5_0 is tired");
    agent_tell_rail(&agent, 0, KVR_SYSTEM, "rail mlx5_0 is tired"); /* tried again */
    assert_int_equal(told, 1);
    assert_int_equal(last.kind, KVR_NOTICE_RAIL_DOWN);
    assert_int_equal(last.status, KVR_SYSTEM);
    assert_string_equal(last.agent, "mlx5_0");
    assert_string_equal(last.detail, "rail mlx5_0 is tired");
    agent_tell_rail(&agent, 0, KVR_OK, "");
    assert_int_equal(told, 2);
    assert_int_equal(last.kind, KVR_NOTICE_RAIL_UP);
    assert_string_equal(last.agent, "mlx5_0");
    assert_string_equal(last.detail, "");
}

static void a_peer_is_told_by_name(void **state)
{
    struct kvr_peer_info peer = {.agent = "p1", .address = "10.0.0.7:9480"};

    (void)state;
    agent_tell_peer_up(&agent, "p1");
    assert_int_equal(last.kind, KVR_NOTICE_PEER_UP);
    agent_tell_peer_down(&agent, &peer, KVR_PEER_LOST, "nothing was heard for 3 s");
    assert_int_equal(told, 2);
    assert_int_equal(last.kind, KVR_NOTICE_PEER_DOWN);
    assert_int_equal(last.handle, 0);
    assert_int_equal(last.status, KVR_PEER_LOST);
    assert_string_equal(last.agent, "p1");
    assert_string_equal(last.detail, "10.0.0.7:9480: nothing was heard for 3 s");
}

/* An agent that does not fit is reported to source engines, but not at each of its attempts. */
static void who_was_turned_away_is_told(void **state)
{
    const char *words = "dtype: the source has \"bfloat16\", the target has \"float8_e4m3\"";

    (void)state;
    agent.machine.role = KVR_ROLE_SOURCE;
    agent_tell_turned_away(&agent, KVR_S, "10.0.0.9:4000", KVR_MALFORMED, "a scan");
    assert_int_equal(told, 0);
    agent_tell_turned_away(&agent, KVR_S, "10.0.0.9:4000", KVR_INCOMPATIBLE, words);
    agent_tell_turned_away(&agent, 2 * KVR_S - 1, "10.0.0.9:4001", KVR_INCOMPATIBLE, words);
    assert_int_equal(told, 1);
    assert_int_equal(last.kind, KVR_NOTICE_TARGET_REFUSED);
    assert_int_equal(last.handle, 0);
    assert_int_equal(last.status, KVR_INCOMPATIBLE);
    assert_string_equal(last.agent, "10.0.0.9:4000");
    assert_string_equal(last.detail, words);
    agent_tell_turned_away(&agent, 2 * KVR_S, "10.0.0.9:4002", KVR_VERSION, "protocol version: …");
    assert_int_equal(told, 2);
    agent.machine.role = KVR_ROLE_TARGET; /* target engines hear of it through their requests */
    agent_tell_turned_away(&agent, 9 * KVR_S, "10.0.0.9:4000", KVR_INCOMPATIBLE, words);
    assert_int_equal(told, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_card_is_told_when_it_changes, one_engine),
        cmocka_unit_test_setup(a_peer_is_told_by_name, one_engine),
        cmocka_unit_test_setup(who_was_turned_away_is_told, one_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
