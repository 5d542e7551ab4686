/* Goal: rails of unequal speed end together, no rail idles while there is work, and a stuck rail
 * blocks no transfer. Method: a rail group on a scripted fabric in virtual time; each rail
 * completes one write after the other, each in a number of milliseconds. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define WRITE_BYTES 65536
#define WINDOW      32
#define ROUNDS      400u /* of a millisecond */

static struct group_fixture fixture;
static unsigned every_ms[2]; /* the time between completions of a rail; 0: never */
static unsigned idle_rounds[2];
static uint32_t on[2]; /* in flight */

static kvr_ns at(unsigned round)
{
    return KVR_S + round * KVR_MS;
}

static void open_rails_to(uint32_t target_rails, unsigned first_ms, unsigned second_ms)
{
    memset(idle_rounds, 0, sizeof(idle_rounds));
    memset(on, 0, sizeof(on));
    every_ms[0] = first_ms;
    every_ms[1] = second_ms;
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 2, .window_writes = WINDOW, .ring_entries = 64});
    peer_add(&fixture, 0, target_rails);
    kvr_group_step(fixture.group, at(0));
}

static void open_rails(unsigned first_ms, unsigned second_ms)
{
    open_rails_to(2, first_ms, second_ms);
}

static void post_all(void)
{
    struct kvr_pair pair;

    while (post_bytes(&fixture, 0, WRITE_BYTES, false, &pair) == KVR_OK)
        on[pair.rail]++;
}

static void complete(unsigned round)
{
    for (unsigned rail = 0; rail < 2; rail++) {
        idle_rounds[rail] += on[rail] == 0;
        if (every_ms[rail] == 0 || round % every_ms[rail] != 0 || on[rail] == 0)
            continue;
        finish(fixture.rails[rail].newest, 0, KVR_OK);
        on[rail]--;
    }
    kvr_group_step(fixture.group, at(round));
}

static void run_rounds(unsigned from, unsigned count)
{
    for (unsigned round = from; round < from + count; round++) {
        post_all();
        complete(round);
    }
}

static void slow_and_fast_end_together(void **state)
{
    unsigned end[2] = {0};

    (void)state;
    open_rails(1, 8);
    run_rounds(1, ROUNDS);
    assert_int_equal(idle_rounds[0], 0);
    assert_int_equal(idle_rounds[1], 0);
    post_all();
    for (unsigned round = ROUNDS + 1; round < 2 * ROUNDS; round++) {
        complete(round);
        for (unsigned rail = 0; rail < 2; rail++)
            if (on[rail] > 0)
                end[rail] = round;
    }
    assert_true(end[0] >= ROUNDS + WINDOW / 2);                    /* the fast rail was full */
    assert_true(end[1] <= end[0] + 8 && end[1] + 3 * 8 >= end[0]); /* give or take a few writes */
    kvr_group_close(fixture.group);
}

/* Writes may queue on the other rail as soon as the full rail is silent for longer than the other
 * would need. */
static void a_stuck_rail_holds_nobody(void **state)
{
    uint64_t before;

    (void)state;
    open_rails(1, 4);
    run_rounds(1, ROUNDS);
    every_ms[0] = 0;
    before = kvr_group_counters(fixture.group, 1).writes;
    run_rounds(ROUNDS + 1, ROUNDS);
    assert_int_equal(idle_rounds[1], 0);
    assert_true(kvr_group_counters(fixture.group, 1).writes >= before + ROUNDS / 4);
    kvr_group_close(fixture.group);
}

/* Where a window is the limit, and not a speed, all windows are filled. */
static void short_queues_fill_every_window(void **state)
{
    (void)state;
    open_rails(1, 1);
    for (unsigned round = 1; round < ROUNDS; round++) {
        post_all();
        assert_int_equal(on[0], on[1]);
        for (unsigned rail = 0; rail < 2; rail++) /* all at once, after the same time */
            while (on[rail] > 0 && (rail == 0 || round % 2 == 0)) {
                finish(fixture.rails[rail].newest, 0, KVR_OK);
                on[rail]--;
            }
        kvr_group_step(fixture.group, at(round));
        post_all();
        assert_true(on[0] >= WINDOW * 3 / 4 - 1 && on[1] >= WINDOW * 3 / 4 - 1);
    }
    kvr_group_close(fixture.group);
}

/* Refused in the middle of a batch. Where a doorbell is owed, the next write waits for that rail.
 * Where the provider rings by itself, the other rail goes on. */
static void a_refusal_holds_nobody_without_doorbells(void **state)
{
    (void)state;
    for (unsigned by_itself = 0; by_itself < 2; by_itself++) {
        struct kvr_pair first, second;

        fake_rings_by_itself = by_itself != 0;
        open_rails(1, 1);
        assert_int_equal(post_bytes(&fixture, 0, WRITE_BYTES, true, &first), KVR_OK);
        fixture.rails[first.rail].newest->again_once = 1000;
        assert_int_equal(post_bytes(&fixture, 0, WRITE_BYTES, true, &second),
                         by_itself ? KVR_OK : KVR_AGAIN);
        if (by_itself)
            assert_int_not_equal(first.rail, second.rail);
        kvr_group_close(fixture.group);
    }
    fake_rings_by_itself = false;
}

static kvr_status post_to(uint64_t target_rails, struct kvr_pair *ret_pair)
{
    struct kvr_group_piece piece = {&fixture.local, &fixture.remote, 0, 0, WRITE_BYTES, NULL};
    struct kvr_group_post post = {
        .pieces = &piece, .piece_count = 1, .rails = target_rails, .token = fixture.token};
    kvr_status status = kvr_group_post(fixture.group, &post, ret_pair);

    fixture.token += status == KVR_OK;
    return status;
}

/* Two pairs for each rail of ours. Rail 0 is full, and would still end first. Rail 1 is slow, and
 * one of its pairs rests. */
static void open_full_and_slow(void)
{
    struct kvr_pair pair;
    unsigned round = 1;

    open_rails_to(4, 1, 8);
    for (unsigned rail = 0; rail < 2; rail++, round += 10) {
        kvr_group_step(fixture.group, at(round));
        assert_int_equal(post_to(UINT64_C(1) << rail, &pair), KVR_OK);
        assert_int_equal(pair.rail, rail);
        kvr_group_step(fixture.group, at(round + every_ms[rail]));
        finish(fixture.rails[rail].newest, 0, KVR_OK);
        kvr_group_step(fixture.group, at(round + every_ms[rail]));
    }
    while (post_to(1 << 0 | 1 << 2, &pair) == KVR_OK)
        ;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(post_to(1 << 1, &pair), KVR_OK);
}

/* Both pairs of the slow rail would end at the same time: the queue of the rail is before the next
 * write on either. Over the one that rests it leaves at once, wherever the search begins. Else the
 * luck of the turn decides which tenant's write finds room. */
static void of_equal_pairs_one_that_rests_is_taken(void **state)
{
    (void)state;
    for (unsigned turns = 0; turns < 4; turns++) {
        struct kvr_pair pair;

        open_full_and_slow();
        for (unsigned i = 0; i < turns; i++)
            assert_int_equal(post_to(1 << 7, &pair), KVR_NO_RAIL);
        assert_int_equal(post_to(0, &pair), KVR_OK);
        assert_int_equal(pair.rail, 1);
        assert_int_equal(pair.target_rail, 3);
        kvr_group_close(fixture.group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_and_fast_end_together),
        cmocka_unit_test(a_stuck_rail_holds_nobody),
        cmocka_unit_test(short_queues_fill_every_window),
        cmocka_unit_test(a_refusal_holds_nobody_without_doorbells),
        cmocka_unit_test(of_equal_pairs_one_that_rests_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
