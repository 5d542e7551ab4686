/* Goal: the layer notices of a fetch, over all its source ranks and KV groups; and the check that
 * the sources together give everything. Method: inbound alone, with recorded ports. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

/* The source gives nothing of the KV group: another does. */
static void none(uint32_t peer, uint64_t nonce, uint32_t segment, uint32_t group)
{
    struct kvr_message message = {.kind = KVR_MSG_PLAN, .transfer = nonce};

    message.plan = (struct kvr_msg_plan){.segment = segment,
                                         .token_end = SMALL_PLANNED,
                                         .source = machine_rank((uint8_t)(10 + peer)),
                                         .limits = {1, 1, SMALL_PAGE_BYTES, false},
                                         .group = group,
                                         .none = true};
    inbound_message(&inbound, now, peer, &message);
}

static void final_of_none(uint32_t peer, uint64_t nonce)
{
    struct kvr_message message = {.kind = KVR_MSG_FINAL, .transfer = nonce};

    message.final = (struct kvr_msg_final){.segment_count = 1, .token_end = SMALL_PLANNED};
    inbound_message(&inbound, now, peer, &message);
}

/* Both have all heads of all layers here; either may come first. */
static void a_layer_waits_for_every_source(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);
    const struct kvr_notice *told;

    (void)state;
    plan(0, nonce);
    group_says(nonce, LAND_LAYER, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 0); /* the other may have it too */
    plan(1, nonce + 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 0);
    group_says(nonce + 1, LAND_LAYER, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 1);
    told = machine_notice(KVR_NOTICE_LAYER_IN);
    assert_int_equal(told->layer_first, 0);
    assert_int_equal(told->layer_count, 1);
    assert_int_equal(told->token_first, 0);
    assert_int_equal(told->token_end, SMALL_PLANNED);
}

/* It settles at its last message, and takes no slot. */
static void who_gives_nothing_holds_nothing_back(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    plan(0, nonce);
    group_says(nonce, LAND_LAYER, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 0);
    none(1, nonce + 1, 0, 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 1);
    assert_false(granted(nonce + 1));
    final_of_none(1, nonce + 1);
    assert_int_equal(machine_sent(KVR_MSG_LANDED)->transfer, nonce + 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_DONE)->bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES);
    group_closes(nonce);
    assert_int_equal(inbound.free_count, SLOTS);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* This is known before a plan is made: no slot is kept for it. */
static void who_gives_nothing_needs_no_slot(void **state)
{
    uint64_t nonce = fetch(1, 0, 3);

    (void)state;
    none(1, nonce + 1, 0, 0);
    none(2, nonce + 2, 0, 0);
    plan(0, nonce);
    assert_true(granted(nonce));
    assert_int_equal(inbound.free_count, SLOTS - 1);
}

static void together_they_must_give_all(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    none(0, nonce, 0, 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILING), 0);
    none(1, nonce + 1, 0, 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INCOMPATIBLE);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "no source has it"));
    assert_int_equal(inbound_live(&inbound), 0);
}

/* Also when the first has settled and closed before the last announces its part. */
static void what_has_settled_is_remembered(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    none(0, nonce, 0, 0);
    final_of_none(0, nonce);
    assert_int_equal(machine_sent_count(KVR_MSG_LANDED), 1);
    none(1, nonce + 1, 0, 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INCOMPATIBLE);
}

static void what_a_source_gives_does_not_change(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    none(0, nonce, 1, 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_PLAN_MISMATCH);
}

static void a_group_that_the_target_has_not_is_refused(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    none(0, nonce, 0, 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_MALFORMED);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* ---- what an engine says of groups ----------------------------------------------------------- */

static void pages(uint64_t handle, uint32_t group, uint32_t first, uint32_t count)
{
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};
    struct kvr_request request = {.kind = KVR_REQ_TARGET_PAGES, .handle = handle};

    request.pages = (struct kvr_req_pages){
        .group = group, .page_first = first, .ids = ids + first, .id_count = count};
    inbound_request(&inbound, now, 0, &request);
}

static void skip_group(uint64_t handle, uint32_t group, uint64_t tokens)
{
    struct kvr_request request = {.kind = KVR_REQ_TARGET_SKIP, .handle = handle};

    request.skip = (struct kvr_req_skip){.group = group, .skip_tokens = tokens};
    inbound_request(&inbound, now, 0, &request);
}

static void open_alone(uint64_t handle)
{
    struct kvr_source_address from = {
        .agent = "0", .engine = machine_rank(10).engine, .generation = 1};
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = handle};

    open.target_open.request[0] = 'r';
    open.target_open.tokens = SMALL_PLANNED;
    open.target_open.sources = &from;
    open.target_open.source_count = 1;
    inbound_request(&inbound, now, 0, &open);
}

static void what_is_skipped_of_a_group_is_said_first(void **state)
{
    (void)state;
    open_alone(1);
    skip_group(1, 0, 2);
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
    pages(1, 0, 0, 2);
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
    assert_int_equal(machine_sent(KVR_MSG_PAGES)->pages.page_first, 0);
    pages(1, 0, 2, 2); /* later: to a source that has begun */
    assert_int_equal(machine_sent_count(KVR_MSG_PAGES), 2);
    assert_int_equal(machine_sent(KVR_MSG_PAGES)->pages.page_first, 2);
    skip_group(1, 0, 3);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_INVALID);

    open_alone(2);
    skip_group(2, 0, SMALL_PLANNED + 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INVALID);
    open_alone(3);
    pages(3, 1, 0, 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INCOMPATIBLE);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "KV group 1"));
}

/* From token 2 on, as the skip said: a plan from 0 is another one's. */
static void a_plan_begins_behind_what_is_skipped(void **state)
{
    (void)state;
    open_alone(1);
    skip_group(1, 0, 2);
    pages(1, 0, 0, SMALL_PLANNED);
    plan(0, inbound.nonces.given);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_PLAN_MISMATCH);
}

/* Both sides plan, and a source that planned otherwise would write elsewhere. */
static void a_plan_that_is_not_ours_is_refused(void **state)
{
    size_t used = inbound.memory->used_bytes;
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_of_another(0, nonce);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_PLAN_MISMATCH);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 0);
    assert_int_equal(inbound.memory->used_bytes, used); /* all of it came back, and once */
}

/* ---- the word ------------------------------------------------------------------------------- */

#define WORD 7
#define BASE 100

static void watch(uint64_t handle, uint32_t word, uint64_t base)
{
    struct kvr_request request = {.kind = KVR_REQ_WATCH, .handle = handle};

    request.watch = (struct kvr_req_watch){.word = word, .base = base};
    inbound_request(&inbound, now, 0, &request);
}

static uint64_t landed(uint32_t word)
{
    return atomic_load(&inbound.engines.local[0].page->landed[word]);
}

static void layer_lands(uint64_t nonce, uint64_t layer)
{
    union land_message message = {.head.kind = LAND_LAYER, .transfer = nonce, .layer.layer = layer};

    assert_true(kvr_table_find(&inbound.by_nonce, nonce, &message.landing));
    inbound_group(&inbound, now, &message.any);
}

static int open_unwatched(void **state)
{
    int failed = open_inbound(state);

    memset(inbound.engines.local[0].page->landed, 0, sizeof(inbound.engines.local[0].page->landed));
    return failed;
}

/* The second layer counts when the first is there, too. */
static void a_word_counts_layers_that_are_in_place(void **state)
{
    uint64_t nonce = fetch(1, 0, 2);

    (void)state;
    watch(1, WORD, BASE);
    plan(0, nonce);
    plan(1, nonce + 1);
    assert_int_equal(landed(WORD), BASE);
    layer_lands(nonce, 1);
    layer_lands(nonce + 1, 1);
    layer_lands(nonce, 0);
    assert_int_equal(landed(WORD), BASE);
    layer_lands(nonce + 1, 0);
    assert_int_equal(landed(WORD), BASE + 2);
    assert_int_equal(landed(0), 0);
}

/* A word bound late at once counts the layers that are in; after a good end, all layers. */
static void a_word_may_be_named_late(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    layer_lands(nonce, 0);
    watch(1, WORD, BASE);
    assert_int_equal(landed(WORD), BASE + 1);
    layer_lands(nonce, 1);
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    assert_int_equal(landed(WORD), BASE + SMALL_LAYERS);
    watch(1, WORD + 1, BASE); /* it has ended */
    assert_int_equal(landed(WORD + 1), 0);
}

/* While the fetch fails its pages are lent: readers of the word wait on, until it has failed. */
static void a_word_says_that_a_fetch_has_failed(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = 1};
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    watch(1, WORD, BASE);
    plan(0, nonce);
    layer_lands(nonce, 0);
    inbound_request(&inbound, now, 0, &cancel);
    layer_lands(nonce, 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 0);
    assert_int_equal(landed(WORD), BASE + 1);
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
    assert_int_equal(landed(WORD), BASE + KVR_LANDED_FAILED);
}

static void a_word_never_falls(void **state)
{
    (void)state;
    atomic_store(&inbound.engines.local[0].page->landed[WORD], BASE + 50);
    (void)fetch(1, 0, 1);
    watch(1, WORD, BASE);
    assert_int_equal(landed(WORD), BASE + 50);
    watch(1, WORD, BASE); /* once for a fetch */
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_INVALID);
    (void)fetch(2, 1, 1);
    watch(2, KVR_WORDS_MAX, 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILING), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_layer_waits_for_every_source, open_inbound),
        cmocka_unit_test_setup(who_gives_nothing_holds_nothing_back, open_inbound),
        cmocka_unit_test_setup(who_gives_nothing_needs_no_slot, open_inbound),
        cmocka_unit_test_setup(together_they_must_give_all, open_inbound),
        cmocka_unit_test_setup(what_has_settled_is_remembered, open_inbound),
        cmocka_unit_test_setup(what_a_source_gives_does_not_change, open_inbound),
        cmocka_unit_test_setup(a_group_that_the_target_has_not_is_refused, open_inbound),
        cmocka_unit_test_setup(what_is_skipped_of_a_group_is_said_first, open_inbound),
        cmocka_unit_test_setup(a_plan_begins_behind_what_is_skipped, open_inbound),
        cmocka_unit_test_setup(a_plan_that_is_not_ours_is_refused, open_inbound),
        cmocka_unit_test_setup(a_word_counts_layers_that_are_in_place, open_unwatched),
        cmocka_unit_test_setup(a_word_may_be_named_late, open_unwatched),
        cmocka_unit_test_setup(a_word_says_that_a_fetch_has_failed, open_unwatched),
        cmocka_unit_test_setup(a_word_never_falls, open_unwatched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
