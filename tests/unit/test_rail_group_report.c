/* Goal: a rail group says of each pair with a peer whether writes get through, and why not. Method:
 * a rail group on a scripted fabric, asked after each event. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/status.h"
#include "tests/support/fake_group.h"

static struct group_fixture fixture;

/* With so many rails; each letter is the plane of one, and those behind are of unknown planes. */
static void peer_in(const char *planes, uint32_t rail_count)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];
    struct kvr_group_message answer;

    rails->rail_count = rail_count;
    for (uint32_t i = 0; i < rail_count; i++) {
        rails->rails[i] = (struct kvr_rail_address){
            .rail = i, .epoch = 1, .bytes = 1, .address = {(uint8_t)('a' + i)}};
        if (i < strlen(planes))
            snprintf(rails->rails[i].plane, KVR_PLANE_BYTES, "%.1s", planes + i);
    }
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
}

static void rail_set(uint32_t rail, uint32_t epoch, uint8_t bytes)
{
    struct kvr_rail_address address = {
        .rail = rail, .epoch = epoch, .bytes = bytes, .address = {'z'}};

    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &address);
}

static void ask(uint32_t peer, uint32_t first)
{
    struct kvr_group_message message;

    while (kvr_group_event(fixture.group, &message))
        ; /* of earlier steps */
    message = (struct kvr_group_message){.head.kind = KVR_GROUP_PAIRS_ASK,
                                         .pairs_ask = {.peer = peer, .first = first}};
    fixture_tell(&fixture, 3, &message);
}

/* The first pair with peer 0. */
static struct kvr_group_pair first_pair(kvr_ns now)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PAIRS_ASK};

    fixture_tell(&fixture, now, &message);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR, &message));
    return message.pair;
}

static int row_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* All pairs with peer 0, as "0-1 warm 100, 1-0 doubted peer_lost 0", in order of our rails. */
static const char *pairs(void)
{
    static char text[512];
    char rows[8][64];
    uint32_t count = 0;
    struct kvr_group_message message;
    bool ended = false;

    ask(0, 0);
    while (!ended && kvr_group_event(fixture.group, &message)) {
        const struct kvr_group_pair *pair = &message.pair;

        ended = message.head.kind == KVR_GROUP_PAIRS_END;
        if (ended)
            break;
        assert_int_equal(message.head.kind, KVR_GROUP_PAIR);
        snprintf(rows[count++], sizeof(rows[0]), "%u-%u %s %s%s%llu", pair->rail, pair->target_rail,
                 kvr_pair_state_name(pair->state),
                 pair->why != KVR_OK ? kvr_status_name(pair->why) : "",
                 pair->why != KVR_OK ? " " : "", (unsigned long long)pair->bytes);
    }
    assert_true(ended);
    assert_int_equal(message.pairs_end.next, 0);
    text[0] = '\0';
    qsort(rows, count, sizeof(rows[0]), row_order);
    for (uint32_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? ", " : "",
                 rows[i]);
    return text;
}

/* One write over each pair that carries any. */
static void write_over_all(kvr_status status)
{
    struct kvr_pair pair;

    for (unsigned i = 0; i < 6 && post(&fixture, 0, &pair) == KVR_OK; i++)
        ;
    for (unsigned i = 0; i < FAKE_RAILS; i++)
        while (fixture.rails[i].newest != NULL && fixture.rails[i].newest->write_count > 0)
            finish(fixture.rails[i].newest, 0, status);
    fixture_settle(&fixture, 2);
}

static void group_says_what_gets_through(void **state)
{
    (void)state;
    fixture_open_in(&fixture, "aa", &(struct kvr_group_options){0});
    assert_string_equal(pairs(), "");
    peer_in("aa", 2);
    assert_string_equal(pairs(), "0-0 up 0, 1-1 up 0");
    write_over_all(KVR_OK);
    assert_string_equal(pairs(), "0-0 warm 300, 1-1 warm 300");
    kvr_group_close(fixture.group);
}

static void group_says_what_fails_and_why(void **state)
{
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "a", &(struct kvr_group_options){0});
    peer_in("a", 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 2);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_PEER_LOST);
    fixture_settle(&fixture, 2);
    assert_string_equal(pairs(), "0-0 unreachable peer_lost 100");
    rail_set(0, 2, 1); /* the peer's next endpoint */
    assert_string_equal(pairs(), "0-0 doubted peer_lost 100");
    write_over_all(KVR_OK);
    assert_string_equal(pairs(), "0-0 warm 200");
    rail_set(0, 3, 0); /* it has none just now */
    assert_string_equal(pairs(), "0-0 unreachable no_rail 200");
    rail_set(0, 4, 1);
    assert_string_equal(pairs(), "0-0 up 200");
    kvr_group_close(fixture.group);
}

/* It lasts from one address of the peer to the next. */
static void group_says_since_when_and_how_often(void **state)
{
    struct kvr_group_pair said;
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "a", &(struct kvr_group_options){0});
    peer_in("a", 1);
    assert_int_equal(first_pair(5).breaks, 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_PEER_LOST);
    kvr_group_step(fixture.group, 20);
    said = first_pair(25);
    assert_int_equal(said.state, KVR_PAIR_UNREACHABLE);
    assert_int_equal(said.since, 20);
    assert_int_equal(said.breaks, 1);
    assert_int_equal(said.renewals, 0);
    rail_set(0, 2, 1);
    kvr_group_step(fixture.group, 30);
    said = first_pair(35);
    assert_int_equal(said.state, KVR_PAIR_DOUBTED);
    assert_int_equal(said.since, 35); /* when it was looked at */
    assert_int_equal(said.breaks, 1);
    assert_int_equal(said.renewals, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    kvr_group_step(fixture.group, 40);
    said = first_pair(45);
    assert_int_equal(said.state, KVR_PAIR_WARM);
    assert_int_equal(said.since, 40);
    rail_set(0, 3, 1);
    said = first_pair(45);
    assert_int_equal(said.breaks, 1);
    assert_int_equal(said.renewals, 2);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_PEER_LOST);
    kvr_group_step(fixture.group, 50);
    said = first_pair(55);
    assert_int_equal(said.breaks, 2);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    kvr_group_step(fixture.group, 60);
    said = first_pair(65);
    assert_int_equal(said.breaks, 2);
    assert_int_equal(said.renewals, 3);
    kvr_group_close(fixture.group);
}

static void group_says_what_is_being_warmed_up(void **state)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];

    (void)state;
    fixture_open_in(&fixture, "a", &(struct kvr_group_options){.warm_up = true});
    rails->rail_count = 1;
    rails->rails[0] = (struct kvr_rail_address){.epoch = 1,
                                                .bytes = 1,
                                                .address = {'a'},
                                                .scratch_bytes = 4096,
                                                .scratch = {.key = 7, .base = 64}};
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_string_equal(pairs(), "0-0 warming 0");
    assert_int_equal(fixture.rails[0].newest->write_count, 1);
    finish_all(fixture.rails[0].newest);
    fixture_settle(&fixture, 2);
    assert_string_equal(pairs(), "0-0 warm 0");
    kvr_group_close(fixture.group);
}

/* It is tried when the near pair is broken. */
static void group_says_what_it_holds_back(void **state)
{
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "ba", &(struct kvr_group_options){.silence_ns = KVR_S});
    peer_in("a", 1);
    assert_string_equal(pairs(), "0-0 spare 0, 1-0 up 0");
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    fixture_settle(&fixture, 2 * KVR_S);
    assert_string_equal(pairs(), "0-0 up 0, 1-0 unreachable timed_out 0");
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_PEER_LOST);
    fixture_settle(&fixture, 2 * KVR_S);
    rail_set(0, 2, 1);
    assert_string_equal(pairs(), "0-0 doubted peer_lost 0, 1-0 doubted timed_out 0");
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(pair.rail, 1);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2 * KVR_S);
    assert_string_equal(pairs(), "0-0 spare 0, 1-0 warm 100"); /* no trouble: it is not wanted */
    kvr_group_close(fixture.group);
}

static void group_answers_in_parts(void **state)
{
    struct kvr_group_message message;
    uint32_t first = 0, count = 0, parts = 0;

    (void)state;
    fixture_open_in(&fixture, "aaa", &(struct kvr_group_options){0});
    peer_in("", KVR_RAILS_MAX); /* a pair for each of its rails */
    do {
        uint32_t before = count;

        ask(0, first);
        while (kvr_group_event(fixture.group, &message) && message.head.kind == KVR_GROUP_PAIR)
            assert_int_equal(message.pair.target_rail, count++);
        assert_int_equal(message.head.kind, KVR_GROUP_PAIRS_END);
        assert_true(count - before <= 32);
        first = message.pairs_end.next;
        parts++;
    } while (first != 0);
    assert_int_equal(count, KVR_RAILS_MAX);
    assert_int_equal(parts, 2);
    ask(0, 1000); /* a peer with fewer pairs came in its place */
    assert_true(kvr_group_event(fixture.group, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PAIRS_END);
    assert_int_equal(message.pairs_end.next, 0);
    ask(KVR_PEERS_MAX, 0);
    assert_true(kvr_group_event(fixture.group, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PAIRS_END);
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_says_what_gets_through),
        cmocka_unit_test(group_says_what_fails_and_why),
        cmocka_unit_test(group_says_since_when_and_how_often),
        cmocka_unit_test(group_says_what_is_being_warmed_up),
        cmocka_unit_test(group_says_what_it_holds_back),
        cmocka_unit_test(group_answers_in_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
