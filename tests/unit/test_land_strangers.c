/* Goal: an arrival that no landing expects changes nothing but a counter, and too many of them are
 * reported. Method: land alone on a scripted fabric, with rails that take tags and rails that do
 * not. */
#include "tests/support/check.h"

#include "decode-agent/land.h"
#include "tests/support/fake_group.h"

#define CHUNKS 40
#define SLOT   7

static struct land land;
static struct group_fixture fixture;
static struct landing landing;
static uint64_t bits[KVR_SLOT_CHUNKS / 64];

static int open_untagged(void **state)
{
    (void)state;
    memset(&land, 0, sizeof(land));
    memset(&landing, 0, sizeof(landing));
    memset(bits, 0, sizeof(bits));
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 2, .ring_entries = 256, .user = land_user(&land)});
    return 0;
}

static int open_tagged(void **state)
{
    fake_tags = true;
    open_untagged(state);
    fake_tags = false;
    landing.tag = 0xfeed0001;
    return 0;
}

static int close_land(void **state)
{
    (void)state;
    kvr_group_close(fixture.group);
    return 0;
}

static void step(void)
{
    fixture_settle(&fixture, KVR_S);
}

static void tell_land(union land_message message)
{
    fixture_tell(&fixture, KVR_S, &message.any);
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

static void landing_open(void)
{
    landing.transfer = 42;
    landing.slots[0] = SLOT;
    landing.slot_count = 1;
    landing.bits = bits;
    tell_land(LAND_MESSAGE(LAND_OPEN, .opened = &landing));
}

static void chunk_lands(uint32_t rail, uint32_t chunk)
{
    arrive(fixture.rails[rail].newest, SLOT << 16 | chunk);
    step();
}

static void tagged_chunk_lands(uint32_t tag, uint32_t chunk)
{
    arrive(fixture.rails[0].newest, (uint64_t)tag << 32 | SLOT << 16 | chunk);
    step();
}

static uint64_t unexpected(uint32_t rail, enum land_unexpected why)
{
    return atomic_load(&land.unexpected[rail][why]);
}

/* Nothing but its counter changes: no bit, no count, no time of an arrival. */
static void land_believes_no_write_with_another_tag(void **state)
{
    static const uint32_t wrong[] = {0, 1, 0xfeed0000, 0xfeed0101, 0x7eed0001, UINT32_MAX};

    (void)state;
    landing_open();
    for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tagged_chunk_lands(wrong[i], i);
        assert_int_equal(unexpected(0, UNEXPECTED_TAG), i + 1);
    }
    assert_int_equal(landing.chunk_count + landing.arrived.total + landing.arrived.count_count, 0);
    assert_int_equal(bits[0], 0);
    assert_int_equal(land.arrived_at[0][0], 0);
    assert_false(was_told(LAND_FIRST));
    tagged_chunk_lands(0xfeed0001, 3);
    assert_true(was_told(LAND_FIRST));
    assert_int_equal(bits[0], 1 << 3);
    assert_int_equal(landing.arrived.total, 1);
    assert_int_equal(unexpected(0, UNEXPECTED_TAG), 6);
}

static void land_believes_no_unmoved_write_with_another_tag(void **state)
{
    struct kvr_completion unmoved = {.kind = KVR_COMPLETION_UNMOVED, .immediate = SLOT << 16};

    (void)state;
    landing_open();
    fake_push(fixture.rails[0].newest, unmoved);
    step();
    assert_false(was_told(LAND_COPY_FAILED));
    assert_int_equal(unexpected(0, UNEXPECTED_TAG), 1);
}

/* Slot 0 is never compared, and never counts. */
static void land_ignores_warm_up_writes(void **state)
{
    (void)state;
    landing_open();
    for (uint32_t i = 0; i < 3 * KVR_STRANGERS_MAX; i++)
        arrive(fixture.rails[0].newest, (uint64_t)i << 32 | i);
    step();
    assert_int_equal(unexpected(0, UNEXPECTED_IDLE_SLOT) + unexpected(0, UNEXPECTED_TAG), 0);
    assert_int_equal(landing.arrived.total, 0);
}

static void strangers_come(uint32_t rail, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        arrive(fixture.rails[rail].newest, (SLOT + 1) << 16 | i % 100);
        step();
    }
}

/* The epoch is reported once. With tags the rail goes on until it has ended. */
static void land_reports_strangers_with_tags(void **state)
{
    union land_message message;

    (void)state;
    landing_open();
    strangers_come(0, KVR_STRANGERS_TAGGED_MAX - 1);
    assert_false(was_told(LAND_STRANGERS));
    strangers_come(0, 2 * KVR_STRANGERS_TAGGED_MAX);
    assert_true(told(LAND_STRANGERS, &message));
    assert_int_equal(message.epoch.rail, 0);
    assert_int_equal(message.epoch.epoch, 1);
    assert_false(was_told(LAND_STRANGERS));
    tagged_chunk_lands(0xfeed0001, 0);
    assert_int_equal(landing.arrived.total, 1);
}

/* Without tags nothing that arrives counts from the bound on, until the epoch has ended. */
static void land_is_deaf_to_strangers_without_tags(void **state)
{
    (void)state;
    landing_open();
    chunk_lands(0, 0);
    strangers_come(0, KVR_STRANGERS_MAX - 1);
    chunk_lands(0, 1);
    assert_int_equal(landing.arrived.total, 2);
    assert_false(was_told(LAND_STRANGERS));
    strangers_come(0, 1);
    assert_true(was_told(LAND_STRANGERS));
    chunk_lands(0, 2);
    assert_int_equal(landing.arrived.total, 2);
    chunk_lands(1, 3); /* the other rail hears */
    assert_int_equal(landing.arrived.total, 3);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    chunk_lands(0, 2);
    assert_int_equal(landing.arrived.total, 4);
    strangers_come(0, KVR_STRANGERS_MAX);
    assert_true(was_told(LAND_STRANGERS)); /* the new epoch begins at 0 */
}

static void land_counts_chunks_that_there_are_not(void **state)
{
    (void)state;
    landing_open();
    tell_land(LAND_MESSAGE(LAND_FINAL, .chunks = CHUNKS));
    chunk_lands(1, CHUNKS);
    assert_true(was_told(LAND_BAD));
    assert_int_equal(unexpected(1, UNEXPECTED_CHUNK), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(land_believes_no_write_with_another_tag, open_tagged,
                                        close_land),
        cmocka_unit_test_setup_teardown(land_believes_no_unmoved_write_with_another_tag,
                                        open_tagged, close_land),
        cmocka_unit_test_setup_teardown(land_ignores_warm_up_writes, open_tagged, close_land),
        cmocka_unit_test_setup_teardown(land_reports_strangers_with_tags, open_tagged, close_land),
        cmocka_unit_test_setup_teardown(land_is_deaf_to_strangers_without_tags, open_untagged,
                                        close_land),
        cmocka_unit_test_setup_teardown(land_counts_chunks_that_there_are_not, open_untagged,
                                        close_land),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
