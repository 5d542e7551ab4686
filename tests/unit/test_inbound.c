/* Goal: the target agent's decisions: slots, grants, second postings, notices to the engine, and
 * the return of pages. Method: inbound alone, with recorded ports. The test plays the engine, the
 * peers and the rail thread. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/inbound_case.h"

/* ---- the way of a transfer ------------------------------------------------------------------- */

static void inbound_goes_the_whole_way(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
    assert_int_equal(inbound.free_count, SLOTS); /* nothing to send yet: no slot is taken */
    plan(0, nonce);
    assert_int_equal(inbound.free_count, SLOTS - 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    assert_true(granted(nonce));
    final(0, nonce);
    group_says(nonce, LAND_LAYER, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_DONE)->bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES);
    assert_int_equal(machine_sent(KVR_MSG_LANDED)->reason.status, KVR_OK);
    assert_int_equal(inbound.free_count, SLOTS - 1); /* the landing still has its slot */
    group_closes(nonce);
    assert_int_equal(inbound.free_count, SLOTS);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* DONE needs FINAL, all bits and the tail, in any order (rule 6). */
static void done_waits_for_the_tail(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    struct kvr_message last = {.kind = KVR_MSG_FINAL, .transfer = nonce};
    struct kvr_message tail = {.kind = KVR_MSG_TAIL, .transfer = nonce};

    (void)state;
    plan(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    last.final = (struct kvr_msg_final){.segment_count = 1,
                                        .chunk_count = SMALL_CHUNKS,
                                        .token_end = SMALL_PLANNED,
                                        .has_tail = true};
    inbound_message(&inbound, now, 0, &last);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    inbound_message(&inbound, now, 0, &tail);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
}

/* Exactly one terminal for the live one; the other never lived. */
static void an_open_under_a_live_handle_is_refused(void **state)
{
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = 1};
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    open.target_open.tokens = SMALL_PLANNED;
    inbound_request(&inbound, now, 0, &open);
    assert_int_equal(machine_notice(KVR_NOTICE_OPEN_REFUSED)->status, KVR_EXISTS);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0);
    plan(0, nonce);
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    inbound_request(&inbound, now, 0, &open); /* its landing is not closed: this ends at once */
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_OPEN_REFUSED), 1);
    group_closes(nonce);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* ---- second postings (rule 3) ---------------------------------------------------------------- */

static void rail_lost(uint32_t peer, uint64_t nonce)
{
    static const struct kvr_chunk_run runs[1] = {{0, SMALL_CHUNKS}};
    struct kvr_message message = {.kind = KVR_MSG_RAIL_LOST, .transfer = nonce};

    message.rail_lost =
        (struct kvr_msg_rail_lost){.rail = 0, .epoch = 1, .runs = runs, .run_count = 1};
    inbound_message(&inbound, now, peer, &message);
}

/* The source gives up what it posted on rail 0, of which two chunks are not here. */
static void two_chunks_lost(uint64_t nonce)
{
    struct landing_filter *filter;

    rail_lost(0, nonce);
    filter = land_commanded(LAND_FILTER).filter;
    filter->run_count = 1;
    filter->runs[0] = (struct kvr_chunk_run){4, 2};
    group_says(nonce, LAND_FILTERED, 0, filter);
}

static bool why_says(const char *what)
{
    char json[2000];

    inbound_why(&inbound, 0, 1, json, sizeof(json));
    return strstr(json, what) != NULL;
}

static void missing_taints_until_quiet(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    final(0, nonce);
    group_says(nonce, LAND_LAYER, 0, NULL);
    assert_true(why_says("\"retries\":0,\"held_by\":\"\""));
    two_chunks_lost(nonce);
    assert_int_equal(machine_sent(KVR_MSG_MISSING)->missing.round, 1);
    assert_int_equal(machine_command_count(LAND_QUIET_VOID), 1);
    assert_true(why_says("\"retries\":2,\"held_by\":\"repeats\""));
    {
        union land_message layer = {.head.kind = LAND_LAYER, .transfer = nonce, .layer.layer = 1};

        assert_true(kvr_table_find(&inbound.by_nonce, nonce, &layer.landing));
        inbound_group(&inbound, now, &layer.any);
    }
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 1); /* the second is held back */
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    quiet(0, nonce, 0); /* of the round that MISSING voided */
    assert_int_equal(machine_command_count(LAND_QUIET), 0);
    quiet(0, nonce, 1);
    group_says(nonce, LAND_IS_QUIET, 0, NULL); /* a late answer of another round */
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    group_says(nonce, LAND_IS_QUIET, 1, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 2);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
}

/* A QUIET before MISSING does not cover later posts: its time does not run on. */
static void what_is_posted_again_has_its_own_time(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    final(0, nonce);
    quiet(0, nonce, 0);
    two_chunks_lost(nonce);
    tick(2 * QUIET);
    assert_int_equal(machine_command_count(LAND_SUSPECTS), 0);
    quiet(0, nonce, 1);
    tick(QUIET);
    assert_int_equal(machine_command_count(LAND_SUSPECTS), 1);
}

/* What was posted there will not come, or comes after the repeats. The other rails have their time.
 */
static void a_rail_that_was_given_up_is_not_waited_for(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    struct land_suspects suspects;

    (void)state;
    plan(0, nonce);
    final(0, nonce);
    two_chunks_lost(nonce);
    quiet(0, nonce, 1);
    tick(QUIET / 4);
    assert_int_equal(machine_command_count(LAND_SUSPECTS), 1);
    suspects = land_commanded(LAND_SUSPECTS).suspects;
    assert_int_equal(suspects.at_once, 1);
    assert_int_equal(suspects.later, ~UINT64_C(1));
    tick(QUIET);
    suspects = land_commanded(LAND_SUSPECTS).suspects;
    assert_int_equal(suspects.at_once, 1);
    assert_int_equal(suspects.later, 0);
}

static void nothing_missing_asks_for_nothing(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    struct landing_filter *filter;

    (void)state;
    plan(0, nonce);
    final(0, nonce);
    rail_lost(0, nonce);
    filter = land_commanded(LAND_FILTER).filter;
    filter->run_count = 0;
    group_says(nonce, LAND_FILTERED, 0, filter);
    assert_int_equal(machine_sent_count(KVR_MSG_MISSING), 0);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1); /* not tainted */
}

/* ---- messages from outside (rule 9) --------------------------------------------------------- */

static void a_plan_of_another_generation_is_refused(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_as(0, nonce, 2);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_STALE);
    assert_false(granted(nonce));
}

static void another_peers_messages_change_nothing(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    reason(1, nonce, KVR_MSG_FAIL, KVR_ABORTED);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILING), 0);
}

static void what_is_skipped_is_counted(void **state)
{
    struct kvr_source_address from = {.agent = "0", .generation = 1};
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = 1};
    struct kvr_message message = {.kind = KVR_MSG_FINAL};

    (void)state;
    from.engine = machine_rank(10).engine;
    open.target_open.tokens = open.target_open.skip_tokens = SMALL_PLANNED;
    open.target_open.sources = &from;
    open.target_open.source_count = 1;
    snprintf(open.target_open.request, sizeof(open.target_open.request), "r");
    inbound_request(&inbound, now, 0, &open);
    assert_int_equal(inbound.skipped_bytes, 0);
    message.transfer = inbound.nonces.given;
    message.final.token_end = SMALL_PLANNED;
    inbound_message(&inbound, now, 0, &message);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    assert_int_equal(inbound.skipped_bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES); /* as if moved */
}

static kvr_status send_no_pages(void *self, uint32_t peer, const struct kvr_message *message)
{
    return message->kind == KVR_MSG_PAGES ? KVR_AGAIN : machine_ports.send(self, peer, message);
}

/* A full queue ends nothing: messages that can wait do so. */
static void page_tables_wait_for_room_in_the_queue(void **state)
{
    struct kvr_ports ports = machine_ports;

    (void)state;
    ports.send = send_no_pages;
    inbound.ports = &ports;
    (void)fetch(1, 0, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
    assert_int_equal(machine_log.hang_ups, 0);
    inbound.ports = &machine_ports;
    inbound_peer_writable(&inbound, now, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 1);
    assert_int_equal(machine_sent(KVR_MSG_PAGES)->pages.page_first, 0);
    assert_int_equal(machine_sent(KVR_MSG_PAGES)->pages.run_count, SMALL_PLANNED);
    inbound_peer_writable(&inbound, now, 0); /* once */
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 1);
}

/* With any number of sources, and any length of the parts. */
static void why_is_always_whole(void **state)
{
    char detail[KVR_DETAIL_BYTES], json[1000];
    uint64_t nonce = fetch(1, 0, 3);

    (void)state;
    memset(detail, '"', sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    plan(0, nonce);
    plan(1, nonce + 1);
    plan(2, nonce + 2);
    inbound_cancel_all(&inbound, now, KVR_DRAINING, detail);
    inbound_why(&inbound, 0, 1, json, sizeof(json));
    assert_non_null(strstr(json, "\"detail\":"));
    assert_string_equal(json + strlen(json) - 4, "\\\"\"}");
}

static struct kvr_event last_event;

static void keep_event(void *self, const struct kvr_event *event)
{
    (void)self;
    last_event = *event;
}

static kvr_status dial_nobody(void *self, const char *address, uint32_t *ret_peer,
                              struct kvr_error *error)
{
    (void)self, (void)ret_peer;
    return kvr_error_set(error, KVR_INVALID, "address", "'%s' is no address", address);
}

/* An earlier or later peer of the same number has no part in it. */
static void a_source_that_was_not_met_is_not_named(void **state)
{
    struct kvr_ports ports = machine_ports;

    (void)state;
    ports.events.emit = keep_event;
    inbound.ports = &ports;
    snprintf(inbound.peers[0].agent, sizeof(inbound.peers[0].agent), "p0");
    (void)fetch(1, 0, 1);
    assert_string_equal(last_event.peer, "p0");
    inbound.peers[0].up = false;
    (void)fetch(2, 0, 1);
    assert_int_equal(last_event.kind, KVR_EVENT_OPENED);
    assert_string_equal(last_event.peer, "");
    ports.dial = dial_nobody;
    (void)fetch(3, 1, 1);
    assert_int_equal(last_event.outcome, KVR_INVALID);
    assert_string_equal(last_event.peer, "");
    inbound.ports = &machine_ports;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_inbound)
    const struct CMUnitTest tests[] = {
        CASE(inbound_goes_the_whole_way),
        CASE(an_open_under_a_live_handle_is_refused),
        CASE(done_waits_for_the_tail),
        CASE(missing_taints_until_quiet),
        CASE(what_is_posted_again_has_its_own_time),
        CASE(a_rail_that_was_given_up_is_not_waited_for),
        CASE(nothing_missing_asks_for_nothing),
        CASE(a_plan_of_another_generation_is_refused),
        CASE(another_peers_messages_change_nothing),
        CASE(what_is_skipped_is_counted),
        CASE(page_tables_wait_for_room_in_the_queue),
        CASE(why_is_always_whole),
        CASE(a_source_that_was_not_met_is_not_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
