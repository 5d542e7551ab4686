/* Goal: a chunk in staging memory counts as in place only when its copy ended, in any order.
 * Nothing is quiet while a copy writes. A failed copy ends in a reason. Method: land on a scripted
 * fabric and an emulated device, in virtual time. */
#include "tests/support/check.h"

#include "base/buddy.h"
#include "decode-agent/land.h"
#include "kv/chunk_digest.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_stage.h"

#define TRANSFER 42
#define SLOT     7
#define SHARE    (2 * SMALL_PAGE_BYTES) /* where the landing's quota begins */

static struct land land;
static struct land_stage staged;
static struct group_fixture fixture;
static struct small_side source, target;
static struct small_stage stage;
static struct kvr_buddy memory;
static struct landing landing;
static struct landing_segment segment;
static struct landing_quiet quiet;
static uint64_t bits[KVR_SLOT_CHUNKS / 64], taken[KVR_SLOT_CHUNKS / 64], positions[SMALL_CHUNKS];
static uint32_t left[SMALL_LAYERS];
static uint64_t ring; /* the landing's quota, in bytes */
static kvr_ns now;

static void tell_land(union land_message message)
{
    fixture_tell(&fixture, now, &message.any);
}

static bool told(uint32_t kind, union land_message *ret_message)
{
    return fixture_told(&fixture, kind, &ret_message->any);
}

static bool was_told(uint32_t kind)
{
    union land_message message;

    return told(kind, &message);
}

/* Its quota has room for ring_pages chunks. */
static void landing_open_ring(bool fail, uint32_t ring_pages)
{
    static uint8_t tables[8u << 20] __attribute__((aligned(64)));

    memset(&land, 0, sizeof(land));
    memset(&staged, 0, sizeof(staged));
    memset(&landing, 0, sizeof(landing));
    memset(&segment, 0, sizeof(segment));
    memset(bits, 0, sizeof(bits));
    memset(taken, 0, sizeof(taken));
    now = KVR_S;
    ring = (uint64_t)ring_pages * SMALL_PAGE_BYTES;
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, 2);
    small_side_init(&target, 2);
    small_stage_open(&stage, &target, 16, fail, &staged);
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 2, .ring_entries = 256, .user = land_user(&land)});
    land.group = fixture.group;
    segment.plan = small_plan_make(&source, &target, &memory);
    segment.left = left;
    segment.positions = positions;
    assert_true(kvr_plan_positions(segment.plan, ring, &segment.position_end, positions));
    landing.transfer = TRANSFER;
    landing.set = &target.set;
    landing.digest = KVR_DIGEST_FULL;
    landing.slots[0] = SLOT;
    landing.slot_count = 1;
    landing.bits = bits;
    landing.staging.taken = taken;
    landing.staging.stage = &stage.stage;
    landing.staging.offset = SHARE;
    landing.staging.bytes = ring;
    landing.staging.room_step = ring < SMALL_CHUNKS * SMALL_PAGE_BYTES ? SMALL_PAGE_BYTES : 0;
    tell_land(LAND_MESSAGE(LAND_OPEN, .opened = &landing));
    tell_land(LAND_MESSAGE(LAND_SEGMENT, .segment = &segment));
}

static void landing_open(bool fail)
{
    landing_open_ring(fail, SMALL_CHUNKS);
}

static void landing_end(void)
{
    assert_true(was_told(LAND_CLOSED));
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(fixture.group);
    small_stage_close(&stage);
}

/* The source's bytes of this chunk come in. */
static void chunk_arrives(uint32_t chunk)
{
    memset(stage.memory + SHARE + positions[chunk] % ring, 0x10 + (int)chunk, SMALL_PAGE_BYTES);
    arrive(fixture.rails[chunk % 2].newest, SLOT << 16 | chunk);
}

static void settle(void)
{
    fixture_settle(&fixture, now);
}

static void copies_end(void)
{
    assert_true(kvr_device_emulated_next(stage.stage.device) != KVR_NEVER);
    now = kvr_device_emulated_next(stage.stage.device) + 10 * SMALL_COPY_NS;
    settle();
}

static void check_page(uint32_t chunk)
{
    uint8_t expected[SMALL_PAGE_BYTES];

    memset(expected, 0x10 + (int)chunk, sizeof(expected));
    assert_memory_equal(small_chunk(&target, segment.plan, chunk, false), expected,
                        sizeof(expected));
}

static void quiet_of(uint64_t even, uint64_t odd)
{
    quiet = (struct landing_quiet){.round = 0, .count = 2};
    quiet.counts[0] = (struct kvr_epoch_count){.rail = 0, .epoch = 1, .count = even};
    quiet.counts[1] = (struct kvr_epoch_count){.rail = 1, .epoch = 1, .count = odd};
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = &quiet));
}

static void chunks_are_in_when_their_copy_ended(void **state)
{
    (void)state;
    landing_open(false);
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    for (uint32_t i = SMALL_CHUNKS; i-- > 0;)
        chunk_arrives(i);
    settle();
    assert_true(was_told(LAND_FIRST));
    assert_false(was_told(LAND_LAYER));
    assert_true(landing.staging.copying > 0);
    copies_end();
    assert_true(was_told(LAND_LAYER));
    assert_true(was_told(LAND_LAYER));
    assert_true(was_told(LAND_ALL));
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        check_page(i);
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

static void what_came_before_its_plan_is_copied_too(void **state)
{
    (void)state;
    landing_open(false);
    landing.first = landing.last = NULL; /* as if its PLAN were still on the way */
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        chunk_arrives(i);
    settle();
    assert_int_equal(landing.staging.copying, 0);
    tell_land(LAND_MESSAGE(LAND_SEGMENT, .segment = &segment));
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    copies_end();
    assert_true(was_told(LAND_ALL));
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        check_page(i);
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

static void nothing_is_quiet_while_a_copy_writes(void **state)
{
    (void)state;
    landing_open(false);
    chunk_arrives(0);
    chunk_arrives(1);
    settle();
    quiet_of(1, 1); /* nothing can arrive any more */
    assert_false(was_told(LAND_IS_QUIET));
    copies_end();
    assert_true(was_told(LAND_IS_QUIET));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

static void a_copy_that_fails_is_told_once_and_then_it_is_quiet(void **state)
{
    (void)state;
    landing_open(true);
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++) {
        chunk_arrives(i);
        settle();
    }
    quiet_of(SMALL_CHUNKS / 2, SMALL_CHUNKS / 2);
    assert_false(was_told(LAND_IS_QUIET));
    copies_end();
    assert_int_equal(landing.staging.copying, 0);
    assert_true(was_told(LAND_COPY_FAILED));
    assert_true(landing.arrived.state == QUIET_PROVEN);
    assert_false(landing.all_reported);
    assert_false(was_told(LAND_COPY_FAILED));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

static void an_engine_that_died_is_not_copied_to(void **state)
{
    (void)state;
    landing_open(false);
    chunk_arrives(0);
    settle();
    kvr_device_emulated_lose(stage.pages); /* in mid copy */
    chunk_arrives(1);
    settle();
    copies_end();
    assert_true(was_told(LAND_COPY_FAILED));
    quiet_of(1, 1);
    assert_true(was_told(LAND_IS_QUIET));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

static void it_closes_behind_its_last_copy(void **state)
{
    (void)state;
    landing_open(false);
    chunk_arrives(0);
    settle();
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    assert_false(was_told(LAND_CLOSED));
    copies_end();
    landing_end();
}

/* Everything has come and been copied, and the source's digests too. */
static struct landing_digest *digested_open_ring(uint32_t ring_pages)
{
    struct landing_digest *digest =
        calloc(1, sizeof(*digest) + SMALL_CHUNKS * sizeof(digest->values[0]));

    landing_open_ring(false, ring_pages);
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++) {
        chunk_arrives(i);
        if ((i + 1) % ring_pages != 0 && i + 1 < SMALL_CHUNKS)
            continue;
        settle();
        copies_end();
    }
    digest->chunk_count = digest->value_count = SMALL_CHUNKS;
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        digest->values[i] =
            kvr_chunk_digest(small_chunk(&target, segment.plan, i, false), SMALL_PAGE_BYTES, 0);
    tell_land(LAND_MESSAGE(LAND_DIGEST, .digest = digest));
    return digest;
}

static struct landing_digest *digested_open(void)
{
    return digested_open_ring(SMALL_CHUNKS);
}

static void digests_are_of_what_lies_in_the_pages(void **state)
{
    struct landing_digest *digest = digested_open();

    (void)state;
    memset(stage.memory + SHARE, 0, SMALL_CHUNKS * (size_t)SMALL_PAGE_BYTES);
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    assert_false(was_told(LAND_VERIFIED)); /* they are being read back */
    copies_end();
    assert_true(was_told(LAND_VERIFIED));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
    free(digest);
}

/* Reads back at most the bytes that lie side by side in the ring. */
static void what_is_read_back_goes_through_the_ring_too(void **state)
{
    struct landing_digest *digest = digested_open_ring(3);
    uint32_t copies = 0;

    (void)state;
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    for (; !was_told(LAND_VERIFIED); copies++)
        copies_end();
    assert_int_equal(copies, 3);
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
    free(digest);
}

static void a_copy_that_went_wrong_is_found(void **state)
{
    struct landing_digest *digest = digested_open();

    (void)state;
    ((uint8_t *)small_chunk(&target, segment.plan, SMALL_CHUNKS - 1, false))[7] ^= 1;
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    copies_end();
    assert_true(was_told(LAND_CORRUPT));
    assert_false(was_told(LAND_VERIFIED));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
    free(digest);
}

static void what_cannot_be_read_back_is_a_copy_that_failed(void **state)
{
    struct landing_digest *digest = digested_open();

    (void)state;
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    kvr_device_emulated_lose(stage.pages); /* in mid copy */
    copies_end();
    assert_true(was_told(LAND_COPY_FAILED));
    assert_false(was_told(LAND_VERIFIED));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
    free(digest);
}

/* Close waits for the last copy, also for one that reads back. */
static void it_closes_while_it_reads_back(void **state)
{
    struct landing_digest *digest = digested_open();

    (void)state;
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    assert_false(was_told(LAND_CLOSED));
    copies_end();
    landing_end();
    free(digest);
}

/* A chunk's bytes in the ring may be written again when its copy, and all copies before it, have
 * ended. */
static void room_is_told_when_the_copies_before_it_ended(void **state)
{
    union land_message message;

    (void)state;
    landing_open_ring(false, 3);
    chunk_arrives(1); /* out of order, and in a copy of its own */
    settle();
    copies_end();
    assert_false(was_told(LAND_ROOM)); /* chunk 0 is still to come */
    chunk_arrives(0);
    settle();
    assert_false(was_told(LAND_ROOM)); /* its copy is under way */
    copies_end();
    assert_true(told(LAND_ROOM, &message));
    assert_int_equal(message.position, 2 * SMALL_PAGE_BYTES);
    for (uint32_t i = 2; i < SMALL_CHUNKS; i++) {
        chunk_arrives(i);
        settle();
        copies_end();
        assert_true(told(LAND_ROOM, &message));
        assert_int_equal(message.position, (uint64_t)(i + 1) * SMALL_PAGE_BYTES);
        assert_false(was_told(LAND_ROOM));
    }
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        check_page(i);
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

/* Of several copies under way the one with the first chunk counts. */
static void room_ends_before_the_first_copy_under_way(void **state)
{
    union land_message message;

    (void)state;
    landing_open_ring(false, 4);
    for (uint32_t i = 0; i < 4; i++) {
        chunk_arrives(i);
        settle();
    }
    assert_true(landing.staging.copying > 1);
    while (kvr_device_emulated_next(stage.stage.device) != KVR_NEVER) {
        uint64_t least = UINT64_MAX;

        now = kvr_device_emulated_next(stage.stage.device);
        settle();
        for (uint32_t i = 0; i < KVR_DEVICE_COPIES_MAX; i++)
            if (staged.copies[i].landing == &landing && staged.copies[i].chunks[0] < least)
                least = staged.copies[i].chunks[0];
        if (landing.staging.copying > 0 && least == 0)
            assert_false(was_told(LAND_ROOM));
        else if (landing.staging.copying > 0 && told(LAND_ROOM, &message))
            assert_int_equal(message.position, least * SMALL_PAGE_BYTES);
    }
    assert_int_equal(landing.staging.room_reported, 4 * SMALL_PAGE_BYTES);
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

static void a_share_with_room_for_all_tells_of_none(void **state)
{
    (void)state;
    landing_open(false);
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        chunk_arrives(i);
    settle();
    copies_end();
    assert_false(was_told(LAND_ROOM));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    landing_end();
}

/* ---- several landings on a device that is slower than the wire ------------------------------- */

static struct landing newer;
static struct landing_segment newer_segment;
static uint64_t newer_bits[KVR_SLOT_CHUNKS / 64], newer_taken[KVR_SLOT_CHUNKS / 64];
static uint64_t newer_positions[SMALL_CHUNKS];
static uint32_t newer_left[SMALL_LAYERS];

static void tell_newer(union land_message message)
{
    message.landing = 1;
    fixture_tell(&fixture, now, &message.any);
}

/* Another landing has arrived whole. The device takes two copies of a chunk each. */
static void newer_arrives(void)
{
    stage.stage.device->copy_bytes = 1;
    memset(newer_bits, 0, sizeof(newer_bits));
    memset(newer_taken, 0, sizeof(newer_taken));
    memset(newer_left, 0, sizeof(newer_left));
    newer = (struct landing){.index = 1,
                             .transfer = TRANSFER + 1,
                             .set = &target.set,
                             .slots = {SLOT + 1},
                             .slot_count = 1,
                             .bits = newer_bits,
                             .staging.taken = newer_taken,
                             .staging.stage = &stage.stage,
                             .staging.bytes = SHARE};
    newer_segment = (struct landing_segment){
        .plan = segment.plan, .left = newer_left, .positions = newer_positions};
    assert_true(
        kvr_plan_positions(segment.plan, SHARE, &newer_segment.position_end, newer_positions));
    tell_newer(LAND_MESSAGE(LAND_OPEN, .opened = &newer));
    tell_newer(LAND_MESSAGE(LAND_SEGMENT, .segment = &newer_segment));
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        arrive(fixture.rails[0].newest, (SLOT + 1) << 16 | i);
    settle();
    assert_int_equal(newer.staging.copying, 2);
}

static void newer_ends(void)
{
    while (newer.in_count < SMALL_CHUNKS || landing.staging.copying > 0)
        copies_end();
    tell_newer(LAND_MESSAGE(LAND_CLOSE));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    assert_int_equal(land.open_count, 0);
    assert_null(land.staged_first);
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(fixture.group);
    small_stage_close(&stage);
}

static void no_landing_waits_for_the_end_of_another(void **state)
{
    (void)state;
    landing_open(false);
    newer_arrives();
    chunk_arrives(0);
    settle();
    copies_end();
    assert_int_equal(landing.staging.copying, 1);
    copies_end();
    assert_int_equal(landing.in_count, 1);
    assert_true(newer.staging.waiting > 0);
    newer_ends();
}

static void what_is_hashed_does_not_wait_for_all_that_arrives(void **state)
{
    struct landing_digest *digest = digested_open();

    (void)state;
    newer_arrives();
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    copies_end();
    copies_end();
    assert_true(landing.verify.read_end > 0);
    assert_true(newer.staging.waiting > 0);
    newer_ends();
    free(digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_in_when_their_copy_ended),
        cmocka_unit_test(what_came_before_its_plan_is_copied_too),
        cmocka_unit_test(nothing_is_quiet_while_a_copy_writes),
        cmocka_unit_test(a_copy_that_fails_is_told_once_and_then_it_is_quiet),
        cmocka_unit_test(an_engine_that_died_is_not_copied_to),
        cmocka_unit_test(it_closes_behind_its_last_copy),
        cmocka_unit_test(digests_are_of_what_lies_in_the_pages),
        cmocka_unit_test(what_is_read_back_goes_through_the_ring_too),
        cmocka_unit_test(a_copy_that_went_wrong_is_found),
        cmocka_unit_test(what_cannot_be_read_back_is_a_copy_that_failed),
        cmocka_unit_test(it_closes_while_it_reads_back),
        cmocka_unit_test(room_is_told_when_the_copies_before_it_ended),
        cmocka_unit_test(room_ends_before_the_first_copy_under_way),
        cmocka_unit_test(a_share_with_room_for_all_tells_of_none),
        cmocka_unit_test(no_landing_waits_for_the_end_of_another),
        cmocka_unit_test(what_is_hashed_does_not_wait_for_all_that_arrives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
