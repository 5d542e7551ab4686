/* Goal: a rail group writes within planes, whatever the order of the rails, and from one plane into
 * another only where nothing else works. Method: a rail group on a scripted fabric. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/fake_group.h"

#define PAGE 4096u

static struct group_fixture fixture;

static void address_set(struct kvr_rail_address *ret_address, uint32_t rail, uint32_t epoch,
                        const char *plane)
{
    *ret_address = (struct kvr_rail_address){.rail = rail,
                                             .epoch = epoch,
                                             .bytes = 1,
                                             .address = {(uint8_t)('a' + rail)},
                                             .scratch_bytes = PAGE};
    snprintf(ret_address->plane, sizeof(ret_address->plane), "%s", plane);
}

static kvr_status peer_in(const char *planes)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[0];
    struct kvr_group_message answer;
    char plane[2] = "";

    rails->rail_count = (uint32_t)strlen(planes);
    for (uint32_t i = 0; i < rails->rail_count; i++) {
        plane[0] = planes[i];
        address_set(&rails->rails[i], i, 1, plane);
    }
    command(&fixture, KVR_GROUP_PEER_ADD, 0, rails);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_ADDED, &answer));
    return answer.peer_rails.status;
}

/* The pairs that many posts take, as "0-2 1-0", in order of our rails. */
static const char *pairs_used(void)
{
    static char text[128];
    bool used[FAKE_RAILS][FAKE_RAILS] = {{false}};
    struct kvr_pair pair;

    for (unsigned i = 0; i < 24; i++) {
        assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
        used[pair.rail][pair.target_rail] = true;
        finish_all(fixture.rails[pair.rail].newest);
        fixture_settle(&fixture, 2);
    }
    text[0] = '\0';
    for (unsigned i = 0; i < FAKE_RAILS; i++)
        for (unsigned j = 0; j < FAKE_RAILS; j++)
            if (used[i][j])
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u-%u",
                         text[0] != '\0' ? " " : "", i, j);
    return text;
}

static void pair_fails(uint32_t rail)
{
    fixture.rails[rail].newest->next_write = KVR_PEER_LOST;
}

static void group_tells_its_planes(void **state)
{
    static const char planes[FAKE_RAILS][KVR_PLANE_BYTES] = {"red", "green", "blue"};

    (void)state;
    fixture_open_in(&fixture, "abc", &(struct kvr_group_options){0});
    assert_string_equal(kvr_group_address(fixture.group, 1).plane, "b");
    kvr_group_close(fixture.group);
    fixture_open_in(&fixture, "abc", &(struct kvr_group_options){.planes = planes});
    assert_string_equal(kvr_group_address(fixture.group, 1).plane, "green");
    command(&fixture, KVR_GROUP_RECYCLE, 1, NULL);
    assert_string_equal(kvr_group_address(fixture.group, 1).plane, "green");
    kvr_group_close(fixture.group);
}

static void group_writes_within_planes(void **state)
{
    (void)state;
    fixture_open_in(&fixture, "abc", &(struct kvr_group_options){0});
    assert_int_equal(peer_in("cab"), KVR_OK);
    assert_string_equal(pairs_used(), "0-1 1-2 2-0");
    kvr_group_close(fixture.group);
}

/* Of our planes one is missing there. Its rail carries writes while the only other one is broken,
 * and until that has proven itself again. */
static void group_writes_into_another_plane_as_needed(void **state)
{
    struct kvr_rail_address successor;
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "ba", &(struct kvr_group_options){0});
    assert_int_equal(peer_in("a"), KVR_OK);
    assert_string_equal(pairs_used(), "1-0");
    pair_fails(1);
    assert_string_equal(pairs_used(), "0-0");
    fixture.rails[1].newest->next_write = KVR_OK;
    address_set(&successor, 0, 2, "a");
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK); /* one each: the one in doubt takes one */
    assert_int_equal(fixture.rails[0].newest->write_count, 1);
    assert_int_equal(fixture.rails[1].newest->write_count, 1);
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2);
    assert_string_equal(pairs_used(), "1-0");
    kvr_group_close(fixture.group);
}

/* A post that names rails which no near pair reaches leaves its plane at once. */
static void group_reaches_what_is_named(void **state)
{
    struct kvr_group_piece piece = {.bytes = 100};
    struct kvr_group_post write = {.pieces = &piece, .piece_count = 1};
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "ab", &(struct kvr_group_options){0});
    assert_int_equal(peer_in("ac"), KVR_OK);
    piece.local = &fixture.local;
    piece.remote = &fixture.remote;
    for (uint32_t named = 1; named <= 3; named++) {
        for (unsigned i = 0; i < 8; i++) {
            write.rails = named;
            assert_int_equal(kvr_group_post(fixture.group, &write, &pair), KVR_OK);
            assert_int_equal(pair.target_rail, named == 2);
            assert_int_equal(pair.rail, named == 2);
        }
    }
    kvr_group_close(fixture.group);
}

static void group_never_leaves_its_planes(void **state)
{
    (void)state;
    fixture_open_in(&fixture, "ab",
                    &(struct kvr_group_options){.other_planes = KVR_OTHER_PLANES_NEVER});
    assert_int_equal(peer_in("bc"), KVR_OK);
    assert_string_equal(pairs_used(), "1-0");
    kvr_group_close(fixture.group);
    fixture_open_in(&fixture, "ab",
                    &(struct kvr_group_options){.other_planes = KVR_OTHER_PLANES_NEVER});
    assert_int_equal(peer_in("cd"), KVR_NO_RAIL);
    assert_non_null(strstr(fixture.peer_rails[0].unreachable, "plane 'd'"));
    kvr_group_close(fixture.group);
}

static void group_always_leaves_its_planes(void **state)
{
    (void)state;
    fixture_open_in(&fixture, "ab",
                    &(struct kvr_group_options){.other_planes = KVR_OTHER_PLANES_ALWAYS});
    assert_int_equal(peer_in("bc"), KVR_OK);
    assert_string_equal(pairs_used(), "0-1 1-0");
    kvr_group_close(fixture.group);
}

/* A far pair is connected when it is needed, and no peer waits for it to be warm. */
static void group_warms_up_what_it_uses(void **state)
{
    struct kvr_group_message message;
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "ba",
                    &(struct kvr_group_options){.warm_up = true, .silence_ns = 3 * KVR_S});
    assert_int_equal(peer_in("a"), KVR_OK);
    assert_int_equal(fixture.rails[0].newest->write_count, 0);
    assert_int_equal(fixture.rails[1].newest->write_count, 1);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_WARM, &message));
    assert_int_equal(message.peer_warm.pairs, 1);
    fixture_settle(&fixture, KVR_S);
    assert_int_equal(fixture.rails[0].newest->write_count, 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[1].newest, 0, KVR_PEER_LOST);
    fixture_settle(&fixture, KVR_S + 1);
    assert_int_equal(fixture.rails[0].newest->write_count, 1);
    assert_int_equal(fixture.rails[0].newest->writes[0].immediate >> 16, 0);
    kvr_group_close(fixture.group);
}

/* Where no plane is equal, nothing but far pairs can be warm. */
static void group_warms_up_across_planes(void **state)
{
    struct kvr_group_message message;

    (void)state;
    fixture_open_in(&fixture, "ab",
                    &(struct kvr_group_options){.warm_up = true, .silence_ns = 3 * KVR_S});
    assert_int_equal(peer_in("cd"), KVR_OK);
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, 2);
    assert_true(fixture_told(&fixture, KVR_GROUP_PEER_WARM, &message));
    assert_int_equal(message.peer_warm.pairs, 2);
    assert_string_equal(pairs_used(), "0-0 1-1");
    kvr_group_close(fixture.group);
}

/* The rail that writes to this pair's end fails with it, until the pair is tried anew. */
static void warm_ups_end(uint32_t rail, kvr_status status, kvr_ns now)
{
    while (fixture.rails[rail].newest->write_count > 0)
        finish(fixture.rails[rail].newest, 0, status);
    fixture_settle(&fixture, now);
}

/* Of two equal planes: when its pair breaks, a rail reaches the other rail of the peer, after a
 * trial, and comes back to its own when that works again. */
static void group_tries_other_rails_of_the_plane(void **state)
{
    struct kvr_group_message renewal = {.head.kind = KVR_GROUP_PAIR_RENEW, .pair_renew.rail = 0};
    struct kvr_group_message message;
    struct kvr_pair pair;

    (void)state;
    fixture_open_in(&fixture, "aa",
                    &(struct kvr_group_options){.warm_up = true, .silence_ns = 3 * KVR_S});
    assert_int_equal(peer_in("aa"), KVR_OK);
    fixture_settle(&fixture, 1);
    warm_ups_end(1, KVR_OK, 2);
    warm_ups_end(0, KVR_PEER_LOST, 3);
    assert_true(fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message));
    assert_int_equal(message.pair_broken.pair.target_rail, 0);
    assert_false(message.pair_broken.shared);
    assert_int_equal(fixture.rails[0].newest->write_count, 0); /* no user's write wants it yet */
    assert_string_equal(pairs_used(), "1-1");
    fixture_settle(&fixture, 4);
    assert_int_equal(fixture.rails[0].newest->write_count, 1); /* the trial */
    warm_ups_end(0, KVR_OK, 5);
    assert_string_equal(pairs_used(), "0-1 1-1");
    fixture_tell(&fixture, 6, &renewal);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK); /* wants the trial of the first pair */
    finish_all(fixture.rails[pair.rail].newest);
    fixture_settle(&fixture, 7);
    warm_ups_end(0, KVR_OK, 8);
    assert_string_equal(pairs_used(), "0-0 1-1");
    kvr_group_close(fixture.group);
}

/* Each rail is tried once; what is broken then stays so until it is renewed. */
static void group_tries_each_rail_once(void **state)
{
    struct kvr_pair pair;
    unsigned broken = 0;

    (void)state;
    fixture_open_in(&fixture, "a",
                    &(struct kvr_group_options){.warm_up = true, .silence_ns = 3 * KVR_S});
    assert_int_equal(peer_in("aaa"), KVR_OK);
    for (kvr_ns now = 1; now < 40; now++) {
        struct kvr_group_message message;

        (void)post(&fixture, 0, &pair);
        fixture_settle(&fixture, now);
        warm_ups_end(0, KVR_PEER_LOST, now);
        while (fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message))
            broken++;
    }
    assert_in_range(broken, 3, 6); /* it has three pairs, and no spare one */
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    kvr_group_close(fixture.group);
}

/* Posts, and fails each warm-up of our rail 2, until its trials end. The peer's rails, in order. */
static const char *trials_fail(kvr_ns *now)
{
    static char text[128];
    struct kvr_group_message message;
    struct kvr_pair pair;

    text[0] = '\0';
    for (kvr_ns end = *now + 40; *now < end; (*now)++) {
        (void)post(&fixture, 0, &pair);
        fixture_settle(&fixture, *now);
        warm_ups_end(2, KVR_PEER_LOST, *now);
        for (uint32_t rail = 0; rail < 2; rail++)
            warm_ups_end(rail, KVR_OK, *now);
        while (fixture_told(&fixture, KVR_GROUP_PAIR_BROKEN, &message))
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u",
                     text[0] != '\0' ? " " : "", message.pair_broken.pair.target_rail);
    }
    return text;
}

/* Our rail 2 has lost its pair with the peer's rail 2: each other rail is tried in turn. When all
 * were, each renewal tries the next one. A pair that has worked in between begins anew. */
static void group_tries_one_rail_after_the_other(void **state)
{
    struct kvr_group_message renewal = {.head.kind = KVR_GROUP_PAIR_RENEW, .pair_renew.rail = 2};
    struct kvr_pair pair;
    kvr_ns now = 1;

    (void)state;
    fixture_open_in(&fixture, "aaa",
                    &(struct kvr_group_options){.warm_up = true, .silence_ns = 3 * KVR_S});
    assert_int_equal(peer_in("aaaaa"), KVR_OK);
    assert_string_equal(trials_fail(&now), "2 3 4 0 1");
    fixture_tell(&fixture, now, &renewal);
    assert_string_equal(trials_fail(&now), "2 3");
    fixture_tell(&fixture, now, &renewal);
    assert_string_equal(trials_fail(&now), "2 4");
    fixture_tell(&fixture, now, &renewal);
    for (unsigned i = 0; i < 12; i++) {
        (void)post(&fixture, 0, &pair);
        fixture_settle(&fixture, now++);
        for (uint32_t rail = 0; rail < 3; rail++)
            warm_ups_end(rail, KVR_OK, now);
    }
    assert_string_equal(trials_fail(&now), "2 0 1 3 4 0"); /* the spare one worked too */
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_tells_its_planes),
        cmocka_unit_test(group_writes_within_planes),
        cmocka_unit_test(group_writes_into_another_plane_as_needed),
        cmocka_unit_test(group_reaches_what_is_named),
        cmocka_unit_test(group_never_leaves_its_planes),
        cmocka_unit_test(group_always_leaves_its_planes),
        cmocka_unit_test(group_warms_up_what_it_uses),
        cmocka_unit_test(group_warms_up_across_planes),
        cmocka_unit_test(group_tries_other_rails_of_the_plane),
        cmocka_unit_test(group_tries_each_rail_once),
        cmocka_unit_test(group_tries_one_rail_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
