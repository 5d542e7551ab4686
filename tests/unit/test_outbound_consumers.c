/* Goal: each target rank of a publish has a place of its own. A rank that comes again keeps its
 * place, and only its last transfer counts. Method: outbound alone; the test plays the engine and
 * two target ranks. */
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"

static void ends_with(uint32_t peer, uint64_t nonce, kvr_status status)
{
    message(peer, nonce, status == KVR_OK ? KVR_MSG_LANDED : KVR_MSG_CANCEL, status);
}

/* A transfer is granted and lands, with no posts under way. */
static void lands(uint32_t peer, uint64_t nonce)
{
    grant(peer, nonce);
    ends_with(peer, nonce, KVR_OK);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    machine_log.command_count = 0; /* its segments are gone */
}

static void who_comes_again_has_its_own_place(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    for (uint32_t again = 0; again < 3; again++) {
        want(0, NONCE + again);
        ends_with(0, NONCE + again, KVR_CANCELLED);
    }
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    assert_null(freed()); /* one has not come yet */
    want(1, NONCE + 10);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    lands(1, NONCE + 10);
    assert_int_equal(freed()->status, KVR_CANCELLED); /* as the other rank's last transfer */
    assert_int_equal(outbound_live(&outbound), 0);
}

static void while_the_first_lives_the_second_is_refused(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    want(0, NONCE);
    want(0, NONCE + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXISTS);
    want(1, NONCE + 2);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 1);
}

/* Its agent died and returned, while the other rank already had its pages. */
static void who_comes_again_mends_its_failure(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    want(1, NONCE);
    want(0, NONCE + 1);
    ends_with(0, NONCE + 1, KVR_PEER_LOST);
    want(0, NONCE + 2);
    lands(0, NONCE + 2);
    assert_null(freed());
    lands(1, NONCE);
    assert_int_equal(freed()->status, KVR_OK);
    assert_string_equal(freed()->detail, "");
    assert_int_equal(freed()->bytes, 2 * SMALL_CHUNKS * SMALL_PAGE_BYTES);
}

static void another_failure_stays(void **state)
{
    (void)state;
    publish_for(3);
    publish_all();
    want(0, NONCE);
    ends_with(0, NONCE, KVR_PEER_LOST);
    want(1, NONCE + 1);
    ends_with(1, NONCE + 1, KVR_CANCELLED);
    want(0, NONCE + 2);
    lands(0, NONCE + 2);
    assert_int_equal(outbound_abandon(&outbound, now, "r", 0), 1);
    assert_int_equal(freed()->status, KVR_CANCELLED);
    assert_string_not_equal(freed()->detail, "");
}

/* Ranks of one engine are told apart, too. */
static void ranks_of_one_engine_have_a_place_each(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    targets_are(0);
    want(0, NONCE);
    ends_with(0, NONCE, KVR_CANCELLED);
    want(0, NONCE + 1);
    targets_are(1);
    want(0, NONCE + 2);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    targets_are(2);
    want(0, NONCE + 3);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 3);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXISTS);
}

/* The lease is for ranks that have not come yet; a rank that comes again is not one of them. */
static void the_lease_ends_for_the_others(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    want(0, NONCE);
    ends_with(0, NONCE, KVR_CANCELLED);
    want(0, NONCE + 1);
    tick(LEASE);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_END), 1);
    assert_null(freed());
    lands(0, NONCE + 1);
    assert_int_equal(freed()->status, KVR_EXPIRED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_comes_again_has_its_own_place, open_outbound),
        cmocka_unit_test_setup(while_the_first_lives_the_second_is_refused, open_outbound),
        cmocka_unit_test_setup(who_comes_again_mends_its_failure, open_outbound),
        cmocka_unit_test_setup(another_failure_stays, open_outbound),
        cmocka_unit_test_setup(ranks_of_one_engine_have_a_place_each, open_outbound),
        cmocka_unit_test_setup(the_lease_ends_for_the_others, open_outbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
