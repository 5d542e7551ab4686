/* Goal: a fetch that is held takes its source's publish before its engine knows what it has
 * already. What is skipped goes to the source with the first page. Method: inbound alone, with
 * recorded ports. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

static void engine_says(kvr_request_kind kind, struct kvr_request request)
{
    request.kind = kind;
    request.handle = 1;
    inbound_request(&inbound, now, 0, &request);
}

static void open_from(uint32_t first, uint32_t count)
{
    static struct kvr_source_address from[2];
    struct kvr_request open = {.target_open.request = "r"};

    for (uint32_t i = 0; i < count; i++) {
        from[i].agent[0] = (char)('0' + first + i);
        from[i].engine = machine_rank((uint8_t)(10 + first + i)).engine;
        from[i].generation = 1;
    }
    open.target_open.tokens = SMALL_PLANNED;
    open.target_open.sources = from;
    open.target_open.source_count = count;
    engine_says(KVR_REQ_TARGET_OPEN, open);
}

static void hold(void)
{
    engine_says(KVR_REQ_TARGET_HOLD, (struct kvr_request){0});
}

static void skip_to(uint64_t tokens)
{
    engine_says(KVR_REQ_TARGET_SKIP, (struct kvr_request){.skip.skip_tokens = tokens});
}

static void pages(void)
{
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};

    engine_says(KVR_REQ_TARGET_PAGES,
                (struct kvr_request){.pages = {.ids = ids, .id_count = SMALL_PLANNED}});
}

static const struct fetch *opened(void)
{
    return fetch_find(&inbound, 0, 1);
}

static void a_held_fetch_is_wanted_before_its_pages(void **state)
{
    (void)state;
    open_from(0, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
    hold();
    assert_true(machine_sent(KVR_MSG_WANT)->want.skips_follow);
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP), 0);
    hold();
    pages();
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP), 1);
    assert_int_equal(machine_sent(KVR_MSG_SKIP)->skip.skip_tokens, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 1);
    plan(0, inbound.nonces.given);
    assert_true(granted(inbound.nonces.given));
}

/* The skip of the hold's time, then a larger one: only the last goes out, and only once. */
static void what_is_skipped_is_said_with_the_first_page(void **state)
{
    (void)state;
    open_from(0, 1);
    skip_to(1);
    hold();
    skip_to(2);
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP), 0);
    pages();
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP), 1);
    assert_int_equal(machine_sent(KVR_MSG_SKIP)->skip.skip_tokens, 2);
    assert_int_equal(opened()->skips[0], 2);
    assert_int_equal(opened()->skip_tokens, 2);
    skip_to(3); /* too late: the source has the other number */
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INVALID);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->token_first, 2);
}

/* Else tokens would be reported as there that no source brought. */
static void a_skip_that_is_taken_back_does_not_count(void **state)
{
    (void)state;
    open_from(0, 1);
    skip_to(2);
    assert_int_equal(opened()->skip_tokens, 2);
    skip_to(1);
    assert_int_equal(opened()->skips[0], 1);
    assert_int_equal(opened()->skip_tokens, 1);
}

static void a_held_skip_only_grows(void **state)
{
    (void)state;
    open_from(0, 1);
    skip_to(2);
    hold();
    skip_to(1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INVALID);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "may only grow"));
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->reason.status, KVR_INVALID);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* The engine has all of it by now: the source is only freed. */
static void a_held_fetch_that_skips_all_needs_no_page(void **state)
{
    struct kvr_message final = {.kind = KVR_MSG_FINAL, .transfer = inbound.nonces.given + 1};

    (void)state;
    open_from(0, 1);
    hold();
    skip_to(SMALL_PLANNED);
    assert_int_equal(machine_sent(KVR_MSG_SKIP)->skip.skip_tokens, SMALL_PLANNED);
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 0);
    final.final.token_end = SMALL_PLANNED;
    inbound_message(&inbound, now, 0, &final);
    assert_int_equal(machine_notice(KVR_NOTICE_DONE)->token_first, SMALL_PLANNED);
    assert_int_equal(machine_sent(KVR_MSG_LANDED)->reason.status, KVR_OK);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* Before SKIP the source cannot have planned anything. */
static void a_held_fetch_takes_no_plan(void **state)
{
    (void)state;
    open_from(0, 1);
    hold();
    plan(0, inbound.nonces.given);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
    assert_false(granted(inbound.nonces.given));
}

static void without_room_the_skip_is_said_later(void **state)
{
    (void)state;
    open_from(0, 1);
    hold();
    machine_log.send_answer = KVR_AGAIN;
    skip_to(1);
    pages();
    machine_log.send_answer = KVR_OK;
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP) + machine_sent_count(KVR_MSG_PAGES), 0);
    inbound_peer_writable(&inbound, now, 0);
    assert_int_equal(machine_sent(KVR_MSG_SKIP)->skip.skip_tokens, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 1);
    assert_int_equal(machine_log.sent[machine_log.sent_count - 2].kind, KVR_MSG_SKIP);
}

/* Each source is held as soon as it answers; what is skipped waits until all have. */
static void a_source_that_is_away_does_not_keep_others_from_holding(void **state)
{
    struct kvr_msg_hello hello = {.version_max = KVR_PROTOCOL_MAX,
                                  .limits = {1, 1, SMALL_PAGE_BYTES, false}};

    (void)state;
    inbound_peer_lost(&inbound, now, 1, KVR_PEER_LOST, "");
    open_from(0, 2);
    hold();
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
    pages();
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP), 0);
    inbound_peer_up(&inbound, now, 1, &hello);
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 2);
    assert_false(machine_sent(KVR_MSG_WANT)->want.skips_follow);
    assert_int_equal(machine_sent_count(KVR_MSG_SKIP), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 2);
}

static void a_held_fetch_ends_like_others(void **state)
{
    struct kvr_request cancel = {.cancel.reason = KVR_CANCELLED};

    (void)state;
    open_from(0, 1);
    hold();
    engine_says(KVR_REQ_CANCEL, cancel);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->reason.status, KVR_CANCELLED);
    open_from(0, 1);
    hold();
    reason(0, inbound.nonces.given, KVR_MSG_FAIL, KVR_EXPIRED);
    assert_int_equal(machine_notice_count(KVR_NOTICE_EXPIRED), 1);
    open_from(0, 1);
    hold();
    tick(61 * KVR_S);
    assert_int_equal(machine_notice_count(KVR_NOTICE_EXPIRED), 2);
    assert_int_equal(inbound_live(&inbound), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_inbound)
    const struct CMUnitTest tests[] = {
        CASE(a_held_fetch_is_wanted_before_its_pages),
        CASE(what_is_skipped_is_said_with_the_first_page),
        CASE(a_skip_that_is_taken_back_does_not_count),
        CASE(a_held_skip_only_grows),
        CASE(a_held_fetch_that_skips_all_needs_no_page),
        CASE(a_held_fetch_takes_no_plan),
        CASE(without_room_the_skip_is_said_later),
        CASE(a_source_that_is_away_does_not_keep_others_from_holding),
        CASE(a_held_fetch_ends_like_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
