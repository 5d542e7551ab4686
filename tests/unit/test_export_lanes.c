/* Goal: slices of one row of a timeline do not overlap, in whatever order they are placed, and no
 * more rows are made than overlap. Method: slices by heart, and random ones forwards and backwards.
 */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "tools/trace/export_lanes.h"

static size_t place(struct export_lanes *lanes, int64_t first_us, int64_t last_us)
{
    size_t lane = SIZE_MAX;

    assert_true(export_lanes_place(lanes, first_us, last_us, &lane));
    return lane;
}

static void a_free_row_is_used_again(void **state)
{
    struct export_lanes lanes = {0};

    (void)state;
    assert_int_equal(place(&lanes, 10, 20), 0);
    assert_int_equal(place(&lanes, 15, 30), 1);
    assert_int_equal(place(&lanes, 20, 25), 0); /* as the first one ends */
    assert_int_equal(place(&lanes, 0, 10), 0);  /* before it */
    assert_int_equal(place(&lanes, 5, 6), 1);
    assert_int_equal(place(&lanes, 5, 6), 2);
    assert_int_equal(lanes.count, 3);
    export_lanes_done(&lanes);
    assert_int_equal(lanes.count, 0);
}

#define SLICES 2000

static void rows_do_not_overlap(void **state)
{
    static int64_t firsts[SLICES], lasts[SLICES];
    static size_t rows[SLICES];
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 9);
    for (int backwards = 0; backwards < 2; backwards++) {
        struct export_lanes lanes = {0};

        for (int i = 0; i < SLICES; i++) {
            firsts[i] = 10 * (backwards ? SLICES - i : i);
            lasts[i] = firsts[i] + 1 + (int64_t)(kvr_rng_next(&rng) % 50);
            rows[i] = place(&lanes, firsts[i], lasts[i]);
            for (int k = 0; k < i; k++)
                assert_false(rows[k] == rows[i] && firsts[k] < lasts[i] && lasts[k] > firsts[i]);
        }
        assert_true(lanes.count <= 6); /* 50 us and a slice each 10 us */
        export_lanes_done(&lanes);
    }
}

static void there_is_a_most(void **state)
{
    struct export_lanes lanes = {0};
    size_t lane;

    (void)state;
    lanes.count = EXPORT_LANES_MAX; /* as if they all overlapped */
    lanes.room = EXPORT_LANES_MAX;
    lanes.at = calloc(EXPORT_LANES_MAX, sizeof(lanes.at[0]));
    assert_non_null(lanes.at);
    for (size_t i = 0; i < EXPORT_LANES_MAX; i++)
        lanes.at[i] = (struct export_lane){0, 10};
    assert_false(export_lanes_place(&lanes, 5, 6, &lane));
    export_lanes_done(&lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_row_is_used_again),
        cmocka_unit_test(rows_do_not_overlap),
        cmocka_unit_test(there_is_a_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
