/* Goal: a host that floods an agent with connections is held back, and others are not. Method: the
 * limit alone, in virtual time. */
#include "tests/support/check.h"

#include "agent/peer/hello_limit.h"

static struct hello_limit limit;

static int fresh(void **state)
{
    (void)state;
    memset(&limit, 0, sizeof(limit));
    return 0;
}

/* So many of `tries` in a second were taken. */
static uint32_t taken(kvr_ns from, uint64_t host, uint32_t tries)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < tries; i++)
        count += hello_limit_take(&limit, from + i * (KVR_S / tries), host, false);
    return count;
}

static void a_flood_gets_its_burst_and_then_its_rate(void **state)
{
    (void)state;
    assert_int_equal(taken(10 * KVR_S, 1, 4200), HELLO_HOST_BURST + HELLO_HOST_RATE - 1);
    for (uint32_t i = 11; i < 20; i++)
        assert_in_range(taken(i * KVR_S, 1, 4200), HELLO_HOST_RATE - 1, HELLO_HOST_RATE + 1);
}

static void others_are_served_beside_a_flood(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        taken(i * KVR_S, 1, 4200);
        assert_true(hello_limit_take(&limit, i * KVR_S + KVR_S / 2, 2 + i, false));
    }
}

/* More hosts than are remembered: the total holds. */
static void many_hosts_share_the_total(void **state)
{
    uint32_t count = 0;

    (void)state;
    for (uint32_t i = 0; i < 100000; i++)
        count += hello_limit_take(&limit, KVR_S, 1 + i, false);
    assert_int_equal(count, HELLO_ALL_BURST);
    for (uint32_t i = 0; i < 100000; i++)
        count += hello_limit_take(&limit, 2 * KVR_S, 1 + i, false);
    assert_int_equal(count, HELLO_ALL_BURST + HELLO_ALL_RATE);
}

static void a_fleet_comes_back_at_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++)
        assert_true(hello_limit_take(&limit, KVR_S, 7, false));
    assert_false(hello_limit_take(&limit, KVR_S, 7, false));
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++)
        assert_true(hello_limit_take(&limit, 60 * KVR_S, 7, false));
}

/* A flood that uses the total up, from many hosts: those that have a session are not concerned. */
static void known_hosts_do_not_share_the_total(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HELLO_ALL_BURST; i++)
        (void)hello_limit_take(&limit, KVR_S, 2000 + i, false);
    assert_false(hello_limit_take(&limit, KVR_S, 5, false));
    for (uint32_t i = 0; i < HELLO_HOST_BURST; i++)
        assert_true(hello_limit_take(&limit, KVR_S, 5, true));
    assert_false(hello_limit_take(&limit, KVR_S, 5, true)); /* its own bound holds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_flood_gets_its_burst_and_then_its_rate, fresh),
        cmocka_unit_test_setup(others_are_served_beside_a_flood, fresh),
        cmocka_unit_test_setup(many_hosts_share_the_total, fresh),
        cmocka_unit_test_setup(a_fleet_comes_back_at_once, fresh),
        cmocka_unit_test_setup(known_hosts_do_not_share_the_total, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
