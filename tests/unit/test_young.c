/* Goal: connections that have proven nothing cannot keep those of other hosts away, nor take the
 * loop's time from sessions. Method: the table alone; connections are addresses of an array. */
#include "tests/support/check.h"

#include "wire/young.h"

#define NOISY 1u
#define QUIET 2u

static struct kvr_young young;
static char who[4096];
static uint32_t comes;

static int fresh(void **state)
{
    (void)state;
    memset(&young, 0, sizeof(young));
    comes = 0;
    return 0;
}

/* As a listener does. Returns the one that had to go. */
static void *come(uint64_t host, kvr_young_why *ret_why)
{
    void *leaver = kvr_young_leaver(&young, host, ret_why);

    if (leaver != NULL)
        kvr_young_go(&young, leaver);
    kvr_young_come(&young, host, &who[comes++]);
    return leaver;
}

static bool is_there(const void *one)
{
    for (uint32_t i = 0; i < young.count; i++)
        if (young.places[i].who == one)
            return true;
    return false;
}

static void a_host_has_its_share(void **state)
{
    kvr_young_why why;

    (void)state;
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        assert_null(come(NOISY, &why));
    assert_int_equal(why, KVR_YOUNG_ROOM);
    for (uint32_t i = 0; i < 2000; i++) {
        assert_ptr_equal(come(NOISY, &why), &who[i]);
        assert_int_equal(why, KVR_YOUNG_CROWD);
        assert_int_equal(young.count, KVR_YOUNG_SHARE);
    }
}

static void a_flood_takes_no_place_of_another_host(void **state)
{
    kvr_young_why why;

    (void)state;
    (void)come(QUIET, &why);
    for (uint32_t i = 0; i < 2000; i++)
        (void)come(NOISY + 2 * (i % 5), &why);
    assert_true(is_there(&who[0]));
    assert_int_equal(young.count, KVR_YOUNG_MAX);
    assert_non_null(come(4, &why));
    assert_int_equal(why, KVR_YOUNG_FULL);
    assert_true(is_there(&who[0]));
}

/* Every host has one: the oldest goes, as no host has more. */
static void many_hosts_lose_the_oldest(void **state)
{
    kvr_young_why why;

    (void)state;
    for (uint32_t i = 0; i < KVR_YOUNG_MAX; i++)
        assert_null(come(100 + i, &why));
    assert_ptr_equal(come(7, &why), &who[0]);
    assert_ptr_equal(come(8, &why), &who[1]);
}

static void a_turn_has_its_steps(void **state)
{
    kvr_young_why why;
    uint32_t taken = 0;

    (void)state;
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        (void)come(NOISY, &why);
    assert_true(kvr_young_rests(&young));
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        taken += kvr_young_step(&young, &who[i]);
    assert_int_equal(taken, KVR_YOUNG_STEPS);
    assert_false(kvr_young_rests(&young));
    assert_null(kvr_young_next(&young));
}

/* One that comes while others always want another step gets its own after each of them had one. */
static void steps_go_round(void **state)
{
    uint32_t steps[KVR_YOUNG_SHARE] = {0}, turns = 0;
    kvr_young_why why;
    bool done = false;
    char *mine;

    (void)state;
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        (void)come(NOISY, &why);
    mine = &who[comes];
    (void)come(QUIET, &why);
    for (; !done; turns++) {
        kvr_young_turn(&young);
        while (kvr_young_next(&young) != NULL)
            ;
        for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
            steps[i] += kvr_young_step(&young, &who[i]);
        done = kvr_young_step(&young, mine);
        assert_true(turns < 1 + KVR_YOUNG_SHARE / KVR_YOUNG_STEPS);
    }
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        assert_in_range(steps[i], 1, 2);
}

/* Those that go while they wait leave the queue; a promise that is not used holds its step. */
static void the_queue_forgets_those_that_go(void **state)
{
    kvr_young_why why;

    (void)state;
    for (uint32_t i = 0; i < 2 * KVR_YOUNG_STEPS; i++) {
        (void)come(NOISY, &why);
        (void)kvr_young_step(&young, &who[i]);
    }
    for (uint32_t i = KVR_YOUNG_STEPS; i < 2 * KVR_YOUNG_STEPS - 1; i++)
        kvr_young_go(&young, &who[i]);
    kvr_young_turn(&young);
    assert_ptr_equal(kvr_young_next(&young), &who[2 * KVR_YOUNG_STEPS - 1]);
    assert_null(kvr_young_next(&young));
    kvr_young_turn(&young);
    assert_int_equal(young.steps, 1);
    assert_true(kvr_young_step(&young, &who[2 * KVR_YOUNG_STEPS - 1]));
    kvr_young_turn(&young);
    assert_true(kvr_young_rests(&young));
    assert_true(kvr_young_step(&young, "one that is trusted by now"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_host_has_its_share, fresh),
        cmocka_unit_test_setup(a_flood_takes_no_place_of_another_host, fresh),
        cmocka_unit_test_setup(many_hosts_lose_the_oldest, fresh),
        cmocka_unit_test_setup(a_turn_has_its_steps, fresh),
        cmocka_unit_test_setup(steps_go_round, fresh),
        cmocka_unit_test_setup(the_queue_forgets_those_that_go, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
