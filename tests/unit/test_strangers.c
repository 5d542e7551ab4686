/* Goal: a rail that strangers write to is renewed, at once and then at growing distances, so that
 * they cannot make renewals the attack. Method: inbound alone, with a rail group that renews at
 * once. */
#include "tests/support/check.h"

#include "decode-agent/strangers.h"
#include "tests/support/inbound_case.h"

#define TAGGED   0
#define UNTAGGED 1

static uint32_t epochs[8];

static int open_rails(void **state)
{
    open_inbound(state);
    inbound.options.groups.tagged = 1u << TAGGED;
    epochs[0] = epochs[1] = 1;
    return 0;
}

/* The rail's thread does what it was asked. Returns how often it renewed the rail. */
static unsigned renewed(uint32_t rail)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < machine_log.command_count; i++) {
        struct kvr_group_message answer = {.head.kind = KVR_GROUP_RECYCLED};

        if (machine_log.commands[i].head.kind != KVR_GROUP_RECYCLE ||
            machine_log.commands[i].recycle.rail != rail)
            continue;
        answer.recycled.rail = rail;
        answer.recycled.ended = epochs[rail]++;
        answer.recycled.epoch = epochs[rail];
        count++;
        inbound_group(&inbound, now, &answer);
    }
    machine_log_clear();
    return count;
}

static void strangers_come(uint32_t rail)
{
    union land_message message = LAND_MESSAGE(LAND_STRANGERS, .epoch = {rail, epochs[rail]});

    inbound_group(&inbound, now, &message.any);
}

/* An entry of the rail's queue that names no write of ours. */
static void queue_reports(uint32_t rail, kvr_status status)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RAIL_ERROR,
        .rail_error = {.rail = rail, .epoch = epochs[rail], .status = status}};

    inbound_group(&inbound, now, &message);
}

/* How long until the rail is renewed. */
static kvr_ns renewal_of(uint32_t rail)
{
    kvr_ns began = now;

    while (renewed(rail) == 0) {
        assert_true(now - began < 200 * KVR_S);
        now += KVR_S / 10;
        inbound_tick(&inbound, now);
    }
    return now - began;
}

/* Strangers that find every new port at once: how long until the rail is renewed for them again. */
static kvr_ns wait_of(uint32_t rail)
{
    strangers_come(rail);
    return renewal_of(rail);
}

static void renewals_come_at_growing_distances(void **state)
{
    (void)state;
    assert_int_equal(wait_of(TAGGED), 0);
    for (kvr_ns wait = KVR_S; wait < STRANGERS_WAIT_MAX_NS; wait *= 2)
        assert_int_equal(wait_of(TAGGED), wait);
    assert_int_equal(wait_of(TAGGED), STRANGERS_WAIT_MAX_NS);
    assert_int_equal(wait_of(TAGGED), STRANGERS_WAIT_MAX_NS);
    now += 20 * STRANGERS_WAIT_MAX_NS; /* left alone for long: it begins anew */
    assert_int_equal(wait_of(TAGGED), 0);
    assert_int_equal(wait_of(TAGGED), KVR_S);
}

/* It counts nothing until then. */
static void a_rail_without_tags_waits_for_a_second(void **state)
{
    (void)state;
    assert_int_equal(wait_of(UNTAGGED), 0);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(wait_of(UNTAGGED), KVR_S);
}

/* A peer that has a key can do it at each new port. The two count together: it can do both. */
static void writes_that_break_off_renew_at_growing_distances(void **state)
{
    (void)state;
    queue_reports(TAGGED, KVR_PEER_LOST);
    assert_int_equal(renewal_of(TAGGED), 0);
    for (kvr_ns wait = KVR_S; wait < STRANGERS_WAIT_MAX_NS; wait *= 2) {
        if (wait == 4 * KVR_S) {
            assert_int_equal(wait_of(TAGGED), wait);
            continue;
        }
        queue_reports(TAGGED, KVR_PEER_LOST);
        assert_int_equal(renewal_of(TAGGED), wait);
    }
    now += 20 * STRANGERS_WAIT_MAX_NS;
    queue_reports(TAGGED, KVR_PEER_LOST);
    assert_int_equal(renewal_of(TAGGED), 0);
    for (unsigned i = 0; i < 20; i++) {
        queue_reports(UNTAGGED, KVR_PEER_LOST);
        assert_int_equal(renewal_of(UNTAGGED), i == 0 ? 0 : KVR_S);
    }
}

/* The endpoint is of no more use, also while a renewal waits: no write arrives any more. */
static void an_endpoint_that_is_lost_is_replaced_at_once(void **state)
{
    static const kvr_status lost[] = {KVR_RAIL_FAILED, KVR_FULL};

    (void)state;
    queue_reports(TAGGED, KVR_PEER_LOST);
    assert_int_equal(renewal_of(TAGGED), 0);
    for (unsigned i = 0; i < 6; i++) {
        queue_reports(TAGGED, KVR_PEER_LOST);
        queue_reports(TAGGED, lost[i % 2]);
        assert_int_equal(renewal_of(TAGGED), 0);
    }
}

/* Each rail has its own time, and what ended already ends no second time. */
static void an_epoch_that_has_ended_is_let_be(void **state)
{
    (void)state;
    assert_int_equal(wait_of(TAGGED), 0);
    assert_int_equal(wait_of(UNTAGGED), 0);
    strangers_come(TAGGED);
    strangers_come(UNTAGGED);
    inbound_rail_recycle(&inbound, TAGGED, epochs[TAGGED]);
    assert_int_equal(renewed(TAGGED), 1);
    now += 2 * KVR_S;
    inbound_tick(&inbound, now);
    assert_int_equal(renewed(UNTAGGED), 1);
    assert_int_equal(epochs[TAGGED], 3);
    strangers_come(7); /* there is no such rail */
    assert_int_equal(machine_log.command_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(renewals_come_at_growing_distances, open_rails),
        cmocka_unit_test_setup(a_rail_without_tags_waits_for_a_second, open_rails),
        cmocka_unit_test_setup(writes_that_break_off_renew_at_growing_distances, open_rails),
        cmocka_unit_test_setup(an_endpoint_that_is_lost_is_replaced_at_once, open_rails),
        cmocka_unit_test_setup(an_epoch_that_has_ended_is_let_be, open_rails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
