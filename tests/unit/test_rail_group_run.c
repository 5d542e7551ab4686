/* Goal: a run of a plan's chunks is posted in order, once each. The cursor stays at the first
 * unposted chunk, whatever ends the batch. Method: a rail group on a scripted fabric and a plan of
 * eight scattered pages. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define MEMORY_BYTES (1u << 20)
#define IMMEDIATE    0x70005u

static struct {
    struct group_fixture fixture;
    struct small_side source, target;
    struct kvr_buddy memory;
    void *block;
    struct kvr_plan *plan;
    struct kvr_plan_cursor cursor;
} world;

static void open_world(uint32_t rails, uint32_t window)
{
    memset(&world, 0, sizeof(world));
    fixture_open(&world.fixture, rails, window, 64);
    peer_add(&world.fixture, 0, rails);
    small_side_init(&world.source, rails);
    small_side_init(&world.target, rails);
    world.block = malloc(MEMORY_BYTES);
    kvr_buddy_init(&world.memory, world.block, MEMORY_BYTES);
    world.plan = small_plan_make(&world.source, &world.target, &world.memory);
    kvr_plan_seek(world.plan, 0, &world.cursor);
}

static void close_world(void)
{
    kvr_group_close(world.fixture.group);
    free(world.block);
}

/* From the cursor on. */
static kvr_status post_run(uint32_t count, uint32_t *ret_posted, struct kvr_pair *ret_pair)
{
    struct kvr_group_run run = {
        .peer = 0,
        .immediate = IMMEDIATE + kvr_plan_cursor_chunk(&world.cursor),
        .count = count,
        .locals = world.source.set.locals,
        .remotes = world.target.set.remotes,
    };

    return kvr_group_post_run(world.fixture.group, &run, &world.cursor, ret_posted, ret_pair);
}

static void run_is_posted_in_order(void **state)
{
    struct kvr_pair pair;
    uint32_t posted;
    const struct kvr_endpoint *endpoint;

    (void)state;
    open_world(2, 0);
    assert_int_equal(post_run(SMALL_CHUNKS, &posted, &pair), KVR_OK);
    assert_int_equal(posted, SMALL_CHUNKS);
    endpoint = world.fixture.rails[pair.rail].newest;
    assert_int_equal(endpoint->write_count, SMALL_CHUNKS);
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++) {
        assert_int_equal(endpoint->writes[i].immediate, IMMEDIATE + i);
        assert_int_equal(endpoint->writes[i].more, i + 1 < SMALL_CHUNKS);
    }
    assert_int_equal(kvr_group_outstanding(world.fixture.group), SMALL_CHUNKS);
    assert_int_equal(kvr_group_counters(world.fixture.group, pair.rail).in_flight, SMALL_CHUNKS);
    close_world();
}

/* A window of four leaves room for three; the doorbell rings at its end. */
static void run_stops_where_the_window_ends(void **state)
{
    struct kvr_pair pair;
    uint32_t posted, at = 0;
    struct kvr_endpoint *endpoint;

    (void)state;
    open_world(1, 4);
    endpoint = world.fixture.rails[0].newest;
    for (unsigned round = 0; at < SMALL_CHUNKS; round++) {
        assert_true(round < SMALL_CHUNKS);
        assert_int_equal(post_run(SMALL_CHUNKS - at, &posted, &pair), KVR_OK);
        for (uint32_t i = 0; i < posted; i++) {
            assert_int_equal(endpoint->writes[i].immediate, IMMEDIATE + at + i);
            assert_int_equal(endpoint->writes[i].more, i + 1 < posted);
        }
        at += posted;
        if (at < SMALL_CHUNKS) {
            assert_int_equal(kvr_plan_cursor_chunk(&world.cursor), at);
            assert_int_equal(post_run(1, &posted, &pair), KVR_AGAIN);
            assert_int_equal(posted, 0);
            assert_int_equal(kvr_plan_cursor_chunk(&world.cursor), at);
        }
        finish_all(endpoint);
        kvr_group_step(world.fixture.group, 2 + round);
    }
    assert_int_equal(kvr_group_outstanding(world.fixture.group), 0);
    assert_int_equal(kvr_group_counters(world.fixture.group, 0).writes, SMALL_CHUNKS);
    close_world();
}

/* The provider refuses the first once: nothing is skipped. */
static void run_goes_on_after_a_refusal(void **state)
{
    struct kvr_pair pair;
    uint32_t posted;

    (void)state;
    open_world(1, 0);
    world.fixture.rails[0].newest->again_once = 1;
    assert_int_equal(post_run(SMALL_CHUNKS, &posted, &pair), KVR_AGAIN);
    assert_int_equal(posted, 0);
    assert_int_equal(kvr_plan_cursor_chunk(&world.cursor), 0);
    kvr_group_step(world.fixture.group, KVR_S);
    while (kvr_plan_cursor_chunk(&world.cursor) + 1 < SMALL_CHUNKS)
        assert_int_equal(post_run(1, &posted, &pair), KVR_OK);
    assert_int_equal(post_run(1, &posted, &pair), KVR_OK);
    assert_int_equal(world.fixture.rails[0].newest->write_count, SMALL_CHUNKS);
    assert_int_equal(world.fixture.rails[0].newest->writes[0].immediate, IMMEDIATE);
    close_world();
}

/* A rail that fails is broken, and the run leaves on the other one. */
static void run_changes_to_another_rail(void **state)
{
    struct kvr_pair pair;
    uint32_t posted;

    (void)state;
    open_world(2, 0);
    world.fixture.rails[0].newest->next_write = KVR_RAIL_FAILED;
    assert_int_equal(post_run(SMALL_CHUNKS, &posted, &pair), KVR_OK);
    assert_int_equal(pair.rail, 1);
    assert_int_equal(posted, SMALL_CHUNKS);
    assert_int_equal(world.fixture.rails[1].newest->writes[0].immediate, IMMEDIATE);
    close_world();
    open_world(1, 0);
    world.fixture.rails[0].newest->next_write = KVR_RAIL_FAILED;
    assert_int_equal(post_run(SMALL_CHUNKS, &posted, &pair), KVR_NO_RAIL);
    assert_int_equal(posted, 0);
    close_world();
}

/* A region that is smaller here than in the plan. */
static void run_leaves_no_region(void **state)
{
    struct kvr_pair pair;
    uint32_t posted;

    (void)state;
    open_world(1, 0);
    world.source.region.layout.bytes = 3 * SMALL_PAGE_BYTES; /* pages 0 and 2 are inside */
    assert_int_equal(post_run(SMALL_CHUNKS, &posted, &pair), KVR_OK);
    assert_int_equal(posted, 2);
    assert_int_equal(kvr_plan_cursor_chunk(&world.cursor), 2);
    assert_int_equal(post_run(1, &posted, &pair), KVR_INVALID);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_is_posted_in_order),
        cmocka_unit_test(run_stops_where_the_window_ends),
        cmocka_unit_test(run_goes_on_after_a_refusal),
        cmocka_unit_test(run_changes_to_another_rail),
        cmocka_unit_test(run_leaves_no_region),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
