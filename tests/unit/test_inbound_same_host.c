/* Goal: the target itself copies pages that a source of this host lends, in place of its cards,
 * where both sides can. Where one side cannot, and when no such rail is left, cards carry them.
 * Method: inbound alone, with one rail of either kind. The test plays the sources and their
 * revocation words.
 */
#include "tests/support/check.h"

#include "tests/support/inbound_host.h"

/* There were so many GRANTs, and the last one named only this rail. */
static void check_granted(uint32_t grants, uint32_t rail)
{
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), grants);
    assert_int_equal(machine_log.granted, 1u << rail);
}

static uint64_t ask(uint32_t word)
{
    uint64_t nonce = fetch(1, 0, 1);

    plan_lent(0, nonce, word);
    return nonce;
}

static void what_is_lent_is_copied(void **state)
{
    uint64_t nonce = ask(7);

    (void)state;
    check_granted(1, COPY);
    assert_ptr_equal(transfer_of(nonce)->grant.landing->revocation_word, &revocation_word);
    assert_int_equal(transfer_of(nonce)->trust.epoch_count, 1);
}

static void what_is_not_lent_is_not(void **state)
{
    uint64_t nonce = ask(0);

    (void)state;
    check_granted(1, CARD);
    assert_null(transfer_of(nonce)->grant.landing->revocation_word);
}

static void nor_from_another_host(void **state)
{
    (void)state;
    meet(false);
    (void)ask(7);
    check_granted(1, CARD);
}

static void nor_what_nobody_shows(void **state)
{
    (void)state;
    revocation_word_shown = false;
    (void)ask(7);
    check_granted(1, CARD);
}

static void nor_into_a_region_that_it_cannot_reach(void **state)
{
    (void)state;
    target_region()->memory[COPY] = NULL;
    (void)ask(7);
    check_granted(1, CARD);
}

/* The source cannot write there after all: a fence has to end the epochs of both. */
static void cards_carry_on(void **state)
{
    uint64_t nonce = ask(7);

    (void)state;
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    check_granted(2, CARD);
    assert_int_equal(transfer_of(nonce)->trust.epoch_count, 2);
    assert_ptr_equal(transfer_of(nonce)->grant.landing->revocation_word, &revocation_word);
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    check_granted(3, CARD);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_same_host)
    const struct CMUnitTest tests[] = {
        CASE(what_is_lent_is_copied),
        CASE(what_is_not_lent_is_not),
        CASE(nor_from_another_host),
        CASE(nor_what_nobody_shows),
        CASE(nor_into_a_region_that_it_cannot_reach),
        CASE(cards_carry_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
