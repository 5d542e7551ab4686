/* Goal: a stale id is always detected, slots come back oldest first, and a slot has one owner while
 * it is held. */
#include "tests/support/check.h"

#include "base/pool.h"
#include "base/rng.h"

#define SLOTS 32

static void pool_finds_stale_ids(void **state)
{
    uint64_t cases = check_cases(200000, 20000000), live[SLOTS] = {0}, stale[1000] = {0};
    void *memory = aligned_alloc(16, kvr_pool_bytes(SLOTS, sizeof(uint64_t)));
    struct kvr_pool pool;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 9);
    kvr_pool_init(&pool, memory, SLOTS, sizeof(uint64_t));
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t *id = &live[kvr_rng_below(&rng, SLOTS)];

        if (*id == 0) {
            uint64_t *slot = kvr_pool_acquire(&pool, id);

            assert_non_null(slot);
            assert_true(*id != 0 && *slot == 0);
            *slot = *id;
        } else {
            uint64_t *slot = kvr_pool_get(&pool, *id);

            assert_non_null(slot);
            assert_true(*slot == *id);
            kvr_pool_release(&pool, *id);
            stale[kvr_rng_below(&rng, 1000)] = *id;
            *id = 0;
        }
        assert_null(kvr_pool_get(&pool, stale[kvr_rng_below(&rng, 1000)]));
    }
    free(memory);
}

static void pool_reuses_the_oldest(void **state)
{
    void *memory = aligned_alloc(16, kvr_pool_bytes(3, 1));
    uint64_t ids[3], again;
    struct kvr_pool pool;

    (void)state;
    kvr_pool_init(&pool, memory, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_non_null(kvr_pool_acquire(&pool, &ids[i]));
        assert_int_equal(kvr_pool_index(ids[i]), i);
    }
    assert_null(kvr_pool_acquire(&pool, &again));
    assert_int_equal(pool.used_count, 3);
    kvr_pool_release(&pool, ids[2]);
    kvr_pool_release(&pool, ids[0]);
    kvr_pool_release(&pool, ids[1]);
    assert_non_null(kvr_pool_acquire(&pool, &again));
    assert_int_equal(kvr_pool_index(again), 2);
    assert_non_null(kvr_pool_acquire(&pool, &again));
    assert_int_equal(kvr_pool_index(again), 0);
    free(memory);
}

/* Objects used one after another stay in a few slots of a large pool. */
static void pool_touches_what_it_needs(void **state)
{
    uint32_t count = 100000;
    void *memory = aligned_alloc(16, kvr_pool_bytes(count, 16));
    uint64_t first = 0, id;
    struct kvr_pool pool;

    (void)state;
    kvr_pool_init(&pool, memory, count, 16);
    for (uint32_t i = 0; i < 3 * KVR_POOL_RESTING; i++) {
        assert_non_null(kvr_pool_acquire(&pool, &id));
        first = i == 0 ? id : first;
        assert_true(i == 0 || i >= KVR_POOL_RESTING || kvr_pool_index(id) != kvr_pool_index(first));
        kvr_pool_release(&pool, id);
    }
    assert_int_equal(pool.reach, KVR_POOL_RESTING);
    for (uint32_t i = 0; i < count; i++)
        assert_non_null(kvr_pool_acquire(&pool, &id));
    assert_null(kvr_pool_acquire(&pool, &id));
    free(memory);
}

static void pool_walks_its_live_slots(void **state)
{
    void *memory = aligned_alloc(16, kvr_pool_bytes(4, 24));
    uint64_t a, b, id;
    struct kvr_pool pool;
    void *slot;

    (void)state;
    kvr_pool_init(&pool, memory, 4, 24);
    assert_non_null(kvr_pool_acquire(&pool, &a));
    slot = kvr_pool_acquire(&pool, &b);
    kvr_pool_release(&pool, a);
    assert_null(kvr_pool_at(&pool, 0, &id));
    assert_ptr_equal(kvr_pool_at(&pool, 1, &id), slot);
    assert_true(id == b);
    assert_null(kvr_pool_at(&pool, 2, &id));
    assert_null(kvr_pool_at(&pool, 4, &id));
    assert_ptr_equal(kvr_pool_next(&pool, NULL), slot);
    assert_null(kvr_pool_next(&pool, slot));
    assert_null(kvr_pool_get(&pool, 0));
    assert_null(kvr_pool_get(&pool, UINT64_MAX));
    free(memory);
}

static void a_walk_may_release_its_slots(void **state)
{
    void *memory = aligned_alloc(16, kvr_pool_bytes(4, 24));
    struct kvr_pool pool;
    uint64_t ids[4], met = 0;

    (void)state;
    kvr_pool_init(&pool, memory, 4, 24);
    for (uint32_t i = 0; i < 4; i++)
        *(uint64_t *)kvr_pool_acquire(&pool, &ids[i]) = i;
    kvr_pool_release(&pool, ids[1]);
    KVR_POOL_EACH (const uint64_t, slot, &pool) {
        met = met * 10 + *slot;
        kvr_pool_release(&pool, ids[*slot]);
    }
    assert_int_equal(met, 23); /* 0, 2, 3 */
    assert_null(kvr_pool_next(&pool, NULL));
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_finds_stale_ids),         cmocka_unit_test(pool_reuses_the_oldest),
        cmocka_unit_test(pool_touches_what_it_needs),   cmocka_unit_test(pool_walks_its_live_slots),
        cmocka_unit_test(a_walk_may_release_its_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
