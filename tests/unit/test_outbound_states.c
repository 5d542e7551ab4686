/* Goal: a state with one page a request leaves once all tokens are published, and not before. A
 * request without such a page is refused with the reason, and so is a target that cannot have the
 * state. Method: outbound alone, with recorded ports. */
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"

static void name_page(void)
{
    static const uint32_t id = 6;
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_PAGES};

    request.pages.ids = &id;
    request.pages.id_count = 1;
    ask(&request);
}

static void watch(uint64_t token_first, uint64_t token_end)
{
    struct kvr_request request = {.kind = KVR_REQ_WATCH};

    request.watch.token_first = token_first;
    request.watch.token_end = token_end;
    ask(&request);
}

static void end(void)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_END};

    ask(&request);
}

/* The target names its one page too. */
static void want_state(uint64_t tokens, uint64_t skip_tokens)
{
    static const struct kvr_page_run run = {5, 1};
    struct kvr_message pages = {.kind = KVR_MSG_PAGES, .transfer = NONCE};

    pages.pages.runs = &run;
    pages.pages.run_count = 1;
    want_skipping(0, NONCE, tokens, skip_tokens);
    outbound_message(&outbound, now, 0, &pages);
}

static void expect_plan(uint64_t token_end)
{
    const struct kvr_msg_plan *plan = &machine_sent(KVR_MSG_PLAN)->plan;

    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    assert_int_equal(plan->token_first, 0);
    assert_int_equal(plan->token_end, token_end);
    assert_int_equal(plan->chunk_count, SMALL_LAYERS);
    assert_int_equal(plan->run_count, 1);
}

static void expect_refused(const char *words)
{
    const struct kvr_message *fail = machine_sent(KVR_MSG_FAIL);

    if (fail == NULL)
        fail = machine_sent(KVR_MSG_CANCEL);
    assert_non_null(fail);
    assert_non_null(strstr(fail->reason.detail, words));
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
}

static void a_state_goes_with_the_last_segment(void **state)
{
    (void)state;
    outbound_begin_states();
    publish_for(1);
    want_state(SMALL_PLANNED, 0);
    watch(0, 1); /* its page may be named later */
    watch(1, 3);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    name_page();
    watch(3, SMALL_PLANNED);
    expect_plan(SMALL_PLANNED);
    end();
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.segment_count, 1);
}

/* Fewer tokens than were announced: only the end shows that there are no more. */
static void a_state_goes_at_the_end(void **state)
{
    (void)state;
    outbound_begin_states();
    publish_for(1);
    name_page();
    watch(0, 2);
    want_state(SMALL_PLANNED, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    end();
    expect_plan(2);
}

static void a_state_without_its_page_is_refused(void **state)
{
    (void)state;
    outbound_begin_states();
    publish_for(1);
    watch(0, SMALL_PLANNED);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_INVALID);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_SOURCE_FREE)->detail,
                           "no page was given of KV group 0, which is a state"));
    outbound_begin_states();
    publish_for(1);
    watch(0, 1);
    end();
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_INVALID);
}

/* The state after fewer tokens is nowhere. */
static void a_state_of_fewer_tokens_is_refused(void **state)
{
    (void)state;
    outbound_begin_states();
    publish_for(1);
    name_page();
    want_state(SMALL_PLANNED - 1, 0);
    watch(0, SMALL_PLANNED);
    expect_refused("3 tokens are fetched of 4 that were published, and KV group 0 is a state");
}

/* The engine would go on from its own tokens with a state from before them. */
static void a_state_older_than_the_target_is_refused(void **state)
{
    (void)state;
    outbound_begin_states();
    publish_for(1);
    name_page();
    want_state(SMALL_PLANNED, SMALL_PLANNED - 1);
    watch(0, SMALL_PLANNED - 2);
    end();
    expect_refused("2 tokens were published, and 3 are at the target already");
}

static void a_state_is_skipped_as_a_whole(void **state)
{
    (void)state;
    outbound_begin_states();
    publish_for(1);
    name_page();
    want_state(SMALL_PLANNED, SMALL_PLANNED);
    watch(0, SMALL_PLANNED);
    end();
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.segment_count, 0);
    outbound_begin_states();
    publish_for(1);
    name_page();
    want_state(SMALL_PLANNED, 2); /* of a state that is none */
    watch(0, SMALL_PLANNED);
    expect_plan(SMALL_PLANNED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_goes_with_the_last_segment),
        cmocka_unit_test(a_state_goes_at_the_end),
        cmocka_unit_test(a_state_without_its_page_is_refused),
        cmocka_unit_test(a_state_of_fewer_tokens_is_refused),
        cmocka_unit_test(a_state_older_than_the_target_is_refused),
        cmocka_unit_test(a_state_is_skipped_as_a_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
