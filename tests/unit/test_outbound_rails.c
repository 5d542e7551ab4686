/* Goal: rails of ours get fresh endpoints when that can help. A rail without an endpoint gets one
 * when the system allows it. A rail that is a transfer's last hope gets one at once, unless other
 * transfers would suffer. Method: outbound alone, with rail groups that answer as the case demands.
 */
#include "prefill-agent/rail_repair.h"
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"

static uint32_t asked(void)
{
    return machine_command_count(KVR_GROUP_RECYCLE);
}

static void recycled(uint32_t epoch, kvr_status status)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RECYCLED,
        .recycled = {.ended = epoch, .epoch = epoch + 1, .status = status},
    };

    outbound_group(&outbound, now, &message);
}

static void broken_pair(uint32_t peer, bool proven)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_PAIR_BROKEN,
        .pair_broken = {.peer = peer, .status = KVR_RAIL_FAILED, .pair.epoch = 1, .proven = proven},
    };

    outbound_group(&outbound, now, &message);
}

static void broken(uint32_t peer)
{
    broken_pair(peer, true);
}

static uint32_t tried_anew(void)
{
    return machine_command_count(KVR_GROUP_PAIR_RENEW);
}

static void granted(uint32_t peer, uint64_t nonce)
{
    want(peer, nonce);
    grant(peer, nonce);
}

static void opens_a_rail_again(void **state)
{
    (void)state;
    rail_repair_recycle(&outbound, 0);
    assert_int_equal(asked(), 1);
    recycled(1, KVR_SYSTEM);
    tick(KVR_S / 2);
    assert_int_equal(asked(), 1);
    tick(KVR_S / 2);
    assert_int_equal(asked(), 2);
    tick(2 * KVR_S); /* under way: not asked a second time */
    assert_int_equal(asked(), 2);
    recycled(2, KVR_SYSTEM);
    tick(KVR_S);
    assert_int_equal(asked(), 3);
    recycled(3, KVR_OK);
    for (unsigned i = 0; i < 15; i++)
        tick(KVR_S);
    assert_int_equal(asked(), 3);
}

static void the_last_hope_is_renewed_at_once(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    broken(0); /* by an earlier transfer: no transfer waits */
    tick(SILENCE / 4);
    assert_int_equal(asked(), 0);
    granted(0, NONCE);
    group_says(PUSH_NO_RAIL, 0, NULL);
    assert_int_equal(asked(), 1);
    recycled(1, KVR_OK);
    group_says(PUSH_RAIL_BACK, 0, NULL);
    broken(0); /* a fresh endpoint did not help: it is tried now and then */
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE / 4 - 1);
    assert_int_equal(asked(), 1);
    tick(1);
    assert_int_equal(asked(), 2);
}

/* A trial may fail by chance. No second NO_RAIL comes: no pair worked in between. */
static void a_trial_that_fails_is_followed_by_another(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    broken(0);
    granted(0, NONCE);
    group_says(PUSH_NO_RAIL, 0, NULL);
    assert_int_equal(asked(), 1);
    recycled(1, KVR_OK);
    broken_pair(0, false); /* its warm-up failed */
    tick(SILENCE / 4 - 1);
    assert_int_equal(asked(), 1);
    tick(1);
    assert_int_equal(asked(), 2);
}

static void what_others_write_is_not_lost_in_haste(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    granted(1, NONCE + 1);
    granted(0, NONCE);
    broken(0);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE / 4 - 1);
    assert_int_equal(asked(), 0);
    tick(1);
    assert_int_equal(asked(), 1);
}

/* Else the repair would drop the writes of a healthy transfer. */
static void what_was_renewed_meanwhile_needs_no_repair(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    broken(0);
    rail_repair_recycle(&outbound, 0); /* for another reason: a write that hangs */
    recycled(1, KVR_OK);
    assert_int_equal(asked(), 1);
    granted(0, NONCE);
    tick(SILENCE);
    assert_int_equal(asked(), 1);
    broken(0); /* with the fresh endpoint too */
    tick(SILENCE - 1);
    assert_int_equal(asked(), 1);
    tick(1);
    assert_int_equal(asked(), 2);
}

static void what_could_not_be_renewed_is_tried_again(void **state)
{
    (void)state;
    broken(0);
    rail_repair_recycle(&outbound, 0);
    recycled(1, KVR_SYSTEM);
    tick(SILENCE);
    assert_int_equal(asked(), 2);
}

/* A peer names an address that never answers, while another peer is written to: the pair alone is
 * tried anew, less and less often, and our rail stays as it is. */
static void a_dead_address_costs_no_other_peer_its_rail(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    granted(1, NONCE + 1);
    for (unsigned i = 0; i < 3; i++) {
        broken_pair(0, false);
        tick((SILENCE << i) - 1);
        assert_int_equal(tried_anew(), i);
        tick(1);
        assert_int_equal(tried_anew(), i + 1);
    }
    assert_int_equal(asked(), 0);
}

/* Its transfer waits for it. */
static void nor_does_a_dead_address_that_a_transfer_needs(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    granted(1, NONCE + 1);
    granted(0, NONCE);
    broken_pair(0, false);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE / 4);
    assert_int_equal(tried_anew(), 1);
    assert_int_equal(asked(), 0);
}

/* The endpoint of ours may be the one that is broken. */
static void where_no_pair_works_the_rail_is_renewed(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    granted(0, NONCE);
    granted(1, NONCE + 1);
    broken_pair(1, false);
    broken_pair(0, false);
    tick(SILENCE);
    assert_int_equal(tried_anew(), 0);
    assert_int_equal(asked(), 1);
}

/* Rule 14: one for each region of the target. */
static void a_grant_may_have_keys(void **state)
{
    static const uint16_t slots[1] = {3};
    static const struct kvr_remote_key keys[2] = {{77, 5}, {78, 6}};
    const struct kvr_rail_address rail = {.epoch = 1};
    struct kvr_message message = {.kind = KVR_MSG_GRANT, .transfer = NONCE};

    (void)state;
    publish_for(2);
    publish_all();
    want(0, NONCE);
    want(1, NONCE + 1);
    message.grant = (struct kvr_msg_grant){.slots = slots,
                                           .slot_count = 1,
                                           .tag = GRANT_TAG,
                                           .rails = &rail,
                                           .rail_count = 1,
                                           .keys = keys,
                                           .key_count = 1};
    outbound_message(&outbound, now, 0, &message);
    assert_int_equal(push_commanded(PUSH_OPEN).opened->keys[0].key, 77);
    assert_int_equal(push_commanded(PUSH_OPEN).opened->keys[0].base, 5);
    message.transfer = NONCE + 1;
    message.grant.key_count = 2;
    outbound_message(&outbound, now, 1, &message);
    assert_int_equal(machine_command_count(PUSH_OPEN), 1);
    assert_string_equal(machine_sent(KVR_MSG_FAIL)->reason.detail,
                        "2 keys, where there are 1 to write to");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(opens_a_rail_again, open_outbound),
        cmocka_unit_test_setup(the_last_hope_is_renewed_at_once, open_outbound),
        cmocka_unit_test_setup(a_trial_that_fails_is_followed_by_another, open_outbound),
        cmocka_unit_test_setup(what_others_write_is_not_lost_in_haste, open_outbound),
        cmocka_unit_test_setup(what_was_renewed_meanwhile_needs_no_repair, open_outbound),
        cmocka_unit_test_setup(what_could_not_be_renewed_is_tried_again, open_outbound),
        cmocka_unit_test_setup(a_dead_address_costs_no_other_peer_its_rail, open_outbound),
        cmocka_unit_test_setup(nor_does_a_dead_address_that_a_transfer_needs, open_outbound),
        cmocka_unit_test_setup(where_no_pair_works_the_rail_is_renewed, open_outbound),
        cmocka_unit_test_setup(a_grant_may_have_keys, open_outbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
