/* Goal: the source agent's decisions: matching, leases, and the return of pages. Late, repeated and
 * unknown messages change nothing. Method: outbound alone, with recorded ports. The test plays the
 * engine, the peers and the rail thread. */
#include "tests/support/check.h"

#include "prefill-agent/source_transfer.h"
#include "tests/support/outbound_case.h"
#include "wire/revocation_words.h"

/* ---- the way of a transfer ------------------------------------------------------------------- */

static void outbound_goes_the_whole_way(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.chunk_count, SMALL_CHUNKS);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.chunk_count, SMALL_CHUNKS);
    assert_int_equal(machine_command_count(PUSH_OPEN), 0); /* nothing before GRANT */
    grant(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_OPEN), 1);
    assert_int_equal(machine_command_count(PUSH_SEGMENT), 1);
    assert_int_equal(machine_command_count(PUSH_FINAL), 1);
    group_says(PUSH_POSTED, 0, NULL);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 1);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    assert_int_equal(machine_command_count(PUSH_STOP), 1);
    group_says(PUSH_STOPPED, 0, NULL);
    assert_null(freed()); /* a card may still read (rule 2) */
    group_closes();
    assert_int_equal(freed()->status, KVR_OK);
    assert_int_equal(freed()->bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES);
    assert_int_equal(outbound_live(&outbound), 0);
    assert_int_equal(outbound.tombs, 0);
}

/* However many transfers end well within a heartbeat bound, there is a place for the next. */
static void what_has_landed_takes_no_place(void **state)
{
    (void)state;
    for (uint64_t i = 0; i <= KVR_TRANSFERS_MAX; i++) {
        machine_log_clear();
        publish_for(1);
        publish_all();
        want(0, NONCE + i);
        assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
        message(0, NONCE + i, KVR_MSG_LANDED, KVR_OK);
        assert_int_equal(freed()->status, KVR_OK);
    }
}

/* Rule 10: a WANT may come first, and waits for its publish. */
static void outbound_parks_a_want(void **state)
{
    (void)state;
    want(0, NONCE);
    assert_int_equal(machine_log.sent_count, 0);
    publish_for(1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    publish_all();
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
}

static void outbound_gives_up_a_want_without_a_publish(void **state)
{
    (void)state;
    want(0, NONCE);
    tick(19 * KVR_S);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(2 * KVR_S);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_SOURCE);
    assert_int_equal(outbound_live(&outbound), 0);
}

/* Exactly one terminal for the live one; the other never lived. */
static void an_open_under_a_live_handle_is_refused(void **state)
{
    (void)state;
    publish_for(1);
    publish_for(1);
    assert_int_equal(machine_notice(KVR_NOTICE_OPEN_REFUSED)->status, KVR_EXISTS);
    assert_int_equal(machine_notice(KVR_NOTICE_OPEN_REFUSED)->handle, HANDLE);
    assert_null(freed());
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 1);
    assert_int_equal(freed()->status, KVR_OK);
}

/* ---- leases (rule 10) ------------------------------------------------------------------------ */

static void lease_ends_without_a_want(void **state)
{
    (void)state;
    publish_for(1);
    tick(LEASE - KVR_MS);
    assert_null(freed());
    tick(KVR_MS);
    assert_int_equal(freed()->status, KVR_EXPIRED);
    assert_int_equal(outbound.leases_expired, 1);
    assert_int_equal(outbound_live(&outbound), 0);
}

static void lease_ends_with_the_want(void **state)
{
    (void)state;
    publish_for(1);
    want(0, NONCE);
    tick(2 * LEASE);
    assert_null(freed()); /* from here the session and the target's deadline hold */
    assert_int_equal(outbound.leases_expired, 0);
}

/* A target that lives and sends nothing more: its fetch ends by our own clock, the heartbeat bound
 * after its deadline. The pages are free when no card can read them any more (rule 2). */
static void a_fetch_ends_after_its_deadline(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    tick(FETCH_DEADLINE + SILENCE - KVR_MS);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(KVR_MS);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXPIRED);
    assert_int_equal(machine_command_count(PUSH_STOP), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0); /* it may still post */
    group_says(PUSH_STOPPED, 0, NULL);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 1);
    assert_null(freed()); /* a card may still read */
    group_closes();
    assert_int_equal(freed()->status, KVR_EXPIRED);
}

static void a_fetch_that_grants_nothing_ends_after_its_deadline(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    tick(FETCH_DEADLINE + SILENCE);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXPIRED);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 1); /* a GRANT may be on its way */
    assert_int_equal(freed()->status, KVR_EXPIRED);
}

/* Our targets always name a deadline. Another target, that only sends heartbeats, may not hold the
 * pages for ever. */
static void a_fetch_without_a_deadline_is_refused(void **state)
{
    struct kvr_message want = {.kind = KVR_MSG_WANT, .transfer = NONCE};

    (void)state;
    want.want.request[0] = 'r';
    want.want.source_engine = machine_rank(1).engine;
    want.want.source_generation = 1;
    want.want.target = machine_rank(10);
    want.want.tokens = SMALL_PLANNED;
    publish_for(1);
    outbound_message(&outbound, now, 0, &want);
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->reason.status, KVR_INVALID);
    assert_string_equal(machine_sent(KVR_MSG_CANCEL)->reason.detail, "the WANT names no deadline");
    assert_int_equal(outbound_live(&outbound), 1); /* its publish still waits for another */
}

/* Of several consumers, the lease covers only those that have not come. */
static void lease_ends_for_those_that_have_not_come(void **state)
{
    (void)state;
    publish_for(2);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    tick(LEASE);
    assert_int_equal(outbound.leases_expired, 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_END), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    want(1, NONCE + 1); /* too late */
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_EXPIRED);
    assert_int_equal(machine_command_count(PUSH_STOP), 0);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    assert_int_equal(freed()->status, KVR_EXPIRED);
    assert_int_equal(freed()->bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES);
}

static void lease_is_renewed_by_its_engine(void **state)
{
    struct kvr_request renew = {.kind = KVR_REQ_RENEW, .renew = {.lease_ms = 30000}};

    (void)state;
    publish_for(1);
    tick(LEASE - KVR_S);
    ask(&renew);
    tick(30 * KVR_S - KVR_MS);
    assert_null(freed());
    tick(KVR_MS);
    assert_int_equal(freed()->status, KVR_EXPIRED);
}

static void lease_is_renewed_by_the_scheduler(void **state)
{
    (void)state;
    publish_for(1);
    tick(LEASE - KVR_S);
    assert_int_equal(outbound_renew(&outbound, now, "other", 0, 30 * KVR_S), 0);
    assert_int_equal(outbound_renew(&outbound, now, "r", 1, 30 * KVR_S), 0); /* another attempt */
    assert_int_equal(outbound_renew(&outbound, now, "r", 0, 30 * KVR_S), 1);
    tick(30 * KVR_S - KVR_MS);
    assert_null(freed());
    tick(KVR_MS);
    assert_int_equal(freed()->status, KVR_EXPIRED);
}

/* A request that was rejected before its target was admitted frees its source at once. */
static void abandon_frees_what_nobody_came_for(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    assert_int_equal(outbound_abandon(&outbound, now, "r", 0), 1);
    assert_int_equal(freed()->status, KVR_CANCELLED);
    assert_int_equal(outbound_abandon(&outbound, now, "r", 0), 0); /* idempotent */
}

static void abandon_leaves_a_target_that_came(void **state)
{
    (void)state;
    publish_for(1);
    want(0, NONCE);
    assert_int_equal(outbound_abandon(&outbound, now, "r", 0), 0);
    assert_null(freed());
}

/* ---- cancels and failures -------------------------------------------------------------------- */

/* A cancel is legal in every state, any number of times, and ends in one terminal event (rule 1).
 */
static void cancel_is_legal_in_every_state(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .cancel = {.reason = KVR_CANCELLED}};

    (void)state;
    for (unsigned steps = 0; steps <= 6; steps++) {
        open_outbound(NULL);
        if (steps >= 1)
            publish_for(1);
        if (steps >= 2)
            publish_all();
        if (steps >= 3)
            want(0, NONCE);
        if (steps >= 4)
            grant(0, NONCE);
        if (steps >= 5)
            message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
        if (steps >= 6)
            group_says(PUSH_STOPPED, 0, NULL);
        for (unsigned i = 0; i < 3; i++)
            ask(&cancel);
        if (steps >= 4) {
            assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 0);
            assert_int_equal(machine_command_count(PUSH_STOP), 1);
            if (steps < 6)
                group_says(PUSH_STOPPED, 0, NULL);
            group_closes();
        }
        assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), steps > 0 ? 1 : 0);
        ask(&cancel);
        assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), steps > 0 ? 1 : 0);
    }
}

/* Cancelled from either side, also when the other side does not know the transfer yet. */
static void cancel_of_the_target_frees_the_source(void **state)
{
    (void)state;
    publish_for(1);
    want(0, NONCE);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    assert_int_equal(freed()->status, KVR_CANCELLED);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED); /* a tombstone: known, and not new */
    assert_int_equal(machine_sent_count(KVR_MSG_UNKNOWN), 0);
    tick(2 * SILENCE);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    assert_int_equal(machine_sent_count(KVR_MSG_UNKNOWN), 1);
}

/* QUIET follows FAIL also where nothing was posted: a GRANT may be on its way. */
static void a_failure_is_announced(void **state)
{
    struct kvr_request end = {.kind = KVR_REQ_SOURCE_END, .end = {.status = KVR_ABORTED}};

    (void)state;
    publish_for(1);
    want(0, NONCE);
    ask(&end);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_ABORTED);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 1);
    assert_int_equal(freed()->status, KVR_ABORTED);
    grant(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_OPEN), 0);
}

/* After a peer is lost its endpoints are closed before the pages of a hanging write are free (rule
 * 2). */
static void a_lost_peer_frees_after_the_last_completion(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    outbound_peer_lost(&outbound, now, 0, KVR_PEER_LOST, "silent");
    {
        const union push_message stopped = {.head.kind = PUSH_STOPPED,
                                            .job = push_commanded(PUSH_OPEN).job,
                                            .sum.rails = 1}; /* over rail 0 */

        outbound_group(&outbound, now, &stopped.any);
    }
    assert_null(freed());
    tick(KVR_S); /* quiet_ns */
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 1);
    assert_null(freed());
    group_closes();
    assert_int_equal(freed()->status, KVR_PEER_LOST);
    assert_int_equal(outbound_live(&outbound), 0);
}

/* Rule 11: where targets copy, a word holds from before the first write until SOURCE_FREE. */
static void a_word_is_revoked_before_the_pages_are_free(void **state)
{
    const _Atomic uint64_t *words = machine_words(NULL, 0);
    struct kvr_ports ports = machine_ports;
    uint32_t word;

    (void)state;
    ports.revocation_words = machine_words;
    outbound.ports = &ports;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    word = machine_sent(KVR_MSG_PLAN)->plan.revocation_word;
    grant(0, NONCE);
    assert_true(kvr_revocation_word_holds(&words[word - 1], NONCE));
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    group_says(PUSH_STOPPED, 0, NULL);
    assert_true(kvr_revocation_word_holds(&words[word - 1], NONCE));
    group_closes();
    assert_int_equal(freed()->status, KVR_CANCELLED);
    assert_false(kvr_revocation_word_holds(&words[word - 1], NONCE));
}

/* Everything has arrived, and a card still holds a write: it may be a second posting to an endpoint
 * that is gone. After one heartbeat bound, the rails that carried it get fresh endpoints. */
static void a_write_that_hangs_after_the_end_is_ended(void **state)
{
    union push_message stopped = {.head.kind = PUSH_STOPPED, .sum.rails = 1}; /* over rail 0 */

    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    stopped.job = push_commanded(PUSH_OPEN).job;
    outbound_group(&outbound, now, &stopped.any);
    tick(outbound.options.silence_ns - 1);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 0);
    tick(1);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 1);
    assert_null(freed());
    group_closes();
    assert_int_equal(freed()->status, KVR_OK);
}

/* ---- identity (rule 9) ----------------------------------------------------------------------- */

static void a_want_of_another_generation_is_refused(void **state)
{
    (void)state;
    outbound.engines.local[0].rank.generation = 2;
    publish_for(1);
    want_as(0, NONCE, 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_STALE);
    want_as(0, NONCE + 1, 3); /* its publish may still come: parked, and not matched */
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
}

static void a_want_of_any_generation_finds_its_publish(void **state)
{
    (void)state;
    outbound.engines.local[0].rank.generation = 7;
    publish_for(1);
    want_as(0, NONCE, 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
}

static void a_want_of_any_generation_waits_for_its_publish(void **state)
{
    (void)state;
    want_as(0, NONCE, 0);
    outbound.engines.local[0].rank.generation = 7; /* the engine starts again */
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
    publish_for(1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
}

static void messages_about_nothing_are_unknown(void **state)
{
    (void)state;
    message(0, 4711, KVR_MSG_LANDED, KVR_OK);
    assert_int_equal(machine_sent(KVR_MSG_UNKNOWN)->transfer, 4711);
    publish_for(1);
    want(0, NONCE);
    message(1, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED); /* another peer's transfer */
    assert_int_equal(machine_sent_count(KVR_MSG_UNKNOWN), 2);
    assert_null(freed());
}

/* ---- lost rails (rule 3) and an absence (rule 8) --------------------------------------------- */

static void a_broken_pair_is_asked_about_at_once(void **state)
{
    struct kvr_group_message broken = {
        .head.kind = KVR_GROUP_PAIR_BROKEN,
        .pair_broken.pair = {.rail = 1, .target_rail = 1, .epoch = 1},
    };
    struct push_list *list;

    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    outbound_group(&outbound, now, &broken);
    assert_int_equal(machine_command_count(PUSH_LIST), 1);
    list = push_commanded(PUSH_LIST).list;
    assert_int_equal(list->rail, 1);
    list->found = true;
    list->pair = (struct kvr_pair){.rail = 1, .target_rail = 1, .epoch = 1};
    list->runs[list->run_count++] = (struct kvr_chunk_run){2, 3};
    group_says(PUSH_LISTED, 0, list);
    assert_int_equal(machine_sent(KVR_MSG_RAIL_LOST)->rail_lost.rail, 1);
    assert_int_equal(machine_sent(KVR_MSG_RAIL_LOST)->rail_lost.run_count, 1);
    assert_int_equal(machine_command_count(PUSH_RETRANSMIT), 0); /* only MISSING permits it */
    list->found = false;
    group_says(PUSH_LISTED, 0, list);

    tick(SILENCE); /* it is tried again with a fresh endpoint */
    assert_int_equal(machine_command(KVR_GROUP_RECYCLE)->recycle.rail, 1);
}

static void missing_chunks_are_posted_again(void **state)
{
    static const struct kvr_chunk_run runs[1] = {{1, 2}}, beyond[1] = {{SMALL_CHUNKS - 1, 2}};
    struct kvr_message missing = {.kind = KVR_MSG_MISSING, .transfer = NONCE};

    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    missing.missing = (struct kvr_msg_missing){.round = 1, .runs = runs, .run_count = 1};
    outbound_message(&outbound, now, 0, &missing);
    assert_int_equal(machine_command_count(PUSH_RETRANSMIT), 1);
    group_says(PUSH_POSTED, 0, NULL); /* of the round before: no QUIET for this round */
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0);
    group_says(PUSH_POSTED, 1, NULL);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.round, 1);
    missing.missing.runs = beyond;
    missing.missing.round = 2;
    outbound_message(&outbound, now, 0, &missing);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
}

/* Rule 5: the writes of the job carry the target's tag. */
static void a_grant_has_a_tag(void **state)
{
    static const uint16_t slots[1] = {3};
    struct kvr_message untagged = {.kind = KVR_MSG_GRANT, .transfer = NONCE + 1};

    (void)state;
    publish_for(2);
    publish_all();
    want(0, NONCE);
    want(1, NONCE + 1);
    grant(0, NONCE);
    assert_int_equal(push_commanded(PUSH_OPEN).opened->tag, GRANT_TAG);
    untagged.grant.slots = slots;
    untagged.grant.slot_count = 1;
    outbound_message(&outbound, now, 1, &untagged);
    assert_int_equal(machine_command_count(PUSH_OPEN), 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
    assert_string_equal(machine_sent(KVR_MSG_FAIL)->reason.detail, "a GRANT without a tag");
}

static void an_absence_asks_every_peer(void **state)
{
    struct kvr_group_message woke = {.head.kind = KVR_GROUP_RESUMED, .resumed.count = 5};
    struct kvr_message alive = {.kind = KVR_MSG_ALIVE};

    (void)state;
    outbound_group(&outbound, now, &woke);
    assert_int_equal(machine_sent_count(KVR_MSG_PROBE), 2);
    assert_int_equal(machine_command_count(KVR_GROUP_CONFIRMED), 0);
    alive.probe = machine_sent(KVR_MSG_PROBE)->probe;
    outbound_message(&outbound, now, 1, &alive);
    assert_int_equal(machine_command(KVR_GROUP_CONFIRMED)->confirmed.peer, 1);
    assert_int_equal(machine_command(KVR_GROUP_CONFIRMED)->confirmed.count, 5);
}

/* The error names the slots, not the memory. */
static void more_writes_than_the_slots_hold_are_too_many(void **state)
{
    struct source_transfer *transfer;

    (void)state;
    publish_for(1);
    want(0, NONCE);
    grant(0, NONCE);
    transfer = kvr_pool_at(&outbound.transfers, 0, NULL);
    transfer->announce.chunk_count = KVR_SLOT_CHUNKS - SMALL_CHUNKS + 1;
    publish_all();
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_TOO_LARGE);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "1 slots"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_outbound)
    const struct CMUnitTest tests[] = {
        CASE(outbound_goes_the_whole_way),
        CASE(what_has_landed_takes_no_place),
        CASE(more_writes_than_the_slots_hold_are_too_many),
        CASE(outbound_parks_a_want),
        CASE(outbound_gives_up_a_want_without_a_publish),
        CASE(an_open_under_a_live_handle_is_refused),
        CASE(lease_ends_without_a_want),
        CASE(lease_ends_with_the_want),
        CASE(a_fetch_ends_after_its_deadline),
        CASE(a_fetch_that_grants_nothing_ends_after_its_deadline),
        CASE(a_fetch_without_a_deadline_is_refused),
        CASE(lease_ends_for_those_that_have_not_come),
        CASE(lease_is_renewed_by_its_engine),
        CASE(lease_is_renewed_by_the_scheduler),
        CASE(abandon_frees_what_nobody_came_for),
        CASE(abandon_leaves_a_target_that_came),
        CASE(cancel_is_legal_in_every_state),
        CASE(cancel_of_the_target_frees_the_source),
        CASE(a_failure_is_announced),
        CASE(a_lost_peer_frees_after_the_last_completion),
        CASE(a_word_is_revoked_before_the_pages_are_free),
        CASE(a_write_that_hangs_after_the_end_is_ended),
        CASE(a_want_of_another_generation_is_refused),
        CASE(a_want_of_any_generation_finds_its_publish),
        CASE(a_want_of_any_generation_waits_for_its_publish),
        CASE(messages_about_nothing_are_unknown),
        CASE(a_broken_pair_is_asked_about_at_once),
        CASE(missing_chunks_are_posted_again),
        CASE(a_grant_has_a_tag),
        CASE(an_absence_asks_every_peer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
