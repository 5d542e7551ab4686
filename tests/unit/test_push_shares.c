/* Goal: tenants that all have something to post get bytes by their weights, whatever the sizes of
 * their batches. None waits for long. One that is alone has everything, and the others have all
 * that one cannot use. Method: the shares alone, with batches of sizes by chance. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "prefill-agent/push_shares.h"

#define TENANTS 4

static struct push_shares shares;
static uint64_t bytes[TENANTS], waited[TENANTS], longest[TENANTS];

static void begin(const uint32_t weights[TENANTS])
{
    memset(&shares, 0, sizeof(shares));
    memset(bytes, 0, sizeof(bytes));
    memset(waited, 0, sizeof(waited));
    memset(longest, 0, sizeof(longest));
    for (uint32_t i = 0; i < TENANTS; i++)
        shares.tenants[i].weight = weights[i];
}

/* One batch of the tenant that is next; `may`: those that have room. */
static uint32_t batch(uint32_t active, uint32_t may, uint64_t size)
{
    uint32_t tenant = push_shares_next(&shares, may);

    if (tenant == KVR_TENANTS_MAX && push_shares_next(&shares, active) < KVR_TENANTS_MAX)
        tenant = push_shares_borrower(&shares, may);
    if (tenant == KVR_TENANTS_MAX) {
        push_shares_rounds(&shares, active);
        return batch(active, may, size);
    }
    assert_true(tenant < TENANTS && (may >> tenant & 1) != 0);
    push_shares_spend(&shares, tenant, size);
    bytes[tenant] += size;
    for (uint32_t i = 0; i < TENANTS; i++) {
        waited[i] = i == tenant ? 0 : waited[i] + size;
        longest[i] = waited[i] > longest[i] ? waited[i] : longest[i];
    }
    return tenant;
}

static void near(uint64_t got, uint64_t of, uint32_t parts, uint32_t all)
{
    uint64_t wanted = of * parts / all;

    if (got < wanted - wanted / 50 || got > wanted + wanted / 50)
        fail_msg("%llu bytes, and %llu are due", (unsigned long long)got,
                 (unsigned long long)wanted);
}

static void bytes_go_by_weight(void **state)
{
    static const uint32_t weights[][TENANTS] = {{3, 1}, {1, 1}, {100, 1}, {1, 2, 3, 4}};
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 7);
    for (size_t w = 0; w < sizeof(weights) / sizeof(weights[0]); w++) {
        uint32_t active = 0, sum = 0;
        uint64_t all = 0;

        begin(weights[w]);
        for (uint32_t i = 0; i < TENANTS; i++) {
            active |= (uint32_t)(weights[w][i] > 0) << i;
            sum += weights[w][i];
        }
        for (uint32_t n = 0; n < 100000; n++) {
            uint64_t size = 1 + kvr_rng_below(&rng, UINT64_C(1) << kvr_rng_between(&rng, 4, 21));

            (void)batch(active, active, size);
            all += size;
        }
        for (uint32_t i = 0; i < TENANTS; i++) {
            if (weights[w][i] == 0)
                continue;
            near(bytes[i], all, weights[w][i], sum);
            /* It has a batch in each round that it does not pay back. */
            assert_true(longest[i] <= (UINT64_C(2) << 21) * 2 * sum / weights[w][i] +
                                          (uint64_t)sum * PUSH_SHARE_BYTES);
        }
    }
}

/* Each has batches of its own size. */
static void large_batches_gain_nothing(void **state)
{
    (void)state;
    begin((const uint32_t[TENANTS]){1, 1});
    for (uint32_t n = 0; n < 100000; n++) {
        uint64_t size;

        if (push_shares_next(&shares, 3) == KVR_TENANTS_MAX)
            push_shares_rounds(&shares, 3);
        size = push_shares_next(&shares, 3) == 0 ? 2 << 20 : 64 << 10;
        (void)batch(3, 3, size);
    }
    near(bytes[0], bytes[0] + bytes[1], 1, 2);
}

static void credit_is_not_saved(void **state)
{
    (void)state;
    begin((const uint32_t[TENANTS]){3, 1});
    for (uint32_t n = 0; n < 1000; n++)
        assert_int_equal(batch(1, 1, 1 << 20), 0); /* tenant 1 has nothing */
    push_shares_idle(&shares, 1);
    memset(bytes, 0, sizeof(bytes));
    for (uint32_t n = 0; n < 10000; n++)
        (void)batch(3, 3, 64 << 10);
    near(bytes[0], bytes[0] + bytes[1], 3, 4);
}

/* A tenant without room lends its turns: the other pays for a round of them. With room again it
 * goes first, and does not have everything. */
static void want_of_room_lends(void **state)
{
    (void)state;
    begin((const uint32_t[TENANTS]){3, 1});
    for (uint32_t n = 0; n < 1000; n++)
        assert_int_equal(batch(3, 2, 64 << 10), 1);
    assert_int_equal(batch(3, 3, 64 << 10), 0);
    memset(bytes, 0, sizeof(bytes));
    for (uint32_t n = 0; n < 40; n++)
        (void)batch(3, 3, 256 << 10);
    assert_in_range(bytes[1], 8u * (256 << 10), 11u * (256 << 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_by_weight),
        cmocka_unit_test(large_batches_gain_nothing),
        cmocka_unit_test(credit_is_not_saved),
        cmocka_unit_test(want_of_room_lends),
    };

    return cmocka_run_group_tests_name("push_shares", tests, NULL, NULL);
}
