/* Goal: of each peer all rows are reported together, each peer has its turn, and a peer with news
 * comes first. Method: the book, with groups that this test plays. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/core/pair_book.h"

static struct pair_book book;
static const char planes[KVR_RAILS_MAX][KVR_PLANE_BYTES] = {"10.1.1.0/24", "10.1.2.0/24"};
static kvr_ns now;

static int fresh(void **state)
{
    (void)state;
    memset(&book, 0, sizeof(book));
    book.planes = planes;
    book.group_count = 2;
    book.silence_ns = 3 * KVR_S;
    now = 100 * KVR_S;
    return 0;
}

static void peers_up(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char name[KVR_NAME_BYTES];

        snprintf(name, sizeof(name), "decode-%u", i);
        pair_book_up(&book, i, name);
    }
}

static void pair_says(const struct kvr_group_pair *pair)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PAIR, .pair = *pair};

    assert_true(pair_book_heard(&book, &message));
}

static void part_ends(uint32_t peer, uint32_t next)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PAIRS_END,
                                        .pairs_end = {.peer = peer, .next = next}};

    assert_true(pair_book_heard(&book, &message));
}

/* Each group has so many pairs with each peer, and answers for half of them at a time. */
static void groups_answer(uint32_t pair_count)
{
    struct kvr_group_message message;

    while (pair_book_next(&book, &message)) {
        const struct kvr_group_pairs_ask ask = message.pairs_ask;
        uint32_t end = ask.first == 0 && pair_count > 1 ? pair_count / 2 : pair_count;

        for (uint32_t i = ask.first; i < end; i++)
            pair_says(&(struct kvr_group_pair){.peer = ask.peer,
                                               .rail = message.head.group,
                                               .target_rail = i % KVR_RAILS_MAX,
                                               .state = KVR_PAIR_WARM,
                                               .bytes = i});
        part_ends(ask.peer, end < pair_count ? end : 0);
    }
}

static const struct kvr_report_pairs *round_of(uint32_t pair_count)
{
    now += KVR_S;
    pair_book_round(&book, now);
    groups_answer(pair_count);
    return pair_book_take(&book);
}

static void book_has_whole_peers(void **state)
{
    const struct kvr_report_pairs *rows;

    (void)state;
    assert_null(round_of(2));
    peers_up(3);
    rows = round_of(4);
    assert_int_equal(rows->peer_count, 3);
    assert_int_equal(rows->pair_count, 3 * 2 * 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rows->peers[i].pair_first, i * 8);
        assert_int_equal(rows->peers[i].pair_count, 8);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(rows->pairs[i].rail, i / 4);
        assert_int_equal(rows->pairs[i].target_rail, i % 4);
    }
    assert_null(pair_book_take(&book));
    assert_null(round_of(4)); /* there are no news, and it was a moment ago */
}

/* 40 pairs a peer: four peers a round. */
static void book_gives_each_peer_its_turn(void **state)
{
    uint32_t seen[10] = {0};
    const struct kvr_report_pairs *rows;

    (void)state;
    peers_up(10);
    for (int i = 0; i < 3; i++) {
        rows = round_of(20);
        assert_true(rows->peer_count <= 4);
        for (uint32_t k = 0; k < rows->peer_count; k++)
            seen[rows->peers[k].peer[strlen("decode-")] - '0']++;
    }
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(seen[i], 1);
}

static void news_of(uint32_t kind, uint32_t peer)
{
    struct kvr_group_message message = {.head.kind = kind};

    if (kind == KVR_GROUP_PEER_WARM)
        message.peer_warm.peer = peer;
    else
        message.pair_broken.peer = peer;
    assert_false(pair_book_heard(&book, &message)); /* it is for others too */
}

static void book_puts_news_first(void **state)
{
    const struct kvr_report_pairs *rows;

    (void)state;
    peers_up(8);
    while (round_of(20) != NULL)
        ;
    news_of(KVR_GROUP_PAIR_BROKEN, 6);
    news_of(KVR_GROUP_PEER_WARM, 5);
    rows = round_of(2);
    assert_int_equal(rows->peer_count, 2);
    assert_string_equal(rows->peers[0].peer, "decode-5");
    assert_string_equal(rows->peers[1].peer, "decode-6");
    now += PAIR_BOOK_AGAIN_NS;
    news_of(KVR_GROUP_PAIR_BROKEN, 3);
    assert_string_equal(round_of(64)->peers[0].peer, "decode-3");
}

/* The peer that comes up in its place is another one. */
static void book_forgets_a_peer_that_is_gone(void **state)
{
    struct kvr_group_message message;
    const struct kvr_report_pairs *rows;

    (void)state;
    peers_up(1);
    pair_book_round(&book, now);
    assert_true(pair_book_next(&book, &message));
    pair_says(&(struct kvr_group_pair){.peer = 0, .rail = 1});
    pair_book_lost(&book, 0);
    pair_book_up(&book, 0, "decode-9");
    pair_says(&(struct kvr_group_pair){.peer = 0, .rail = 1});
    part_ends(0, 0);
    groups_answer(1);
    rows = pair_book_take(&book);
    assert_int_equal(rows->peer_count, 1);
    assert_int_equal(rows->pair_count, 2);
    assert_string_equal(rows->peers[0].peer, "decode-9");
    pair_book_lost(&book, 0);
    now += PAIR_BOOK_AGAIN_NS;
    assert_null(round_of(1));
}

/* A report has no room for all: the peer with so many comes in the next round, alone. */
static void book_ends_a_round_that_is_full(void **state)
{
    const struct kvr_report_pairs *rows;
    struct kvr_group_message message;

    (void)state;
    peers_up(1);
    pair_book_round(&book, now);
    groups_answer(4);
    assert_int_equal(book.rows.pair_count, 8);
    assert_non_null(pair_book_take(&book));
    peers_up(2);
    pair_book_round(&book, now += KVR_S);
    for (uint32_t asked = 0; pair_book_next(&book, &message); asked++) {
        assert_true(asked < 8);
        for (uint32_t i = 0; i < (message.pairs_ask.peer == 1 ? 2 : 600); i++)
            pair_says(&(struct kvr_group_pair){.peer = message.pairs_ask.peer});
        part_ends(message.pairs_ask.peer, 0);
    }
    rows = pair_book_take(&book);
    assert_int_equal(rows->peer_count, 1);
    assert_string_equal(rows->peers[0].peer, "decode-1");
    assert_int_equal(rows->pair_count, 4);
    rows = round_of(600);
    assert_int_equal(rows->peer_count, 1);
    assert_string_equal(rows->peers[0].peer, "decode-0");
    assert_int_equal(rows->pair_count, KVR_REPORT_PAIRS_MAX);
}

static void planes_are(const char *first, const char *second)
{
    struct kvr_peer_rails rails = {.rail_count = 1, .rails = {{.rail = 0}}};
    struct kvr_rail_address successor = {.rail = 1};
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PEER_ADD,
                                        .peer_rails = {.peer = 0, .rails = &rails}};

    snprintf(rails.rails[0].plane, KVR_PLANE_BYTES, "%s", first);
    snprintf(successor.plane, KVR_PLANE_BYTES, "%s", second);
    pair_book_command(&book, &message);
    message = (struct kvr_group_message){.head.kind = KVR_GROUP_PEER_RAIL,
                                         .peer_rail = {.peer = 0, .address = &successor}};
    pair_book_command(&book, &message);
}

static void book_says_why(void **state)
{
    const struct {
        struct kvr_group_pair pair;
        const char *detail;
    } cases[] = {
        {{.state = KVR_PAIR_WARM}, ""},
        {{.target_rail = 1, .state = KVR_PAIR_SPARE},
         "its plane is 10.1.1.0/24, the peer's 10.1.2.0/24"},
        {{.rail = 1, .target_rail = 1, .state = KVR_PAIR_SLOW, .why = KVR_TIMED_OUT, .bytes = 1},
         "its writes were silent for 3.0 s"},
        {{.state = KVR_PAIR_UNREACHABLE, .why = KVR_NO_RAIL},
         "the peer has no endpoint on its rail just now"},
        {{.state = KVR_PAIR_UNREACHABLE, .why = KVR_PEER_LOST},
         "its writes fail: the other agent died or cannot be reached"},
        {{.target_rail = 1, .state = KVR_PAIR_UNREACHABLE, .why = KVR_TIMED_OUT},
         "its writes were silent; its plane is 10.1.1.0/24, the peer's 10.1.2.0/24"},
        {{.rail = 2, .target_rail = 1, .state = KVR_PAIR_UP}, ""}, /* ours is of no known plane */
    };
    struct kvr_group_message message;
    const struct kvr_report_pairs *rows;

    (void)state;
    peers_up(1);
    planes_are("10.1.1.0/24", "10.1.2.0/24");
    pair_book_round(&book, now);
    assert_true(pair_book_next(&book, &message));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        pair_says(&cases[i].pair);
    part_ends(0, 0);
    groups_answer(0);
    rows = pair_book_take(&book);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(rows->pairs[i].detail, cases[i].detail);
        assert_int_equal(rows->pairs[i].state, cases[i].pair.state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(book_has_whole_peers, fresh),
        cmocka_unit_test_setup(book_gives_each_peer_its_turn, fresh),
        cmocka_unit_test_setup(book_puts_news_first, fresh),
        cmocka_unit_test_setup(book_forgets_a_peer_that_is_gone, fresh),
        cmocka_unit_test_setup(book_ends_a_round_that_is_full, fresh),
        cmocka_unit_test_setup(book_says_why, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
