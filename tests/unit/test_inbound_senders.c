/* Goal: a target answers a source only when every rail group of its own knows that endpoint
 * (rule 12). Method: inbound alone, its actions written down; rail groups that answer as the case
 * demands. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

#define PEER 3

static int open_groups(void **state)
{
    open_inbound(state);
    inbound.options.groups = (struct kvr_rail_groups){.count = 2, .first = {0, 1, 2}};
    return 0;
}

static void announced(uint32_t rail, uint32_t epoch, uint32_t bytes)
{
    struct kvr_message message = {
        .kind = KVR_MSG_SENDER,
        .sender.endpoint = {.rail = rail, .epoch = epoch, .bytes = bytes, .address = "x"},
    };

    inbound_message(&inbound, now, PEER, &message);
}

/* What the groups are asked is answered in this order. */
static void answered(uint32_t command, kvr_status status)
{
    struct kvr_group_message message = machine_log.commands[command];

    assert_int_equal(message.head.kind, KVR_GROUP_SENDER);
    message.head.kind = KVR_GROUP_SENDER_SET;
    message.sender.status = status;
    inbound_group(&inbound, now, &message);
}

static void every_group_is_waited_for(void **state)
{
    const struct kvr_message *known;

    (void)state;
    announced(5, 9, 1);
    assert_int_equal(machine_command_count(KVR_GROUP_SENDER), 2);
    assert_int_equal(machine_log.commands[0].head.group, 0);
    assert_int_equal(machine_log.commands[1].head.group, 1);
    assert_string_equal((const char *)machine_log.commands[1].sender.address->address, "x");
    answered(0, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER_KNOWN), 0);
    answered(1, KVR_OK);
    known = machine_sent(KVR_MSG_SENDER_KNOWN);
    assert_non_null(known);
    assert_int_equal(machine_log.sent_to[0], PEER);
    assert_int_equal(known->sender_known.rail, 5);
    assert_int_equal(known->sender_known.epoch, 9);
}

/* The groups forget the old endpoint when they take the new one: only the new one is answered. */
static void the_latest_endpoint_of_a_rail_is_answered(void **state)
{
    (void)state;
    announced(5, 9, 1);
    answered(0, KVR_OK);
    announced(5, 10, 1);
    answered(1, KVR_OK);
    answered(2, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER_KNOWN), 0);
    answered(3, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER_KNOWN), 1);
    assert_int_equal(machine_sent(KVR_MSG_SENDER_KNOWN)->sender_known.epoch, 10);
}

/* Also with the same numbers: the next session is answered by what it has asked itself. */
static void answers_for_an_earlier_session_are_dropped(void **state)
{
    struct kvr_msg_hello hello = {.version_max = KVR_PROTOCOL_MAX, .limits = {1, 1, 4096, false}};

    (void)state;
    announced(5, 9, 1);
    inbound_peer_lost(&inbound, now, PEER, KVR_PEER_LOST, "gone");
    assert_int_equal(machine_command_count(KVR_GROUP_PEER_DROP), 2);
    inbound_peer_up(&inbound, now, PEER, &hello);
    announced(5, 9, 1);
    answered(0, KVR_OK);
    answered(1, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER_KNOWN), 0);
    answered(4, KVR_OK);
    answered(5, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER_KNOWN), 1);
}

static void a_peer_without_senders_is_not_dropped_twice(void **state)
{
    (void)state;
    inbound_peer_lost(&inbound, now, PEER, KVR_PEER_LOST, "gone");
    assert_int_equal(machine_command_count(KVR_GROUP_PEER_DROP), 0);
}

static void a_refused_address_ends_the_session(void **state)
{
    struct kvr_group_message later = {.head.kind = KVR_GROUP_SENDER_SET};

    (void)state;
    announced(5, 9, 1);
    later.sender = machine_log.commands[0].sender;
    later.sender.status = KVR_RAIL_FAILED;
    later.sender.address = NULL; /* a successor of a rail of ours could not insert it */
    answered(0, KVR_OK);
    answered(1, KVR_RAIL_FAILED);
    assert_int_equal(machine_log.hang_ups, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_SENDER_KNOWN), 0);
    inbound_group(&inbound, now, &later);
    assert_int_equal(machine_log.hang_ups, 2);
}

static void a_sender_that_names_no_endpoint_ends_the_session(void **state)
{
    (void)state;
    announced(KVR_RAILS_MAX, 1, 1);
    assert_int_equal(machine_log.hang_ups, 1);
    announced(0, 1, 0);
    assert_int_equal(machine_log.hang_ups, 2);
    assert_int_equal(machine_command_count(KVR_GROUP_SENDER), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_group_is_waited_for, open_groups),
        cmocka_unit_test_setup(the_latest_endpoint_of_a_rail_is_answered, open_groups),
        cmocka_unit_test_setup(answers_for_an_earlier_session_are_dropped, open_groups),
        cmocka_unit_test_setup(a_peer_without_senders_is_not_dropped_twice, open_groups),
        cmocka_unit_test_setup(a_refused_address_ends_the_session, open_groups),
        cmocka_unit_test_setup(a_sender_that_names_no_endpoint_ends_the_session, open_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
