/* Goal: a peer that writes no longer reach is known soon after the silence bound, whatever is
 * replaced or tried meanwhile. Method: a rail group on a scripted fabric in which writes hang, and
 * a clock that the case moves. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE (3 * KVR_S)
#define SOON    kvr_group_soon(SILENCE)
#define FROM    KVR_S /* the first write leaves then */

static struct group_fixture fixture;
static bool last_was_fresh; /* the last pair that broke */

static struct kvr_rail_address address_of(uint32_t rail, uint32_t epoch)
{
    return (struct kvr_rail_address){.rail = rail,
                                     .epoch = epoch,
                                     .bytes = 1,
                                     .address = {(uint8_t)('a' + rail)},
                                     .scratch_bytes = 4096,
                                     .scratch = {.key = 7000, .base = 64}};
}

/* So many rails of ours and as many of the peer's. Each pair has carried its warm-up. */
static void open_warm_pairs(uint32_t count)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];

    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = count,
                                                          .ring_entries = 64,
                                                          .silence_ns = SILENCE,
                                                          .warm_up = true});
    rails->rail_count = count;
    for (uint32_t i = 0; i < count; i++)
        rails->rails[i] = address_of(i, 1);
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    for (uint32_t i = 0; i < count; i++)
        finish_all(fixture.rails[i].newest);
    fixture_settle(&fixture, FROM);
}

static void open_two_pairs(void)
{
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 2, .ring_entries = 64, .silence_ns = SILENCE});
    peer_add(&fixture, 0, 2);
}

static kvr_status post_one(void)
{
    struct kvr_pair pair;

    return post(&fixture, 0, &pair);
}

static unsigned broken_at(kvr_ns at)
{
    struct kvr_group_message message;
    unsigned count = 0;

    fixture_settle(&fixture, at);
    kvr_group_step(fixture.group, at);
    while (fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message)) {
        assert_int_equal(message.pair_broken.status, KVR_TIMED_OUT);
        last_was_fresh = message.pair_broken.fresh;
        count++;
    }
    return count;
}

static void tell_at(kvr_ns at, struct kvr_group_message message)
{
    fixture_tell(&fixture, at, &message);
    fixture_settle(&fixture, at);
}

static void recycle_at(kvr_ns at)
{
    tell_at(at, (struct kvr_group_message){.head.kind = KVR_GROUP_RECYCLE});
}

/* What hung on one pair goes over the next. That has time to connect, and no second bound. */
static void pairs_do_not_fail_one_bound_after_the_other(void **state)
{
    (void)state;
    open_two_pairs();
    fixture_settle(&fixture, FROM);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE), 1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE + SOON - 1), 0);
    assert_true(kvr_group_wake_at(fixture.group, FROM + SILENCE + SOON - 1, KVR_S) <=
                FROM + SILENCE + SOON);
    assert_int_equal(broken_at(FROM + SILENCE + SOON), 1);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    assert_int_equal(kvr_group_silent_from(fixture.group, 0), FROM);
    kvr_group_close(fixture.group);
}

/* The peer ends its epoch because it misses writes. Then our endpoint is replaced. */
static void fresh_endpoints_do_not_begin_the_silence_anew(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);

    (void)state;
    open_warm_pairs(1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE / 4), 0);
    tell_at(FROM + SILENCE / 4, (struct kvr_group_message){.head.kind = KVR_GROUP_PEER_RAIL,
                                                           .peer_rail = {.address = &successor}});
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE - 1), 0);
    assert_int_equal(broken_at(FROM + SILENCE), 1);
    recycle_at(FROM + SILENCE);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    fixture_settle(&fixture, FROM + SILENCE);
    assert_int_equal(broken_at(FROM + SILENCE + SOON - 1), 0);
    assert_int_equal(broken_at(FROM + SILENCE + SOON), 1);
    kvr_group_close(fixture.group);
}

/* A peer's rail is replaced in the silence. Nothing comes through to its fresh endpoint, as over
 * the other pair: when that breaks, no pair is left that would carry what hung there. */
static void a_fresh_pair_of_a_silent_peer_is_on_trial(void **state)
{
    static const kvr_status rows[] = {KVR_OK, KVR_AGAIN}; /* tcp refuses until it is connected */
    struct kvr_rail_address successor = address_of(1, 2);

    (void)state;
    for (unsigned row = 0; row < 2; row++) {
        const kvr_ns end = FROM + SILENCE;

        open_warm_pairs(2);
        assert_int_equal(post_one(), KVR_OK);
        fixture.rails[1].newest->next_write = rows[row];
        tell_at(end - SILENCE / 4,
                (struct kvr_group_message){.head.kind = KVR_GROUP_PEER_RAIL,
                                           .peer_rail = {.address = &successor}});
        assert_int_equal(broken_at(end - 1), 0);
        assert_true(kvr_group_wake_at(fixture.group, end - 1, KVR_S) <= end);
        assert_int_equal(broken_at(end), 1);
        assert_false(last_was_fresh);
        assert_int_equal(post_one(), KVR_NO_RAIL);
        assert_int_equal(broken_at(end - SILENCE / 4 + SOON - 1), 0);
        assert_int_equal(broken_at(end - SILENCE / 4 + SOON), 1); /* its own time is whole */
        assert_true(last_was_fresh);
        kvr_group_close(fixture.group);
    }
}

/* It comes through. */
static void a_fresh_pair_that_answers_carries_on(void **state)
{
    struct kvr_rail_address successor = address_of(1, 2);

    (void)state;
    open_warm_pairs(2);
    assert_int_equal(post_one(), KVR_OK);
    tell_at(FROM + SILENCE - 1, (struct kvr_group_message){.head.kind = KVR_GROUP_PEER_RAIL,
                                                           .peer_rail = {.address = &successor}});
    assert_int_equal(broken_at(FROM + SILENCE), 1);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, FROM + SILENCE + 1);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

/* One that is replaced just before the bound has the time to connect. */
static void a_late_endpoint_has_its_trial(void **state)
{
    (void)state;
    open_warm_pairs(1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE - 1), 0);
    recycle_at(FROM + SILENCE - 1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE - 1 + SOON - 1), 0);
    assert_int_equal(broken_at(FROM + SILENCE - 1 + SOON), 1);
    kvr_group_close(fixture.group);
}

static void an_answer_ends_the_silence(void **state)
{
    const kvr_ns later = FROM + SILENCE - 1;

    (void)state;
    open_two_pairs();
    fixture_settle(&fixture, FROM);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(later), 0);
    finish_all(fixture.rails[0].newest);
    assert_int_equal(broken_at(FROM + SILENCE), 1); /* the other pair */
    assert_int_equal(kvr_group_silent_from(fixture.group, 0), FROM + SILENCE);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + 2 * SILENCE - 1), 0);
    assert_int_equal(broken_at(FROM + 2 * SILENCE), 1);
    kvr_group_close(fixture.group);
}

/* An hour later, say. Nothing was owed meanwhile. */
static void after_a_rest_the_bound_is_whole(void **state)
{
    const kvr_ns later = FROM + 10 * SILENCE;

    (void)state;
    open_warm_pairs(1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(broken_at(FROM + SILENCE), 1);
    fixture_settle(&fixture, later);
    assert_int_equal(kvr_group_silent_from(fixture.group, 0), later);
    recycle_at(later);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    fixture_settle(&fixture, later);
    assert_int_equal(broken_at(later + SILENCE - 1), 0);
    assert_int_equal(broken_at(later + SILENCE), 1);
    kvr_group_close(fixture.group);
}

/* tcp completes a write as soon as the kernel has its bytes, the last ones when the socket is
 * closed. The pair is on trial all the same. */
static void what_ends_with_its_endpoint_proves_nothing(void **state)
{
    (void)state;
    open_warm_pairs(1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(post_one(), KVR_OK);
    assert_false(fixture.rails[0].newest->writes[1].acknowledged);
    assert_int_equal(broken_at(FROM + SILENCE), 1);
    finish(fixture.rails[0].newest, 1, KVR_OK);
    recycle_at(FROM + SILENCE);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    fixture_settle(&fixture, FROM + SILENCE);
    finish_all(fixture.rails[0].newest); /* the warm-up */
    fixture_settle(&fixture, FROM + SILENCE);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_do_not_fail_one_bound_after_the_other),
        cmocka_unit_test(fresh_endpoints_do_not_begin_the_silence_anew),
        cmocka_unit_test(a_fresh_pair_of_a_silent_peer_is_on_trial),
        cmocka_unit_test(a_fresh_pair_that_answers_carries_on),
        cmocka_unit_test(a_late_endpoint_has_its_trial),
        cmocka_unit_test(an_answer_ends_the_silence),
        cmocka_unit_test(after_a_rest_the_bound_is_whole),
        cmocka_unit_test(what_ends_with_its_endpoint_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
