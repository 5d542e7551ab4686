/* Goal: a recorded page table lies in a pool as it lay in the trace. Two of its pages are
 * neighbours there exactly where they were. No page is taken twice, and nothing is taken where the
 * table does not fit. Method: tables by hand; then random tables in pools that other requests have
 * pages of.
 */
#include "tests/support/check.h"

#include "tools/replay/replay_runs.h"

#define POOL 400u

static struct pages pages;
static uint32_t ids[2 * POOL];

static int setup(void **state)
{
    (void)state;
    return pages_init(&pages, POOL, PAGES_AGED, 3) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pages_done(&pages);
    return 0;
}

static void takes(const int64_t *numbers, size_t count, uint32_t first, uint32_t end,
                  const uint32_t *expected)
{
    assert_int_equal(runs_take(numbers, count, first, end, &pages, ids), RUNS_PLACED);
    for (uint32_t i = first; i < end; i++)
        assert_int_equal(ids[i], expected[i - first]);
}

static void a_table_lies_where_it_lay(void **state)
{
    static const int64_t numbers[] = {10, 3, 5, 2, 300, 1};

    (void)state;
    takes(numbers, 6, 0, 6, (const uint32_t[]){10, 11, 12, 5, 6, 300});
    assert_int_equal(pages.free_count, POOL - 6);
    pages_release(&pages, ids, 6);
    /* Without the pages that are skipped, and those beyond the tokens. */
    takes(numbers, 6, 2, 5, (const uint32_t[]){12, 5, 6});
    /* What is used moves all of it, by one shift. */
    takes(numbers, 6, 0, 6, (const uint32_t[]){13, 14, 15, 8, 9, 303});
}

static void a_table_beyond_the_pool_has_shorter_gaps(void **state)
{
    static const int64_t numbers[] = {7000000000, 2, 5, 2, 7, 1, 90000, 2};

    (void)state;
    takes(numbers, 8, 0, 7, (const uint32_t[]){7, 8, 0, 1, 2, 4, 5});
}

static void what_fits_never_is_told_from_what_has_no_room(void **state)
{
    static const int64_t all[] = {0, POOL}, twice[] = {3, 2, 4, 2}, gap[] = {0, POOL - 1, POOL, 1};
    static const int64_t half[] = {1, POOL / 2}, empty[] = {3, 0, 7, 4};

    (void)state;
    assert_int_equal(runs_take(twice, 4, 0, 4, &pages, ids), RUNS_NEVER);
    assert_int_equal(runs_take(gap, 4, 0, POOL, &pages, ids), RUNS_NEVER);
    assert_int_equal(runs_take(half, 2, 0, POOL / 2 + 1, &pages, ids), RUNS_NEVER);
    assert_int_equal(runs_take(empty, 4, 0, 4, &pages, ids), RUNS_NEVER);
    assert_int_equal(runs_take(NULL, 0, 0, 1, &pages, ids), RUNS_NEVER);
    assert_int_equal(runs_take(NULL, 0, 7, 7, &pages, ids), RUNS_PLACED);
    assert_int_equal(pages.free_count, POOL);
    assert_int_equal(runs_take(half, 2, 0, POOL / 2, &pages, ids), RUNS_PLACED);
    assert_int_equal(runs_take(all, 2, 0, POOL, &pages, ids), RUNS_NO_ROOM);
    assert_int_equal(pages.free_count, POOL / 2);
}

/* Runs in any order that touch no other, or do. Returns how many pages they have. */
static uint32_t random_runs(struct kvr_rng *rng, int64_t *numbers, uint32_t *ret_count)
{
    uint32_t runs = (uint32_t)kvr_rng_between(rng, 1, 12), total = 0;
    int64_t at = (int64_t)kvr_rng_below(rng, 3 * POOL);

    for (uint32_t i = 0; i < runs; i++) {
        numbers[2 * i] = at;
        numbers[2 * i + 1] = (int64_t)kvr_rng_between(rng, 1, 9);
        total += (uint32_t)numbers[2 * i + 1];
        at += numbers[2 * i + 1] + (int64_t)kvr_rng_below(rng, 3) * (int64_t)kvr_rng_below(rng, 40);
    }
    for (uint32_t i = runs; i > 1; i--) {
        uint32_t other = (uint32_t)kvr_rng_below(rng, i);

        for (uint32_t k = 0; k < 2; k++) {
            int64_t number = numbers[2 * (i - 1) + k];

            numbers[2 * (i - 1) + k] = numbers[2 * other + k];
            numbers[2 * other + k] = number;
        }
    }
    *ret_count = 2 * runs;
    return total;
}

/* As in the trace: which pages are neighbours, and which come first in memory. */
static void lies_alike(const int64_t *numbers, uint32_t total)
{
    int64_t recorded[128];
    uint32_t at = 0;

    for (uint32_t i = 0; at < total; i += 2)
        for (int64_t k = 0; k < numbers[i + 1]; k++)
            recorded[at++] = numbers[i] + k;
    for (uint32_t i = 0; i < total; i++) {
        for (uint32_t k = 0; k < total; k++) {
            assert_int_equal(recorded[i] + 1 == recorded[k], ids[i] + 1 == ids[k]);
            assert_int_equal(recorded[i] < recorded[k], ids[i] < ids[k]);
        }
    }
}

static void any_table_lies_alike(void **state)
{
    static uint32_t held[32][128], held_count[32];
    struct kvr_rng rng;
    uint64_t placed = 0;

    (void)state;
    kvr_rng_init(&rng, 11);
    memset(held_count, 0, sizeof(held_count));
    for (uint64_t step = 0; step < check_cases(4000, 200000); step++) {
        uint32_t slot = (uint32_t)kvr_rng_below(&rng, 32), count, total;
        uint32_t free_count = pages.free_count;
        int64_t numbers[24];

        if (held_count[slot] > 0) {
            pages_release(&pages, held[slot], held_count[slot]);
            held_count[slot] = 0;
            continue;
        }
        total = random_runs(&rng, numbers, &count);
        if (runs_take(numbers, count, 0, total, &pages, ids) != RUNS_PLACED) {
            assert_int_equal(pages.free_count, free_count);
            continue;
        }
        placed++;
        assert_int_equal(pages.free_count, free_count - total);
        lies_alike(numbers, total);
        memcpy(held[slot], ids, total * sizeof(ids[0]));
        held_count[slot] = total;
        /* Pages by number and by turn come from one pool. */
        if (pages_acquire(&pages, 1, ids))
            pages_release(&pages, ids, 1);
    }
    assert_true(placed > check_cases(4000, 200000) / 8);
    for (uint32_t slot = 0; slot < 32; slot++)
        pages_release(&pages, held[slot], held_count[slot]);
    assert_true(pages_acquire(&pages, POOL, ids));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_table_lies_where_it_lay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_beyond_the_pool_has_shorter_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fits_never_is_told_from_what_has_no_room, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(any_table_lies_alike, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
