/* Any bytes: they are refused, or they are cells that pack to the same sums again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/rollup_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static kvr_status add(struct rollup_row *row, const uint8_t *amounts, size_t amount_bytes,
                      const uint8_t *times, size_t time_bytes)
{
    struct rollup_unpack a = {.bytes = amounts, .count = amount_bytes};
    struct rollup_unpack t = {.bytes = times, .count = time_bytes};

    return rollup_row_add(row, a, t);
}

static void check_equal(struct rollup_row *row, struct rollup_row *again)
{
    for (struct rollup_cell *cell = row->cells; cell != NULL; cell = cell->hh.next) {
        struct rollup_cell *same = rollup_row_cell(again, &cell->key);

        check(same != NULL, "no memory");
        check(memcmp(cell->amounts, same->amounts, sizeof(cell->amounts)) == 0, "other amounts");
        for (int time = 0; cell->times != NULL && time < ROLLUP_TIME_END; time++) {
            uint64_t count = rollup_times_count((*cell->times)[time]);

            check(count == 0 ||
                      (same->times != NULL && memcmp((*cell->times)[time], (*same->times)[time],
                                                     sizeof((*cell->times)[time])) == 0),
                  "other times");
        }
    }
}

/* The first byte says how many of the others are amounts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t split = size == 0 ? 0 : data[0] < size - 1 ? data[0] : size - 1;
    const uint8_t *bytes = size == 0 ? data : data + 1;
    struct rollup_row row = {0}, again = {0};
    struct rollup_pack amounts = {0}, times = {0};
    kvr_status status = add(&row, bytes, split, bytes + split, size == 0 ? 0 : size - 1 - split);

    check(status == KVR_OK || status == KVR_MALFORMED, "another end");
    check(rollup_pack_amounts(&row, &amounts) && rollup_pack_times(&row, &times), "no memory");
    check(add(&again, amounts.bytes, amounts.count, times.bytes, times.count) == KVR_OK,
          "what was packed must be read");
    check_equal(&row, &again);
    rollup_pack_free(&amounts);
    rollup_pack_free(&times);
    rollup_row_clear(&row);
    rollup_row_clear(&again);
    return 0;
}
