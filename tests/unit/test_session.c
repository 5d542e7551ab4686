/* Goal: every message of a session is delivered exactly once and in order whatever the connection
 * does, and a session that ends gives one reason, once.
 * Method: two sessions over two pipes of bytes in virtual time. A seed decides which messages are
 * sent, how the bytes are cut into reads, when a connection breaks (at any byte), which side
 * notices, and how small the pipes are. Then scripted cases, one for each way to end. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/rng.h"
#include "tests/support/session_world.h"
#include "wire/compat.h"

/* ---- random worlds ---- */

static void send_something(struct kvr_rng *rng, bool heavy)
{
    static const kvr_message_kind kinds[] = {KVR_MSG_PAGES, KVR_MSG_PAGES, KVR_MSG_PAGES,
                                             KVR_MSG_CANCEL, KVR_MSG_QUIET};
    uint32_t runs = (uint32_t)kvr_rng_below(rng, heavy && kvr_rng_percent(rng, 20) ? 32768 : 40);
    enum side side = (enum side)kvr_rng_below(rng, 2);
    kvr_status status;

    if (world.ends[side].lost)
        return;
    status = send_kind(side, kinds[kvr_rng_below(rng, 5)], (uint32_t)kvr_rng_below(rng, TRANSFERS),
                       runs);
    assert_true(status == KVR_OK || status == KVR_AGAIN);
}

static void one_step(struct kvr_rng *rng, bool heavy)
{
    uint64_t what = kvr_rng_below(rng, 100);

    if (what < 40)
        send_something(rng, heavy);
    else if (what < 90 && world.connected)
        deliver((enum side)kvr_rng_below(rng, 2),
                kvr_rng_below(rng, kvr_rng_percent(rng, 50) ? 100 : 200000) + 1);
    else if (what < 93 && world.connected)
        cut(kvr_rng_percent(rng, 50));
    else if (!world.connected)
        connect_both();
    else
        pass(kvr_rng_below(rng, 20));
}

static void play(uint64_t seed)
{
    struct kvr_rng rng;
    bool heavy = seed % 5 == 0;

    kvr_rng_init(&rng, seed);
    new_world();
    for (int side = 0; side < SIDES; side++)
        world.ends[side].pipe_capacity =
            kvr_rng_percent(&rng, 50) ? PIPE_BYTES : 200 + kvr_rng_below(&rng, 5000);
    for (int i = 0; i < 400; i++) {
        one_step(&rng, heavy);
        if (i % 20 == 0)
            pass(1); /* delivers something of both sides, so that neither is silent for long */
        if (i % 50 == 49 && world.connected)
            settle();
    }
    for (int i = 0; i < 20; i++) {
        if (!world.connected)
            connect_both();
        settle();
        pass(BEAT_MS / 2);
    }
    for (int side = 0; side < SIDES; side++) {
        if (world.ends[!side].came != world.ends[side].sent || world.ends[side].begun != 1)
            fail_msg("seed %d: %u sent, %u came", (int)seed, world.ends[side].sent,
                     world.ends[!side].came);
    }
}

static void session_delivers_once_and_in_order(void **state)
{
    uint64_t cases = check_cases(1000, 20000);
    const char *only = getenv("KVRAIL_SEED");

    (void)state;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        if (only != NULL)
            seed = strtoull(only, NULL, 10);
        world.seed = seed;
        play(seed);
        if (only != NULL)
            break;
    }
    world.seed = 0;
}

/* ---- scripted ---- */

static void session_sends_what_was_queued_before_it_began(void **state)
{
    (void)state;
    new_world();
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 2, 3), KVR_OK);
    connect_both();
    settle();
    assert_int_equal(world.ends[SOURCE].came, 2);
    assert_true(kvr_session_connected_now(world.ends[TARGET].session));
    assert_int_equal(kvr_session_number(world.ends[TARGET].session), 4711);
}

/* An urgent message overtakes those of other transfers, not those of its own. */
static void urgent_passes(kvr_message_kind kind)
{
    struct end *source;

    new_world();
    source = &world.ends[SOURCE];
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 2, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 2, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, kind, 1, 0), KVR_OK);
    connect_both();
    while (source->came < 2) /* byte by byte */
        for (int side = 0; side < SIDES; side++)
            deliver((enum side)side, 1);
    assert_int_equal(source->last_of[1], 4);
    assert_int_equal(source->last_of[2], 0);
    settle();
    assert_int_equal(source->came, 4);
}

static void session_urgent_passes_other_transfers(void **state)
{
    (void)state;
    urgent_passes(KVR_MSG_CANCEL);
    urgent_passes(KVR_MSG_QUIET);
    urgent_passes(KVR_MSG_ROOM);
}

static void session_full_queue_says_again_then_writable(void **state)
{
    static const kvr_message_kind patient[] = {KVR_MSG_REGIONS,   KVR_MSG_WANT, KVR_MSG_PLAN,
                                               KVR_MSG_FINAL,     KVR_MSG_TAIL, KVR_MSG_DIGEST,
                                               KVR_MSG_RAIL_LOST, KVR_MSG_FAIL};
    uint32_t count = 0;

    (void)state;
    new_world();
    while (send_kind(TARGET, KVR_MSG_PAGES, 1, 10) == KVR_OK)
        count++;
    assert_int_equal(count, KVR_SESSION_QUEUE_COUNT_MIN * 3 / 4 - 16);
    for (uint32_t i = 0; i < sizeof(patient) / sizeof(patient[0]); i++)
        assert_int_equal(send_kind(TARGET, patient[i], 1, 0), KVR_AGAIN);
    while (send_kind(TARGET, KVR_MSG_UNKNOWN, 3, 0) == KVR_OK) /* the sender of these cannot wait */
        count++;
    assert_int_equal(count, KVR_SESSION_QUEUE_COUNT_MIN - 16);
    assert_int_equal(send_kind(TARGET, KVR_MSG_CANCEL, 2, 0), KVR_OK); /* the reserve */
    connect_both();
    settle();
    pass(BEAT_MS);
    settle();
    assert_int_equal(world.ends[SOURCE].came, count + 1);
    assert_int_equal(world.ends[TARGET].writable, 1);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 10), KVR_OK);
}

static void session_refuses_what_it_cannot_send(void **state)
{
    struct kvr_message beat = {.kind = KVR_MSG_BEAT};

    (void)state;
    meet();
    assert_int_equal(kvr_session_send(world.ends[TARGET].session, world.now, &beat), KVR_INVALID);
}

/* A side that has received much acknowledges without waiting for the beat. */
static void session_acknowledges_early(void **state)
{
    (void)state;
    meet();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 20000), KVR_OK);
        settle(); /* time stands still */
    }
    assert_int_equal(world.ends[SOURCE].came, 100);
}

static void session_silence_is_death(void **state)
{
    struct end *target;

    (void)state;
    meet();
    target = &world.ends[TARGET];
    world.silent[SOURCE] = true;
    for (int i = 0; i < 29; i++) {
        pass(100);
        settle();
    }
    assert_int_equal(target->lost, 0);
    pass(100);
    assert_int_equal(target->lost, 1);
    assert_int_equal(target->lost_status, KVR_PEER_LOST);
    assert_string_equal(target->lost_detail, "nothing was heard from it for 3000 ms");
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 1), KVR_PEER_LOST);
    settle(); /* the other side learns of it */
    assert_int_equal(world.ends[SOURCE].lost, 1);
    assert_int_equal(world.ends[SOURCE].lost_status, KVR_PEER_LOST);
    assert_string_equal(world.ends[SOURCE].lost_detail,
                        "it heard nothing from this side for 3000 ms");
}

/* The sentences show which side did not run. */
static void session_names_the_side_that_was_away(void **state)
{
    struct end *target, *source;

    (void)state;
    meet();
    target = &world.ends[TARGET];
    source = &world.ends[SOURCE];
    for (uint32_t beat = 0; beat < 3; beat++) { /* the source's loop does not turn */
        world.now += BEAT_MS * KVR_MS;
        kvr_session_tick(target->session, world.now);
    }
    assert_string_equal(target->lost_detail, "nothing was heard from it for 3000 ms");
    settle();
    assert_string_equal(source->lost_detail, "it heard nothing from this side for 3000 ms; own "
                                             "beats came up to 2000 ms late");

    meet();
    world.silent[SOURCE] = true;
    pass(10 * BEAT_MS); /* the first was due */
    pass(2 * BEAT_MS);
    assert_string_equal(
        target->lost_detail,
        "nothing was heard from it for 3000 ms (and this process did not run for 9000 ms)");
}

/* A lateness of long ago explains no silence. */
static void session_forgets_that_it_was_late(void **state)
{
    (void)state;
    meet();
    pass(3 * BEAT_MS);
    settle();
    for (int i = 0; i < 4; i++) {
        pass(BEAT_MS);
        settle();
    }
    world.silent[SOURCE] = true;
    for (int i = 0; i < 3; i++)
        pass(BEAT_MS);
    assert_string_equal(world.ends[TARGET].lost_detail, "nothing was heard from it for 3000 ms");
}

/* Messages sent while this side was away are read before the peer counts as silent. A peer that
 * stays silent then is dead, however often this side is away. */
static void session_absence_is_no_silence(void **state)
{
    struct end *target;

    (void)state;
    meet();
    target = &world.ends[TARGET];
    pass(10 * BEAT_MS); /* the whole machine was stopped: both come late */
    settle();
    assert_int_equal(target->lost + world.ends[SOURCE].lost, 0);
    world.silent[SOURCE] = true;
    pass(10 * BEAT_MS); /* one beat was due, nine are no silence */
    assert_int_equal(target->lost, 0);
    pass(2 * BEAT_MS - 1);
    assert_int_equal(target->lost, 0);
    pass(1);
    assert_int_equal(target->lost, 1);
    assert_int_equal(target->lost_status, KVR_PEER_LOST);

    meet(); /* that began after the silence is listened to for a beat all the same */
    world.silent[SOURCE] = true;
    for (int i = 0; i < 29; i++)
        pass(100);
    pass(2 * BEAT_MS);
    assert_int_equal(target->lost, 0);
    pass(BEAT_MS - 1);
    assert_int_equal(target->lost, 0);
    pass(1);
    assert_int_equal(target->lost, 1);

    meet();
    world.silent[SOURCE] = true;
    pass(10 * BEAT_MS);
    assert_int_equal(target->lost, 0);
    pass(10 * BEAT_MS);
    assert_int_equal(target->lost, 1);
}

static void session_beats_keep_it_alive(void **state)
{
    (void)state;
    meet();
    for (int i = 0; i < 100; i++) {
        kvr_ns wake = kvr_session_wake(world.ends[TARGET].session);

        assert_true(wake <= world.now + BEAT_MS * KVR_MS);
        world.now = wake;
        pass(0);
        settle();
    }
    assert_int_equal(world.ends[TARGET].lost + world.ends[SOURCE].lost, 0);
    cut(true);
    pass(2900);
    assert_int_equal(world.ends[TARGET].lost + world.ends[SOURCE].lost, 0);
    connect_both();
    settle();
    pass(1000);
    settle();
    assert_int_equal(world.ends[TARGET].lost + world.ends[SOURCE].lost, 0);
    assert_int_equal(world.ends[TARGET].begun + world.ends[SOURCE].begun, 2);
}

static void session_never_answered_is_lost(void **state)
{
    (void)state;
    new_world();
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 1), KVR_OK);
    for (int i = 0; i < 2; i++)
        pass(BEAT_MS);
    pass(999);
    assert_int_equal(world.ends[TARGET].lost, 0);
    pass(1);
    assert_int_equal(world.ends[TARGET].lost, 1);
    assert_int_equal(world.ends[TARGET].lost_status, KVR_PEER_LOST);

    new_world(); /* without a peer no beat is due: an absence is seen all the same */
    pass(2500);
    pass(BEAT_MS);
    assert_int_equal(world.ends[TARGET].lost, 0);
    pass(BEAT_MS);
    assert_int_equal(world.ends[TARGET].lost, 1);
    assert_string_equal(
        world.ends[TARGET].lost_detail,
        "nothing was heard from it for 3000 ms (and this process did not run for 1500 ms)");
}

static size_t frame_of(const struct kvr_message *message, uint8_t *buffer)
{
    size_t bytes;

    assert_int_equal(kvr_message_encode(message, buffer, 65536, &bytes), KVR_OK);
    return bytes;
}

static void give(enum side side, const struct kvr_message *message)
{
    uint8_t buffer[65536];
    size_t bytes = frame_of(message, buffer);

    kvr_session_frame(world.ends[side].session, world.now, buffer, bytes);
}

static void expect_lost(enum side side, kvr_status status, const char *words)
{
    assert_int_equal(world.ends[side].lost, 1);
    assert_int_equal(world.ends[side].lost_status, status);
    if (strstr(world.ends[side].lost_detail, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", world.ends[side].lost_detail, words);
}

/* The connection was lost, and the source's answer on the next one names no session; boot 0: the
 * source's own boot. */
static void welcome_to_none(uint64_t boot)
{
    struct kvr_message welcome = {.kind = KVR_MSG_WELCOME};

    meet();
    cut(true);
    kvr_session_connected(world.ends[TARGET].session, world.now);
    welcome.hello = world.ends[SOURCE].hello;
    welcome.hello.boot = boot != 0 ? boot : welcome.hello.boot;
    give(TARGET, &welcome);
}

static void session_restarted_peer(void **state)
{
    (void)state;
    welcome_to_none(999);
    expect_lost(TARGET, KVR_PEER_RESTARTED, "another boot");
}

static void session_forgotten_by_the_peer(void **state)
{
    (void)state;
    welcome_to_none(0);
    expect_lost(TARGET, KVR_PEER_LOST, "given up");
}

/* Only the first WELCOME of a session is checked. */
static void session_resumed_keeps_the_beat(void **state)
{
    static const uint32_t beats_ms[] = {UINT32_MAX, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(beats_ms) / sizeof(beats_ms[0]); i++) {
        struct kvr_message welcome = {.kind = KVR_MSG_WELCOME};
        struct end *target = &world.ends[TARGET];

        meet();
        cut(true);
        kvr_session_connected(target->session, world.now);
        welcome.hello = world.ends[SOURCE].hello;
        welcome.hello.session = kvr_session_number(target->session);
        welcome.hello.beat_ms = beats_ms[i];
        give(TARGET, &welcome);
        for (uint32_t beat = 1; beat < 3; beat++)
            kvr_session_tick(target->session, world.now + beat * BEAT_MS * KVR_MS);
        kvr_session_tick(target->session, world.now + 3 * BEAT_MS * KVR_MS - 1);
        assert_int_equal(target->lost, 0);
        kvr_session_tick(target->session, world.now + 3 * BEAT_MS * KVR_MS);
        expect_lost(TARGET, KVR_PEER_LOST, "nothing was heard");
    }
}

/* A peer that names a very short beat does not make this side end sessions as fast. */
static void session_has_a_floor_for_the_peers_beat(void **state)
{
    struct kvr_message hello = {.kind = KVR_MSG_HELLO};
    struct end *source = &world.ends[SOURCE];

    (void)state;
    new_world();
    hello.hello = world.ends[TARGET].hello;
    hello.hello.beat_ms = KVR_BEAT_MS_MIN;
    kvr_session_accepted(source->session, world.now, &hello.hello, KVR_PROTOCOL_MAX, 77);
    assert_true(kvr_session_wake(source->session) >=
                world.now + KVR_BEATS_MAX * BEAT_MS / KVR_BEATS_FASTER_MAX * KVR_MS);
}

static void session_refusals_reach_the_other_side(void **state)
{
    struct kvr_message refused = {.kind = KVR_MSG_REFUSED,
                                  .reason = {KVR_INCOMPATIBLE, "num kv heads: 8 and 4"}};

    (void)state;
    new_world();
    connect_both();
    give(TARGET, &refused);
    expect_lost(TARGET, KVR_INCOMPATIBLE, "num kv heads: 8 and 4");

    /* Older agents refuse without saying what to do. */
    new_world();
    connect_both();
    refused.reason = (struct kvr_msg_reason){KVR_VERSION, "the source speaks 4 to 6"};
    give(TARGET, &refused);
    expect_lost(TARGET, KVR_VERSION, "the source speaks 4 to 6: upgrade both agents together");

    meet();
    kvr_session_end(world.ends[SOURCE].session, world.now, KVR_DRAINING, "the agent is stopping");
    expect_lost(SOURCE, KVR_DRAINING, "stopping");
    settle();
    expect_lost(TARGET, KVR_DRAINING, "the agent is stopping");
}

static void session_target_checks_the_welcome(void **state)
{
    (void)state;
    new_world();
    strcpy(world.ends[SOURCE].hello.provider, "local");
    connect_both();
    settle();
    expect_lost(TARGET, KVR_INCOMPATIBLE,
                "provider: the source has \"local\", the target has \"tcp\"");
    expect_lost(SOURCE, KVR_INCOMPATIBLE, "provider");
}

static void session_breaks_off_at_nonsense(void **state)
{
    struct kvr_message cancel = {.kind = KVR_MSG_CANCEL, .sequence = 1};
    struct kvr_message seen = {.kind = KVR_MSG_BEAT, .seen = {4711, 0}};
    struct kvr_message hello = {.kind = KVR_MSG_HELLO};

    (void)state;
    meet();
    cancel.sequence = 2;
    give(SOURCE, &cancel);
    expect_lost(SOURCE, KVR_MALFORMED, "message 2 followed message 0");
    settle();
    expect_lost(TARGET, KVR_MALFORMED, "message 2 followed message 0");

    meet();
    seen.seen.seen = 1;
    give(SOURCE, &seen);
    expect_lost(SOURCE, KVR_MALFORMED, "never sent");

    meet();
    seen.seen = (struct kvr_msg_seen){4712, 0};
    give(SOURCE, &seen);
    expect_lost(SOURCE, KVR_MALFORMED, "BEAT");

    meet();
    give(SOURCE, &hello);
    expect_lost(SOURCE, KVR_MALFORMED, "HELLO");

    meet();
    kvr_session_frame(world.ends[SOURCE].session, world.now, (const uint8_t *)"garbage", 7);
    expect_lost(SOURCE, KVR_MALFORMED, "no message");
}

static void session_duplicates_are_dropped(void **state)
{
    struct kvr_message cancel = {
        .kind = KVR_MSG_CANCEL, .sequence = 1, .transfer = 1, .reason = {KVR_OK, "1"}};

    (void)state;
    meet();
    give(SOURCE, &cancel);
    give(SOURCE, &cancel);
    assert_int_equal(world.ends[SOURCE].came, 1);
    assert_int_equal(world.ends[SOURCE].lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_delivers_once_and_in_order),
        cmocka_unit_test(session_sends_what_was_queued_before_it_began),
        cmocka_unit_test(session_urgent_passes_other_transfers),
        cmocka_unit_test(session_full_queue_says_again_then_writable),
        cmocka_unit_test(session_refuses_what_it_cannot_send),
        cmocka_unit_test(session_acknowledges_early),
        cmocka_unit_test(session_silence_is_death),
        cmocka_unit_test(session_names_the_side_that_was_away),
        cmocka_unit_test(session_forgets_that_it_was_late),
        cmocka_unit_test(session_absence_is_no_silence),
        cmocka_unit_test(session_beats_keep_it_alive),
        cmocka_unit_test(session_never_answered_is_lost),
        cmocka_unit_test(session_restarted_peer),
        cmocka_unit_test(session_forgotten_by_the_peer),
        cmocka_unit_test(session_resumed_keeps_the_beat),
        cmocka_unit_test(session_refusals_reach_the_other_side),
        cmocka_unit_test(session_has_a_floor_for_the_peers_beat),
        cmocka_unit_test(session_target_checks_the_welcome),
        cmocka_unit_test(session_breaks_off_at_nonsense),
        cmocka_unit_test(session_duplicates_are_dropped),
    };

    return cmocka_run_group_tests_name("session", tests, world_open, world_close);
}
