/* Goal: a source that reaches none of the granted rails is granted another rail group's. From then
 * on that group is part of the transfer: it too must end before the pages are free. Method: inbound
 * alone, with two rail groups; the test is the sources and the rail threads. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

static uint64_t nonce;

static int open_groups(void **state)
{
    (void)open_inbound(state);
    inbound.options.groups = (struct kvr_rail_groups){.count = 2, .first = {0, 1, 2}};
    inbound.options.failover = true;
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    final(0, nonce);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 1);
    return 0;
}

static const struct transfer *transfer_now(void)
{
    uint32_t index;

    assert_true(kvr_table_find(&inbound.by_nonce, nonce, &index));
    return kvr_pool_at(&inbound.transfers, index, NULL);
}

static void grant_another(void)
{
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    inbound_registered(&inbound, now, machine_log.registered_id, KVR_OK);
}

static void another_group_is_granted(void **state)
{
    uint32_t told = machine_sent_count(KVR_MSG_REGIONS);

    (void)state;
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    assert_int_equal(machine_log.registered_group, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT),
                     1); /* not before that group can receive its writes */
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    assert_int_equal(machine_log.registered, 1);
    inbound_registered(&inbound, now, machine_log.registered_id, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), told + 1); /* with the new group's keys */
    assert_int_equal(machine_command(LAND_FORWARD)->head.group, 1);
    assert_int_equal(land_commanded(LAND_FORWARD).forward.home,
                     0); /* the new group forwards to the first */
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
    assert_int_equal(transfer_now()->trust.epoch_count, 2);
}

static void what_cannot_be_registered_grants_the_same(void **state)
{
    (void)state;
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    inbound_registered(&inbound, now, machine_log.registered_id, KVR_NO_MEMORY);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
    assert_int_equal(machine_command_count(LAND_FORWARD), 0);
    assert_int_equal(transfer_now()->trust.epoch_count, 1);
}

/* The grant waits until the source has the keys that it needs; a full queue is no reason to hang
 * up. */
static void a_full_queue_only_delays_it(void **state)
{
    uint32_t told = machine_sent_count(KVR_MSG_REGIONS);

    (void)state;
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    machine_log.send_answer = KVR_AGAIN;
    inbound_registered(&inbound, now, machine_log.registered_id, KVR_OK);
    assert_int_equal(machine_log.hang_ups, 0);
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    assert_int_equal(machine_log.registered, 1);
    machine_log.send_answer = KVR_OK;
    for (unsigned i = 0; i < 2; i++)
        inbound_peer_writable(&inbound, now, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), told + 1);
    assert_int_equal(machine_command_count(LAND_FORWARD), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
    assert_int_equal(transfer_now()->trust.epoch_count, 2);
}

static void the_same_is_granted_for_the_regions_of_the_plan(void **state)
{
    struct kvr_region other = target.region;
    struct kvr_error error;
    uint32_t told;

    (void)state;
    inbound.options.failover = false;
    other.layout.region = 2;
    other.layout.layer_first = SMALL_LAYERS;
    assert_int_equal(kvr_engines_region_add(&inbound.engines, 0, &other.layout, &other, &error),
                     KVR_OK);
    (void)fetch(2, 0, 1);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 2);
    told = machine_sent_count(KVR_MSG_REGIONS);
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), told + 1);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
}

static void without_failover_the_same_is_granted(void **state)
{
    (void)state;
    inbound.options.failover = false;
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    assert_int_equal(machine_log.registered, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
}

/* A fence ends the epochs of both groups. */
static void a_fence_is_of_every_group_that_was_granted(void **state)
{
    uint32_t groups = 0;

    (void)state;
    grant_another();
    inbound_peer_lost(&inbound, now, 0, KVR_PEER_LOST, "gone");
    for (uint32_t i = 0; i < machine_log.command_count; i++)
        if (machine_log.commands[i].head.kind == KVR_GROUP_RECYCLE)
            groups |= 1u << machine_log.commands[i].head.group;
    assert_int_equal(groups, 3);
}

/* Slots get a new owner only when nothing of this transfer is under way between the groups. */
static void slots_wait_for_every_group(void **state)
{
    uint32_t free_before = inbound.free_count;

    (void)state;
    grant_another();
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    assert_int_equal(machine_command(LAND_CLOSE)->head.group, 0);
    assert_int_equal(machine_command(LAND_FORWARD_END)->head.group, 1);
    group_closes(nonce);
    assert_int_equal(inbound.free_count, free_before);
    group_says(nonce, LAND_FORWARD_ENDED, 0, NULL);
    assert_int_equal(inbound.free_count, free_before + 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_groups)
    const struct CMUnitTest tests[] = {
        CASE(another_group_is_granted),
        CASE(what_cannot_be_registered_grants_the_same),
        CASE(a_full_queue_only_delays_it),
        CASE(the_same_is_granted_for_the_regions_of_the_plan),
        CASE(without_failover_the_same_is_granted),
        CASE(a_fence_is_of_every_group_that_was_granted),
        CASE(slots_wait_for_every_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
