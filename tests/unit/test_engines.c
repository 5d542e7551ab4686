/* Goal: what an agent remembers of its own and its peers' engine ranks does not grow with those
 * that are gone. Method: the tables alone, what they send written down. */
#include "tests/support/check.h"

#include "agent/engines.h"
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

/* The last word of one generation may come after the first of the next. */
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

/* Only those that were told of an engine are told that it is gone, and when nothing uses it. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_peers_engines_come_and_go, open_engines),
        cmocka_unit_test_setup(an_end_is_of_one_generation, open_engines),
        cmocka_unit_test_setup(peers_are_told_of_an_end, open_engines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
