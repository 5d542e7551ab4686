/* Goal: a source announces each of its endpoints to targets that must know them, and its rail
 * threads learn the answer (rule 12). Method: outbound alone, its actions written down. */
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"

#define PEER 7

static void target_up(bool needs_senders)
{
    struct kvr_rail_address rail = {.epoch = 1, .needs_senders = needs_senders};
    struct kvr_msg_hello hello = {.limits = {1, 1, 4096, false},
                                  .version_max = KVR_PROTOCOL_MAX,
                                  .rails = &rail,
                                  .rail_count = 1};

    outbound_peer_up(&outbound, now, PEER, &hello);
}

static void recycled(kvr_status status)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RECYCLED,
        .recycled = {.rail = 1, .ended = 1, .epoch = 2, .status = status},
    };

    outbound_group(&outbound, now, &message);
}

static void a_session_begins_with_every_endpoint(void **state)
{
    (void)state;
    target_up(true);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER), 2);
    assert_int_equal(machine_sent(KVR_MSG_SENDER)->sender.endpoint.rail, 1);
    assert_int_equal(machine_log.sent_to[0], PEER);
}

static void other_targets_are_told_nothing(void **state)
{
    (void)state;
    target_up(false);
    recycled(KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER), 0);
}

static void a_fresh_endpoint_is_announced(void **state)
{
    (void)state;
    target_up(true);
    recycled(KVR_SYSTEM);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER), 2);
    recycled(KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER), 3);
    assert_int_equal(machine_sent(KVR_MSG_SENDER)->sender.endpoint.rail, 1);
    outbound_peer_lost(&outbound, now, PEER, KVR_PEER_LOST, "gone");
    recycled(KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER), 3);
}

static void the_answer_goes_to_the_group_of_the_rail(void **state)
{
    struct kvr_message message = {.kind = KVR_MSG_SENDER_KNOWN,
                                  .sender_known = {.rail = 1, .epoch = 4}};
    const struct kvr_group_message *told;

    (void)state;
    outbound_begin(&(struct kvr_rail_groups){.count = 2, .first = {0, 1, 2}}, false);
    target_up(true);
    outbound_message(&outbound, now, PEER, &message);
    told = machine_command(KVR_GROUP_SENDER_KNOWN);
    assert_non_null(told);
    assert_int_equal(told->head.group, 1);
    assert_int_equal(told->sender_known.peer, PEER);
    assert_int_equal(told->sender_known.rail, 1);
    assert_int_equal(told->sender_known.epoch, 4);
    message.sender_known.rail = 2; /* we have no such rail */
    outbound_message(&outbound, now, PEER, &message);
    assert_int_equal(machine_command_count(KVR_GROUP_SENDER_KNOWN), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_session_begins_with_every_endpoint, open_outbound),
        cmocka_unit_test_setup(other_targets_are_told_nothing, open_outbound),
        cmocka_unit_test_setup(a_fresh_endpoint_is_announced, open_outbound),
        cmocka_unit_test_setup(the_answer_goes_to_the_group_of_the_rail, open_outbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
