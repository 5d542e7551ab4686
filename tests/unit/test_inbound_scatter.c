/* Goal: what a source may have land in staging memory though cards reach the pages: only what was
 * offered, with that memory's own keys, and not before the memory is there; and of what is more
 * than its share only so much at once as nothing can overwrite that is not in the pages yet.
 * Method: inbound alone; the test is the sources and the agent. */
#include "tests/support/check.h"

#include "device/stage.h"
#include "tests/support/inbound_case.h"

#define ROOM (64 * SMALL_PAGE_BYTES)

static struct kvr_stage stage;
static struct kvr_region pinned;

static int open_scattering(void **state)
{
    (void)open_inbound(state);
    inbound.options.stage_bytes = ROOM;
    pinned = (struct kvr_region){.rail_count = 2, .keys = {{11, 12}, {21, 22}}};
    stage = (struct kvr_stage){.bytes = ROOM, .pinned = &pinned};
    return 0;
}

static void stage_opened(kvr_status status)
{
    target.region.stage = status == KVR_OK ? &stage : NULL;
    inbound_registered(&inbound, now, machine_log.registered_id, status);
}

static void fragments_land_in_staging_memory(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    const struct kvr_msg_grant *grant;
    const struct landing *landing;

    (void)state;
    assert_false(machine_sent(KVR_MSG_WANT)->want.staged);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, ROOM);
    plan_to_share(0, nonce);
    assert_int_equal(machine_log.stages_asked, 1);
    tick(KVR_S);
    assert_false(granted(nonce));
    stage_opened(KVR_OK);
    assert_true(granted(nonce));
    grant = &machine_sent(KVR_MSG_GRANT)->grant;
    assert_true(grant->share_bytes >= SMALL_CHUNKS * SMALL_PAGE_BYTES);
    assert_int_equal(grant->share_key_count, 2);
    assert_ptr_equal(grant->share_keys, pinned.keys);
    landing = machine_command(LAND_OPEN)->pointer;
    assert_ptr_equal(landing->stage, &stage);
    assert_non_null(landing->taken);
}

/* Its pages are written, though another's are copied. */
static void who_does_not_ask_for_it_writes_the_pages(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage_opened(KVR_OK);
    plan(0, nonce);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.share_bytes, 0);
    assert_null(((const struct landing *)machine_command(LAND_OPEN)->pointer)->stage);
}

static void fails(uint64_t nonce, kvr_status status)
{
    const struct kvr_message *sent = machine_sent(KVR_MSG_CANCEL);

    assert_false(granted(nonce));
    assert_non_null(sent);
    assert_int_equal(sent->reason.status, status);
}

static void what_was_not_offered_is_refused(void **state)
{
    uint64_t nonce;

    (void)state;
    inbound.options.stage_bytes = 0;
    nonce = fetch(1, 0, 1);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, 0);
    plan_to_share(0, nonce);
    fails(nonce, KVR_MALFORMED);
}

static void less_than_one_write_is_refused(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage.bytes = SMALL_PAGE_BYTES - 1;
    plan_to_share(0, nonce);
    stage_opened(KVR_OK);
    fails(nonce, KVR_TOO_LARGE);
}

/* A fetch whose share is a ring of this many pages; its nonce. */
static uint64_t fetch_through(uint32_t pages)
{
    uint64_t nonce = fetch(1, 0, 1);

    stage.bytes = pages * (uint64_t)SMALL_PAGE_BYTES;
    plan_to_share(0, nonce);
    stage_opened(KVR_OK);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.share_bytes, stage.bytes);
    return nonce;
}

static void assert_room(uint32_t round, uint32_t pages)
{
    const struct kvr_message *sent = machine_sent(KVR_MSG_ROOM);

    assert_int_equal(machine_sent_count(KVR_MSG_ROOM), round);
    assert_int_equal(machine_command_count(LAND_LOUD), round);
    assert_int_equal(sent->room.round, round);
    assert_int_equal(sent->room.position_end, pages * (uint64_t)SMALL_PAGE_BYTES);
}

static void what_is_in_the_pages_makes_room(void **state)
{
    uint64_t nonce = fetch_through(3);

    (void)state;
    assert_int_equal(((const struct landing *)machine_command(LAND_OPEN)->pointer)->room_step,
                     3 * SMALL_PAGE_BYTES / 4);
    group_says(nonce, LAND_ROOM, SMALL_PAGE_BYTES, NULL);
    assert_room(1, 4);
    group_says(nonce, LAND_ROOM, 3 * (uint64_t)SMALL_PAGE_BYTES, NULL);
    assert_room(2, 6);
    final(0, nonce);
    group_says(nonce, LAND_ROOM, 5 * (uint64_t)SMALL_PAGE_BYTES, NULL);
    assert_room(3, 8);
    group_says(nonce, LAND_ROOM, 7 * (uint64_t)SMALL_PAGE_BYTES, NULL);
    assert_room(3, 8); /* all of it has room */
}

/* One ring of one write: then there is room after each. */
static void a_share_of_one_write_is_enough(void **state)
{
    uint64_t nonce = fetch_through(1);

    (void)state;
    assert_int_equal(((const struct landing *)machine_command(LAND_OPEN)->pointer)->room_step, 1);
    group_says(nonce, LAND_ROOM, SMALL_PAGE_BYTES, NULL);
    assert_room(1, 2);
}

/* What the source said of rest before there was more room says nothing of what it posts then. */
static void room_voids_the_quiet_before_it(void **state)
{
    uint64_t nonce = fetch_through(3);

    (void)state;
    quiet(0, nonce, 0);
    group_says(nonce, LAND_ROOM, SMALL_PAGE_BYTES, NULL);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    reason(0, nonce, KVR_MSG_CANCEL, KVR_CANCELLED);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 0);
    quiet(0, nonce, 0);
    assert_int_equal(machine_command_count(LAND_QUIET), 1);
    quiet(0, nonce, 1);
    group_says(nonce, LAND_IS_QUIET, 1, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
}

/* Chunks 1 and 2 are missing, and asked for: what of them was posted before may still land. */
static void lose(uint64_t nonce)
{
    static const struct kvr_chunk_run runs[1] = {{0, 3}};
    struct kvr_message message = {.kind = KVR_MSG_RAIL_LOST, .transfer = nonce};
    struct landing_filter *filter;

    message.rail_lost = (struct kvr_msg_rail_lost){.epoch = 1, .runs = runs, .run_count = 1};
    inbound_message(&inbound, now, 0, &message);
    filter = machine_command(LAND_FILTER)->pointer;
    filter->run_count = 1;
    filter->runs[0] = (struct kvr_chunk_run){1, 2};
    group_says(nonce, LAND_FILTERED, 0, filter);
}

static void after_a_second_posting_there_is_room_when_all_is_quiet(void **state)
{
    uint64_t nonce = fetch_through(3);

    (void)state;
    lose(nonce);
    assert_int_equal(machine_sent(KVR_MSG_MISSING)->missing.round, 1);
    group_says(nonce, LAND_ROOM, 3 * (uint64_t)SMALL_PAGE_BYTES, NULL);
    assert_int_equal(machine_sent_count(KVR_MSG_ROOM), 0);
    quiet(0, nonce, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_ROOM), 0);
    group_says(nonce, LAND_IS_QUIET, 1, NULL);
    assert_int_equal(machine_sent_count(KVR_MSG_ROOM), 1);
    assert_int_equal(machine_sent(KVR_MSG_ROOM)->room.round, 2);
    assert_int_equal(machine_sent(KVR_MSG_ROOM)->room.position_end, 6 * (uint64_t)SMALL_PAGE_BYTES);
    /* Nothing of before can land now: what is posted once is as good as ever. */
    group_says(nonce, LAND_ROOM, 4 * (uint64_t)SMALL_PAGE_BYTES, NULL);
    assert_int_equal(machine_sent(KVR_MSG_ROOM)->room.round, 3);
}

static void who_failed_gets_no_more_room(void **state)
{
    uint64_t nonce = fetch_through(3);

    (void)state;
    reason(0, nonce, KVR_MSG_CANCEL, KVR_CANCELLED);
    group_says(nonce, LAND_ROOM, SMALL_PAGE_BYTES, NULL);
    assert_int_equal(machine_sent_count(KVR_MSG_ROOM), 0);
}

/* However long one is, others have their parts. */
static void nobody_has_all_of_the_memory(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage.bytes = 40 * (uint64_t)SMALL_PAGE_BYTES;
    plan_to_share(0, nonce);
    stage_opened(KVR_OK);
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.share_bytes, 5 * SMALL_PAGE_BYTES);
}

/* What was promised and cannot be had fails one transfer; no other is promised it for a while. */
static void without_the_memory_it_is_not_offered_for_a_while(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_to_share(0, nonce);
    stage_opened(KVR_NO_MEMORY);
    fails(nonce, KVR_NO_MEMORY);
    fetch(2, 1, 1);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, 0);
    tick(KVR_STAGE_RETRY_NS);
    fetch(3, 2, 1);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, ROOM);
}

/* Another's failure breaks no promise: it is tried again for it. */
static void what_was_offered_holds(void **state)
{
    uint64_t first = fetch(1, 0, 1), second = fetch(2, 1, 1);

    (void)state;
    plan_to_share(0, first);
    stage_opened(KVR_NO_MEMORY);
    fails(first, KVR_NO_MEMORY);
    plan_to_share(1, second);
    assert_int_equal(machine_log.stages_asked, 2);
    stage_opened(KVR_OK);
    assert_true(granted(second));
}

/* As the engine, of what was granted last or waits. */
static void give_up(uint64_t handle)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = handle};

    inbound_request(&inbound, now, 0, &cancel);
}

static void lands(uint64_t nonce)
{
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    group_closes(nonce);
}

/* The oldest fetch is next, whoever's PLAN came first and whatever else waits; one that was given
 * up is in nobody's way. */
static void shares_go_to_the_oldest_fetch(void **state)
{
    static const uint32_t order[] = {1, 2, 4, 5};
    uint64_t nonces[6];

    (void)state;
    inbound_begin(16);
    inbound.options.stage_bytes = ROOM;
    stage.bytes = 4 * (uint64_t)SMALL_PAGE_BYTES; /* one share */
    for (uint32_t i = 1; i < 6; i++)
        nonces[i] = fetch(i, 0, 1);
    stage_opened(KVR_OK);
    plan_to_share(0, nonces[1]);
    assert_true(granted(nonces[1]));
    for (uint32_t i = 5; i > 1; i--)
        plan_to_share(0, nonces[i]);
    give_up(3);
    tick(KVR_MS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(machine_sent_count(KVR_MSG_GRANT), i + 1);
        assert_true(granted(nonces[order[i]]));
        lands(nonces[order[i]]);
    }
    assert_int_equal(inbound_live(&inbound), 0);
    assert_null(inbound.pools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fragments_land_in_staging_memory, open_scattering),
        cmocka_unit_test_setup(who_does_not_ask_for_it_writes_the_pages, open_scattering),
        cmocka_unit_test_setup(what_was_not_offered_is_refused, open_scattering),
        cmocka_unit_test_setup(less_than_one_write_is_refused, open_scattering),
        cmocka_unit_test_setup(what_is_in_the_pages_makes_room, open_scattering),
        cmocka_unit_test_setup(a_share_of_one_write_is_enough, open_scattering),
        cmocka_unit_test_setup(room_voids_the_quiet_before_it, open_scattering),
        cmocka_unit_test_setup(after_a_second_posting_there_is_room_when_all_is_quiet,
                               open_scattering),
        cmocka_unit_test_setup(who_failed_gets_no_more_room, open_scattering),
        cmocka_unit_test_setup(nobody_has_all_of_the_memory, open_scattering),
        cmocka_unit_test_setup(without_the_memory_it_is_not_offered_for_a_while, open_scattering),
        cmocka_unit_test_setup(what_was_offered_holds, open_scattering),
        cmocka_unit_test_setup(shares_go_to_the_oldest_fetch, open_scattering),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
