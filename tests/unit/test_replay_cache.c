/* Goal: the replayed target's prefix cache finds leading blocks only, evicts the least recently
 * used block that is not pinned, and gives every page back exactly once. */
#include "tests/support/check.h"

#include "base/rng.h"
#include "tools/replay/replay_cache.h"

static void insert(struct cache *cache, uint64_t block, uint32_t position, uint32_t page)
{
    uint32_t ids[2] = {page, page + 1};

    assert_true(cache_insert(cache, block, position, ids));
}

static void only_leading_blocks_match(void **state)
{
    const uint64_t blocks[] = {10, 11, 12};
    uint32_t ids[6] = {0};
    struct cache cache;

    (void)state;
    assert_true(cache_init(&cache, 4, 2));
    insert(&cache, 10, 0, 100);
    insert(&cache, 12, 2, 104);
    assert_int_equal(cache_match(&cache, blocks, 3, ids), 1);
    assert_int_equal(ids[0], 100);
    assert_int_equal(ids[1], 101);
    insert(&cache, 11, 1, 102);
    assert_int_equal(cache_match(&cache, blocks, 3, ids), 3);
    assert_int_equal(ids[3], 103);
    assert_int_equal(ids[5], 105);
    assert_int_equal(cache_match(&cache, blocks + 1, 2, ids), 0); /* other positions */
    assert_false(cache_insert(&cache, 11, 1, ids));               /* the block is here already */
    cache_done(&cache);
}

static void oldest_unpinned_goes_first(void **state)
{
    const uint64_t first[] = {1}, second[] = {2};
    struct cache_entry entry;
    uint32_t ids[2];
    struct cache cache;

    (void)state;
    assert_true(cache_init(&cache, 3, 2));
    insert(&cache, 1, 0, 10);
    insert(&cache, 2, 0, 20);
    insert(&cache, 3, 0, 30);
    assert_false(cache_insert(&cache, 4, 0, ids)); /* full */
    assert_int_equal(cache_match(&cache, first, 1, ids), 1);
    assert_int_equal(cache_match(&cache, second, 1, ids), 1);
    cache_unpin(&cache, first, 1);
    assert_true(cache_evict(&cache, &entry, ids)); /* 3: unused since it came */
    assert_int_equal(entry.block, 3);
    assert_int_equal(ids[0], 30);
    assert_true(cache_evict(&cache, &entry, ids)); /* 1: used before 2 */
    assert_int_equal(entry.block, 1);
    assert_false(cache_evict(&cache, &entry, ids)); /* 2 is pinned */
    cache_unpin(&cache, second, 1);
    assert_true(cache_evict(&cache, &entry, ids));
    assert_int_equal(entry.block, 2);
    assert_false(cache_evict(&cache, &entry, ids));
    cache_done(&cache);
}

static void empty_cache_holds_nothing(void **state)
{
    const uint64_t blocks[] = {1};
    struct cache_entry entry;
    uint32_t ids[2] = {0, 1};
    struct cache cache;

    (void)state;
    assert_true(cache_init(&cache, 0, 2));
    assert_false(cache_insert(&cache, 1, 0, ids));
    assert_int_equal(cache_match(&cache, blocks, 1, ids), 0);
    assert_false(cache_evict(&cache, &entry, ids));
    cache_done(&cache);
}

/* Every page is either in the cache or in `held`: in one of them, and only one. */
static void pages_are_conserved(void **state)
{
    enum { CAPACITY = 50, BLOCKS = 120 };
    bool held[CAPACITY];
    struct cache_entry entry;
    struct kvr_rng rng;
    struct cache cache;
    uint32_t free_count = CAPACITY;

    (void)state;
    assert_true(cache_init(&cache, CAPACITY, 1));
    memset(held, 1, sizeof(held));
    kvr_rng_init(&rng, 9);
    for (uint64_t step = 0; step < check_cases(50000, 5000000); step++) {
        uint64_t block = kvr_rng_below(&rng, BLOCKS);
        uint32_t page = 0, id;

        if (cache_match(&cache, &block, 1, &id) == 1) {
            assert_false(held[id]);
            cache_unpin(&cache, &block, 1);
            continue;
        }
        if (free_count == 0) {
            assert_true(cache_evict(&cache, &entry, &id));
            assert_false(held[id]);
            held[id] = true;
            free_count++;
        }
        while (!held[page])
            page++;
        assert_true(cache_insert(&cache, block, 0, &page));
        held[page] = false;
        free_count--;
        assert_int_equal(cache.count + free_count, CAPACITY);
    }
    cache_done(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_leading_blocks_match),
        cmocka_unit_test(oldest_unpinned_goes_first),
        cmocka_unit_test(empty_cache_holds_nothing),
        cmocka_unit_test(pages_are_conserved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
