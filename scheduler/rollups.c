#include "scheduler/rollups.h"

#include <stdlib.h>

#include "base/log.h"
#include "scheduler/store_rollups.h"

/* A step is over for so long before it is summed up. */
#define OVER_SECONDS 2

struct rollups {
    struct store *store;
    struct rollup_book book; /* some rows of `second` */
    int64_t second;
    struct rollup_growth growth;
    struct rollup_pack amounts, times;
    int64_t summed_until[ROLLUP_STEPS]; /* by the step that rows become; -1: not known */
};

static void forget_sums(struct rollups *rollups)
{
    for (int step = 0; step < ROLLUP_STEPS; step++)
        rollups->summed_until[step] = -1;
}

struct rollups *rollups_open(struct store *store)
{
    struct rollups *rollups = calloc(1, sizeof(*rollups));

    if (rollups == NULL)
        return NULL;
    rollups->store = store;
    forget_sums(rollups);
    return rollups;
}

struct rollups *rollups_close(struct rollups *rollups)
{
    if (rollups == NULL)
        return NULL;
    rollups_forget(rollups);
    rollup_pack_free(&rollups->amounts);
    rollup_pack_free(&rollups->times);
    free(rollups);
    return NULL;
}

void rollups_forget_rows(struct rollups *rollups)
{
    rollup_book_clear(&rollups->book);
    forget_sums(rollups);
}

void rollups_forget(struct rollups *rollups)
{
    rollups_forget_rows(rollups);
    rollup_growth_forget(&rollups->growth, INT64_MAX);
}

/* ---- rows ---- */

struct loading {
    struct rollup_row *row; /* NULL: no memory */
    bool failed;
};

static void load(void *self, const struct store_rollup *stored)
{
    struct loading *loading = self;
    kvr_status status;

    if (loading->row == NULL)
        return;
    status = rollup_row_add(loading->row, stored->amounts, stored->times);
    loading->failed |= status == KVR_NO_MEMORY;
    if (status == KVR_MALFORMED)
        kvr_log_error("the database is damaged: a row of %s of the table rollups cannot be read "
                      "whole; its sums are too small",
                      rollup_kind_name(stored->kind));
}

/* The row, from memory, from the database, or new. */
static struct rollup_row *touch(struct rollups *rollups, rollup_kind kind, const char *part)
{
    struct loading loading = {rollup_book_find(&rollups->book, kind, part), false};

    if (loading.row == NULL) {
        loading.row = rollup_book_add(&rollups->book, kind, part);
        if (loading.row == NULL ||
            !store_get_rollup(rollups->store, kind, rollup_steps[0].seconds, rollups->second, part,
                              load, &loading) ||
            loading.failed)
            return NULL;
    }
    loading.row->changed = true;
    return loading.row;
}

static bool store_row(struct rollups *rollups, struct rollup_row *row, int64_t step, int64_t begin)
{
    if (!rollup_pack_amounts(row, &rollups->amounts) || !rollup_pack_times(row, &rollups->times))
        return false;
    return store_put_rollup(
        rollups->store,
        &(struct store_rollup){
            .kind = (rollup_kind)row->name.kind,
            .step = step,
            .begin = begin,
            .part = row->name.part,
            .amounts = {.bytes = rollups->amounts.bytes, .count = rollups->amounts.count},
            .times = {.bytes = rollups->times.bytes, .count = rollups->times.count},
        });
}

bool rollups_flush(struct rollups *rollups)
{
    bool stored = true;

    for (struct rollup_row *row = rollups->book.rows; row != NULL && stored; row = row->hh.next) {
        if (!row->changed)
            continue;
        stored = store_row(rollups, row, rollup_steps[0].seconds, rollups->second);
        row->changed = false;
    }
    return stored;
}

bool rollups_changed(const struct rollups *rollups)
{
    const struct rollup_row *row = rollups->book.rows;

    while (row != NULL && !row->changed)
        row = row->hh.next;
    return row != NULL;
}

/* What was summed up already, before the clock was set back, is summed up again. */
static bool begin_second(struct rollups *rollups, int64_t now_ns)
{
    int64_t second = now_ns / (int64_t)KVR_S;

    if (second == rollups->second)
        return true;
    if (!rollups_flush(rollups))
        return false;
    rollup_book_clear(&rollups->book);
    rollups->second = second;
    for (int step = 1; step < ROLLUP_STEPS; step++) {
        int64_t begin = second - second % rollup_steps[step].seconds;

        if (rollups->summed_until[step] > begin)
            rollups->summed_until[step] = begin;
    }
    return true;
}

/* ---- what comes ---- */

bool rollups_take_transfer(struct rollups *rollups, const struct transfer *transfer,
                           const struct rollup_news *news, int64_t now_ns)
{
    struct rollup_place places[ROLLUP_PLACES_MAX];
    uint32_t count = rollup_places_of(transfer, places);
    bool taken = begin_second(rollups, now_ns);

    for (uint32_t i = 0; i < count && taken; i++) {
        struct rollup_row *row = touch(rollups, places[i].kind, "");
        struct rollup_cell *cell = row != NULL ? rollup_row_cell(row, &places[i].key) : NULL;

        taken = cell != NULL && rollup_add_transfer(cell, places[i].kind, transfer, news);
    }
    return taken;
}

struct report_taking {
    struct rollups *rollups;
    const char *agent;
};

static bool take_growth(void *self, rollup_kind kind, const struct rollup_key *key,
                        const uint64_t amounts[ROLLUP_AMOUNT_END])
{
    const struct report_taking *taking = self;
    struct rollup_row *row = touch(taking->rollups, kind, taking->agent);
    struct rollup_cell *cell = row != NULL ? rollup_row_cell(row, key) : NULL;

    for (int i = 0; i < ROLLUP_AMOUNT_END && cell != NULL; i++)
        cell->amounts[i] += amounts[i];
    return cell != NULL;
}

bool rollups_take_report(struct rollups *rollups, const struct kvr_report *report, int64_t now_ns)
{
    struct report_taking taking = {rollups, report->agent};

    return begin_second(rollups, now_ns) &&
           rollup_growth_take(&rollups->growth, report, now_ns, take_growth, &taking);
}

static bool leave_growth(void *self, rollup_kind kind, const struct rollup_key *key,
                         const uint64_t amounts[ROLLUP_AMOUNT_END])
{
    (void)self;
    (void)kind;
    (void)key;
    (void)amounts;
    return true;
}

void rollups_hear_report(struct rollups *rollups, const struct kvr_report *report, int64_t now_ns)
{
    if (!rollup_growth_take(&rollups->growth, report, now_ns, leave_growth, NULL))
        rollup_growth_forget(&rollups->growth, INT64_MAX); /* no memory */
}

/* ---- sums ---- */

struct summing {
    struct rollup_book book;
    bool failed;
};

static void sum(void *self, const struct store_rollup *stored)
{
    struct summing *summing = self;
    struct loading loading = {rollup_book_find(&summing->book, stored->kind, stored->part), false};

    if (loading.row == NULL)
        loading.row = rollup_book_add(&summing->book, stored->kind, stored->part);
    load(&loading, stored);
    summing->failed |= loading.row == NULL || loading.failed;
}

static bool sum_up(struct rollups *rollups, int step, int64_t begin)
{
    struct summing summing = {0};
    int64_t until = begin + rollup_steps[step].seconds;
    bool stored = store_list_rollups(rollups->store, rollup_steps[step - 1].seconds, begin, until,
                                     sum, &summing) &&
                  !summing.failed;

    for (struct rollup_row *row = summing.book.rows; row != NULL && stored; row = row->hh.next)
        stored = store_row(rollups, row, rollup_steps[step].seconds, begin);
    rollup_book_clear(&summing.book);
    return stored;
}

/* The step at which rows are waiting to be summed up, if it is over at `now`; else -1. Finer rows
 * must all be summed up before. */
static bool next_sum(struct rollups *rollups, int step, int64_t now, int64_t *ret_begin)
{
    int64_t seconds = rollup_steps[step].seconds, first;

    *ret_begin = -1;
    if (rollups->summed_until[step] < 0) {
        if (!store_last_rollup(rollups->store, seconds, &first))
            return false;
        rollups->summed_until[step] = first < 0 ? 0 : first + seconds;
    }
    if (!store_first_rollup(rollups->store, rollup_steps[step - 1].seconds,
                            rollups->summed_until[step], &first))
        return false;
    if (first < 0)
        return true;
    first -= first % seconds;
    if (first + seconds + OVER_SECONDS <= now)
        *ret_begin = first;
    return true;
}

bool rollups_sum_up(struct rollups *rollups, int64_t now_ns, bool *ret_more)
{
    int64_t now = now_ns / (int64_t)KVR_S, begin;

    *ret_more = true;
    for (int step = 1; step < ROLLUP_STEPS; step++) {
        if (!next_sum(rollups, step, now, &begin))
            return false;
        if (begin < 0)
            continue;
        if (!sum_up(rollups, step, begin))
            return false;
        rollups->summed_until[step] = begin + rollup_steps[step].seconds;
        return true;
    }
    rollup_growth_forget(&rollups->growth, now_ns - ROLLUP_PAIRS_SILENT_NS);
    *ret_more = false;
    return store_prune_rollups(rollups->store, now);
}
