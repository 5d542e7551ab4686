/* Goal: each rail counts the bytes that came over it, also those of chunks that came before their
 * PLAN. Method: land alone on a scripted fabric, as in unit.land. */
#include "tests/support/check.h"

#include "base/buddy.h"
#include "decode-agent/land.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define MEMORY_BYTES (1u << 20)
#define SLOT         7

static struct land land;
static struct group_fixture fixture;
static struct small_side source, target;
static struct kvr_buddy memory;
static struct landing landing;
static struct landing_segment segment;
static uint64_t bits[KVR_SLOT_CHUNKS / 64];
static uint32_t left[SMALL_LAYERS];
static struct kvr_rail_span spans[KVR_RAILS_MAX];

static void tell_land(union land_message message)
{
    fixture_tell(&fixture, KVR_S, &message.any);
}

static int open_land(void **state)
{
    static uint8_t tables[MEMORY_BYTES] __attribute__((aligned(64)));

    (void)state;
    memset(&land, 0, sizeof(land));
    memset(bits, 0, sizeof(bits));
    memset(spans, 0, sizeof(spans));
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, 2);
    small_side_init(&target, 2);
    segment =
        (struct landing_segment){.plan = small_plan_make(&source, &target, &memory), .left = left};
    landing = (struct landing){.transfer = 42,
                               .set = &target.set,
                               .slots[0] = SLOT,
                               .slot_count = 1,
                               .bits = bits,
                               .arrived.spans = spans};
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 2, .ring_entries = 256, .user = land_user(&land)});
    land.group = fixture.group;
    tell_land(LAND_MESSAGE(LAND_OPEN, .opened = &landing));
    return 0;
}

static int close_land(void **state)
{
    (void)state;
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(fixture.group);
    return 0;
}

static void chunk_lands(uint32_t rail, uint32_t chunk)
{
    arrive(fixture.rails[rail].newest, SLOT << 16 | chunk);
    fixture_settle(&fixture, KVR_S);
}

/* RAIL_LOST named that rail of the target, and a chunk that went over it. */
static void rail_lost(uint32_t rail)
{
    struct landing_filter *filter =
        kvr_buddy_alloc(&memory, sizeof(*filter) + 2 * sizeof(filter->runs[0]));

    *filter = (struct landing_filter){.rail = rail, .epoch = 1, .capacity = 1, .asked_count = 1};
    filter->runs[1] = (struct kvr_chunk_run){.chunk_first = 0, .chunk_count = 1};
    tell_land(LAND_MESSAGE(LAND_FILTER, .filter = filter));
}

static void came(uint32_t rail, uint32_t chunks)
{
    assert_int_equal(atomic_load(&land.bytes[rail]), chunks * SMALL_PAGE_BYTES);
    assert_int_equal(spans[rail].bytes, chunks * SMALL_PAGE_BYTES);
}

static void each_rail_counts_its_own(void **state)
{
    (void)state;
    tell_land(LAND_MESSAGE(LAND_SEGMENT, .segment = &segment));
    chunk_lands(0, 1);
    chunk_lands(1, 2);
    chunk_lands(1, 3);
    came(0, 1);
    came(1, 2);
}

/* A source may lose a rail over which nothing came, or name one that the target does not have. */
static void chunks_before_their_plan_count_where_something_came(void **state)
{
    static const uint32_t lost[] = {0, KVR_RAILS_MAX, UINT32_MAX};

    for (unsigned i = 0; i < 3; i++) {
        rail_lost(lost[i]);
        chunk_lands(1, 0);
        chunk_lands(1, 1);
        tell_land(LAND_MESSAGE(LAND_SEGMENT, .segment = &segment));
        came(0, 0);
        came(1, 2);
        close_land(state);
        open_land(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_rail_counts_its_own, open_land, close_land),
        cmocka_unit_test_setup_teardown(chunks_before_their_plan_count_where_something_came,
                                        open_land, close_land),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
