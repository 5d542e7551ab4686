/* Goal: a source may write into staging memory, though cards reach the pages, only as offered: with
 * that memory's own keys, and not before the memory is there. A transfer larger than its quota gets
 * room only where all earlier bytes are in the pages. Method: inbound alone; the test plays the
 * sources and the agent. */
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
    assert_true(grant->quota_bytes >= SMALL_CHUNKS * SMALL_PAGE_BYTES);
    assert_int_equal(grant->quota_key_count, 2);
    assert_ptr_equal(grant->quota_keys, pinned.keys);
    landing = land_commanded(LAND_OPEN).opened;
    assert_ptr_equal(landing->staging.stage, &stage);
    assert_non_null(landing->staging.taken);
}

/* Its pages are written, though those of another source are copied. */
static void who_does_not_ask_for_it_writes_the_pages(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage_opened(KVR_OK);
    plan(0, nonce);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.quota_bytes, 0);
    assert_null(land_commanded(LAND_OPEN).opened->staging.stage);
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

/* Opens a fetch with a quota that is a ring of this many pages; returns its nonce. */
static uint64_t fetch_through(uint32_t pages)
{
    uint64_t nonce = fetch(1, 0, 1);

    stage.bytes = pages * (uint64_t)SMALL_PAGE_BYTES;
    plan_to_share(0, nonce);
    stage_opened(KVR_OK);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.quota_bytes, stage.bytes);
    return nonce;
}

static void assert_room(uint32_t round, uint32_t pages)
{
    const struct kvr_message *sent = machine_sent(KVR_MSG_ROOM);

    assert_int_equal(machine_sent_count(KVR_MSG_ROOM), round);
    assert_int_equal(machine_command_count(LAND_QUIET_VOID), round);
    assert_int_equal(sent->room.round, round);
    assert_int_equal(sent->room.position_end, pages * (uint64_t)SMALL_PAGE_BYTES);
}

static void what_is_in_the_pages_makes_room(void **state)
{
    uint64_t nonce = fetch_through(3);

    (void)state;
    assert_int_equal(land_commanded(LAND_OPEN).opened->staging.room_step, 3 * SMALL_PAGE_BYTES / 4);
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

/* A ring of one write: then there is room after each write. */
static void a_share_of_one_write_is_enough(void **state)
{
    uint64_t nonce = fetch_through(1);

    (void)state;
    assert_int_equal(land_commanded(LAND_OPEN).opened->staging.room_step, 1);
    group_says(nonce, LAND_ROOM, SMALL_PAGE_BYTES, NULL);
    assert_room(1, 2);
}

/* A QUIET before there was more room does not cover later posts. */
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

/* Chunks 1 and 2 are missing, and asked for: their earlier writes may still land. */
static void lose(uint64_t nonce)
{
    static const struct kvr_chunk_run runs[1] = {{0, 3}};
    struct kvr_message message = {.kind = KVR_MSG_RAIL_LOST, .transfer = nonce};
    struct landing_filter *filter;

    message.rail_lost = (struct kvr_msg_rail_lost){.epoch = 1, .runs = runs, .run_count = 1};
    inbound_message(&inbound, now, 0, &message);
    filter = land_commanded(LAND_FILTER).filter;
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
    /* No earlier write can land now, so a single posting is trusted again. */
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

/* However long a transfer is, others have their parts. */
static void nobody_has_all_of_the_memory(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage.bytes = 40 * (uint64_t)SMALL_PAGE_BYTES;
    plan_to_share(0, nonce);
    stage_opened(KVR_OK);
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.quota_bytes, 5 * SMALL_PAGE_BYTES);
}

/* Without promised memory one transfer fails; for a while it is not offered to others. */
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

/* Another transfer's failure breaks no promise: the memory is tried again. */
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

/* As the engine: of the fetch that was granted last, or waits. */
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

/* The oldest fetch is next, whichever PLAN came first and whatever else waits. A cancelled fetch
 * blocks no other. */
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
