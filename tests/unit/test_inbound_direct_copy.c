/* Goal: pages of a neighbour's device are moved to ours where the neighbour lends them and we
 * offered it. Else they land in staging memory, and a path without an offer is refused. Method:
 * inbound alone, with a card and a rail for this host. The test plays the sources and their
 * revocation words.
 */
#include "tests/support/check.h"

#include "device/stage.h"
#include "tests/support/inbound_host.h"

static struct kvr_stage stage;
static struct kvr_region pinned, moved;

static int open_neighbours(void **state)
{
    struct kvr_region *region;

    (void)open_same_host(state);
    region = target_region();
    pinned = (struct kvr_region){.rail_count = 2, .keys = {{11, 12}, {21, 22}}};
    stage = (struct kvr_stage){.bytes = 64 * SMALL_PAGE_BYTES, .pinned = &pinned};
    region->rail_count = 2;
    region->path = KVR_PATH_STAGED;
    region->stage = &stage;
    moved = (struct kvr_region){.rail_count = 2};
    moved.memory[COPY] = region->memory[COPY];
    region->moved = &moved;
    return 0;
}

static void what_is_lent_is_moved(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    assert_true(machine_sent(KVR_MSG_WANT)->want.staged);
    assert_true(machine_sent(KVR_MSG_WANT)->want.direct_copy);
    plan_lent(0, nonce, 7);
    assert_true(granted(nonce));
    assert_int_equal(machine_log.granted, 1u << COPY);
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.quota_bytes, 0);
    assert_null(transfer_of(nonce)->grant.landing->staging.stage);
    assert_ptr_equal(transfer_of(nonce)->grant.landing->revocation_word, &revocation_word);
}

/* The source has no device, or its device is invisible to ours. */
static void what_is_planned_for_staging_memory_lands_there(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_to_share(0, nonce);
    assert_true(granted(nonce));
    assert_true(machine_sent(KVR_MSG_GRANT)->grant.quota_bytes > 0);
    assert_ptr_equal(machine_sent(KVR_MSG_GRANT)->grant.quota_keys, pinned.keys);
    assert_ptr_equal(transfer_of(nonce)->grant.landing->staging.stage, &stage);
}

static void check_refused(uint64_t nonce, kvr_status status)
{
    assert_false(granted(nonce));
    assert_non_null(machine_sent(KVR_MSG_CANCEL));
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->reason.status, status);
}

static void what_was_not_offered_is_refused(void **state)
{
    uint64_t nonce;

    (void)state;
    meet(false);
    nonce = fetch(1, 0, 1);
    assert_false(machine_sent(KVR_MSG_WANT)->want.direct_copy);
    plan_lent(0, nonce, 7);
    check_refused(nonce, KVR_MALFORMED);
}

static void nothing_is_offered_where_bytes_are_hashed(void **state)
{
    (void)state;
    inbound.options.digest = KVR_DIGEST_FULL;
    (void)fetch(1, 0, 1);
    assert_true(machine_sent(KVR_MSG_WANT)->want.staged);
    assert_false(machine_sent(KVR_MSG_WANT)->want.direct_copy);
}

static void what_is_not_lent_is_not_moved(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_lent(0, nonce, 0);
    check_refused(nonce, KVR_UNSUPPORTED);
}

/* Its cards do not reach the pages: the target grants the same rails again, so the source knows. */
static void cards_do_not_carry_on(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_lent(0, nonce, 7);
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
    assert_int_equal(machine_log.granted, 1u << COPY);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_neighbours)
    const struct CMUnitTest tests[] = {
        CASE(what_is_lent_is_moved),           CASE(what_is_planned_for_staging_memory_lands_there),
        CASE(what_was_not_offered_is_refused), CASE(nothing_is_offered_where_bytes_are_hashed),
        CASE(what_is_not_lent_is_not_moved),   CASE(cards_do_not_carry_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
