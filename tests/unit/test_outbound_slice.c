/* Goal: a source rank's number of awaited targets, its slice where siblings hold the same, and the
 * time of its plan: with late pages, prompts in parts, and targets that have everything. Method:
 * outbound alone, with recorded ports; one rank at a time. */
#include "tests/support/check.h"

#include "tests/support/slice_case.h"

/* ---- what is given --------------------------------------------------------------------------- */

static bool gives(uint32_t tp, uint32_t number, uint32_t target_tp)
{
    const struct kvr_message *plan;

    share_open_rank(tp, 4, true);
    share_publish(number, 0);
    share_want(number, target_tp, 4, 0);
    share_watch(0, SMALL_PLANNED);
    share_pages(target_tp, 0, SMALL_PLANNED);
    plan = machine_sent(KVR_MSG_PLAN);
    assert_non_null(plan);
    assert_int_equal(plan->plan.chunk_count, plan->plan.none ? 0 : SMALL_CHUNKS);
    return !plan->plan.none;
}

/* Exactly one source rank gives to each target rank, and another one to the next. The choice
 * differs between requests. */
static void one_of_those_that_hold_alike_gives(void **state)
{
    uint32_t given[4] = {0};

    (void)state;
    for (uint32_t number = 0; number < 16; number++) {
        uint32_t givers[2] = {0};

        for (uint32_t target_tp = 0; target_tp < 2; target_tp++) {
            for (uint32_t tp = 0; tp < 4; tp++) {
                if (!gives(tp, number, target_tp))
                    continue;
                given[tp]++;
                givers[target_tp] |= 1u << tp;
            }
            assert_int_equal(__builtin_popcount(givers[target_tp]), 1);
        }
        assert_int_not_equal(givers[0], givers[1]);
    }
    for (uint32_t tp = 0; tp < 4; tp++)
        assert_true(given[tp] > 0);
}

/* A target that asks only this rank gets its pages from this rank. */
static void who_is_asked_alone_gives(void **state)
{
    (void)state;
    for (uint32_t tp = 0; tp < 4; tp++) {
        share_open_rank(tp, 4, true);
        share_publish(1, 1);
        share_want(1, 0, 1, 0);
        share_watch(0, SMALL_PLANNED);
        share_pages(0, 0, SMALL_PLANNED);
        assert_false(machine_sent(KVR_MSG_PLAN)->plan.none);
    }
}

/* ---- who comes ------------------------------------------------------------------------------- */

/* Both target ranks hold everything: they are two, though no engine named a count. */
static void the_first_target_tells_how_many_come(void **state)
{
    (void)state;
    share_open_rank(0, 1, true);
    share_publish(1, 0);
    share_watch(0, SMALL_PLANNED);
    share_end();
    share_want(1, 0, 1, SMALL_PLANNED);
    share_landed(0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 0);
    share_want(1, 1, 1, SMALL_PLANNED);
    share_landed(1);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_OK);
}

/* The middle stage needs both source stages. Only the WANTs of the other stages show that every
 * stage asks both. */
static void the_first_target_may_know_of_too_few(void **state)
{
    static const uint32_t orders[2][SHARE_STAGES] = {{1, 0, 2}, {1, 2, 0}};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        share_open_stage();
        share_publish(1, 0);
        share_watch(0, SMALL_PLANNED);
        share_end();
        for (uint32_t k = 0; k < SHARE_STAGES; k++) {
            assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 0);
            share_want_stage(1, orders[i][k]);
            share_landed(orders[i][k]);
        }
        assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_OK);
        assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), 0);
    }
}

/* ---- when it is planned ---------------------------------------------------------------------- */

static void a_full_hit_frees_the_source(void **state)
{
    (void)state;
    share_open_rank(0, 1, false);
    share_publish(1, 1);
    share_watch(0, SMALL_PLANNED);
    share_end();
    share_want(1, 0, 1, SMALL_PLANNED);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.segment_count, 0);
    share_landed(0);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_OK);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->bytes, 0);
}

static void pages_may_be_named_late(void **state)
{
    (void)state;
    share_open_rank(0, 1, false);
    share_publish(1, 1);
    share_want(1, 0, 1, 0);
    share_pages(0, 0, 2);
    share_watch(0, SMALL_PLANNED);
    share_end();
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    share_pages(0, 2, 2);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.chunk_count, SMALL_CHUNKS);
}

static void a_prompt_comes_in_segments(void **state)
{
    (void)state;
    share_open_rank(0, 1, false);
    share_publish(1, 1);
    share_want(1, 0, 1, 0);
    share_pages(0, 0, 1);
    share_watch(0, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    share_watch(1, SMALL_PLANNED); /* ready, and its pages at the target are not known */
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    share_pages(0, 1, 3);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 2);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.token_first, 1);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.chunk_first, SMALL_LAYERS);
    assert_int_equal(machine_sent_count(KVR_MSG_FINAL), 0);
    share_end();
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.segment_count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_those_that_hold_alike_gives),
        cmocka_unit_test(who_is_asked_alone_gives),
        cmocka_unit_test(the_first_target_tells_how_many_come),
        cmocka_unit_test(the_first_target_may_know_of_too_few),
        cmocka_unit_test(a_full_hit_frees_the_source),
        cmocka_unit_test(pages_may_be_named_late),
        cmocka_unit_test(a_prompt_comes_in_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
