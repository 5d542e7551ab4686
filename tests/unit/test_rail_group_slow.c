/* Goal: a pair that delivers far less than its sibling gives up what is on its way, soon, and comes
 * back when a warm-up is fast again. Method: a rail group on a scripted fabric; the case moves the
 * clock, and says which write completes when. */
#include "tests/support/check.h"

#include "rail_group/rail_group_state.h"
#include "tests/support/fake_group.h"

#define SILENCE (8 * KVR_S)
#define VERDICT (SILENCE / 8)
#define BYTES   1024u

static struct group_fixture fixture;
static struct kvr_rail_address rails[FAKE_RAILS];

static void open_rails(uint32_t count)
{
    struct kvr_group_message message;

    fixture_open_in(&fixture, count == 1 ? "a" : "ab",
                    &(struct kvr_group_options){.rail_count = count,
                                                .window_writes = 32,
                                                .ring_entries = 64,
                                                .warm_up = true,
                                                .silence_ns = SILENCE});
    fixture.peer_rails[0].rail_count = count;
    for (uint32_t i = 0; i < count; i++) {
        rails[i] = (struct kvr_rail_address){.rail = i,
                                             .epoch = 1,
                                             .bytes = 1,
                                             .address = {(uint8_t)('a' + i)},
                                             .plane = {(char)('a' + i)},
                                             .scratch_bytes = 4096,
                                             .scratch = {.key = 7 + i, .base = 64}};
        fixture.peer_rails[0].rails[i] = rails[i];
    }
    command(&fixture, KVR_GROUP_PEER_ADD, 0, &fixture.peer_rails[0]);
    kvr_group_step(fixture.group, KVR_S);
    for (uint32_t i = 0; i < count; i++)
        finish_all(fixture.rails[i].newest);
    fixture_settle(&fixture, KVR_S);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_WARM, &message));
    assert_int_equal(message.peer_warm.pairs, count);
}

static void close_rails(void)
{
    kvr_group_close(fixture.group);
}

/* Posts until each rail has this many on its way. */
static void fill(uint32_t count)
{
    struct kvr_pair pair;

    while (fixture.rails[0].newest->write_count < count ||
           fixture.rails[1].newest->write_count < count)
        assert_int_equal(post_bytes(&fixture, 0, BYTES, false, &pair), KVR_OK);
}

/* Lets time go by in steps; the rails complete one write each so often. 0: never. Returns when a
 * pair breaks, or `until`. */
static kvr_ns run(kvr_ns from, kvr_ns until, kvr_ns first_every, kvr_ns second_every,
                  struct kvr_group_message *ret_message)
{
    const kvr_ns every[2] = {first_every, second_every};
    struct kvr_pair pair;

    for (kvr_ns now = from; now < until; now += KVR_MS) {
        for (unsigned i = 0; i < 2; i++)
            if (every[i] > 0 && now % every[i] < KVR_MS && fixture.rails[i].newest->write_count > 0)
                finish(fixture.rails[i].newest, 0, KVR_OK);
        kvr_group_step(fixture.group, now);
        while (event(&fixture, ret_message))
            if (ret_message->head.kind == KVR_GROUP_PAIR_BROKEN)
                return now;
        (void)post_bytes(&fixture, 0, BYTES, false, &pair);
    }
    return until;
}

static void a_hole_beside_a_good_rail_is_given_up_soon(void **state)
{
    struct kvr_group_message message;
    kvr_ns broke;

    (void)state;
    open_rails(2);
    fill(4);
    broke = run(KVR_S, KVR_S + SILENCE, 0, KVR_MS, &message);
    assert_true(broke <= KVR_S + 2 * VERDICT);
    assert_int_equal(message.pair_broken.pair.rail, 0);
    assert_int_equal(message.pair_broken.status, KVR_TOO_SLOW);
    close_rails();
}

static void a_rail_that_crawls_is_given_up_soon(void **state)
{
    struct kvr_group_message message;
    kvr_ns broke;

    (void)state;
    open_rails(2);
    fill(20);
    broke = run(KVR_S, KVR_S + SILENCE, 300 * KVR_MS, KVR_MS, &message);
    assert_true(broke <= KVR_S + 2 * VERDICT);
    assert_int_equal(message.pair_broken.pair.rail, 0);
    assert_int_equal(message.pair_broken.status, KVR_TOO_SLOW);
    close_rails();
}

/* It gets less to carry, and goes on. */
static void a_rail_five_times_slower_is_kept(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_rails(2);
    fill(16);
    assert_int_equal(run(KVR_S, KVR_S + 4 * SILENCE, 5 * KVR_MS, KVR_MS, &message),
                     KVR_S + 4 * SILENCE);
    close_rails();
}

/* Both may be well: the peer may have stopped. */
static void two_silent_rails_wait_for_the_silence_bound(void **state)
{
    struct kvr_group_message message;
    kvr_ns broke;

    (void)state;
    open_rails(2);
    fill(4);
    broke = run(KVR_S, KVR_S + 2 * SILENCE, 0, 0, &message);
    assert_true(broke >= KVR_S + SILENCE);
    assert_int_equal(message.pair_broken.status, KVR_TIMED_OUT);
    close_rails();
}

/* All is posted; what the other rail carried has come through long ago. It is asked again. */
static void a_sibling_at_rest_is_asked(void **state)
{
    struct kvr_group_message message;
    kvr_ns broke = 0;
    unsigned asked = 0;

    (void)state;
    open_rails(2);
    fill(2);
    finish_all(fixture.rails[1].newest);
    for (kvr_ns now = KVR_S; broke == 0; now += KVR_MS) {
        kvr_group_step(fixture.group, now);
        assert_true(now < KVR_S + SILENCE);
        if (fixture.rails[1].newest->write_count > 0) {
            assert_int_equal(fixture.rails[1].newest->writes[0].immediate >> 16, 0);
            finish_all(fixture.rails[1].newest);
            asked++;
        }
        while (event(&fixture, &message))
            if (message.head.kind == KVR_GROUP_PAIR_BROKEN)
                broke = now;
    }
    assert_int_equal(asked, 1);
    assert_true(broke <= KVR_S + 2 * VERDICT);
    assert_int_equal(message.pair_broken.pair.rail, 0);
    close_rails();
}

/* The warm-up that is on its way at the fresh endpoint of rail 0, completed after `takes`; false:
 * there is none. The other rail completes what it has. */
static bool warm_up_takes(kvr_ns *now, kvr_ns takes)
{
    struct kvr_endpoint *endpoint = fixture.rails[0].newest;

    finish_all(fixture.rails[1].newest);
    kvr_group_step(fixture.group, *now);
    if (endpoint->write_count == 0)
        return false;
    assert_int_equal(endpoint->write_count, 1);
    assert_int_equal(endpoint->writes[0].first.bytes, 4096);
    *now += takes;
    finish_all(endpoint);
    kvr_group_step(fixture.group, *now);
    return true;
}

/* Whether user's writes leave over rail 0. */
static bool carries(kvr_ns now)
{
    struct kvr_pair pair;
    bool first = false;

    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(post_bytes(&fixture, 0, BYTES, false, &pair), KVR_OK);
        first = first || pair.rail == 0;
    }
    finish_all(fixture.rails[1].newest);
    kvr_group_step(fixture.group, now);
    return first;
}

/* What the group says of the pair of rail 0. */
static struct kvr_group_pair pair_said(kvr_ns now)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PAIRS_ASK};

    fixture_tell(&fixture, now, &message);
    do
        assert_true(fixture_told(&fixture, KVR_GROUP_PAIR, &message));
    while (message.pair.rail != 0);
    return message.pair;
}

static void a_slow_rail_rests_and_comes_back(void **state)
{
    struct kvr_group_message message;
    struct kvr_group_pair said;
    kvr_ns now, broke;

    (void)state;
    open_rails(2);
    fill(4);
    broke = now = run(KVR_S, KVR_S + SILENCE, 0, KVR_MS, &message);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    kvr_group_step(fixture.group, now);
    finish_all(fixture.rails[1].newest);
    assert_false(carries(now));
    said = pair_said(now);
    assert_int_equal(said.state, KVR_PAIR_SLOW);
    assert_int_equal(said.why, KVR_TOO_SLOW);
    assert_int_equal(said.since, broke);
    assert_int_equal(said.rests_until, broke + SILENCE);
    assert_int_equal(said.breaks, 1);
    assert_int_equal(said.renewals, 1);
    assert_false(warm_up_takes(&now, 0)); /* it rests */
    now += SILENCE;
    assert_true(warm_up_takes(&now, KVR_S)); /* with connecting, which says nothing */
    assert_false(carries(now));
    assert_true(warm_up_takes(&now, KVR_S)); /* still slow: it rests for twice as long */
    assert_false(carries(now));
    now += SILENCE;
    assert_false(warm_up_takes(&now, 0));
    assert_false(carries(now));
    now += SILENCE;
    said = pair_said(now);
    assert_int_equal(said.state, KVR_PAIR_SLOW);
    assert_int_equal(said.rests_until, 0); /* its trial is on its way */
    assert_true(warm_up_takes(&now, KVR_US));
    assert_true(carries(now));
    said = pair_said(now);
    assert_int_equal(said.state, KVR_PAIR_WARM);
    assert_int_equal(said.why, KVR_OK);
    assert_int_equal(said.since, now);
    assert_int_equal(said.breaks, 1);
    close_rails();
}

/* As after RAIL_LOST: the target replaces its endpoint of rail 0. */
static void target_renews(kvr_ns now)
{
    rails[0].epoch++;
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &rails[0]);
    kvr_group_step(fixture.group, now);
    finish_all(fixture.rails[1].newest);
    kvr_group_step(fixture.group, now);
}

/* Rail 0 is found slow. What was on its way comes through after all, late. Returns when it broke.
 */
static kvr_ns becomes_slow(kvr_ns now)
{
    struct kvr_group_message message;
    struct kvr_pair pair;
    kvr_ns broke;

    while (fixture.rails[0].newest->write_count == 0) {
        (void)post_bytes(&fixture, 0, BYTES, false, &pair);
        finish_all(fixture.rails[1].newest);
        kvr_group_step(fixture.group, now);
    }
    broke = run(now, now + SILENCE, 0, KVR_MS, &message);
    assert_int_equal(message.pair_broken.status, KVR_TOO_SLOW);
    finish_all(fixture.rails[0].newest);
    kvr_group_step(fixture.group, broke);
    target_renews(broke);
    return broke;
}

/* That is no trial: the rail rests until a warm-up is good, also where the other one is full. */
static void late_writes_do_not_end_the_rest(void **state)
{
    struct kvr_pair pair;
    kvr_ns now;

    (void)state;
    open_rails(2);
    now = becomes_slow(KVR_S);
    for (unsigned i = 0; i < 8; i++) {
        while (post_bytes(&fixture, 0, BYTES, false, &pair) == KVR_OK)
            assert_int_equal(pair.rail, 1);
        finish_all(fixture.rails[1].newest);
        kvr_group_step(fixture.group, now);
        assert_false(warm_up_takes(&now, 0));
        now += SILENCE / 16;
        kvr_group_step(fixture.group, now);
    }
    now += SILENCE / 2;
    assert_true(warm_up_takes(&now, KVR_US)); /* with connecting */
    assert_true(warm_up_takes(&now, KVR_US));
    assert_true(carries(now));
    close_rails();
}

/* All that is on its way comes through soon. */
static kvr_ns goes_well(kvr_ns now, kvr_ns until)
{
    for (; now < until; now += KVR_MS) {
        finish_all(fixture.rails[0].newest);
        finish_all(fixture.rails[1].newest);
        kvr_group_step(fixture.group, now);
    }
    return until;
}

/* A good spell that is as long as the first rest does not make the next one short again. */
static void a_rest_stays_long_after_a_short_good_spell(void **state)
{
    kvr_ns now = KVR_S, broke;

    (void)state;
    open_rails(2);
    for (unsigned rest = 1; rest <= 8; rest *= 2) {
        broke = becomes_slow(now);
        assert_int_equal(pair_said(broke).rests_until, broke + rest * SILENCE);
        assert_false(carries(broke));
        now = broke + rest * SILENCE;
        assert_true(warm_up_takes(&now, KVR_US));
        assert_true(warm_up_takes(&now, KVR_US));
        assert_true(carries(now));
        now = goes_well(now, now + SILENCE);
    }
    close_rails();
}

/* A slow rail is better than none. */
static void a_slow_rail_that_is_left_alone_carries_at_once(void **state)
{
    struct kvr_group_message message;
    struct kvr_pair pair;
    kvr_ns now;

    (void)state;
    open_rails(2);
    fill(4);
    now = run(KVR_S, KVR_S + SILENCE, 0, KVR_MS, &message);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    kvr_group_step(fixture.group, now);
    finish(fixture.rails[1].newest, 0, KVR_RAIL_FAILED);
    kvr_group_step(fixture.group, now);
    assert_int_equal(post_bytes(&fixture, 0, BYTES, false, &pair), KVR_NO_RAIL);
    assert_true(warm_up_takes(&now, KVR_S));
    assert_int_equal(post_bytes(&fixture, 0, BYTES, false, &pair), KVR_OK);
    assert_int_equal(pair.rail, 0);
    close_rails();
}

/* tcp completes writes that have not arrived yet: a few ask, also where there are few. */
static void the_end_of_a_batch_asks_now_and_then(void **state)
{
    const bool expected[] = {true, false, false, true};
    const struct kvr_endpoint *endpoint = NULL;
    struct kvr_pair pair;

    (void)state;
    open_rails(1);
    for (unsigned i = 0; i < 4; i++) {
        kvr_group_step(fixture.group, 2 * KVR_S + 2 * i * KVR_MS);
        assert_int_equal(post_bytes(&fixture, 0, BYTES, false, &pair), KVR_OK);
        endpoint = fixture.rails[0].newest;
        assert_int_equal(endpoint->writes[i].acknowledged, expected[i]);
    }
    close_rails();
}

/* Posts to rail 0 until it has `count` writes, which complete at once; the other completes, too. */
static void post_and_complete(unsigned count)
{
    struct kvr_pair pair;

    while (count > 0) {
        assert_int_equal(post_bytes(&fixture, 0, BYTES, false, &pair), KVR_OK);
        count -= pair.rail == 0;
    }
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
}

/* On tcp writes complete that are still in the kernel. The last ones of a transfer have not asked,
 * and nothing follows. */
static void the_last_writes_are_asked_for(void **state)
{
    struct kvr_group_message message;
    kvr_ns now = 2 * KVR_S, broke;

    (void)state;
    open_rails(2);
    kvr_group_step(fixture.group, now);
    post_and_complete(1);
    kvr_group_step(fixture.group, now += KVR_MS);
    post_and_complete(3);
    kvr_group_step(fixture.group, now += KVR_MS);
    assert_int_equal(fixture.rails[0].newest->write_count, 0);
    for (kvr_ns end = now + VERDICT; now < end && fixture.rails[0].newest->write_count == 0;
         now += KVR_MS)
        kvr_group_step(fixture.group, now);
    assert_int_equal(fixture.rails[0].newest->write_count, 1);
    assert_int_equal(fixture.rails[0].newest->writes[0].first.bytes, 4096);
    assert_true(fixture.rails[0].newest->writes[0].acknowledged);
    broke = run(now, now + SILENCE, 0, KVR_MS, &message);
    assert_true(broke <= now + 2 * VERDICT);
    assert_int_equal(message.pair_broken.pair.rail, 0);
    assert_int_equal(message.pair_broken.status, KVR_TOO_SLOW);
    close_rails();
}

/* Once is enough, and a write that asked needs none. */
static void a_pair_at_rest_is_asked_once(void **state)
{
    unsigned asked = 0;
    kvr_ns now = 2 * KVR_S;

    (void)state;
    open_rails(2);
    kvr_group_step(fixture.group, now);
    post_and_complete(1);
    kvr_group_step(fixture.group, now += KVR_MS);
    post_and_complete(3);
    for (kvr_ns end = now + SILENCE; now < end; now += KVR_MS) {
        kvr_group_step(fixture.group, now);
        asked += fixture.rails[0].newest->write_count;
        finish_all(fixture.rails[0].newest);
        finish_all(fixture.rails[1].newest);
    }
    assert_int_equal(asked, 1);
    close_rails();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_writes_are_asked_for),
        cmocka_unit_test(a_pair_at_rest_is_asked_once),
        cmocka_unit_test(a_hole_beside_a_good_rail_is_given_up_soon),
        cmocka_unit_test(a_rail_that_crawls_is_given_up_soon),
        cmocka_unit_test(a_rail_five_times_slower_is_kept),
        cmocka_unit_test(two_silent_rails_wait_for_the_silence_bound),
        cmocka_unit_test(a_sibling_at_rest_is_asked),
        cmocka_unit_test(the_end_of_a_batch_asks_now_and_then),
        cmocka_unit_test(a_slow_rail_rests_and_comes_back),
        cmocka_unit_test(late_writes_do_not_end_the_rest),
        cmocka_unit_test(a_rest_stays_long_after_a_short_good_spell),
        cmocka_unit_test(a_slow_rail_that_is_left_alone_carries_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
