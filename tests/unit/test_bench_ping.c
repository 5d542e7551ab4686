/* Goal: the parts of a ping add up to the whole, whatever delayed some pings. A path that lacks
 * some stations has no part for them. */
#include "tests/support/check.h"

#include "tools/bench/bench_ping_account.h"

static double sum(const struct ping_account *account)
{
    double parts = 0;

    for (int i = 0; i < PING_STATION_END; i++)
        parts += account->parts_us[i];
    return parts;
}

static void assert_near(double a, double b)
{
    assert_true(a - b < 1e-6 && b - a < 1e-6);
}

static void parts_are_all_of_a_ping(void **state)
{
    struct ping_sample samples[25];
    struct ping_account account;

    (void)state;
    for (unsigned i = 0; i < 25; i++) {
        kvr_ns at = KVR_S + i * KVR_MS;

        for (unsigned station = 0; station < PING_STATION_END; station++)
            samples[(i * 7) % 25].at[station] = at += station * KVR_US + i * 10;
    }
    samples[3].at[PING_READ] += KVR_S; /* another program had the core */
    ping_account_make(samples, 25, &account);
    assert_int_equal(account.count, 25);
    assert_near(sum(&account), account.middle_us);
    assert_near(account.parts_us[PING_ASKED], 0);
    assert_true(account.parts_us[PING_READ] > 6 && account.parts_us[PING_READ] < 6.3);
    assert_true(account.p99_us > 1e6 && account.middle_us < 25 && account.p50_us < 25);
}

static void a_short_way_has_few_parts(void **state)
{
    struct ping_sample sample = {.at = {[PING_ASKED] = 1000, [PING_POSTED] = 9000}};
    struct ping_account account;

    (void)state;
    sample.at[PING_LANDED] = 8000; /* before the call that posted it returned */
    ping_account_make(&sample, 1, &account);
    assert_near(account.middle_us, 7);
    assert_near(account.parts_us[PING_SEEN], 0);
    assert_near(account.parts_us[PING_POSTED], 8);
    assert_near(account.parts_us[PING_LANDED], -1);
    assert_near(account.parts_us[PING_READ], 0);
    assert_true(account.on_way[PING_LANDED] && !account.on_way[PING_READ]);
    sample.at[PING_LANDED] = 9000; /* or at its return: the time still belongs to the wire */
    ping_account_make(&sample, 1, &account);
    assert_near(account.parts_us[PING_LANDED], 0);
    assert_true(account.on_way[PING_LANDED] && !account.on_way[PING_SEEN]);
    ping_account_make(NULL, 0, &account);
    assert_near(account.middle_us + account.p50_us + account.p99_us, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_all_of_a_ping),
        cmocka_unit_test(a_short_way_has_few_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
