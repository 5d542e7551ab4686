/* Goal: a peer is warm when each of the agent's groups has warmed up all that it reaches of that
 * peer. The peer's warmth is announced and counted once a session. A late report of an earlier
 * session's group does not count for the present session. Method: the agent's shell with scripted
 * groups, and a port that records. */
#include "tests/support/check.h"

#include "agent/agent_state.h"

static struct kvr_agent agent;
static struct kvr_engines engines;
static struct kvr_notice last;
static uint32_t told;

/* Replaces the port's function. */
void kvr_engine_port_notify(struct kvr_engine_port *port, uint32_t engine,
                            const struct kvr_notice *notice)
{
    (void)port, (void)engine;
    last = *notice;
    told++;
}

/* Replaces the table's function. */
bool kvr_peers_info(const struct kvr_peers *peers, uint32_t peer, struct kvr_peer_info *ret_info)
{
    (void)peers, (void)peer;
    *ret_info = (struct kvr_peer_info){.agent = "d7"};
    return true;
}

static int two_groups(void **state)
{
    (void)state;
    memset(&agent, 0, sizeof(agent));
    agent.machine.engines = &engines;
    agent.groups.count = 2;
    engines.local[3].attached = true;
    told = 0;
    return 0;
}

static void says_warm(uint32_t group, uint32_t pairs, kvr_ns added_at)
{
    struct kvr_group_message message = {
        .head = {.kind = KVR_GROUP_PEER_WARM, .group = group},
        .peer_warm = {.peer = 5, .pairs = pairs, .added_at = added_at},
    };

    agent_warmth_heard(&agent, added_at + KVR_MS, &message);
}

static void says_added(uint32_t group, kvr_status status)
{
    struct kvr_group_message message = {
        .head = {.kind = KVR_GROUP_PEER_ADDED, .group = group},
        .peer_rails = {.peer = 5, .status = status},
    };

    agent_warmth_heard(&agent, KVR_S, &message);
}

static void warm_is_told_when_all_groups_say_so(void **state)
{
    (void)state;
    agent_warmth_up(&agent, KVR_S, 5);
    says_added(0, KVR_OK);
    says_added(1, KVR_OK);
    says_warm(1, 2, KVR_S);
    assert_int_equal(told, 0);
    assert_int_equal(agent.peers_warm, 0);
    says_warm(0, 2, KVR_S + 1);
    assert_int_equal(told, 1);
    assert_int_equal(last.kind, KVR_NOTICE_PEER_WARM);
    assert_string_equal(last.agent, "d7");
    assert_int_equal(agent.peers_warm, 1);
    agent_warmth_lost(&agent, 5);
    assert_int_equal(agent.peers_warm, 0);
    agent_warmth_lost(&agent, 5); /* dialed again, without success */
    assert_int_equal(agent.peers_warm, 0);
}

static void a_group_that_reaches_nothing_holds_nothing_up(void **state)
{
    (void)state;
    agent_warmth_up(&agent, KVR_S, 5);
    says_warm(0, 1, KVR_S);
    assert_int_equal(told, 0);
    says_added(1, KVR_NO_RAIL);
    assert_int_equal(told, 1);

    agent_warmth_lost(&agent, 5);
    agent_warmth_up(&agent, 2 * KVR_S, 5);
    says_added(0, KVR_NO_RAIL);
    says_added(1, KVR_NO_RAIL);
    assert_int_equal(told, 1);
    assert_int_equal(agent.peers_warm, 0);

    agent_warmth_lost(&agent, 5);
    agent_warmth_up(&agent, 3 * KVR_S, 5);
    says_warm(0, 0, 3 * KVR_S); /* all its pairs have failed */
    says_warm(1, 0, 3 * KVR_S);
    assert_int_equal(told, 1);
    assert_int_equal(agent.peers_warm, 0);
    says_warm(1, 2, 3 * KVR_S);
    assert_int_equal(told, 2);
    assert_int_equal(agent.peers_warm, 1);
}

static void what_was_said_of_an_earlier_session_does_not_count(void **state)
{
    (void)state;
    says_warm(0, 1, KVR_S); /* of no known peer */
    agent_warmth_up(&agent, KVR_S, 5);
    says_warm(0, 1, KVR_S);
    agent_warmth_lost(&agent, 5);
    agent_warmth_up(&agent, 2 * KVR_S, 5);
    says_warm(0, 1, KVR_S);
    says_warm(1, 1, KVR_S);
    assert_int_equal(told, 0);
    says_warm(0, 1, 2 * KVR_S);
    says_warm(1, 1, 2 * KVR_S);
    assert_int_equal(told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(warm_is_told_when_all_groups_say_so, two_groups),
        cmocka_unit_test_setup(a_group_that_reaches_nothing_holds_nothing_up, two_groups),
        cmocka_unit_test_setup(what_was_said_of_an_earlier_session_does_not_count, two_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
