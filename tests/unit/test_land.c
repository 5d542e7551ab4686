/* Goal: land decides by bits what is here, and by counts whether more can come. It passes nothing
 * that the source's digests do not confirm. Method: land alone on a scripted fabric: arrivals and
 * the loop's commands in, messages out. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/buddy.h"
#include "decode-agent/land.h"
#include "kv/chunk_digest.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define MEMORY_BYTES (8u << 20)
#define TRANSFER     42
#define SLOT         7

static struct land land;
static struct group_fixture fixture;
static struct small_side source, target;
static struct kvr_buddy memory;
static struct landing landing;
static struct landing_segment segment;
static uint64_t bits[KVR_SLOT_CHUNKS / 64];
static uint32_t left[SMALL_LAYERS];
static kvr_ns now;

static int open_land(void **state)
{
    static uint8_t tables[MEMORY_BYTES] __attribute__((aligned(64)));

    (void)state;
    memset(&land, 0, sizeof(land));
    memset(&landing, 0, sizeof(landing));
    memset(&segment, 0, sizeof(segment));
    memset(bits, 0, sizeof(bits));
    now = KVR_S;
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, 2);
    small_side_init(&target, 2);
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 2, .ring_entries = 256, .user = land_user(&land)});
    land.group = fixture.group;
    return 0;
}

static int close_land(void **state)
{
    (void)state;
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(fixture.group);
    return 0;
}

static void step(void)
{
    fixture_settle(&fixture, now);
}

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

static void landing_open(kvr_digest_mode digest)
{
    landing.transfer = TRANSFER;
    landing.set = &target.set;
    landing.digest = digest;
    landing.slots[0] = SLOT;
    landing.slot_count = 1;
    landing.bits = bits;
    tell_land(LAND_MESSAGE(LAND_OPEN, .opened = &landing));
}

static void segment_add(void)
{
    segment.plan = small_plan_make(&source, &target, &memory);
    segment.left = left;
    tell_land(LAND_MESSAGE(LAND_SEGMENT, .segment = &segment));
}

static void chunk_lands(uint32_t rail, uint32_t chunk)
{
    arrive(fixture.rails[rail].newest, SLOT << 16 | chunk);
    step();
}

static void chunks_land(uint32_t first, uint32_t end)
{
    for (uint32_t chunk = first; chunk < end; chunk++)
        chunk_lands(chunk % 2, chunk);
}

static struct landing_quiet *quiet_of(uint32_t round, uint64_t count_0, uint64_t count_1)
{
    static struct landing_quiet quiet;

    quiet = (struct landing_quiet){
        .round = round, .count = 2, .counts = {{0, 1, count_0}, {1, 1, count_1}}};
    return &quiet;
}

/* Any order is right: bits before the segment that names them, layers as they complete. */
static void land_takes_any_order(void **state)
{
    union land_message message;

    (void)state;
    landing_open(KVR_DIGEST_OFF);
    chunk_lands(0, 5);
    assert_true(was_told(LAND_FIRST));
    segment_add();
    assert_false(was_told(LAND_LAYER));
    for (uint32_t chunk = SMALL_PLANNED; chunk < SMALL_CHUNKS; chunk++)
        chunk_lands(1, chunk);
    assert_true(told(LAND_LAYER, &message));
    assert_int_equal(message.layer.layer, 1); /* the second layer first */
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    assert_false(was_told(LAND_ALL));
    chunks_land(0, SMALL_PLANNED);
    assert_true(told(LAND_LAYER, &message));
    assert_int_equal(message.layer.layer, 0);
    assert_true(told(LAND_ALL, &message));
    assert_int_equal(message.chunks, SMALL_CHUNKS);
}

/* A chunk that arrives twice is one bit and two arrivals. */
static void land_counts_bits_not_arrivals(void **state)
{
    union land_message message;

    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    for (uint32_t i = 0; i < 2 * SMALL_CHUNKS; i++)
        chunk_lands(0, 3);
    assert_false(was_told(LAND_ALL));
    chunks_land(0, SMALL_CHUNKS);
    assert_true(was_told(LAND_ALL));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    assert_true(told(LAND_CLOSED, &message));
    assert_int_equal(message.closed.arrivals, 3 * SMALL_CHUNKS);
    assert_int_equal(message.closed.rails, 3);
}

static void land_refuses_chunks_beyond_the_last(void **state)
{
    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, SMALL_CHUNKS + 100); /* may be planned later */
    assert_false(was_told(LAND_BAD));
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    assert_true(was_told(LAND_BAD));
    chunk_lands(0, SMALL_CHUNKS);
    assert_false(was_told(LAND_BAD)); /* once: a peer decides how many of these come */
}

static void land_refuses_chunks_that_come_too_late(void **state)
{
    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    assert_false(was_told(LAND_BAD));
    chunk_lands(0, SMALL_CHUNKS);
    assert_true(was_told(LAND_BAD));
    chunk_lands(1, SMALL_CHUNKS + 1);
    assert_false(was_told(LAND_BAD));
}

/* Rule 4: equal counts, or a closed epoch; and only of the present round. */
static void land_is_quiet_by_counts(void **state)
{
    union land_message message;

    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 0);
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 2, 1)));
    assert_false(was_told(LAND_IS_QUIET));
    chunk_lands(0, 1);
    assert_false(was_told(LAND_IS_QUIET));
    chunk_lands(1, 2);
    assert_true(told(LAND_IS_QUIET, &message));
    assert_int_equal(message.round, 0);

    tell_land(LAND_MESSAGE(LAND_QUIET_VOID)); /* a MISSING was sent */
    chunk_lands(1, 3);
    assert_false(was_told(LAND_IS_QUIET));
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(1, 2, 2)));
    assert_true(told(LAND_IS_QUIET, &message));
    assert_int_equal(message.round, 1);
}

/* A repeated chunk was posted again, or reported twice: counts prove nothing there. */
static void land_distrusts_counts_after_a_repetition(void **state)
{
    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 0);
    chunk_lands(0, 0);
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 2, 0)));
    assert_false(was_told(LAND_IS_QUIET));
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(was_told(LAND_IS_QUIET));
}

static void land_is_quiet_by_closing(void **state)
{
    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(1, 0);
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 4, 1)));
    assert_false(was_told(LAND_IS_QUIET));
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(was_told(LAND_IS_QUIET));
}

/* The source does not name an epoch on which writes arrived: only closing proves quiet. */
static void land_distrusts_counts_that_name_too_little(void **state)
{
    struct landing_quiet quiet = {.count = 1, .counts = {{0, 1, 1}}};

    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 0);
    chunk_lands(1, 1);
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = &quiet));
    assert_false(was_told(LAND_IS_QUIET));
    command(&fixture, KVR_GROUP_RECYCLE, 1, NULL);
    assert_true(was_told(LAND_IS_QUIET));
}

/* One of the two writes of rail 0 is missing. */
static void quiet_too_early(void)
{
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 0);
    chunk_lands(1, 1);
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 2, 1)));
}

static void land_suspects_what_stays_uneven(void **state)
{
    union land_message message;

    (void)state;
    quiet_too_early();
    tell_land(LAND_MESSAGE(LAND_SUSPECTS, .suspects = {.quiet_ns = KVR_S}));
    assert_true(was_told(LAND_COMING)); /* it wrote there a moment ago */
    now += 2 * KVR_S;
    tell_land(LAND_MESSAGE(LAND_SUSPECTS, .suspects = {.quiet_ns = KVR_S}));
    assert_true(told(LAND_SUSPECT, &message));
    assert_int_equal(message.epoch.rail, 0);
    assert_int_equal(message.epoch.epoch, 1);
    assert_false(was_told(LAND_SUSPECT)); /* rail 1 is even */
}

/* The source has given up rail 0, whatever still comes in there. Rail 1 is uneven, too, and has
 * time. */
static void land_suspects_a_rail_that_was_given_up(void **state)
{
    union land_message message;

    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 0);
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 2, 1)));
    tell_land(LAND_MESSAGE(LAND_SUSPECTS, .suspects = {KVR_S, 1, ~UINT64_C(1)}));
    assert_true(told(LAND_SUSPECT, &message));
    assert_int_equal(message.epoch.rail, 0);
    assert_true(was_told(LAND_COMING));
    assert_false(was_told(LAND_SUSPECT));
}

/* During a second posting the expected counts are unknown. A suspicion could end a healthy
 * endpoint, with other transfers' writes. */
static void land_suspects_nothing_while_more_is_posted(void **state)
{
    (void)state;
    quiet_too_early();
    tell_land(LAND_MESSAGE(LAND_QUIET_VOID)); /* a MISSING was sent */
    now += 2 * KVR_S;
    tell_land(LAND_MESSAGE(LAND_SUSPECTS, .suspects = {KVR_S, UINT64_MAX, 0}));
    assert_false(was_told(LAND_SUSPECT));
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(1, 3, 1)));
    tell_land(LAND_MESSAGE(LAND_SUSPECTS, .suspects = {KVR_S, UINT64_MAX, 0}));
    assert_true(was_told(LAND_SUSPECT));
}

/* Rule 5: a write for a slot without an owner. */
static void land_counts_stale_writes(void **state)
{
    (void)state;
    arrive(fixture.rails[0].newest, (SLOT + 1) << 16);
    arrive(fixture.rails[0].newest, 5); /* slot 0: warm-up */
    step();
    assert_int_equal(atomic_load(&land.unexpected[0][UNEXPECTED_IDLE_SLOT]), 1);
    landing_open(KVR_DIGEST_OFF);
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    arrive(fixture.rails[1].newest, SLOT << 16);
    step();
    assert_int_equal(atomic_load(&land.unexpected[1][UNEXPECTED_IDLE_SLOT]), 1);
}

/* Rule 11: a copy from revoked pages counts for quiet, and sets no bit. A word that names another
 * transfer by now is not ours. */
static void land_counts_nothing_that_was_revoked(void **state)
{
    _Atomic uint64_t word;
    union land_message message;

    (void)state;
    landing.revocation_word = &word;
    kvr_revocation_word_lend(&word, TRANSFER);
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunks_land(0, 2);
    assert_false(was_told(LAND_REVOKED));
    kvr_revocation_word_lend(&word, TRANSFER + 1);
    chunk_lands(0, 2);
    assert_true(was_told(LAND_REVOKED));
    assert_int_equal(landing.chunk_count, 2);
    chunk_lands(1, 1);                    /* again: its first copy may be overwritten */
    assert_false(was_told(LAND_REVOKED)); /* once, though all later ones are revoked too */
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    tell_land(LAND_MESSAGE(LAND_CLOSE));
    assert_true(told(LAND_CLOSED, &message));
    assert_int_equal(message.closed.arrivals, 4);
}

/* A chunk without a bit looks like a repeated one: its counts prove nothing. */
static void land_takes_no_quiet_from_revoked_counts(void **state)
{
    _Atomic uint64_t word;

    (void)state;
    landing.revocation_word = &word;
    kvr_revocation_word_lend(&word, TRANSFER + 1);
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 2);
    chunk_lands(0, 2); /* and chunk 3 is still on its way */
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 2, 0)));
    assert_false(was_told(LAND_IS_QUIET));
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(was_told(LAND_IS_QUIET));
}

static unsigned flushes;
static kvr_status flush_status;

static kvr_status count_flush(struct kvr_device *device)
{
    (void)device;
    flushes++;
    return flush_status;
}

static const struct kvr_device_ops flushing = {.name = "flushing", .flush = count_flush};
static struct kvr_device flusher = {.ops = &flushing, .order = KVR_ORDER_FLUSHED};

/* A GPU that sees writes of cards after a flush: each layer is reported behind one. */
static void land_flushes_before_a_layer(void **state)
{
    (void)state;
    flushes = 0;
    flush_status = KVR_OK;
    landing.flushed = &flusher;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunks_land(0, SMALL_PLANNED - 1);
    assert_int_equal(flushes, 0);
    chunk_lands(0, SMALL_PLANNED - 1);
    assert_int_equal(flushes, 1);
    assert_true(was_told(LAND_LAYER));
    flush_status = KVR_SYSTEM;
    chunks_land(SMALL_PLANNED, SMALL_CHUNKS);
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    assert_int_equal(flushes, 2);
    assert_true(was_told(LAND_COPY_FAILED));
    assert_false(was_told(LAND_LAYER));
}

/* The same holds for a chunk with a failed move, which sets no bit either. */
static void land_takes_no_quiet_from_unmoved_counts(void **state)
{
    (void)state;
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    fake_push(fixture.rails[0].newest,
              (struct kvr_completion){.kind = KVR_COMPLETION_UNMOVED, .immediate = SLOT << 16 | 2});
    step();
    assert_true(was_told(LAND_COPY_FAILED));
    chunk_lands(0, 2); /* again, and chunk 3 is still on its way */
    tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, 2, 0)));
    assert_false(was_told(LAND_IS_QUIET));
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(was_told(LAND_IS_QUIET));
}

static void land_names_only_what_is_missing(void **state)
{
    struct landing_filter *filter =
        malloc(sizeof(*filter) + (SMALL_CHUNKS + 1) * sizeof(filter->runs[0]));
    union land_message message;

    (void)state;
    assert_non_null(filter);
    landing_open(KVR_DIGEST_OFF);
    segment_add();
    chunk_lands(0, 2);
    chunk_lands(0, 6);
    *filter = (struct landing_filter){.asked_count = 1, .capacity = SMALL_CHUNKS};
    filter->runs[SMALL_CHUNKS] = (struct kvr_chunk_run){.chunk_first = 1, .chunk_count = 6};
    tell_land(LAND_MESSAGE(LAND_FILTER, .filter = filter));
    assert_true(told(LAND_FILTERED, &message));
    assert_int_equal(filter->run_count, 2);
    assert_int_equal(filter->runs[0].chunk_first, 1);
    assert_int_equal(filter->runs[0].chunk_count, 1);
    assert_int_equal(filter->runs[1].chunk_first, 3);
    assert_int_equal(filter->runs[1].chunk_count, 3);
    free(filter);
}

/* Chunk 0 was posted on rail 0, which the source gives up: MISSING names it. Then it comes over
 * these rails. The others came over rail 1. Only one of two writes, of two pairs, leaves the counts
 * good; else the same write may have been counted twice, or the lost pair has one too many. */
static void a_second_posting_leaves_a_good_count(void **state)
{
    static const char *const rows[] = {"01", "11", "011", "10"};
    static struct landing_filter *filter;
    static uint64_t again[KVR_SLOT_CHUNKS / 64];

    for (unsigned row = 0; row < 4; row++) {
        uint64_t counts[2] = {0, SMALL_CHUNKS - 1};

        landing_open(KVR_DIGEST_OFF);
        segment_add();
        tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
        for (uint32_t chunk = 1; chunk < SMALL_CHUNKS; chunk++)
            chunk_lands(1, chunk);
        filter = kvr_buddy_alloc(&memory, sizeof(*filter) + 2 * sizeof(filter->runs[0]));
        *filter = (struct landing_filter){1, 0, 1, 0, 1, again};
        filter->runs[1] = (struct kvr_chunk_run){.chunk_first = 0, .chunk_count = 1};
        tell_land(LAND_MESSAGE(LAND_FILTER, .filter = filter));
        for (const char *rail = rows[row]; *rail != '\0'; rail++) {
            chunk_lands((uint32_t)(*rail - '0'), 0);
            counts[*rail - '0']++;
        }
        tell_land(LAND_MESSAGE(LAND_QUIET, .quiet = quiet_of(0, counts[0], counts[1])));
        assert_int_equal(was_told(LAND_IS_QUIET), row == 0);
        close_land(state);
        open_land(state);
    }
}

/* ---- digests --------------------------------------------------------------------------------- */

static struct landing_digest *digest_of(uint32_t first, uint32_t end)
{
    struct landing_digest *digest =
        kvr_buddy_alloc(&memory, sizeof(*digest) + (end - first) * sizeof(digest->values[0]));

    assert_non_null(digest);
    *digest = (struct landing_digest){.chunk_first = first, .chunk_count = end - first};
    for (uint32_t chunk = first; chunk < end; chunk++)
        if (kvr_digest_covers(landing.digest, TRANSFER, chunk))
            digest->values[digest->value_count++] = kvr_chunk_digest(
                small_chunk(&source, segment.plan, chunk, true), SMALL_PAGE_BYTES, 0);
    return digest;
}

/* Everything has landed as the source has it. The digests came in two messages. */
static void all_landed(kvr_digest_mode mode)
{
    landing_open(mode);
    segment_add();
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++) {
        memset(small_chunk(&source, segment.plan, chunk, true), (int)chunk + 1, SMALL_PAGE_BYTES);
        memset(small_chunk(&target, segment.plan, chunk, false), (int)chunk + 1, SMALL_PAGE_BYTES);
    }
    chunks_land(0, SMALL_CHUNKS);
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = SMALL_CHUNKS));
    tell_land(LAND_MESSAGE(LAND_DIGEST, .digest = digest_of(0, 3)));
    tell_land(LAND_MESSAGE(LAND_DIGEST, .digest = digest_of(3, SMALL_CHUNKS)));
}

static void land_verifies_what_landed(void **state)
{
    (void)state;
    all_landed(KVR_DIGEST_FULL);
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    assert_true(was_told(LAND_VERIFIED));
}

static void land_names_the_corrupt_chunk(void **state)
{
    union land_message message;

    (void)state;
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++) {
        if (chunk > 0) {
            close_land(NULL);
            open_land(NULL);
        }
        all_landed(KVR_DIGEST_FULL);
        small_chunk(&target, segment.plan, chunk, false)[SMALL_PAGE_BYTES - 1] ^= 1;
        tell_land(LAND_MESSAGE(LAND_VERIFY));
        assert_true(told(LAND_CORRUPT, &message));
        assert_int_equal(message.chunk, chunk);
        assert_false(was_told(LAND_VERIFIED));
    }
}

/* A sample reads only the chunks that it selects, and always the first. */
static void land_verifies_a_sample(void **state)
{
    (void)state;
    all_landed(KVR_DIGEST_SAMPLE);
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++)
        if (!kvr_digest_covers(KVR_DIGEST_SAMPLE, TRANSFER, chunk))
            small_chunk(&target, segment.plan, chunk, false)[0] ^= 1;
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    assert_true(was_told(LAND_VERIFIED));
    close_land(NULL);
    open_land(NULL);
    all_landed(KVR_DIGEST_SAMPLE);
    small_chunk(&target, segment.plan, 0, false)[0] ^= 1;
    tell_land(LAND_MESSAGE(LAND_VERIFY));
    assert_true(was_told(LAND_CORRUPT));
}

/* Cancelled during verification: none of its bytes are read any more. */
static void land_closes_while_it_verifies(void **state)
{
    const union land_message verify = LAND_MESSAGE(LAND_VERIFY), close = LAND_MESSAGE(LAND_CLOSE);

    (void)state;
    all_landed(KVR_DIGEST_FULL);
    assert_true(kvr_group_command(fixture.group, &verify.any));
    assert_true(kvr_group_command(fixture.group, &close.any));
    step();
    assert_true(was_told(LAND_CLOSED));
    assert_false(was_told(LAND_VERIFIED));
    assert_null(land.verify_first);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_land, close_land)
    const struct CMUnitTest tests[] = {
        CASE(land_takes_any_order),
        CASE(land_counts_bits_not_arrivals),
        CASE(land_refuses_chunks_beyond_the_last),
        CASE(land_refuses_chunks_that_come_too_late),
        CASE(land_is_quiet_by_counts),
        CASE(land_distrusts_counts_after_a_repetition),
        CASE(land_is_quiet_by_closing),
        CASE(land_distrusts_counts_that_name_too_little),
        CASE(land_suspects_what_stays_uneven),
        CASE(land_suspects_a_rail_that_was_given_up),
        CASE(land_suspects_nothing_while_more_is_posted),
        CASE(land_counts_stale_writes),
        CASE(land_counts_nothing_that_was_revoked),
        CASE(land_takes_no_quiet_from_revoked_counts),
        CASE(land_flushes_before_a_layer),
        CASE(land_takes_no_quiet_from_unmoved_counts),
        CASE(land_names_only_what_is_missing),
        CASE(a_second_posting_leaves_a_good_count),
        CASE(land_verifies_what_landed),
        CASE(land_names_the_corrupt_chunk),
        CASE(land_verifies_a_sample),
        CASE(land_closes_while_it_verifies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
