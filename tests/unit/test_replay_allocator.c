/* Goal: the replayed engine's allocator never gives a page twice, gives all or nothing, loses none,
 * and fragments as its order promises. Method: random acquire and release against a list of owners.
 */
#include "tests/support/check.h"

#include "tools/replay/replay_pages.h"

#define PAGES  1000
#define OWNERS 64

struct owner {
    uint32_t ids[PAGES];
    uint32_t count;
};

static uint8_t owned[PAGES];

static void take(struct pages *pages, struct owner *owner, uint32_t count)
{
    bool enough = pages->free_count >= count;

    assert_int_equal(pages_acquire(pages, count, owner->ids), enough);
    if (!enough)
        return;
    owner->count = count;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(owner->ids[i] < PAGES);
        assert_int_equal(owned[owner->ids[i]], 0);
        owned[owner->ids[i]] = 1;
    }
}

static void give_back(struct pages *pages, struct owner *owner)
{
    for (uint32_t i = 0; i < owner->count; i++)
        owned[owner->ids[i]] = 0;
    pages_release(pages, owner->ids, owner->count);
    owner->count = 0;
}

static void no_page_twice(void **state)
{
    static struct owner owners[OWNERS];
    struct kvr_rng rng;

    (void)state;
    for (pages_order order = PAGES_FRESH; order <= PAGES_SHUFFLED; order++) {
        struct pages pages;

        assert_true(pages_init(&pages, PAGES, order, 5));
        kvr_rng_init(&rng, order);
        memset(owned, 0, sizeof(owned));
        for (uint64_t step = 0; step < check_cases(20000, 2000000); step++) {
            struct owner *owner = &owners[kvr_rng_below(&rng, OWNERS)];

            if (owner->count > 0)
                give_back(&pages, owner);
            else
                take(&pages, owner, (uint32_t)kvr_rng_between(&rng, 1, 60));
        }
        for (int i = 0; i < OWNERS; i++)
            give_back(&pages, &owners[i]);
        assert_int_equal(pages.free_count, PAGES);
        take(&pages, &owners[0], PAGES); /* all of them, each once */
        assert_int_equal(pages.free_count, 0);
        assert_false(pages_acquire(&pages, 1, owners[1].ids));
        give_back(&pages, &owners[0]);
        pages_done(&pages);
    }
}

/* Counts the pages of the first half that follow their neighbour. */
static uint32_t neighbours(pages_order order)
{
    struct pages pages;
    uint32_t ids[PAGES], count = 0;

    assert_true(pages_init(&pages, PAGES, order, 5));
    assert_true(pages_acquire(&pages, PAGES, ids));
    for (uint32_t i = 1; i < PAGES; i++)
        count += ids[i] == ids[i - 1] + 1;
    pages_done(&pages);
    return count;
}

static void orders_differ_in_neighbours(void **state)
{
    (void)state;
    assert_int_equal(neighbours(PAGES_FRESH), PAGES - 1);
    assert_in_range(neighbours(PAGES_AGED), PAGES * 8 / 10, PAGES * 99 / 100);
    assert_in_range(neighbours(PAGES_SHUFFLED), 0, PAGES / 50);
}

static void youngest_is_given_first(void **state)
{
    struct pages pages;
    uint32_t first[10], second[10];

    (void)state;
    assert_true(pages_init(&pages, PAGES, PAGES_AGED, 1));
    assert_true(pages_acquire(&pages, 10, first));
    pages_release(&pages, first, 10);
    assert_true(pages_acquire(&pages, 10, second));
    assert_memory_equal(first, second, sizeof(first));
    pages_done(&pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_page_twice),
        cmocka_unit_test(orders_differ_in_neighbours),
        cmocka_unit_test(youngest_is_given_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
