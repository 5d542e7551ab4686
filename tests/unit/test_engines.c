/* Goal: an agent's memory of its own and its peers' engine ranks does not grow with ranks that are
 * gone. Method: the tables alone, with a record of the messages that they send. */
#include "tests/support/check.h"

#include "agent/core/engines.h"
#include "tests/support/machine_log.h"

static struct kvr_engines engines;
static struct small_side side;
static struct kvr_shared_page page;

static int open_engines(void **state)
{
    (void)state;
    machine_log_clear();
    small_side_init(&side, 1);
    kvr_engines_init(&engines, machine_memory(), &machine_ports, false);
    return 0;
}

static kvr_status learn(uint8_t number, uint64_t generation, uint32_t layout_count)
{
    struct kvr_message message;
    struct kvr_error error;

    machine_regions(number, &side, 0, &message);
    message.regions.rank.generation = generation;
    message.regions.layout_count = layout_count;
    return kvr_engines_learn(&engines, 3, &message.regions, &error);
}

static void a_peers_engines_come_and_go(void **state)
{
    struct kvr_rank first = machine_rank(1);

    (void)state;
    for (uint32_t i = 0; i < 4 * KVR_ENGINES_MAX; i++) {
        assert_int_equal(learn((uint8_t)(i % 200 + 1), 1, 1), KVR_OK);
        if (i >= KVR_ENGINES_MAX / 2)
            assert_int_equal(learn((uint8_t)((i - KVR_ENGINES_MAX / 2) % 200 + 1), 1, 0), KVR_OK);
    }
    for (uint8_t number = 1; number <= 200; number++)
        assert_int_equal(learn(number, 1, 0), KVR_OK);
    for (uint8_t number = 1; number <= KVR_ENGINES_MAX; number++)
        assert_int_equal(learn(number, 1, 1), KVR_OK);
    assert_non_null(kvr_engines_remote(&engines, 3, &first));
    assert_int_equal(learn(KVR_ENGINES_MAX + 1, 1, 1), KVR_TOO_LARGE);
}

/* The last message of one generation may come after the first of the next. */
static void an_end_is_of_one_generation(void **state)
{
    struct kvr_rank first = machine_rank(1);

    (void)state;
    assert_int_equal(learn(1, 2, 1), KVR_OK);
    assert_int_equal(learn(1, 1, 0), KVR_OK);
    assert_non_null(kvr_engines_remote(&engines, 3, &first));
    assert_int_equal(learn(1, 2, 0), KVR_OK);
    assert_null(kvr_engines_remote(&engines, 3, &first));
}

/* Only peers that know an engine hear that it is gone, and only when nothing uses it. */
static void peers_are_told_of_an_end(void **state)
{
    (void)state;
    machine_engine_up(&engines, 0, 1, &side, &page);
    assert_int_equal(kvr_engines_tell(&engines, 0, engines.local[0].set, 5), KVR_OK);
    kvr_engines_use(&engines, 0);
    kvr_engines_down(&engines, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), 1);
    kvr_engines_unuse(&engines, 0);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), 2);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 0);
    assert_int_equal(machine_log.sent_to[machine_log.sent_count - 1], 5);
    assert_int_equal(machine_log.engines_done, 1);
}

static void end_told(uint32_t index, uint8_t number)
{
    machine_log.sent_count = 0;
    machine_engine_up(&engines, index, number, &side, &page);
    assert_int_equal(kvr_engines_tell(&engines, index, engines.local[index].set, 5), KVR_OK);
    machine_log.send_answer = KVR_AGAIN;
    kvr_engines_down(&engines, index);
    machine_log.send_answer = KVR_OK;
}

static uint32_t ends_told_on_room(uint32_t peer)
{
    machine_log.sent_count = 0;
    kvr_engines_writable(&engines, peer);
    return machine_sent_count(KVR_MSG_REGIONS);
}

/* Without this message the peer would remember the engine until its table is full, and hang up. */
static void an_end_waits_for_room(void **state)
{
    (void)state;
    end_told(0, 1);
    end_told(0, 2); /* a newcomer gets the index at once */
    assert_int_equal(machine_log.engines_done, 2);
    assert_int_equal(ends_told_on_room(4), 0); /* another peer */
    machine_log.send_answer = KVR_AGAIN;
    (void)ends_told_on_room(5);
    machine_log.send_answer = KVR_OK;
    assert_int_equal(ends_told_on_room(5), 2);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 0);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.rank.engine.bytes[0],
                     machine_rank(2).engine.bytes[0]);
    assert_int_equal(ends_told_on_room(5), 0); /* once */
}

/* ---- revocation words (rule 11) -------------------------------------------------------------- */

static struct {
    uint32_t offers, regions_before; /* REGIONS that were sent before the last offer */
    uint32_t engine, peer;           /* of the last offer */
    uint32_t forgotten;
    uint64_t last_forgotten;
} seen;

static uint64_t words_offer(void *self, uint32_t engine, uint32_t peer)
{
    (void)self;
    seen.offers++;
    seen.regions_before = machine_sent_count(KVR_MSG_REGIONS);
    seen.engine = engine;
    seen.peer = peer;
    return 100 + engine;
}

static void words_forget(void *self, uint32_t peer, uint64_t number)
{
    (void)self;
    assert_int_equal(peer, 3);
    seen.forgotten++;
    seen.last_forgotten = number;
}

static void with_words(struct kvr_ports *ports)
{
    memset(&seen, 0, sizeof(seen));
    *ports = machine_ports;
    ports->revocation_words_offer = words_offer;
    ports->revocation_words_forget = words_forget;
    engines.ports = ports;
}

/* A target that hears of an engine has the offer of its words before it. */
static void words_are_offered_before_the_engine_is_named(void **state)
{
    struct kvr_ports ports;

    (void)state;
    with_words(&ports);
    for (uint32_t engine = 0; engine < 2; engine++) {
        machine_engine_up(&engines, engine, (uint8_t)(engine + 1), &side, &page);
        assert_int_equal(kvr_engines_tell(&engines, engine, engines.local[engine].set, 5), KVR_OK);
        assert_int_equal(seen.offers, engine + 1);
        assert_int_equal(seen.engine, engine); /* its own, not another's */
        assert_int_equal(seen.peer, 5);
        assert_int_equal(seen.regions_before, engine);
        assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.revocation_words, 100 + engine);
    }
    kvr_engines_changed(&engines, 0, engines.local[0].set);
    assert_int_equal(kvr_engines_tell(&engines, 0, engines.local[0].set, 5), KVR_OK);
    assert_int_equal(seen.offers, 2); /* once in a session */
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.revocation_words, 100);
    kvr_engines_peer_lost(&engines, 5);
    assert_int_equal(kvr_engines_tell(&engines, 0, engines.local[0].set, 5), KVR_OK);
    assert_int_equal(seen.offers, 3);
}

static void learn_words(uint8_t number, uint64_t named)
{
    struct kvr_message message;
    struct kvr_error error;

    machine_regions(number, &side, 0, &message);
    message.regions.revocation_words = named;
    assert_int_equal(kvr_engines_learn(&engines, 3, &message.regions, &error), KVR_OK);
}

static void words_are_forgotten_with_their_engine(void **state)
{
    struct kvr_ports ports;

    (void)state;
    with_words(&ports);
    learn_words(1, 7);
    learn_words(1, 7);
    assert_int_equal(seen.forgotten, 0);
    learn_words(1, 8); /* it has attached anew */
    assert_int_equal(seen.last_forgotten, 7);
    assert_int_equal(learn(1, machine_rank(1).generation, 0), KVR_OK);
    assert_int_equal(seen.last_forgotten, 8);
    learn_words(2, 9);
    learn_words(4, 0);
    kvr_engines_peer_lost(&engines, 3);
    assert_int_equal(seen.last_forgotten, 9);
    assert_int_equal(seen.forgotten, 3);
}

static kvr_status attach(uint64_t generation, const char **ret_words)
{
    static struct kvr_error error;
    struct kvr_req_attach request = {.rank = machine_rank(1)};

    request.rank.generation = generation;
    *ret_words = error.detail;
    return kvr_engines_up(&engines, 1, &request, &page, &error);
}

/* Peers would take the end of the first for its own: every fetch from it would fail. */
static void who_comes_again_has_a_larger_generation(void **state)
{
    const char *words;

    (void)state;
    machine_engine_up(&engines, 0, 1, &side, &page);
    kvr_engines_use(&engines, 0);
    kvr_engines_down(&engines, 0); /* pages are still lent */
    assert_int_equal(attach(1, &words), KVR_STALE);
    assert_non_null(strstr(words, "each start of an engine needs a larger one"));
    kvr_engines_unuse(&engines, 0);
    assert_int_equal(attach(1, &words), KVR_STALE);
    assert_int_equal(attach(5, &words), KVR_OK);
    kvr_engines_down(&engines, 1);
    assert_int_equal(attach(4, &words), KVR_STALE);
    assert_int_equal(attach(6, &words), KVR_OK);
}

static void a_lost_peer_is_owed_nothing(void **state)
{
    (void)state;
    end_told(0, 1);
    kvr_engines_peer_lost(&engines, 5);
    assert_int_equal(ends_told_on_room(5), 0);
}

/* More ends than the table remembers: the session ends instead. */
static void ends_beyond_the_bound_end_the_session(void **state)
{
    (void)state;
    for (uint8_t i = 1; i <= KVR_ENGINES_GONE; i++)
        end_told(0, i);
    assert_int_equal(machine_log.hang_ups, 0);
    end_told(0, KVR_ENGINES_GONE + 1);
    assert_int_equal(machine_log.hang_ups, 1);
}

/* A second layout in the memory of the first: each comes back by itself. */
static void layouts_share_a_region(void **state)
{
    struct kvr_region_layout other = side.region.layout;
    struct kvr_region_set *set;
    struct kvr_error error;

    (void)state;
    machine_engine_up(&engines, 0, 1, &side, &page);
    other.region = 2;
    other.group = 1;
    assert_int_equal(kvr_engines_region_add(&engines, 0, &other, &side.region, &error), KVR_OK);
    assert_int_equal(kvr_engines_region_add(&engines, 0, &other, &side.region, &error), KVR_EXISTS);
    set = kvr_engines_set_acquire(&engines, 0);
    assert_int_equal(set->count, 2);
    assert_ptr_equal(set->locals[0], set->locals[1]);
    assert_int_equal(kvr_engines_region_drop(&engines, 0, 1), KVR_OK);
    assert_int_equal(machine_log.regions_done, 0); /* the set is in use */
    kvr_engines_set_release(&engines, 0, set);
    assert_int_equal(machine_log.regions_done, 1);
    assert_int_equal(machine_log.region_done, 1);
    assert_int_equal(engines.local[0].set->layouts[0].group, 1);
    kvr_engines_down(&engines, 0);
    assert_int_equal(machine_log.regions_done, 2);
    assert_int_equal(machine_log.region_done, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_peers_engines_come_and_go, open_engines),
        cmocka_unit_test_setup(an_end_is_of_one_generation, open_engines),
        cmocka_unit_test_setup(peers_are_told_of_an_end, open_engines),
        cmocka_unit_test_setup(an_end_waits_for_room, open_engines),
        cmocka_unit_test_setup(words_are_offered_before_the_engine_is_named, open_engines),
        cmocka_unit_test_setup(words_are_forgotten_with_their_engine, open_engines),
        cmocka_unit_test_setup(who_comes_again_has_a_larger_generation, open_engines),
        cmocka_unit_test_setup(a_lost_peer_is_owed_nothing, open_engines),
        cmocka_unit_test_setup(ends_beyond_the_bound_end_the_session, open_engines),
        cmocka_unit_test_setup(layouts_share_a_region, open_engines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
