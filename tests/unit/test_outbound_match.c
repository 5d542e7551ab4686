/* Goal: a target takes a publish before it knows what it has already, and nothing is planned until
 * it does. A target that comes after the end of the publish, or again, gets an answer at once.
 * Method: outbound alone; the test plays the engine and a target. */
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"

static void want_held(uint64_t nonce)
{
    struct kvr_message want = {.kind = KVR_MSG_WANT, .transfer = nonce, .want.request = "r"};

    want.want.source_engine = machine_rank(1).engine;
    want.want.source_generation = 1;
    want.want.target = machine_rank(10);
    want.want.tokens = SMALL_PLANNED;
    want.want.deadline_ms = FETCH_DEADLINE / KVR_MS;
    want.want.skips_follow = true;
    outbound_message(&outbound, now, 0, &want);
}

static void skip_to(uint64_t nonce, uint64_t tokens)
{
    struct kvr_message message = {.kind = KVR_MSG_SKIP, .transfer = nonce};

    message.skip = (struct kvr_msg_skip){tokens, &tokens, 1};
    outbound_message(&outbound, now, 0, &message);
}

static void pages(uint64_t nonce)
{
    static const struct kvr_page_run runs[SMALL_PLANNED] = {{1, 1}, {3, 1}, {5, 1}, {7, 1}};
    struct kvr_message message = {.kind = KVR_MSG_PAGES, .transfer = nonce};

    message.pages.runs = runs;
    message.pages.run_count = SMALL_PLANNED;
    outbound_message(&outbound, now, 0, &message);
}

/* The target has come, so there is no lease: its deadline counts. */
static void a_held_publish_has_no_lease(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want_held(NONCE);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    tick(LEASE + KVR_S);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_END), 0);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    tick(FETCH_DEADLINE + SILENCE);
    assert_int_equal(freed()->status, KVR_EXPIRED);
}

static void nothing_is_planned_before_skip(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want_held(NONCE);
    pages(NONCE);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    skip_to(NONCE, 2);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.token_first, 2);
    assert_int_equal(machine_sent_count(KVR_MSG_FINAL), 1);
}

static void what_skips_all_only_frees(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want_held(NONCE);
    skip_to(NONCE, SMALL_PLANNED);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.token_end, SMALL_PLANNED);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    assert_int_equal(freed()->status, KVR_OK);
    assert_int_equal(outbound_live(&outbound), 0);
}

static void a_parked_want_takes_its_skip(void **state)
{
    (void)state;
    want_held(NONCE);
    skip_to(NONCE, 1);
    pages(NONCE);
    publish_for(1);
    publish_all();
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.token_first, 1);
}

static void a_wrong_skip_fails(void **state)
{
    (void)state;
    publish_for(3);
    publish_all();
    want_held(NONCE);
    skip_to(NONCE, SMALL_PLANNED + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_INVALID);
    want_held(NONCE + 1);
    skip_to(NONCE + 1, 0);
    skip_to(NONCE + 1, 0);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
    want(1, NONCE + 2);    /* a WANT that says what is skipped is planned at once */
    skip_to(NONCE + 2, 0); /* of another peer */
    assert_int_equal(machine_sent(KVR_MSG_UNKNOWN)->transfer, NONCE + 2);
}

/* ---- targets that come late, or again ---------------------------------------------------------
 */

static struct small_side wanted_by;

static void cancel(void)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .cancel.reason = KVR_CANCELLED};

    ask(&cancel);
}

static void who_comes_after_the_end_hears_how_it_ended(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    cancel();
    assert_int_equal(freed()->status, KVR_CANCELLED);
    want(0, NONCE);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_CANCELLED);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "before this target came"));
    want_as(0, NONCE + 1, 0); /* of any generation */
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 2);
    want_held(NONCE + 2);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 3);
    assert_int_equal(outbound_live(&outbound), 0);
}

static void of_a_lease_too(void **state)
{
    (void)state;
    publish_for(1);
    tick(LEASE);
    assert_int_equal(freed()->status, KVR_EXPIRED);
    want(0, NONCE);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXPIRED);
}

static void of_one_that_every_target_had(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want_held(NONCE);
    skip_to(NONCE, SMALL_PLANNED);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    assert_int_equal(freed()->status, KVR_OK);
    want(1, NONCE + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_SOURCE);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "next attempt"));
}

/* A target fails its fetch with what another source of it said. */
static void of_one_whose_target_gave_up_because_of_another_source(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want_held(NONCE);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_EXISTS);
    assert_int_equal(freed()->status, KVR_EXISTS);
    want(1, NONCE + 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 1);
}

/* The engine publishes the same attempt again, against the rules: what it publishes is found. */
static void an_end_is_forgotten_when_it_is_published_again(void **state)
{
    (void)state;
    publish_for(1);
    cancel();
    publish_for(1);
    publish_all();
    want(0, NONCE);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
}

static void an_end_is_forgotten_after_a_while(void **state)
{
    (void)state;
    publish_for(1);
    cancel();
    now += PAST_TIME;
    want(0, NONCE);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    assert_int_equal(outbound.parked, 1);
}

static void another_attempt_is_waited_for(void **state)
{
    struct kvr_message other = {.kind = KVR_MSG_WANT, .transfer = NONCE, .want.request = "r"};

    (void)state;
    publish_for(1);
    cancel();
    other.want.attempt = 1;
    other.want.source_engine = machine_rank(1).engine;
    other.want.source_generation = 1;
    other.want.target = machine_rank(10);
    other.want.tokens = SMALL_PLANNED;
    other.want.deadline_ms = 1000;
    outbound_message(&outbound, now, 0, &other);
    assert_int_equal(outbound.parked, 1);
}

static void who_waits_hears_that_the_publish_was_refused(void **state)
{
    (void)state;
    want(0, NONCE);
    assert_int_equal(outbound.parked, 1);
    outbound_drain(&outbound, "this agent is shutting down");
    publish_for(1);
    assert_int_equal(freed()->status, KVR_DRAINING);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_DRAINING);
    assert_int_equal(outbound_live(&outbound), 0);
    outbound_drain(&outbound, NULL);
    publish_for(2);
    assert_int_equal(outbound_live(&outbound), 1);
}

/* The target has seen its end; cards of the source are not done with the pages yet. */
static void who_comes_again_waits_for_its_own_end(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    want(0, NONCE + 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    group_says(PUSH_STOPPED, 0, NULL);
    want(0, NONCE + 2); /* one too many */
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    machine_log.sent_count = 0;
    group_closes();
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->transfer, NONCE + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 2);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXISTS);
    assert_null(freed());
    message(0, NONCE + 1, KVR_MSG_CANCEL, KVR_CANCELLED);
    assert_int_equal(freed()->status, KVR_CANCELLED);
    want(0, NONCE + 3); /* too late: SOURCE_FREE has come */
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 3);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_CANCELLED);
}

/* The target's agent lost the session and has another; here the first one still seems to live. */
static void who_comes_in_another_session_waits_for_the_end_of_the_first(void **state)
{
    struct kvr_message regions, again = {.kind = KVR_MSG_WANT, .want.request = "r"};

    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    small_side_init(&wanted_by, 2);
    machine_regions(10, &wanted_by, 2, &regions);
    outbound_message(&outbound, now, 1, &regions);
    again.transfer = NONCE + 1;
    again.want.source_engine = machine_rank(1).engine;
    again.want.source_generation = 1;
    again.want.target = machine_rank(10);
    again.want.tokens = SMALL_PLANNED;
    again.want.deadline_ms = FETCH_DEADLINE / KVR_MS;
    outbound_message(&outbound, now, 1, &again);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    outbound_peer_lost(&outbound, now, 0, KVR_PEER_LOST, "");
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    assert_int_equal(outbound.parked, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    assert_null(freed());
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_outbound)
    const struct CMUnitTest tests[] = {
        CASE(a_held_publish_has_no_lease),
        CASE(nothing_is_planned_before_skip),
        CASE(what_skips_all_only_frees),
        CASE(a_parked_want_takes_its_skip),
        CASE(a_wrong_skip_fails),
        CASE(who_comes_after_the_end_hears_how_it_ended),
        CASE(of_a_lease_too),
        CASE(of_one_that_every_target_had),
        CASE(of_one_whose_target_gave_up_because_of_another_source),
        CASE(an_end_is_forgotten_when_it_is_published_again),
        CASE(an_end_is_forgotten_after_a_while),
        CASE(another_attempt_is_waited_for),
        CASE(who_waits_hears_that_the_publish_was_refused),
        CASE(who_comes_again_waits_for_its_own_end),
        CASE(who_comes_in_another_session_waits_for_the_end_of_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
