/* Goal: a failed fetch names the tokens that may be wrong: all without a LAYER_IN, and all tokens
 * where contents or plans are in doubt.
 * Method: inbound alone; the test is the engine, the source agents and the rail thread. The worlds
 * of sim.seeds compare these tokens with the bytes. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

static void layer_in(uint64_t nonce, uint32_t layer)
{
    union land_message message = {.head.kind = LAND_LAYER, .transfer = nonce, .layer.layer = layer};
    bool found = kvr_table_find(&inbound.by_nonce, nonce, &message.landing);

    assert_true(found);
    inbound_group(&inbound, now, &message.any);
}

static void drained(uint32_t peer, uint64_t nonce)
{
    quiet(peer, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
}

static void assert_missing(kvr_notice_kind kind, uint64_t token_first)
{
    assert_int_equal(machine_notice_count(kind), 1);
    assert_int_equal(machine_notice(kind)->token_first, token_first);
    assert_int_equal(machine_notice(kind)->token_end, SMALL_PLANNED);
}

static void what_was_refused_has_nothing(void **state)
{
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = 1};

    (void)state;
    open.target_open.tokens = SMALL_PLANNED;
    open.target_open.skip_tokens = 1;
    inbound_request(&inbound, now, 0, &open); /* the request names no source */
    assert_missing(KVR_NOTICE_FAILED, 1);
}

static void before_any_write_all_is_missing(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    reason(0, nonce, KVR_MSG_FAIL, KVR_NO_SOURCE);
    assert_missing(KVR_NOTICE_FAILED, 0);
}

/* One layer is not enough: a page is used in every layer. */
static void one_layer_of_two_saves_nothing(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    layer_in(nonce, 0);
    reason(0, nonce, KVR_MSG_FAIL, KVR_RAIL_FAILED);
    drained(0, nonce);
    assert_missing(KVR_NOTICE_FAILED, 0);
}

static void what_was_told_to_be_in_is_saved(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = 1};
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    layer_in(nonce, 1);
    layer_in(nonce, 0);
    inbound_request(&inbound, now, 0, &cancel);
    drained(0, nonce);
    assert_missing(KVR_NOTICE_CANCELLED, SMALL_PLANNED);
}

/* Each source has some heads of every page. */
static void every_source_must_have_given_it(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    plan(0, nonce);
    plan(1, nonce + 1);
    for (uint32_t layer = 0; layer < 2; layer++)
        layer_in(nonce, layer);
    layer_in(nonce + 1, 0);
    reason(1, nonce + 1, KVR_MSG_FAIL, KVR_RAIL_FAILED);
    drained(0, nonce);
    drained(1, nonce + 1);
    assert_missing(KVR_NOTICE_FAILED, 0);
}

/* A source that ended well still counts when the other one fails later. */
static void a_source_that_has_settled_counts(void **state)
{
    for (unsigned both = 0; both < 2; both++) {
        uint64_t nonce;

        open_inbound(state);
        nonce = fetch(1, 0, 2);
        plan(0, nonce);
        plan(1, nonce + 1);
        for (uint32_t layer = 0; layer < 2; layer++) {
            layer_in(nonce, layer);
            if (both != 0)
                layer_in(nonce + 1, layer);
        }
        final(0, nonce);
        group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
        group_closes(nonce);
        reason(1, nonce + 1, KVR_MSG_FAIL, KVR_RAIL_FAILED);
        drained(1, nonce + 1);
        assert_missing(KVR_NOTICE_FAILED, both != 0 ? SMALL_PLANNED : 0);
    }
}

static void doubtful_contents_save_nothing(void **state)
{
    static const kvr_status doubts[] = {KVR_ABORTED, KVR_REVOKED, KVR_INTERNAL, KVR_PLAN_MISMATCH};

    for (size_t i = 0; i < sizeof(doubts) / sizeof(doubts[0]); i++) {
        uint64_t nonce;

        open_inbound(state);
        nonce = fetch(1, 0, 1);
        plan(0, nonce);
        layer_in(nonce, 0);
        layer_in(nonce, 1);
        reason(0, nonce, KVR_MSG_FAIL, doubts[i]);
        drained(0, nonce);
        assert_missing(KVR_NOTICE_FAILED, 0);
    }
}

static void what_was_not_verified_saves_nothing(void **state)
{
    uint64_t nonce;

    (void)state;
    inbound.options.digest = KVR_DIGEST_SAMPLE;
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    layer_in(nonce, 0);
    layer_in(nonce, 1);
    reason(0, nonce, KVR_MSG_FAIL, KVR_RAIL_FAILED);
    drained(0, nonce);
    assert_missing(KVR_NOTICE_FAILED, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_inbound)
    const struct CMUnitTest tests[] = {
        CASE(what_was_refused_has_nothing),    CASE(before_any_write_all_is_missing),
        CASE(one_layer_of_two_saves_nothing),  CASE(what_was_told_to_be_in_is_saved),
        CASE(every_source_must_have_given_it), CASE(a_source_that_has_settled_counts),
        CASE(doubtful_contents_save_nothing),  CASE(what_was_not_verified_saves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
