/* Goal: a pair that has carried no write is not taken for one that works. It is on trial once its
 * endpoint is replaced under users' writes, at either end; else its silence would begin anew each
 * time. Method: a rail group on a scripted fabric that completes a write only when the case
 * demands. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE     (3 * KVR_S)
#define SCRATCH_KEY 7000u

static struct group_fixture fixture;
static bool needs_senders; /* the peer's rails */

static struct kvr_rail_address address_of(uint32_t rail, uint32_t epoch)
{
    return (struct kvr_rail_address){.rail = rail,
                                     .epoch = epoch,
                                     .bytes = 1,
                                     .address = {(uint8_t)('a' + rail)},
                                     .needs_senders = needs_senders,
                                     .scratch_bytes = 4096,
                                     .scratch = {.key = SCRATCH_KEY + rail, .base = 64}};
}

/* A rail of ours, in pairs with so many of the peer's. */
static void open_pairs(uint32_t count, uint32_t window)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];
    struct kvr_group_message answer;

    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1,
                                                          .window_writes = window,
                                                          .ring_entries = 64,
                                                          .silence_ns = SILENCE,
                                                          .warm_up = true});
    rails->rail_count = count;
    for (uint32_t i = 0; i < count; i++)
        rails->rails[i] = address_of(i, 1);
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
}

/* One, and its warm-up is on its way. */
static void open_pair(void)
{
    open_pairs(1, 0);
    assert_int_equal(fixture.rails[0].newest->write_count, 1);
}

static kvr_status post_one(void)
{
    struct kvr_pair pair;

    return post(&fixture, 0, &pair);
}

/* Users' writes leave once a warm-up has come through. */
static void assert_on_trial(void)
{
    assert_int_equal(post_one(), KVR_NO_RAIL);
    fixture_settle(&fixture, 2);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 3);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The peer ends its epoch because it misses what was written there. */
static void peer_that_misses_writes_is_tried_first(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);

    (void)state;
    open_pair();
    assert_int_equal(post_one(), KVR_OK);
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_on_trial();
}

/* Our endpoint is replaced for another pair's sake. */
static void hanging_write_is_not_forgotten(void **state)
{
    (void)state;
    open_pair();
    assert_int_equal(post_one(), KVR_OK);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_on_trial();
}

static void pair_that_has_carried_a_write_goes_on(void **state)
{
    (void)state;
    open_pair();
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(post_one(), KVR_OK);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

static void warm_up_that_is_cut_short_proves_nothing(void **state)
{
    struct kvr_rail_address successor = address_of(0, 2);

    (void)state;
    open_pair();
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The peer's endpoints know our fresh one. Until then nothing leaves. */
static void known(uint32_t epoch, kvr_ns now)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_SENDER_KNOWN,
        .sender_known = {.peer = 0, .rail = 0, .epoch = epoch},
    };

    fixture_tell(&fixture, now, &message);
    fixture_settle(&fixture, now);
}

/* A pair that failed does not take the room of those that have not been tried, although a user's
 * write waits for each of them. The rail takes one write. */
static void pairs_are_tried_by_turns(void **state)
{
    uint32_t tried = 0;
    kvr_ns now = 1;

    (void)state;
    needs_senders = true;
    open_pairs(3, 1);
    needs_senders = false;
    for (uint32_t i = 0; i < 3; i++) {
        const struct kvr_endpoint *endpoint;

        known(i + 1, now);
        endpoint = fixture.rails[0].newest;
        assert_int_equal(endpoint->write_count, 1);
        tried |= 1u << (endpoint->writes[0].first.key - SCRATCH_KEY);
        now += SILENCE;
        fixture_settle(&fixture, now);
        fixture_settle(&fixture, ++now);
        command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
        assert_int_not_equal(post_one(), KVR_OK);
    }
    assert_int_equal(tried, 7);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    kvr_group_close(fixture.group);
}

static bool breaks_shared(void)
{
    struct kvr_group_message message;

    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, 9);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    return message.pair_broken.shared;
}

/* Without warm-up a pair may be untried. Its rail gets a fresh endpoint. */
static void untried_pair_is_not_worth_an_endpoint(void **state)
{
    (void)state;
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1, .ring_entries = 64});
    peer_add(&fixture, 0, 1);
    peer_add(&fixture, 1, 1);
    assert_int_equal(post_one(), KVR_OK);
    assert_false(breaks_shared());
    kvr_group_close(fixture.group);
}

static void pair_that_carries_writes_is_spared(void **state)
{
    struct kvr_pair pair;

    (void)state;
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1, .ring_entries = 64});
    peer_add(&fixture, 0, 1);
    peer_add(&fixture, 1, 1);
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 1);
    assert_int_equal(post_one(), KVR_OK);
    assert_true(breaks_shared());
    kvr_group_close(fixture.group);
}

/* The first write fails, and the next one comes through: the loop has the pair tried anew, as one
 * that never worked. */
static void pair_that_worked_too_late_is_tried_anew(void **state)
{
    struct kvr_group_message message,
        renew = {.head.kind = KVR_GROUP_PAIR_RENEW, .pair_renew = {.peer = 0, .rail = 0}};

    (void)state;
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1, .ring_entries = 64});
    peer_add(&fixture, 0, 1);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(post_one(), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    finish(fixture.rails[0].newest, 0, KVR_OK);
    fixture_settle(&fixture, 2);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_false(message.pair_broken.proven);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    fixture_tell(&fixture, 3, &renew);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

static void carries(uint32_t peer, kvr_ns now)
{
    struct kvr_pair pair;

    assert_int_equal(post(&fixture, peer, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, now);
}

/* An endpoint may end while nothing is on its way. Writes that came through before say nothing
 * then. A peer's write that broke off is no end of ours. */
static void endpoint_that_ended_is_not_worth_keeping(void **state)
{
    static const struct {
        kvr_status error;
        bool carries_after, shared;
    } rows[] = {{KVR_RAIL_FAILED, false, false},
                {KVR_RAIL_FAILED, true, true},
                {KVR_PEER_LOST, false, true}};

    (void)state;
    for (unsigned row = 0; row < 3; row++) {
        fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1, .ring_entries = 64});
        peer_add(&fixture, 0, 1);
        peer_add(&fixture, 1, 1);
        carries(1, 1);
        fake_push(fixture.rails[0].newest, (struct kvr_completion){.kind = KVR_COMPLETION_FAILED,
                                                                   .status = rows[row].error});
        fixture_settle(&fixture, 2);
        if (rows[row].carries_after)
            carries(1, 3);
        assert_int_equal(post_one(), KVR_OK);
        assert_int_equal(breaks_shared(), rows[row].shared);
        kvr_group_close(fixture.group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_that_misses_writes_is_tried_first),
        cmocka_unit_test(hanging_write_is_not_forgotten),
        cmocka_unit_test(pair_that_has_carried_a_write_goes_on),
        cmocka_unit_test(warm_up_that_is_cut_short_proves_nothing),
        cmocka_unit_test(pairs_are_tried_by_turns),
        cmocka_unit_test(untried_pair_is_not_worth_an_endpoint),
        cmocka_unit_test(pair_that_carries_writes_is_spared),
        cmocka_unit_test(endpoint_that_ended_is_not_worth_keeping),
        cmocka_unit_test(pair_that_worked_too_late_is_tried_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
