/* Goal: no byte of staging memory has two owners at once, returned memory is used again, and a part
 * that does not fit is refused. Method: random takes and gives against a map of each byte's owner.
 */
#include "tests/support/check.h"

#include "base/rng.h"
#include "device/staging.h"
#include "device/staging_pool.h"

#define BYTES (64u << 10)

static void own(uint32_t *owners, uint64_t offset, uint64_t bytes, uint32_t before, uint32_t after)
{
    assert_true(offset <= BYTES && bytes <= BYTES - offset);
    for (uint64_t i = offset; i < offset + bytes; i++) {
        assert_int_equal(owners[i], before);
        owners[i] = after;
    }
}

static void ring_parts_never_meet(void **state)
{
    static struct kvr_staging ring;
    static uint32_t owners[BYTES];
    struct {
        uint32_t part;
        uint64_t offset, bytes;
    } live[KVR_STAGING_PARTS];
    uint32_t live_count = 0, refused = 0, whole = 0;
    struct kvr_rng rng;

    (void)state;
    memset(owners, 0, sizeof(owners));
    kvr_rng_init(&rng, 1);
    kvr_staging_init(&ring, BYTES);
    for (uint64_t n = check_cases(200000, 20000000); n > 0; n--) {
        if (live_count > 0 && kvr_rng_percent(&rng, 50)) {
            uint64_t at = kvr_rng_below(&rng, live_count < 4 ? live_count : 4);

            own(owners, live[at].offset, live[at].bytes, live[at].part + 1, 0);
            kvr_staging_give(&ring, live[at].part);
            live[at] = live[--live_count];
            continue;
        }
        live[live_count].bytes = kvr_rng_percent(&rng, 1) ? BYTES : kvr_rng_between(&rng, 1, 6000);
        if (!kvr_staging_take(&ring, live[live_count].bytes, &live[live_count].part,
                              &live[live_count].offset)) {
            refused++;
            continue;
        }
        whole += live[live_count].bytes == BYTES;
        assert_int_equal(live[live_count].offset % KVR_STAGING_ALIGN, 0);
        own(owners, live[live_count].offset, live[live_count].bytes, 0, live[live_count].part + 1);
        live_count++;
    }
    assert_true(refused > 0 && whole > 0);
    assert_false(kvr_staging_take(&ring, BYTES + 1, &live[0].part, &live[0].offset));
}

static void ring_has_so_many_parts(void **state)
{
    static struct kvr_staging ring;
    uint32_t part;
    uint64_t offset;

    (void)state;
    kvr_staging_init(&ring, 1u << 30);
    for (uint32_t i = 0; i < KVR_STAGING_PARTS; i++)
        assert_true(kvr_staging_take(&ring, 1, &part, &offset));
    assert_false(kvr_staging_take(&ring, 1, &part, &offset));
    kvr_staging_give(&ring, 0);
    assert_true(kvr_staging_take(&ring, 1, &part, &offset));
    assert_int_equal(part, 0);
}

static void pool_shares_never_meet(void **state)
{
    struct kvr_staging_pool pool = {.bytes = BYTES};
    static uint32_t owners[BYTES];
    struct kvr_staging_share live[KVR_STAGING_SHARES_MAX];
    uint32_t live_count = 0, refused = 0;
    struct kvr_rng rng;

    (void)state;
    memset(owners, 0, sizeof(owners));
    kvr_rng_init(&rng, 2);
    for (uint64_t n = check_cases(200000, 20000000); n > 0; n--) {
        struct kvr_staging_share *share = &live[live_count];

        if (live_count > 0 && kvr_rng_percent(&rng, 49)) {
            share = &live[kvr_rng_below(&rng, live_count)];
            own(owners, share->offset, share->bytes, 1, 0);
            kvr_staging_pool_give(&pool, share->offset);
            *share = live[--live_count];
            continue;
        }
        share->bytes = kvr_rng_between(&rng, 1, 4000);
        if (!kvr_staging_pool_take(&pool, share->bytes, &share->offset)) {
            refused++;
            continue;
        }
        own(owners, share->offset, share->bytes, 0, 1);
        live_count++;
    }
    assert_true(refused > 0);
    while (live_count > 0)
        kvr_staging_pool_give(&pool, live[--live_count].offset);
    assert_true(kvr_staging_pool_take(&pool, BYTES, &live[0].offset)); /* all in one piece again */
    assert_false(kvr_staging_pool_take(&pool, 1, &live[1].offset));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_parts_never_meet),
        cmocka_unit_test(ring_has_so_many_parts),
        cmocka_unit_test(pool_shares_never_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
