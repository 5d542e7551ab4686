/* Goal: however a transfer fails, its engine gets FAILING at once, and its pages when nothing can
 * land any more. Method: inbound alone, with recorded ports. The test plays the engine, the peers
 * and the rail thread. */
#include "tests/support/check.h"

#include <stdio.h>

#include "decode-agent/fence.h"
#include "tests/support/inbound_case.h"

/* FAILING comes at once; the terminal event comes when nothing can land any more (rules 1 and 4).
 */
static void a_failure_holds_the_pages_until_quiet(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    reason(0, nonce, KVR_MSG_FAIL, KVR_ABORTED);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_ABORTED);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0);
    assert_int_equal(inbound.free_count, SLOTS - 1);
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_ABORTED);
    assert_int_equal(inbound.free_count, SLOTS - 1); /* the slot is dead from LAND_CLOSED on */
    group_closes(nonce);
    assert_int_equal(inbound.free_count, SLOTS);
}

/* Its counts are lost, so a missing write would go unnoticed. */
static void a_quiet_that_finds_no_memory_fails(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    for (size_t bytes = MACHINE_MEMORY_BYTES; bytes >= KVR_BUDDY_BLOCK_BYTES;)
        if (kvr_buddy_alloc(inbound.memory, bytes) == NULL)
            bytes /= 2;
    quiet(0, nonce, 0);
    assert_int_equal(machine_command_count(LAND_QUIET), 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_NO_MEMORY);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0); /* not before it is fenced */
}

/* Without a grant nothing is on its way. */
static void a_failure_before_grant_ends_at_once(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    reason(0, nonce, KVR_MSG_FAIL, KVR_NO_SOURCE);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_NO_SOURCE);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* A dead peer sends nothing: every granted epoch is ended, one rail at a time. */
static void a_lost_peer_is_fenced(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    const struct landing_quiet *asked;

    (void)state;
    plan(0, nonce);
    inbound_peer_lost(&inbound, now, 0, KVR_PEER_LOST, "silent");
    asked = land_commanded(LAND_QUIET).quiet;
    assert_true(asked->closed_only);
    assert_int_equal(asked->count, 2);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0);
    recycled(0, 1);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 2);
    recycled(1, 1);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_PEER_LOST);
    /* Every other peer got the new endpoints of those rails. */
    assert_int_equal(machine_sent_count(KVR_MSG_EPOCH_ENDED), 6);
}

/* A source that never sends QUIET: after the heartbeat bound its epochs are ended anyway. */
static void a_silent_source_is_fenced(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    reason(0, nonce, KVR_MSG_FAIL, KVR_ABORTED);
    tick(SILENCE - KVR_MS);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 0);
    tick(KVR_MS);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 1);
}

/* Before the source hears of the failure, it may write to the rail's new endpoint. */
static void counts_on_a_newer_epoch_are_awaited(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    const struct landing_quiet *asked;

    (void)state;
    plan(0, nonce);
    reason(0, nonce, KVR_MSG_FAIL, KVR_ABORTED);
    inbound_rail_recycle(&inbound, 0, 1);
    recycled(0, 1);
    quiet_on(0, nonce, 0, 2);
    asked = land_commanded(LAND_QUIET).quiet;
    assert_non_null(asked);
    assert_false(asked->closed_only);
    assert_int_equal(asked->counts[0].epoch, 2);
    machine_log_clear();
    quiet_on(0, nonce, 0, 3); /* there is none */
    assert_int_equal(machine_command_count(LAND_QUIET), 0);
}

/* However often the source repeats QUIET. */
static void a_source_that_goes_on_saying_quiet_is_fenced(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    reason(0, nonce, KVR_MSG_FAIL, KVR_ABORTED);
    machine_log_clear();
    for (int i = 0; i < 8; i++) {
        quiet(0, nonce, 0);
        tick(QUIET / 4);
    }
    assert_true(machine_command_count(LAND_SUSPECTS) > 0);
    machine_log_clear();
    for (int i = 0; i < 24; i++) {
        quiet(0, nonce, 0);
        tick(QUIET / 4);
    }
    assert_int_equal(land_commanded(LAND_SUSPECTS).suspects.at_once,
                     UINT64_MAX); /* whatever else comes in */
}

/* The largest deadline of 32 bits counts as the longest that an agent takes. */
static void the_latest_deadline_is_bounded(void **state)
{
    struct kvr_source_address from = {.agent = "0", .generation = 1};
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = 1};

    (void)state;
    from.engine = machine_rank(10).engine;
    open.target_open.tokens = open.target_open.skip_tokens = SMALL_PLANNED;
    open.target_open.sources = &from;
    open.target_open.source_count = 1;
    open.target_open.deadline_ms = UINT32_MAX;
    snprintf(open.target_open.request, sizeof(open.target_open.request), "r");
    inbound_request(&inbound, now, 0, &open);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.deadline_ms, KVR_DEADLINE_MS_MAX + 1);
}

static void unknown_proves_nothing_about_bytes(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    reason(0, nonce, KVR_MSG_UNKNOWN, KVR_UNKNOWN_TRANSFER);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 1);
}

/* Before GRANT nothing is held for it. */
static void unknown_ends_a_want_at_once(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    reason(0, nonce, KVR_MSG_UNKNOWN, KVR_UNKNOWN_TRANSFER);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_UNKNOWN_TRANSFER);
    assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 0);
}

/* As its engine's cancel, and it is said. */
static void an_operator_cancels(void **state)
{
    struct kvr_order order = {.kind = KVR_ORDER_CANCEL, .transfer = 4711};
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    plan(0, nonce);
    assert_int_equal(inbound_cancel(&inbound, now, &order), 0);
    order.transfer = nonce + 1; /* the other source's: the whole fetch ends */
    assert_int_equal(inbound_cancel(&inbound, now, &order), 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_CANCELLED);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILING)->detail, "operator"));
    assert_int_equal(machine_sent_count(KVR_MSG_CANCEL), 2);
    assert_int_equal(inbound_cancel(&inbound, now, &order),
                     0); /* it comes again until it is taken */
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILING), 1);
}

/* Of a fetch that waits for its source. */
static void an_operator_cancels_by_request(void **state)
{
    struct kvr_order order = {.kind = KVR_ORDER_CANCEL};
    const struct fetch *waiting;

    (void)state;
    fetch(1, 0, 1);
    waiting = fetch_find(&inbound, 0, 1);
    snprintf(order.request, sizeof(order.request), "%s", waiting->request);
    order.attempt = waiting->attempt + 1;
    assert_int_equal(inbound_cancel(&inbound, now, &order), 0);
    order.attempt--;
    assert_int_equal(inbound_cancel(&inbound, now, &order), 1);
}

static void a_drained_agent_takes_no_fetch(void **state)
{
    (void)state;
    inbound_drain(&inbound, "it was drained");
    fetch(1, 0, 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_DRAINING);
    assert_string_equal(machine_notice(KVR_NOTICE_FAILED)->detail, "it was drained");
    inbound_drain(&inbound, NULL);
    assert_int_not_equal(fetch(2, 0, 1), 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 1);
}

/* One of several sources fails: the others are cancelled, and one event follows when all have
 * settled. */
static void siblings_end_together(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    plan(0, nonce);
    reason(1, nonce + 1, KVR_MSG_FAIL, KVR_NO_SOURCE);
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->transfer, nonce);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0);
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_NO_SOURCE);
}

static void cancel_is_legal_in_every_state(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = 1};

    (void)state;
    for (unsigned steps = 0; steps <= 3; steps++) {
        uint64_t nonce = 0;

        open_inbound(NULL);
        if (steps >= 1)
            nonce = fetch(1, 0, 1);
        if (steps >= 2)
            plan(0, nonce);
        if (steps >= 3) {
            final(0, nonce);
            group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL); /* it is DONE */
        }
        for (unsigned i = 0; i < 3; i++)
            inbound_request(&inbound, now, 0, &cancel);
        assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), steps == 1 ? 1 : 0);
        if (steps == 2) {
            quiet(0, nonce, 0);
            group_says(nonce, LAND_IS_QUIET, 0, NULL);
            assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
        }
        assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), steps == 3 ? 1 : 0);
    }
}

/* A cancel ends each wait: for the peer, for the publish, for slots, for writes, for digests. */
static void cancel_ends_every_wait(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = 1};
    uint64_t nonce;

    (void)state;
    inbound_peer_lost(&inbound, now, 0, KVR_PEER_LOST, "not reached");
    fetch(1, 0, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
    inbound_request(&inbound, now, 0, &cancel);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);

    open_inbound(NULL);
    plan(0, fetch(2, 0, 3));
    nonce = fetch(1, 3, 1);
    plan(3, nonce);
    assert_false(granted(nonce)); /* it waits for slots */
    inbound_request(&inbound, now, 0, &cancel);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);

    open_inbound(NULL);
    inbound.options.digest = KVR_DIGEST_FULL;
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL); /* its digests never come */
    inbound_request(&inbound, now, 0, &cancel);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILING), 1);
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
}

static void a_deadline_expires(void **state)
{
    (void)state;
    fetch(1, 0, 1);
    tick(60 * KVR_S);
    assert_int_equal(machine_notice(KVR_NOTICE_EXPIRED)->status, KVR_EXPIRED);
    assert_int_equal(machine_sent_count(KVR_MSG_CANCEL), 1); /* the source is freed too */
    assert_int_equal(inbound_live(&inbound), 0);
}

static void expires_before(const char *what)
{
    char detail[KVR_DETAIL_BYTES];

    tick(60 * KVR_S);
    snprintf(detail, sizeof(detail), "its deadline passed before %s (source agent 0)", what);
    assert_string_equal(machine_notice(KVR_NOTICE_FAILING)->detail, detail);
    assert_int_equal(open_inbound(NULL), 0);
}

/* The reason names the place to look at. */
static void a_deadline_says_what_did_not_come(void **state)
{
    uint64_t nonce;

    (void)state;
    inbound.peers[0].up = false;
    fetch(1, 0, 1);
    expires_before("its source answered");
    fetch(1, 0, 1);
    expires_before("its source published any of it");
    for (uint32_t handle = 2; handle < 2 + SLOTS; handle++)
        plan(1, fetch(handle, 1, 1));
    plan(0, fetch(1, 0, 1));
    for (uint32_t handle = 2; handle < 2 + SLOTS; handle++)
        fetch_find(&inbound, 0, handle)->deadline = KVR_NEVER;
    expires_before("there was room for it (--slots, --staging-memory)");
    plan(0, fetch(1, 0, 1));
    expires_before("its source published all of it");
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    final(0, nonce);
    expires_before("all of its writes came");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_inbound)
    const struct CMUnitTest tests[] = {
        CASE(a_failure_holds_the_pages_until_quiet),
        CASE(a_quiet_that_finds_no_memory_fails),
        CASE(a_failure_before_grant_ends_at_once),
        CASE(a_lost_peer_is_fenced),
        CASE(a_silent_source_is_fenced),
        CASE(counts_on_a_newer_epoch_are_awaited),
        CASE(a_source_that_goes_on_saying_quiet_is_fenced),
        CASE(the_latest_deadline_is_bounded),
        CASE(unknown_proves_nothing_about_bytes),
        CASE(unknown_ends_a_want_at_once),
        CASE(siblings_end_together),
        CASE(an_operator_cancels),
        CASE(an_operator_cancels_by_request),
        CASE(a_drained_agent_takes_no_fetch),
        CASE(cancel_is_legal_in_every_state),
        CASE(cancel_ends_every_wait),
        CASE(a_deadline_expires),
        CASE(a_deadline_says_what_did_not_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
