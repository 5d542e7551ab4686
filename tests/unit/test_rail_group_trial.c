/* Goal: a peer that nothing has reached yet is soon known to be out of reach, and a slow first
 * write is not taken for that. Method: a rail group on a scripted fabric in which warm-ups hang,
 * and a clock that the case moves. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define SILENCE     (3 * KVR_S)
#define SCRATCH_KEY 7000u
#define FROM        1 /* the warm-ups leave then */

static struct group_fixture fixture;

/* Where theirs are in the plane of ours, rail i is paired with their rail i, and may try others. */
static void open_rails(const char *our_planes, const char *their_planes)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];
    struct kvr_group_message answer;

    fixture_open_in(
        &fixture, our_planes,
        &(struct kvr_group_options){.ring_entries = 64, .silence_ns = SILENCE, .warm_up = true});
    rails->rail_count = (uint32_t)strlen(their_planes);
    for (uint32_t i = 0; i < rails->rail_count; i++)
        rails->rails[i] =
            (struct kvr_rail_address){.rail = i,
                                      .epoch = 1,
                                      .bytes = 1,
                                      .address = {(uint8_t)('a' + i)},
                                      .plane = {their_planes[i]},
                                      .scratch_bytes = 4096,
                                      .scratch = {.key = SCRATCH_KEY + i, .base = 64}};
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
    assert_int_equal(answer.peer_rails.status, KVR_OK);
}

/* Two rails of ours in plane a. */
static void open_pairs(const char *their_planes)
{
    open_rails("aa", their_planes);
}

static unsigned writes_of(uint32_t rail)
{
    return fixture.rails[rail].newest->write_count;
}

static kvr_status post_one(void)
{
    struct kvr_pair pair;

    return post(&fixture, 0, &pair);
}

/* Until then, and one step more. */
static void until(kvr_ns at)
{
    fixture_settle(&fixture, at);
    kvr_group_step(fixture.group, at);
    fixture_settle(&fixture, at);
}

/* How often the group has announced pairs that have carried a write, or that none has. */
static unsigned warm_told(uint64_t *ret_pairs)
{
    struct kvr_group_message message;
    unsigned count = 0;

    while (fixture_told(&fixture, KVR_GROUP_PEER_WARM, &message)) {
        *ret_pairs = message.peer_warm.pairs;
        count++;
    }
    return count;
}

static void slow_pairs_are_in_doubt_and_others_are_tried(void **state)
{
    const kvr_ns doubt = FROM + kvr_group_doubt(SILENCE);

    (void)state;
    open_pairs("aa");
    assert_int_equal(writes_of(0), 1);
    fixture_settle(&fixture, doubt - 1);
    assert_int_equal(writes_of(0), 1);
    assert_int_equal(writes_of(1), 1);
    assert_true(kvr_group_wake_at(fixture.group, doubt - 1, KVR_S) <= doubt);
    until(doubt);
    assert_int_equal(post_one(), KVR_NO_RAIL);
    assert_int_equal(writes_of(0), 2); /* each rail to both of theirs */
    assert_int_equal(writes_of(1), 2);
    assert_int_equal(fixture.rails[0].newest->writes[1].first.key, SCRATCH_KEY + 1);
    assert_int_equal(fixture.rails[1].newest->writes[1].first.key, SCRATCH_KEY);
    kvr_group_close(fixture.group);
}

/* A packet of the connection was lost, and sent again. */
static void slow_first_write_is_no_failure(void **state)
{
    struct kvr_group_message message;
    uint64_t pairs;

    (void)state;
    open_pairs("aa");
    fixture_settle(&fixture, FROM + kvr_group_doubt(SILENCE));
    assert_int_equal(post_one(), KVR_NO_RAIL);
    fixture_settle(&fixture, FROM + kvr_group_trial(SILENCE) - 1);
    while (event(&fixture, &message)) {
        assert_int_not_equal(message.head.kind, KVR_GROUP_PEER_WARM);
        assert_false(message.head.kind == KVR_GROUP_PAIR_BROKEN &&
                     message.pair_broken.pair.rail == message.pair_broken.pair.target_rail);
    }
    finish(fixture.rails[0].newest, 0, KVR_OK);
    fixture_settle(&fixture, FROM + kvr_group_trial(SILENCE) - 1);
    assert_int_equal(warm_told(&pairs), 1); /* one that is in doubt is not waited for */
    assert_int_equal(pairs, 1);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

static void silent_pairs_break_after_their_trial(void **state)
{
    const kvr_ns end = FROM + kvr_group_trial(SILENCE);
    struct kvr_group_message message;
    unsigned broken = 0;
    uint64_t pairs;

    (void)state;
    open_pairs("aa");
    for (kvr_ns at = FROM; at < end; at += SILENCE / 12)
        fixture_settle(&fixture, at);
    assert_int_equal(warm_told(&pairs), 0);
    fixture_settle(&fixture, end);
    while (event(&fixture, &message)) {
        if (message.head.kind == KVR_GROUP_PAIR_BROKEN) {
            assert_int_equal(message.pair_broken.status, KVR_TIMED_OUT);
            broken += message.pair_broken.pair.rail == message.pair_broken.pair.target_rail;
        }
        if (message.head.kind == KVR_GROUP_PEER_WARM)
            assert_int_equal(message.peer_warm.pairs, 0);
    }
    assert_int_equal(broken, 2);
    kvr_group_close(fixture.group);
}

/* Far pairs are needed as soon as the near ones are in doubt. */
static void far_pairs_are_tried_meanwhile(void **state)
{
    (void)state;
    open_pairs("ab");
    assert_int_equal(writes_of(0) + writes_of(1), 2); /* each with their rail 0 */
    until(FROM + kvr_group_doubt(SILENCE));
    assert_int_equal(writes_of(0) + writes_of(1), 3);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

/* Once bytes have come through, writes may be silent for the whole bound. */
static void peer_that_was_reached_is_not_in_doubt(void **state)
{
    (void)state;
    open_pairs("aa");
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(post_one(), KVR_OK);
    fixture_settle(&fixture, 1 + kvr_group_trial(SILENCE));
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The peer misses writes and ends its epoch: the rail tries its other rail. */
static void pair_in_vain_has_a_spare_at_once(void **state)
{
    struct kvr_rail_address successor = fixture.peer_rails[0].rails[0];

    (void)state;
    open_pairs("aa");
    successor = fixture.peer_rails[0].rails[0];
    successor.epoch++;
    assert_int_equal(post_one(), KVR_OK);
    assert_int_equal(post_one(), KVR_OK);
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    until(2);
    assert_int_equal(fixture.rails[0].newest->writes[writes_of(0) - 1].first.key, SCRATCH_KEY + 1);
    kvr_group_close(fixture.group);
}

static void renew(uint32_t rail, kvr_ns at)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PAIR_RENEW, .pair_renew.rail = rail};

    fixture_tell(&fixture, at, &message);
    until(at);
}

static unsigned stuck_told(void)
{
    struct kvr_group_message message;
    unsigned count = 0;

    while (fixture_told(&fixture, KVR_GROUP_RAIL_ERROR, &message)) {
        assert_int_equal(message.rail_error.status, KVR_FULL);
        assert_int_equal(message.rail_error.rail, 0);
        count++;
    }
    return count;
}

/* It asks for a fresh endpoint when the write never ends: the pair would not be tried again. */
static void pair_whose_write_hangs_is_tried_in_the_end(void **state)
{
    const kvr_ns renewed = 2 * SILENCE, end = FROM + 10 * SILENCE;

    (void)state;
    open_pairs("b");
    until(FROM + kvr_group_doubt(SILENCE));
    until(FROM + kvr_group_trial(SILENCE));
    renew(0, renewed);
    until(end - 1);
    assert_int_equal(stuck_told(), 0);
    assert_true(kvr_group_wake_at(fixture.group, end - 1, KVR_S) <= end);
    until(end);
    assert_int_equal(stuck_told(), 1);
    kvr_group_close(fixture.group);
}

static void pair_whose_write_ends_late_is_tried_then(void **state)
{
    (void)state;
    open_pairs("b");
    until(FROM + kvr_group_doubt(SILENCE));
    until(FROM + kvr_group_trial(SILENCE));
    renew(0, 2 * SILENCE);
    assert_int_equal(writes_of(0), 1);
    finish(fixture.rails[0].newest, 0, KVR_OK);
    until(3 * SILENCE);
    assert_int_equal(writes_of(0), 1); /* a warm-up */
    finish_all(fixture.rails[0].newest);
    until(3 * SILENCE);
    assert_int_equal(post_one(), KVR_OK);
    kvr_group_close(fixture.group);
}

/* Of the peer's rails, as bits: those that rail 0 has tried. */
static uint32_t rails_tried(void)
{
    const struct kvr_endpoint *endpoint = fixture.rails[0].newest;
    uint32_t tried = 0;

    for (unsigned i = 0; i < endpoint->write_count; i++) {
        uint64_t rail = endpoint->writes[i].first.key - SCRATCH_KEY;

        tried |= rail < 32 ? UINT32_C(1) << rail : 0; /* else a user's write */
    }
    return tried;
}

/* A transfer without a pair gives up a twelfth of the bound after the trial (failover.c). */
static void every_spare_rail_is_tried_before_a_transfer_gives_up(void **state)
{
    static const char *const planes[] = {"aa", "aaa", "aaaa", "aaaaaaaa"};
    const kvr_ns end = FROM + kvr_group_trial(SILENCE) + SILENCE / 12;

    (void)state;
    for (uint32_t i = 0; i < sizeof(planes) / sizeof(planes[0]); i++) {
        open_rails(planes[i], planes[i]);
        for (kvr_ns at = FROM; at < end; at += SILENCE / 100) {
            until(at);
            if (at > FROM + kvr_group_doubt(SILENCE)) /* a user's write waits for a pair */
                assert_int_equal(post_one(), KVR_NO_RAIL);
        }
        assert_int_equal(rails_tried(), (UINT32_C(1) << strlen(planes[i])) - 1);
        kvr_group_close(fixture.group);
    }
}

/* The pairs worked, and all break at once: a transfer waits for `soon`. */
static void every_spare_rail_is_tried_after_a_break(void **state)
{
    const kvr_ns broken = 2 + SILENCE, end = broken + kvr_group_soon(SILENCE);

    (void)state;
    open_rails("aaaa", "aaaa");
    until(FROM);
    for (uint32_t rail = 0; rail < 4; rail++)
        finish_all(fixture.rails[rail].newest);
    until(2);
    for (uint32_t rail = 0; rail < 4; rail++)
        assert_int_equal(post_one(), KVR_OK);
    until(broken);
    for (kvr_ns at = broken; at < end; at += SILENCE / 100) {
        until(at);
        assert_int_equal(post_one(), KVR_NO_RAIL);
    }
    assert_int_equal(rails_tried() & 0xe, 0xe);
    kvr_group_close(fixture.group);
}

/* The pairs worked, and all are silent. One of them is fresh: its own time is not waited for. */
static void spare_rails_are_tried_beside_a_fresh_pair(void **state)
{
    const kvr_ns silent = 2 + SILENCE, end = silent + kvr_group_soon(SILENCE);
    struct kvr_rail_address successor;
    struct kvr_group_message fresh = {.head.kind = KVR_GROUP_PEER_RAIL,
                                      .peer_rail.address = &successor};

    (void)state;
    open_rails("aaaa", "aaaa");
    until(FROM);
    for (uint32_t rail = 0; rail < 4; rail++)
        finish_all(fixture.rails[rail].newest);
    until(2);
    for (uint32_t rail = 0; rail < 4; rail++)
        assert_int_equal(post_one(), KVR_OK);
    until(silent - 1);
    successor = fixture.peer_rails[0].rails[0];
    successor.epoch++;
    fixture_tell(&fixture, silent - 1, &fresh);
    for (kvr_ns at = silent; at < end; at += SILENCE / 100) {
        until(at);
        assert_int_equal(post_one(), KVR_NO_RAIL);
    }
    assert_int_equal(rails_tried(), 0xf);
    kvr_group_close(fixture.group);
}

/* Short bounds leave a second to connect, as far as they can. */
static void trials_leave_a_second(void **state)
{
    (void)state;
    assert_int_equal(kvr_group_trial(3 * KVR_S), 9 * KVR_S / 4);
    assert_int_equal(kvr_group_trial(KVR_S + 1), KVR_S);
    assert_int_equal(kvr_group_trial(KVR_S / 2), KVR_S / 2);
    assert_true(kvr_group_doubt(KVR_S) < kvr_group_trial(KVR_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_pairs_are_in_doubt_and_others_are_tried),
        cmocka_unit_test(slow_first_write_is_no_failure),
        cmocka_unit_test(silent_pairs_break_after_their_trial),
        cmocka_unit_test(far_pairs_are_tried_meanwhile),
        cmocka_unit_test(peer_that_was_reached_is_not_in_doubt),
        cmocka_unit_test(pair_in_vain_has_a_spare_at_once),
        cmocka_unit_test(pair_whose_write_hangs_is_tried_in_the_end),
        cmocka_unit_test(pair_whose_write_ends_late_is_tried_then),
        cmocka_unit_test(every_spare_rail_is_tried_before_a_transfer_gives_up),
        cmocka_unit_test(every_spare_rail_is_tried_after_a_break),
        cmocka_unit_test(spare_rails_are_tried_beside_a_fresh_pair),
        cmocka_unit_test(trials_leave_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
