/* Goal: every pair of rails is warmed up once an epoch, into the peer's scratch page, and the user
 * is told of nothing. Method: a rail group on a scripted fabric that completes a write only when
 * the case says so. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE     (3 * KVR_S)
#define SCRATCH_KEY 7000u
#define PAGE        4096u

static struct bench bench;

static struct kvr_rail_address address_of(uint32_t rail, uint32_t epoch)
{
    return (struct kvr_rail_address){.rail = rail,
                                     .epoch = epoch,
                                     .bytes = 1,
                                     .address = {(uint8_t)('a' + rail)},
                                     .scratch_bytes = PAGE,
                                     .scratch = {.key = SCRATCH_KEY + rail, .base = 64}};
}

static void peer_with_scratch_add(uint32_t peer, uint32_t rail_count)
{
    struct kvr_peer_rails *rails = &bench.peer_rails[peer];
    struct kvr_group_message answer;

    rails->rail_count = rail_count;
    for (uint32_t i = 0; i < rail_count; i++)
        rails->rails[i] = address_of(i, 1);
    command(&bench, KVR_GROUP_PEER_ADD, peer, rails);
    assert_true(bench_told(&bench, KVR_GROUP_PEER_ADDED, &answer));
    assert_int_equal(answer.status, KVR_OK);
}

static void open_warm(uint32_t rail_count, uint32_t window)
{
    bench_open_as(&bench, &(struct kvr_group_options){.rail_count = rail_count,
                                                      .window_writes = window,
                                                      .ring_entries = 64,
                                                      .silence_ns = SILENCE,
                                                      .warm_up = true});
}

/* The rail holds so many writes, each a warm-up. */
static void assert_warming(uint32_t rail, unsigned count)
{
    const struct kvr_endpoint *endpoint = bench.rails[rail].newest;

    assert_int_equal(endpoint->write_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(endpoint->writes[i].immediate >> 16, 0);
        assert_int_equal(endpoint->writes[i].first.remote, 64);
        assert_true(endpoint->writes[i].first.bytes <= PAGE);
        assert_false(endpoint->writes[i].more);
    }
}

static void warm_up_goes_over_every_pair_once(void **state)
{
    struct kvr_pair pair;
    bool keys[3] = {false};

    (void)state;
    open_warm(2, 0);
    assert_int_equal(kvr_group_address(bench.group, 1).scratch_bytes, PAGE);
    assert_int_equal(kvr_group_address(bench.group, 1).scratch.key, 101);
    peer_with_scratch_add(0, 3); /* rail 0 with theirs 0 and 2, rail 1 with 1 */
    assert_warming(0, 2);
    assert_warming(1, 1);
    for (unsigned i = 0; i < 3; i++) {
        const struct kvr_endpoint *endpoint = bench.rails[i / 2].newest;

        keys[endpoint->writes[i % 2].first.key - SCRATCH_KEY] = true;
    }
    assert_true(keys[0] && keys[1] && keys[2]);
    assert_int_equal(kvr_group_outstanding(bench.group), 3);
    finish_all(bench.rails[0].newest);
    finish_all(bench.rails[1].newest);
    bench_settle(&bench, 2);
    assert_int_equal(kvr_group_outstanding(bench.group), 0);
    assert_int_equal(kvr_group_counters(bench.group, 0).in_flight, 0);
    assert_int_equal(kvr_group_counters(bench.group, 0).bytes, 0);
    assert_null(strstr(fake.log, "written"));
    bench_settle(&bench, KVR_S);
    assert_warming(0, 0);
    assert_warming(1, 0);

    assert_int_equal(post(&bench, 0, &pair), KVR_OK); /* whose completion is told */
    finish_all(bench.rails[pair.rail].newest);
    bench_settle(&bench, KVR_S + 1);
    assert_int_equal(fake.written_count[0], 1);
    kvr_group_close(bench.group);
}

/* A user's write that goes out while the warm-up is under way is the user's. */
static void warm_up_is_told_from_a_users_write(void **state)
{
    struct kvr_pair pair;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    assert_warming(0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish(bench.rails[0].newest, 1, KVR_OK);
    bench_settle(&bench, 2);
    assert_int_equal(fake.written_count[0], 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[0].newest); /* both in one poll */
    bench_settle(&bench, 3);
    assert_int_equal(fake.written_count[0], 1);
    assert_int_equal(fake.written_count[1], 1);
    kvr_group_close(bench.group);
}

/* Of either side: the peer's successor, and our own. */
static void warm_up_comes_again_with_a_new_epoch(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    finish_all(bench.rails[0].newest);
    bench_settle(&bench, 2);
    command(&bench, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_warming(0, 1);
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL); /* ends it, untold */
    assert_warming(0, 1);
    finish_all(bench.rails[0].newest);
    bench_settle(&bench, 3);
    assert_warming(0, 0);
    assert_null(strstr(fake.log, "written"));
    assert_int_equal(kvr_group_outstanding(bench.group), 0);
    kvr_group_close(bench.group);
}

/* Tried again when its time has come, and not on each step. */
static void warm_up_waits_where_it_is_refused(void **state)
{
    struct kvr_endpoint *endpoint;
    kvr_ns at;

    (void)state;
    open_warm(1, 0);
    endpoint = bench.rails[0].newest;
    endpoint->again_once = 2;
    peer_with_scratch_add(0, 1);
    assert_warming(0, 0);
    at = kvr_group_wake_at(bench.group, 1, KVR_S);
    assert_true(at > 1 && at < KVR_MS);
    bench_settle(&bench, at - 1);
    assert_int_equal(endpoint->again_once, 1);
    bench_settle(&bench, at);
    assert_int_equal(endpoint->again_once, 0);
    bench_settle(&bench, at + KVR_MS);
    assert_warming(0, 1);
    kvr_group_close(bench.group);
}

static void warm_up_keeps_the_window(void **state)
{
    (void)state;
    open_warm(1, 2);
    for (uint32_t peer = 0; peer < 4; peer++)
        peer_with_scratch_add(peer, 1);
    assert_warming(0, 2);
    finish(bench.rails[0].newest, 0, KVR_OK);
    bench_settle(&bench, KVR_S);
    assert_warming(0, 2);
    finish_all(bench.rails[0].newest);
    bench_settle(&bench, KVR_S + 10 * KVR_MS);
    assert_warming(0, 1);
    kvr_group_close(bench.group);
}

/* As by any other write; and what is risked on it afterwards is not a warm-up. */
static void warm_up_that_fails_breaks_the_pair(void **state)
{
    struct kvr_group_message message;
    struct kvr_pair pair;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    finish(bench.rails[0].newest, 0, KVR_RAIL_FAILED);
    bench_settle(&bench, 2);
    assert_true(bench_told(&bench, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.status, KVR_RAIL_FAILED);
    assert_int_equal(post(&bench, 0, &pair), KVR_NO_RAIL);
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_warming(0, 0);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

static void warm_up_that_hangs_breaks_the_pair(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    bench_settle(&bench, SILENCE + 1);
    assert_true(bench_told(&bench, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.status, KVR_TIMED_OUT);
    kvr_group_close(bench.group);
}

static uint32_t warm_told(uint64_t *ret_pairs)
{
    struct kvr_group_message message;
    uint32_t told = 0;

    *ret_pairs = 0;
    while (event(&bench, &message))
        if (message.kind == KVR_GROUP_PEER_WARM) {
            *ret_pairs += message.a;
            told++;
        }
    return told;
}

/* By its last pair; once, whatever epochs come. */
static void a_peer_is_warm_when_every_pair_is(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);
    uint64_t pairs;

    (void)state;
    open_warm(2, 0);
    peer_with_scratch_add(0, 2);
    finish_all(bench.rails[0].newest);
    bench_settle(&bench, 2);
    assert_int_equal(warm_told(&pairs), 0);
    finish_all(bench.rails[1].newest);
    bench_settle(&bench, 3);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 2);
    command(&bench, KVR_GROUP_PEER_RAIL, 0, &successor);
    finish_all(bench.rails[0].newest);
    bench_settle(&bench, 4);
    assert_int_equal(warm_told(&pairs), 0);
    kvr_group_close(bench.group);
}

/* A pair that is broken counts for nothing; one that somebody has written on needs nothing. */
static void a_peer_is_warm_with_the_pairs_that_work(void **state)
{
    struct kvr_pair pair;
    uint64_t pairs;

    (void)state;
    open_warm(2, 0);
    peer_with_scratch_add(0, 2);
    finish(bench.rails[0].newest, 0, KVR_RAIL_FAILED);
    finish_all(bench.rails[1].newest);
    bench_settle(&bench, 2);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    kvr_group_close(bench.group);

    open_warm(1, 0);
    bench.rails[0].newest->again_once = 1;
    peer_with_scratch_add(0, 1);
    bench_settle(&bench, KVR_S - 1); /* it may be tried again, and is */
    finish_all(bench.rails[0].newest);
    assert_int_equal(warm_told(&pairs), 0);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    bench_settle(&bench, KVR_S);
    assert_int_equal(warm_told(&pairs), 1);
    kvr_group_close(bench.group);
}

/* A peer without a page for it, and an agent that does not want it. */
static void warm_up_needs_both_sides(void **state)
{
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_add(&bench, 0, 1);
    assert_warming(0, 0);
    assert_int_equal(warm_told(&pairs), 0);
    kvr_group_close(bench.group);

    bench_open(&bench, 1, 0, 64);
    assert_int_equal(kvr_group_address(bench.group, 0).scratch_bytes, 0);
    peer_with_scratch_add(0, 1);
    assert_warming(0, 0);
    kvr_group_close(bench.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_goes_over_every_pair_once),
        cmocka_unit_test(warm_up_is_told_from_a_users_write),
        cmocka_unit_test(warm_up_comes_again_with_a_new_epoch),
        cmocka_unit_test(warm_up_waits_where_it_is_refused),
        cmocka_unit_test(warm_up_keeps_the_window),
        cmocka_unit_test(warm_up_that_fails_breaks_the_pair),
        cmocka_unit_test(warm_up_that_hangs_breaks_the_pair),
        cmocka_unit_test(a_peer_is_warm_when_every_pair_is),
        cmocka_unit_test(a_peer_is_warm_with_the_pairs_that_work),
        cmocka_unit_test(warm_up_needs_both_sides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
