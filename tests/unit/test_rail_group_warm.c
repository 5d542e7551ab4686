/* Goal: every pair of rails is warmed up once an epoch, into the peer's scratch page, without a
 * notice to the user. Method: a rail group on a scripted fabric that completes a write only when
 * the case demands. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE     (3 * KVR_S)
#define SCRATCH_KEY 7000u
#define PAGE        4096u

static struct group_fixture fixture;

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
    struct kvr_peer_rails *rails = &fixture.peer_rails[peer];
    struct kvr_group_message answer;

    rails->rail_count = rail_count;
    for (uint32_t i = 0; i < rail_count; i++)
        rails->rails[i] = address_of(i, 1);
    command(&fixture, KVR_GROUP_PEER_ADD, peer, rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
    assert_int_equal(answer.peer_rails.status, KVR_OK);
}

static void open_warm(uint32_t rail_count, uint32_t window)
{
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = rail_count,
                                                          .window_writes = window,
                                                          .ring_entries = 64,
                                                          .silence_ns = SILENCE,
                                                          .warm_up = true});
}

/* The rail holds so many writes, each a warm-up. */
static void assert_warming(uint32_t rail, unsigned count)
{
    const struct kvr_endpoint *endpoint = fixture.rails[rail].newest;

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
    assert_int_equal(kvr_group_address(fixture.group, 1).scratch_bytes, 4 * PAGE);
    assert_int_equal(kvr_group_address(fixture.group, 1).scratch.key, 101);
    peer_with_scratch_add(0, 3); /* rail 0 with theirs 0 and 2, rail 1 with 1 */
    assert_warming(0, 2);
    assert_warming(1, 1);
    for (unsigned i = 0; i < 3; i++) {
        const struct kvr_endpoint *endpoint = fixture.rails[i / 2].newest;

        keys[endpoint->writes[i % 2].first.key - SCRATCH_KEY] = true;
    }
    assert_true(keys[0] && keys[1] && keys[2]);
    assert_int_equal(kvr_group_outstanding(fixture.group), 3);
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(kvr_group_outstanding(fixture.group), 0);
    assert_int_equal(kvr_group_counters(fixture.group, 0).in_flight, 0);
    assert_int_equal(kvr_group_counters(fixture.group, 0).bytes, 0);
    assert_null(strstr(fake.log, "written"));
    fixture_settle(&fixture, KVR_S);
    assert_warming(0, 0);
    assert_warming(1, 0);

    assert_int_equal(post(&fixture, 0, &pair), KVR_OK); /* this completion is reported */
    finish_all(fixture.rails[pair.rail].newest);
    fixture_settle(&fixture, KVR_S + 1);
    assert_int_equal(fake.written_count[0], 1);
    kvr_group_close(fixture.group);
}

/* A user's write during the warm-up remains the user's. */
static void warm_up_is_told_from_a_users_write(void **state)
{
    struct kvr_pair pair;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    assert_warming(0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 1, KVR_OK);
    fixture_settle(&fixture, 2);
    assert_int_equal(fake.written_count[0], 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest); /* both in one poll */
    fixture_settle(&fixture, 3);
    assert_int_equal(fake.written_count[0], 1);
    assert_int_equal(fake.written_count[1], 1);
    kvr_group_close(fixture.group);
}

/* After a new epoch of either side: the peer's successor, and our own. */
static void warm_up_comes_again_with_a_new_epoch(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 2);
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_warming(0, 1);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL); /* ends the warm-up without a report */
    assert_warming(0, 1);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 3);
    assert_warming(0, 0);
    assert_null(strstr(fake.log, "written"));
    assert_int_equal(kvr_group_outstanding(fixture.group), 0);
    kvr_group_close(fixture.group);
}

/* Tried again after its waiting time, and not on each step. */
static void warm_up_waits_where_it_is_refused(void **state)
{
    struct kvr_endpoint *endpoint;
    kvr_ns at;

    (void)state;
    open_warm(1, 0);
    endpoint = fixture.rails[0].newest;
    endpoint->again_once = 2;
    peer_with_scratch_add(0, 1);
    assert_warming(0, 0);
    at = kvr_group_wake_at(fixture.group, 1, KVR_S);
    assert_true(at > 1 && at < KVR_MS);
    fixture_settle(&fixture, at - 1);
    assert_int_equal(endpoint->again_once, 1);
    fixture_settle(&fixture, at);
    assert_int_equal(endpoint->again_once, 0);
    fixture_settle(&fixture, at + KVR_MS);
    assert_warming(0, 1);
    kvr_group_close(fixture.group);
}

static void warm_up_keeps_the_window(void **state)
{
    (void)state;
    open_warm(1, 2);
    for (uint32_t peer = 0; peer < 4; peer++)
        peer_with_scratch_add(peer, 1);
    assert_warming(0, 2);
    finish(fixture.rails[0].newest, 0, KVR_OK);
    fixture_settle(&fixture, KVR_S);
    assert_warming(0, 2);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, KVR_S + 10 * KVR_MS);
    assert_warming(0, 1);
    kvr_group_close(fixture.group);
}

/* A failed warm-up counts as any other failed write. The next trial on the pair is a user's write.
 */
/* A user's write does not leave over a pair on trial: it makes the group warm the pair up. */
static void pass_the_trial(kvr_ns now)
{
    struct kvr_pair pair;

    assert_warming(0, 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    assert_warming(0, 0);
    fixture_settle(&fixture, now);
    assert_warming(0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, now + 1);
}

static void warm_up_that_fails_breaks_the_pair(void **state)
{
    struct kvr_group_message message;
    struct kvr_pair pair;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 2);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.pair_broken.status, KVR_RAIL_FAILED);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    pass_the_trial(3);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* An address that no write has reached is tried anew through the same endpoint. */
static void a_pair_is_tried_anew_without_a_fresh_endpoint(void **state)
{
    struct kvr_group_message message, renewal = {.head.kind = KVR_GROUP_PAIR_RENEW};
    struct kvr_endpoint *endpoint;
    struct kvr_pair pair;

    (void)state;
    open_warm(1, 0);
    endpoint = fixture.rails[0].newest;
    peer_with_scratch_add(0, 1);
    finish(endpoint, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 2);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_false(message.pair_broken.proven);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    fixture_tell(&fixture, 3, &renewal);
    assert_ptr_equal(fixture.rails[0].newest, endpoint);
    pass_the_trial(3);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(endpoint, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 5);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_true(message.pair_broken.proven);
    fixture_tell(&fixture, 6, &renewal); /* that is no help where writes have come through */
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    kvr_group_close(fixture.group);
}

/* Peers come and go with addresses that swallow writes. While those are few, they cost an endpoint
 * now and then, and not with each peer. */
static void few_hanging_warm_ups_cost_no_endpoint(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_warm(1, 8);
    for (uint32_t i = 0; i < 3; i++) {
        peer_with_scratch_add(0, 1);
        command(&fixture, KVR_GROUP_PEER_DROP, 0, NULL);
    }
    for (kvr_ns at = 2; at < 9 * SILENCE; at += SILENCE / 4)
        fixture_settle(&fixture, at);
    assert_false(fixture_told(&fixture, KVR_GROUP_RAIL_ERROR, &message));
    fixture_settle(&fixture, 10 * SILENCE + 10);
    assert_true(fixture_told(&fixture, KVR_GROUP_RAIL_ERROR, &message));
    kvr_group_close(fixture.group);
}

static void many_hanging_warm_ups_are_ended(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_warm(1, 8);
    for (uint32_t i = 0; i < 5; i++) {
        peer_with_scratch_add(0, 1);
        command(&fixture, KVR_GROUP_PEER_DROP, 0, NULL);
    }
    for (kvr_ns at = 2; at < SILENCE; at += SILENCE / 4)
        fixture_settle(&fixture, at);
    assert_true(fixture_told(&fixture, KVR_GROUP_RAIL_ERROR, &message));
    kvr_group_close(fixture.group);
}

static void warm_up_that_hangs_breaks_the_pair(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    fixture_settle(&fixture, SILENCE + 1);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.pair_broken.status, KVR_TIMED_OUT);
    kvr_group_close(fixture.group);
}

static uint32_t warm_told(uint64_t *ret_pairs)
{
    struct kvr_group_message message;
    uint32_t told = 0;

    *ret_pairs = 0;
    while (event(&fixture, &message))
        if (message.head.kind == KVR_GROUP_PEER_WARM) {
            *ret_pairs += message.peer_warm.pairs;
            told++;
        }
    return told;
}

/* The last pair makes the peer warm; once, whatever epochs come. */
static void a_peer_is_warm_when_every_pair_is(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);
    uint64_t pairs;

    (void)state;
    open_warm(2, 0);
    peer_with_scratch_add(0, 2);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(warm_told(&pairs), 0);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 3);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 2);
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 4);
    assert_int_equal(warm_told(&pairs), 0);
    kvr_group_close(fixture.group);
}

/* A pair that has failed does not count. A warm-up that is refused is repeated. */
static void a_peer_is_warm_with_the_pairs_that_work(void **state)
{
    struct kvr_pair pair;
    uint64_t pairs;

    (void)state;
    open_warm(2, 0);
    peer_with_scratch_add(0, 2);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    kvr_group_close(fixture.group);

    open_warm(1, 0);
    fixture.rails[0].newest->again_once = 1;
    peer_with_scratch_add(0, 1);
    fixture_settle(&fixture, KVR_S - 1); /* it may be tried again, and is */
    finish_all(fixture.rails[0].newest);
    assert_int_equal(warm_told(&pairs), 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    fixture_settle(&fixture, KVR_S);
    assert_int_equal(warm_told(&pairs), 1);
    kvr_group_close(fixture.group);
}

/* The card accepts the warm-up, and no packet comes through: neither the silence nor the fresh
 * endpoint makes the peer warm. */
static void a_peer_that_nothing_reaches_is_not_warm(void **state)
{
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    assert_warming(0, 1);
    fixture_settle(&fixture, SILENCE + 1);
    assert_int_equal(warm_told(&pairs), 1); /* all have failed: other groups do not wait */
    assert_int_equal(pairs, 0);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    fixture_settle(&fixture, 2 * SILENCE);
    assert_warming(0, 0);
    assert_int_equal(warm_told(&pairs), 0);
    kvr_group_close(fixture.group);
}

/* A warm-up ends with its endpoint. */
static void an_unfinished_warm_up_does_not_count(void **state)
{
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(warm_told(&pairs), 0);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    kvr_group_close(fixture.group);
}

/* The trial succeeds. */
static void a_users_write_warms_a_failed_pair(void **state)
{
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 2);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 0);
    pass_the_trial(3);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    kvr_group_close(fixture.group);
}

/* Fails the warm-up in flight, and recycles the rail. Returns the time of the next warm-up. */
static kvr_ns warm_up_fails(kvr_ns now)
{
    kvr_ns next = now;

    assert_warming(0, 1);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, now);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_warming(0, 0);
    while (fixture.rails[0].newest->write_count == 0 && next < now + 1000 * KVR_S) {
        next += KVR_S;
        fixture_settle(&fixture, next);
    }
    return next;
}

static void a_warm_up_is_repeated_later_and_later(void **state)
{
    kvr_ns now = 2, next, waited = 0;
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    for (unsigned i = 0; i < 8; i++) {
        next = warm_up_fails(now);
        assert_true(next - now >= 10 * SILENCE);
        assert_true(next - now >= 2 * waited || next - now >= 400 * KVR_S);
        assert_true(next - now <= 600 * KVR_S);
        waited = next - now;
        now = next;
    }
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 0);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, now + 1);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    kvr_group_close(fixture.group);
}

/* An agent that is stopped for longer than this has been absent (rule 8). */
#define ABSENCE (1500 * KVR_MS)

/* A warm-up that waits for its time is no reason to wake up. */
static void a_group_sleeps_until_the_next_warm_up(void **state)
{
    kvr_ns at;

    (void)state;
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1,
                                                          .ring_entries = 64,
                                                          .silence_ns = SILENCE,
                                                          .absence_ns = ABSENCE,
                                                          .warm_up = true});
    fake.has_wait_fd = true;
    peer_with_scratch_add(0, 1);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 2);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    fixture_settle(&fixture, SILENCE + 1); /* the last look at the write that failed */
    at = kvr_group_wake_at(fixture.group, SILENCE + 1, KVR_S);
    assert_true(at >= 10 * SILENCE && at < 600 * KVR_S);
    fixture_settle(&fixture, at);
    assert_warming(0, 1);
    kvr_group_close(fixture.group);
}

/* The successor's address is refused: the pair is broken, and none of its former link is read. */
static void a_successor_that_is_refused_breaks_its_pair(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);
    struct kvr_group_message message;
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_with_scratch_add(0, 1);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 2);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 0);
    successor.address[0] = '?';
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.pair_broken.status, KVR_INVALID);
    assert_int_equal(message.pair_broken.pair.epoch, 2);
    assert_int_equal(warm_told(&pairs), 0);
    kvr_group_close(fixture.group);
}

/* Neither while its warm-up hangs, once it is silent for too long, nor after its rail was recycled.
 */
static void a_failed_pair_holds_nothing_up(void **state)
{
    uint64_t pairs;

    (void)state;
    open_warm(2, 0);
    peer_with_scratch_add(0, 2);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, kvr_group_doubt(SILENCE));
    assert_int_equal(warm_told(&pairs), 0);
    fixture_settle(&fixture, kvr_group_doubt(SILENCE) + 1);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    fixture_settle(&fixture, 2 * SILENCE); /* its own silence, now that another pair works */
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    fixture_settle(&fixture, 1000 * KVR_S);
    assert_warming(0, 0); /* another pair works */
    kvr_group_close(fixture.group);

    open_warm(2, 0);
    peer_with_scratch_add(0, 2);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 2);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(warm_told(&pairs), 0);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 3);
    assert_int_equal(warm_told(&pairs), 1);
    assert_int_equal(pairs, 1);
    kvr_group_close(fixture.group);
}

/* A peer without a scratch page, and an agent that has the warm-up off. */
static void warm_up_needs_both_sides(void **state)
{
    uint64_t pairs;

    (void)state;
    open_warm(1, 0);
    peer_add(&fixture, 0, 1);
    assert_warming(0, 0);
    assert_int_equal(warm_told(&pairs), 0);
    kvr_group_close(fixture.group);

    fixture_open(&fixture, 1, 0, 64);
    assert_int_equal(kvr_group_address(fixture.group, 0).scratch_bytes, 0);
    peer_with_scratch_add(0, 1);
    assert_warming(0, 0);
    kvr_group_close(fixture.group);
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
        cmocka_unit_test(a_pair_is_tried_anew_without_a_fresh_endpoint),
        cmocka_unit_test(few_hanging_warm_ups_cost_no_endpoint),
        cmocka_unit_test(many_hanging_warm_ups_are_ended),
        cmocka_unit_test(a_peer_is_warm_when_every_pair_is),
        cmocka_unit_test(a_peer_is_warm_with_the_pairs_that_work),
        cmocka_unit_test(a_peer_that_nothing_reaches_is_not_warm),
        cmocka_unit_test(an_unfinished_warm_up_does_not_count),
        cmocka_unit_test(a_users_write_warms_a_failed_pair),
        cmocka_unit_test(a_warm_up_is_repeated_later_and_later),
        cmocka_unit_test(a_group_sleeps_until_the_next_warm_up),
        cmocka_unit_test(a_successor_that_is_refused_breaks_its_pair),
        cmocka_unit_test(a_failed_pair_holds_nothing_up),
        cmocka_unit_test(warm_up_needs_both_sides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
