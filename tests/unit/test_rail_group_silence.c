/* Goal: a silent pair is lost within a bound, and a pair that makes progress is not. Method: a rail
 * group on a scripted fabric in which writes hang, and a clock that the case moves. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE (3 * KVR_S)

static void open_silent(struct group_fixture *fixture, uint32_t rail_count)
{
    fixture_open_as(fixture, &(struct kvr_group_options){.rail_count = rail_count,
                                                         .ring_entries = 64,
                                                         .silence_ns = SILENCE});
    peer_add(fixture, 0, rail_count);
}

/* Two peers share a rail that takes two writes. */
static void open_narrow(struct group_fixture *fixture)
{
    fixture_open_as(fixture, &(struct kvr_group_options){.rail_count = 1,
                                                         .window_writes = 2,
                                                         .ring_entries = 64,
                                                         .silence_ns = SILENCE});
    peer_add(fixture, 0, 1);
    peer_add(fixture, 1, 1);
}

static uint32_t broken_at(struct group_fixture *fixture, kvr_ns now)
{
    struct kvr_group_message message;
    uint32_t count = 0;

    kvr_group_step(fixture->group, now);
    while (event(fixture, &message)) {
        assert_int_equal(message.head.kind, KVR_GROUP_PAIR_BROKEN);
        assert_int_equal(message.pair_broken.status, KVR_TIMED_OUT);
        count++;
    }
    return count;
}

/* The only rail of a pair: without the bound its transfer would hang for ever. */
static void silence_breaks_a_lone_rail(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 1);
    assert_int_equal(kvr_group_wake_at(fixture.group, 1, 0), KVR_GROUP_IDLE_POLL_NS + 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&fixture, SILENCE), 0);
    assert_true(kvr_group_wake_at(fixture.group, SILENCE, KVR_S) <= SILENCE + 1);
    assert_int_equal(broken_at(&fixture, SILENCE + 1), 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    assert_int_equal(broken_at(&fixture, 3 * SILENCE), 0); /* reported once */

    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL); /* a fresh endpoint is tried again */
    assert_int_equal(fake.written_status[0], KVR_EPOCH_ENDED);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* Slow is not silent, and idle is not silent. */
static void silence_spares_what_moves(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    for (kvr_ns now = KVR_S; now < 20 * KVR_S; now += 2 * KVR_S) {
        finish(fixture.rails[0].newest, 0, KVR_OK);
        assert_int_equal(broken_at(&fixture, now), 0);
        assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    }
    finish_all(fixture.rails[0].newest);
    assert_int_equal(broken_at(&fixture, 20 * KVR_S), 0);
    assert_int_equal(broken_at(&fixture, 60 * KVR_S), 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&fixture, 62 * KVR_S), 0); /* counted from this post on */
    assert_int_equal(broken_at(&fixture, 63 * KVR_S), 1);
    kvr_group_close(fixture.group);
}

/* A completion that waited unread in the queue is progress. */
static void silence_reads_the_queue_first(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    assert_int_equal(broken_at(&fixture, 10 * SILENCE), 0);
    kvr_group_close(fixture.group);
}

/* tcp answers EAGAIN to a dead peer for ever, and has no accepted write that could be silent. */
static void silence_breaks_what_always_refuses(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    kvr_ns now;

    (void)state;
    open_silent(&fixture, 1);
    fixture.rails[0].newest->next_write = KVR_AGAIN;
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    for (now = KVR_MS; now < SILENCE; now += 10 * KVR_MS) {
        assert_int_equal(broken_at(&fixture, now), 0);
        assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    }
    assert_int_equal(broken_at(&fixture, now + KVR_S), 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    kvr_group_close(fixture.group);
}

/* Refused once, long ago, and not tried since: the rail may be healthy. */
static void silence_forgets_an_old_refusal(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 1);
    fixture.rails[0].newest->next_write = KVR_AGAIN;
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    assert_int_equal(broken_at(&fixture, 2 * SILENCE), 0);
    fixture.rails[0].newest->next_write = KVR_OK;
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The peer is gone, and the card goes on writing to it. The pair has not failed, but only a fresh
 * endpoint gives the window back. */
static void silence_of_writes_to_nobody_is_told(void **state)
{
    struct kvr_group_message message;
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    command(&fixture, KVR_GROUP_PEER_DROP, 0, NULL);
    while (event(&fixture, &message))
        assert_int_equal(message.head.kind, KVR_GROUP_PEER_DROPPED);
    kvr_group_step(fixture.group, SILENCE / 2);
    assert_false(event(&fixture, &message));
    kvr_group_step(fixture.group, SILENCE / 2 + KVR_S);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RAIL_ERROR);
    assert_int_equal(message.rail_error.rail, 0);
    assert_int_equal(message.rail_error.status, KVR_FULL);
    assert_false(event(&fixture, &message));
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(fake.written_status[0], KVR_EPOCH_ENDED);
    kvr_group_close(fixture.group);
}

/* The pair to peer 0 is broken and keeps the whole window, and peer 1 is well: without a word it
 * would wait for room for ever. */
static void silence_of_a_whole_window_is_told(void **state)
{
    struct kvr_group_message message;
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_narrow(&fixture);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 1, &pair), KVR_AGAIN);
    kvr_group_step(fixture.group, SILENCE + 1);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PAIR_BROKEN);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RAIL_ERROR);
    assert_int_equal(message.rail_error.rail, 0);
    assert_int_equal(message.rail_error.status, KVR_FULL);
    assert_false(event(&fixture, &message));
    assert_int_equal(post(&fixture, 1, &pair), KVR_AGAIN);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* One write of a pair that fails breaks the pair; its others hang, and their silence counts from
 * the last that ended. */
static void silence_of_a_broken_pair_is_told_in_time(void **state)
{
    struct kvr_group_message message;
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_narrow(&fixture);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    kvr_group_step(fixture.group, 2 * KVR_S);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    kvr_group_step(fixture.group, 2 * KVR_S + SILENCE - 1);
    assert_false(event(&fixture, &message));
    kvr_group_step(fixture.group, 2 * KVR_S + SILENCE);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.pair_broken.peer, 1);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RAIL_ERROR);
    kvr_group_close(fixture.group);
}

/* A fresh endpoint would lose the write to peer 1, which makes room when it ends. */
static void silence_spares_a_window_that_moves(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_narrow(&fixture);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&fixture, KVR_S), 0);
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    assert_int_equal(broken_at(&fixture, SILENCE + 1), 1); /* and no other word */
    finish(fixture.rails[0].newest, 1, KVR_OK);
    assert_int_equal(broken_at(&fixture, 10 * SILENCE), 0); /* half of the window is left */
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The other rails of the group carry on. */
static void silence_breaks_one_of_two(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 2);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[1].newest);
    assert_int_equal(broken_at(&fixture, SILENCE + 1), 1);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
        assert_int_equal(pair.rail, 1);
    }
    kvr_group_close(fixture.group);
}

/* Each trial of a rail that is still dead loses one write, not a window. */
static void silence_makes_a_pair_doubted(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    open_silent(&fixture, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(broken_at(&fixture, SILENCE + 1), 1);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    finish(fixture.rails[0].newest, 0, KVR_OK);
    kvr_group_step(fixture.group, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
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
        cmocka_unit_test(silence_of_a_whole_window_is_told),
        cmocka_unit_test(silence_of_a_broken_pair_is_told_in_time),
        cmocka_unit_test(silence_spares_a_window_that_moves),
        cmocka_unit_test(silence_breaks_one_of_two),
        cmocka_unit_test(silence_makes_a_pair_doubted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
