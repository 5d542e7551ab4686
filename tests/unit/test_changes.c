/* Goal: a committed transfer is taken once, in its last state; one that finds no room is counted.
 * Method: transfers by their numbers. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "scheduler/changes.h"

static struct changes_taken taken;

static void put(struct changes *changes, uint64_t id, uint64_t bytes, bool removed)
{
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    transfer->id = id;
    transfer->bytes = bytes;
    changes_put(changes, transfer, removed);
    free(transfer);
}

static void nothing_is_kept_while_nobody_wants_it(void **state)
{
    struct changes *changes = changes_open();

    (void)state;
    put(changes, 1, 1, false);
    changes_want(changes, true);
    changes_take(changes, &taken);
    assert_int_equal(taken.count, 0);
    put(changes, 1, 1, false);
    changes_want(changes, false);
    changes_want(changes, true);
    changes_take(changes, &taken);
    assert_int_equal(taken.count, 0);
    changes_close(changes);
}

static void the_last_state_counts(void **state)
{
    struct changes *changes = changes_open();

    (void)state;
    changes_want(changes, true);
    put(changes, 1, 10, false);
    put(changes, 2, 20, false);
    put(changes, 1, 11, false);
    put(changes, 2, 20, true);
    changes_take(changes, &taken);
    assert_int_equal(taken.count, 2);
    assert_int_equal(taken.list[0].transfer.bytes, 11);
    assert_false(taken.list[0].removed);
    assert_true(taken.list[1].removed);
    assert_int_equal(taken.left_out, 0);
    changes_take(changes, &taken);
    assert_int_equal(taken.count, 0);
    changes_close(changes);
}

static void the_newest_stay(void **state)
{
    struct changes *changes = changes_open();

    (void)state;
    changes_want(changes, true);
    for (uint64_t id = 1; id <= 2 * CHANGES_MAX + 5; id++)
        put(changes, id, 0, false);
    changes_take(changes, &taken);
    assert_int_equal(taken.count, CHANGES_MAX);
    assert_int_equal(taken.left_out, CHANGES_MAX + 5);
    for (uint32_t i = 0; i < taken.count; i++)
        assert_true(taken.list[i].transfer.id > CHANGES_MAX + 5);
    changes_take(changes, &taken);
    assert_int_equal(taken.left_out, 0);
    changes_close(changes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_kept_while_nobody_wants_it),
        cmocka_unit_test(the_last_state_counts),
        cmocka_unit_test(the_newest_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
