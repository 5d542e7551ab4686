/* Goal: a pair that says nothing is lost within a bound, and one that moves is not. Method: a rail
 * group on a scripted fabric in which writes hang, and a clock that the case moves. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE (3 * KVR_S)

static void open_silent(struct bench *bench, uint32_t rail_count)
{
    bench_open_as(bench, &(struct kvr_group_options){
                             .rail_count = rail_count, .ring_entries = 64, .silence_ns = SILENCE});
    peer_add(bench, 0, rail_count);
}

static uint32_t broken_at(struct bench *bench, kvr_ns now)
{
    struct kvr_group_message message;
    uint32_t count = 0;

    kvr_group_step(bench->group, now);
    while (event(bench, &message)) {
        assert_int_equal(message.kind, KVR_GROUP_PAIR_BROKEN);
        assert_int_equal(message.status, KVR_TIMED_OUT);
        count++;
    }
    return count;
}

/* The only rail of a pair: without the bound its transfer would hang for ever. */
static void silence_breaks_a_lone_rail(void **state)
{
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 1);
    assert_int_equal(kvr_group_wake_at(bench.group, 1, 0), KVR_GROUP_IDLE_POLL_NS + 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&bench, SILENCE), 0);
    assert_true(kvr_group_wake_at(bench.group, SILENCE, KVR_S) <= SILENCE + 1);
    assert_int_equal(broken_at(&bench, SILENCE + 1), 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_NO_RAIL);
    assert_int_equal(broken_at(&bench, 3 * SILENCE), 0); /* told once */

    command(&bench, KVR_GROUP_RECYCLE, 0, NULL); /* a fresh endpoint is tried again */
    assert_int_equal(fake.written_status[0], KVR_EPOCH_ENDED);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

/* Slow is not silent, and idle is not silent. */
static void silence_spares_what_moves(void **state)
{
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    for (kvr_ns now = KVR_S; now < 20 * KVR_S; now += 2 * KVR_S) {
        finish(bench.rails[0].newest, 0, KVR_OK);
        assert_int_equal(broken_at(&bench, now), 0);
        assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    }
    finish_all(bench.rails[0].newest);
    assert_int_equal(broken_at(&bench, 20 * KVR_S), 0);
    assert_int_equal(broken_at(&bench, 60 * KVR_S), 0);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&bench, 62 * KVR_S), 0); /* counted from this post on */
    assert_int_equal(broken_at(&bench, 63 * KVR_S), 1);
    kvr_group_close(bench.group);
}

/* A completion that waited in the queue while nobody looked is progress. */
static void silence_reads_the_queue_first(void **state)
{
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[0].newest);
    assert_int_equal(broken_at(&bench, 10 * SILENCE), 0);
    kvr_group_close(bench.group);
}

/* tcp answers EAGAIN to a dead peer for ever, and accepts nothing that could be silent. */
static void silence_breaks_what_always_refuses(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    kvr_ns now;

    (void)state;
    open_silent(&bench, 1);
    bench.rails[0].newest->next_write = KVR_AGAIN;
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    for (now = KVR_MS; now < SILENCE; now += 10 * KVR_MS) {
        assert_int_equal(broken_at(&bench, now), 0);
        assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    }
    assert_int_equal(broken_at(&bench, now + KVR_S), 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_NO_RAIL);
    kvr_group_close(bench.group);
}

/* Refused once, long ago, and nobody has wanted it since: that says nothing about the rail. */
static void silence_forgets_an_old_refusal(void **state)
{
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 1);
    bench.rails[0].newest->next_write = KVR_AGAIN;
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    assert_int_equal(broken_at(&bench, 2 * SILENCE), 0);
    bench.rails[0].newest->next_write = KVR_OK;
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

/* The peer is gone, and the card goes on writing to it: that is no failure of a pair, but only a
 * fresh endpoint gives the window back. */
static void silence_of_writes_to_nobody_is_told(void **state)
{
    struct kvr_group_message message;
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    command(&bench, KVR_GROUP_PEER_DROP, 0, NULL);
    while (event(&bench, &message))
        assert_int_equal(message.kind, KVR_GROUP_PEER_DROPPED);
    kvr_group_step(bench.group, SILENCE / 2);
    assert_false(event(&bench, &message));
    kvr_group_step(bench.group, SILENCE / 2 + KVR_S);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_RAIL_ERROR);
    assert_int_equal(message.index, 0);
    assert_int_equal(message.status, KVR_FULL);
    assert_false(event(&bench, &message));
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(fake.written_status[0], KVR_EPOCH_ENDED);
    kvr_group_close(bench.group);
}

/* The other rails of the group carry on. */
static void silence_breaks_one_of_two(void **state)
{
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 2);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[1].newest);
    assert_int_equal(broken_at(&bench, SILENCE + 1), 1);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(post(&bench, 0, &pair), KVR_OK);
        assert_int_equal(pair.rail, 1);
    }
    kvr_group_close(bench.group);
}

/* A rail that is still dead takes one write with it every time that it is tried, not a window. */
static void silence_makes_a_pair_doubted(void **state)
{
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    open_silent(&bench, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&bench, SILENCE + 1), 1);
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    finish(bench.rails[0].newest, 0, KVR_OK);
    kvr_group_step(bench.group, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_breaks_a_lone_rail),
        cmocka_unit_test(silence_spares_what_moves),
        cmocka_unit_test(silence_reads_the_queue_first),
        cmocka_unit_test(silence_breaks_what_always_refuses),
        cmocka_unit_test(silence_forgets_an_old_refusal),
        cmocka_unit_test(silence_of_writes_to_nobody_is_told),
        cmocka_unit_test(silence_breaks_one_of_two),
        cmocka_unit_test(silence_makes_a_pair_doubted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
