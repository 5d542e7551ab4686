/* Goal: a rail group pairs rails, repairs broken pairs and settles every accepted post exactly
 * once. test_rail_group_post.c covers the way it posts. Method: a scripted fabric that completes a
 * write only when the case demands, and records its calls in order. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/rng.h"
#include "tests/support/fake_group.h"

static void group_pairs_all_rails(void **state)
{
    static const struct {
        uint32_t here, there, pairs;
    } cases[] = {{1, 1, 1}, {3, 1, 3}, {1, 3, 3}, {3, 2, 3}, {2, 3, 3}, {3, 3, 3}, {2, 7, 7}};
    struct group_fixture fixture;

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint32_t n = cases[c].here, m = cases[c].there, seen = 0;
        bool used[FAKE_RAILS][8] = {0};
        struct kvr_pair pair;

        fixture_open(&fixture, n, 0, 64);
        peer_add(&fixture, 0, m);
        for (unsigned i = 0; i < 8 * n; i++) {
            assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
            assert_true(pair.rail < n && pair.target_rail < m && pair.epoch == 1);
            assert_true(pair.rail == pair.target_rail % n || pair.target_rail == pair.rail % m);
            seen += !used[pair.rail][pair.target_rail];
            used[pair.rail][pair.target_rail] = true;
        }
        assert_int_equal(seen, cases[c].pairs);
        kvr_group_close(fixture.group);
    }
}

/* Two cards and one rail for this host on each side, in a different order at the peer. */
static void group_pairs_what_reaches_each_other(void **state)
{
    struct group_fixture fixture;
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];
    bool used[FAKE_RAILS][FAKE_RAILS] = {0};
    struct kvr_group_message answer;
    struct kvr_pair pair;

    (void)state;
    fake_same_host = 4;
    fixture_open(&fixture, 3, 0, 64);
    fake_same_host = 0;
    assert_true(kvr_group_address(fixture.group, 2).same_host);
    assert_false(kvr_group_address(fixture.group, 1).same_host);
    assert_false(kvr_group_address(fixture.group, 1).tags);
    rails->rail_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        rails->rails[i] = (struct kvr_rail_address){
            .rail = i, .epoch = 1, .same_host = i == 0, .bytes = 1, .address = {'a' + i}};
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_true(event(&fixture, &answer));
    assert_int_equal(answer.peer_rails.status, KVR_OK);
    for (unsigned i = 0; i < 24; i++) {
        assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
        used[pair.rail][pair.target_rail] = true;
    }
    for (uint32_t rail = 0; rail < 3; rail++)
        for (uint32_t there = 0; there < 3; there++)
            assert_int_equal(used[rail][there], rail == 2 ? there == 0 : there == rail + 1);
    kvr_group_close(fixture.group);
}

/* Without a doorbell, an idle group is polled ever more rarely: it costs nothing. */
static void group_rests(void **state)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_KIND_USER};
    const kvr_ns now = 100 * KVR_S, rested = now + KVR_GROUP_REST_NS;
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    fixture_open(&fixture, 1, 8, 64);
    peer_add(&fixture, 0, 1);
    fixture_tell(&fixture, now, &message);
    assert_true(kvr_group_wake_at(fixture.group, rested - 1, KVR_US) ==
                rested - 1 + KVR_GROUP_IDLE_POLL_NS);
    assert_true(kvr_group_wake_at(fixture.group, rested, KVR_US) ==
                rested + KVR_GROUP_REST_POLL_NS);
    fixture_tell(&fixture, rested, &message); /* a command ends the rest */
    assert_true(kvr_group_wake_at(fixture.group, rested, KVR_US) ==
                rested + KVR_GROUP_IDLE_POLL_NS);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_true(kvr_group_wake_at(fixture.group, 2 * rested, KVR_US) == 2 * rested + KVR_US);
    kvr_group_close(fixture.group);
}

/* Up to the largest number of rails of an agent: 32 cards, and behind them the rails for peers on
 * its host. */
static void group_writes_to_every_rail(void **state)
{
    struct kvr_peer_rails rails = {.rail_count = 2};
    struct kvr_group_piece piece = {.bytes = 100};
    struct kvr_group_post write = {.pieces = &piece, .piece_count = 1};
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        rails.rails[i] = (struct kvr_rail_address){
            .rail = i == 0 ? 3 : KVR_RAILS_MAX - 1, .epoch = 1, .bytes = 1, .address = {'a' + i}};
    fixture_open(&fixture, 1, 8, 64);
    command(&fixture, KVR_GROUP_PEER_ADD, 0, &rails);
    fixture_settle(&fixture, 2);
    piece.local = &fixture.local;
    piece.remote = &fixture.remote;
    for (uint32_t i = 0; i < 4; i++) {
        write.rails = UINT64_C(1) << rails.rails[i % 2].rail;
        assert_int_equal(kvr_group_post(fixture.group, &write, &pair), KVR_OK);
        assert_int_equal(pair.target_rail, rails.rails[i % 2].rail);
    }
    kvr_group_close(fixture.group);
}

static void group_says_why_it_reaches_nobody(void **state)
{
    struct group_fixture fixture;
    struct kvr_group_message answer;
    struct kvr_peer_rails rails = {.rail_count = 1,
                                   .rails = {{.epoch = 1, .bytes = 1, .address = {'?'}}}};

    (void)state;
    fixture_open(&fixture, 1, 8, 64);
    command(&fixture, KVR_GROUP_PEER_ADD, 0, &rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
    assert_int_equal(answer.peer_rails.status, KVR_NO_RAIL);
    assert_string_equal(rails.unreachable, "no address");
    kvr_group_close(fixture.group);
}

static void group_breaks_a_pair_and_heals_it(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair, first;
    struct kvr_group_message message;
    struct kvr_rail_address successor;

    (void)state;
    fixture_open(&fixture, 2, 0, 64);
    peer_add(&fixture, 0, 2);
    assert_int_equal(post(&fixture, 0, &first), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(fixture.rails[first.rail].newest->write_count, 2);
    finish(fixture.rails[first.rail].newest, 0, KVR_PEER_LOST);
    finish(fixture.rails[first.rail].newest, 0, KVR_PEER_LOST);
    assert_true(kvr_group_step(fixture.group, 2));
    assert_int_equal(fake.written_status[0], KVR_RAIL_FAILED);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PAIR_BROKEN);
    assert_int_equal(message.pair_broken.peer, 0);
    assert_int_equal(message.pair_broken.pair.rail, first.rail);
    assert_int_equal(message.pair_broken.pair.target_rail, first.target_rail);
    assert_int_equal(message.pair_broken.pair.epoch, 1);
    assert_int_equal(message.pair_broken.status, KVR_PEER_LOST);
    assert_false(event(&fixture, &message)); /* once, for two failures */
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
        assert_int_not_equal(pair.rail, first.rail);
    }
    /* The other pair refuses for good: none is left. */
    fixture.rails[pair.rail].newest->next_write = KVR_PEER_LOST;
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PAIR_BROKEN);
    /* The peer opened a new endpoint there; an old endpoint does not count. */
    successor = fixture.peer_rails[0].rails[first.target_rail];
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PEER_RAIL_SET);
    assert_int_equal(message.peer_rail.status, KVR_STALE);
    successor.epoch = 2;
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.peer_rail.status, KVR_OK);
    assert_ptr_equal(message.peer_rail.address, &successor);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(pair.rail, first.rail);
    assert_int_equal(pair.epoch, 2);
    kvr_group_close(fixture.group);
}

static void group_waits_for_a_slow_loop(void **state)
{
    struct group_fixture fixture;
    union fake_arrival arrival;
    uint64_t expected = 1, arrivals = 0;

    (void)state;
    fixture_open(&fixture, 2, 0, 16);
    fake.tell_arrivals = true;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 10; i++) {
            struct kvr_endpoint *endpoint = fixture.rails[i % 2].newest;

            if (endpoint->queue_count < WRITES) {
                arrive(endpoint, i);
                arrivals++;
            }
        }
        kvr_group_step(fixture.group, round);
    }
    assert_true(fixture.rails[0].newest->queue_count > 0); /* not read: the loop is late */
    assert_false(kvr_group_may_sleep(fixture.group));
    for (unsigned round = 0; expected <= arrivals; round++) {
        assert_true(round < 10000);
        if (event(&fixture, &arrival.any))
            assert_int_equal(arrival.number, expected++);
        else
            kvr_group_step(fixture.group, 100);
    }
    assert_true(kvr_group_told(fixture.group));
    assert_false(kvr_group_told(fixture.group));
    kvr_group_step(fixture.group, 101);
    assert_true(kvr_group_may_sleep(fixture.group));
    kvr_group_close(fixture.group);
}

static void group_refuses_nonsense(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_group_piece piece = {&fixture.local, &fixture.remote, 0, 0, 100, NULL};
    struct kvr_group_post bad = {.pieces = &piece, .piece_count = 1};
    struct kvr_peer_rails rails = {.rail_count = 2};
    struct kvr_rail *no_rail[1] = {NULL};
    struct kvr_group_options options = {.fabric = &fake_fabric, .rails = no_rail};
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_group_open(&options, &fixture.group, &error), KVR_INVALID);
    fixture_open(&fixture, 1, 0, 64);
    peer_add(&fixture, 0, 1);
    piece.remote_offset = fixture.remote.layout.bytes - 99;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_INVALID);
    piece.remote_offset = UINT64_MAX - 50;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_INVALID);
    piece.remote_offset = 0;
    piece.local_offset = fixture.local.layout.bytes;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_INVALID);
    piece.local_offset = 0;
    bad.piece_count = 0;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_INVALID);
    bad.piece_count = 1;
    bad.peer = 1;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_NO_RAIL);
    bad.peer = KVR_PEERS_MAX;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_NO_RAIL);
    bad.peer = 0;
    fixture.rails[0].facts.write.bytes_max = 50;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_OK); /* checked at open */
    fixture.remote.rail_count = 0;
    assert_int_equal(kvr_group_post(fixture.group, &bad, &pair), KVR_NO_RAIL);
    /* Two rails of one name, an address too long, a peer twice, a rail that is not ours. */
    command(&fixture, KVR_GROUP_PEER_ADD, 1, &rails);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.peer_rails.status, KVR_INVALID);
    rails.rails[1].rail = 1;
    rails.rails[1].bytes = KVR_ADDRESS_BYTES + 1;
    command(&fixture, KVR_GROUP_PEER_ADD, 1, &rails);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.peer_rails.status, KVR_INVALID);
    rails.rails[0].bytes = rails.rails[1].bytes = 1;
    command(&fixture, KVR_GROUP_PEER_ADD, 0, &rails);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.peer_rails.status, KVR_EXISTS);
    command(&fixture, KVR_GROUP_RECYCLE, 1, NULL);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.recycled.status, KVR_INVALID);
    kvr_group_close(fixture.group);
}

/* One random step of one random case. */
static void random_action(struct group_fixture *fixture, struct kvr_rng *rng, uint32_t *epochs)
{
    struct kvr_endpoint *endpoint = fixture->rails[kvr_rng_below(rng, FAKE_RAILS)].newest;
    static struct kvr_rail_address successor;
    struct kvr_pair pair;

    switch (kvr_rng_below(rng, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        for (uint64_t i = kvr_rng_below(rng, 20); i > 0; i--)
            (void)post_bytes(fixture, (uint32_t)kvr_rng_below(rng, 3), kvr_rng_below(rng, 1000),
                             i > 1, &pair);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        while (endpoint->write_count > 0 && kvr_rng_percent(rng, 80))
            finish(endpoint, (unsigned)kvr_rng_below(rng, endpoint->write_count),
                   kvr_rng_percent(rng, 95) ? KVR_OK : KVR_PEER_LOST);
        break;
    case 8:
        endpoint->again_once = (unsigned)kvr_rng_below(rng, 5);
        break;
    case 9:
        command(fixture, KVR_GROUP_RECYCLE, endpoint->rail->number, NULL);
        break;
    case 10:
        successor = (struct kvr_rail_address){
            .rail = (uint32_t)kvr_rng_below(rng, 2), .epoch = ++*epochs, .bytes = 1};
        command(fixture, KVR_GROUP_PEER_RAIL, (uint32_t)kvr_rng_below(rng, 3), &successor);
        break;
    default:
        command(fixture, kvr_rng_percent(rng, 50) ? KVR_GROUP_PEER_DROP : KVR_GROUP_PEER_ADD, 2,
                &fixture->peer_rails[2]);
    }
}

static void group_settles_every_post_once(void **state)
{
    uint64_t cases = check_cases(200, 5000);
    struct kvr_group_message message;

    (void)state;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        struct group_fixture fixture;
        struct kvr_rng rng;
        uint32_t epochs = 1;

        kvr_rng_init(&rng, seed);
        fixture_open(&fixture, FAKE_RAILS, (uint32_t)kvr_rng_between(&rng, 1, 40), 64);
        for (uint32_t peer = 0; peer < 3; peer++)
            peer_add(&fixture, peer, 2);
        for (unsigned i = 0; i < 300; i++) {
            random_action(&fixture, &rng, &epochs);
            fake.log[0] = '\0';
            kvr_group_step(fixture.group, i * 30 * KVR_US);
            while (event(&fixture, &message))
                ;
        }
        for (uint32_t rail = 0; rail < FAKE_RAILS; rail++)
            command(&fixture, KVR_GROUP_RECYCLE, rail, NULL);
        assert_int_equal(kvr_group_outstanding(fixture.group), 0);
        assert_true(fixture.token > 0);
        for (uint64_t token = 0; token < fixture.token; token++) {
            if (fake.written_count[token] != 1)
                fail_msg("seed %llu: token %llu was settled %u times", (unsigned long long)seed,
                         (unsigned long long)token, fake.written_count[token]);
        }
        for (uint32_t rail = 0; rail < FAKE_RAILS; rail++)
            assert_int_equal(kvr_group_counters(fixture.group, rail).in_flight, 0);
        kvr_group_close(fixture.group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_pairs_all_rails),
        cmocka_unit_test(group_pairs_what_reaches_each_other),
        cmocka_unit_test(group_rests),
        cmocka_unit_test(group_writes_to_every_rail),
        cmocka_unit_test(group_says_why_it_reaches_nobody),
        cmocka_unit_test(group_breaks_a_pair_and_heals_it),
        cmocka_unit_test(group_waits_for_a_slow_loop),
        cmocka_unit_test(group_refuses_nonsense),
        cmocka_unit_test(group_settles_every_post_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
