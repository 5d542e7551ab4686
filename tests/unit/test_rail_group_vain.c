/* Goal: a pair that has carried nothing yet is on trial once its endpoint is replaced under users'
 * writes, at either end; else its silence would begin anew each time. Method: a rail group on a
 * scripted fabric that completes a write only when the case demands. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE (3 * KVR_S)

static struct group_fixture fixture;

static struct kvr_rail_address address_of(uint32_t epoch)
{
    return (struct kvr_rail_address){.epoch = epoch,
                                     .bytes = 1,
                                     .address = {'a'},
                                     .scratch_bytes = 4096,
                                     .scratch = {.key = 7000, .base = 64}};
}

/* One pair, and its warm-up is on its way. */
static void open_pair(void)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];
    struct kvr_group_message answer;

    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1,
                                                          .ring_entries = 64,
                                                          .silence_ns = SILENCE,
                                                          .warm_up = true});
    rails->rail_count = 1;
    rails->rails[0] = address_of(1);
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
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
    struct kvr_rail_address successor = address_of(2);

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
    struct kvr_rail_address successor = address_of(2);

    (void)state;
    open_pair();
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_that_misses_writes_is_tried_first),
        cmocka_unit_test(hanging_write_is_not_forgotten),
        cmocka_unit_test(pair_that_has_carried_a_write_goes_on),
        cmocka_unit_test(warm_up_that_is_cut_short_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
