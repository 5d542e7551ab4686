#include "scheduler/store_rollups.h"

#include "scheduler/store_rows.h"

#define KEEP_ROW(seconds, kept_seconds) {seconds, kept_seconds},
const struct rollup_step rollup_steps[ROLLUP_STEPS] = {ROLLUP_STEP_LIST(KEEP_ROW)};

static struct store_bytes bytes_of(const struct rollup_unpack *unpack)
{
    return (struct store_bytes){unpack->bytes, unpack->count};
}

/* A prepared statement keeps the pointers, so they must last until it has run. */
bool store_put_rollup(struct store *store, const struct store_rollup *rollup)
{
    const struct store_bytes amounts = bytes_of(&rollup->amounts);
    const struct store_bytes times = bytes_of(&rollup->times);
    int64_t kind = (int64_t)rollup->kind;

    return store_do(store, SQL_PUT_ROLLUP,
                    STORE_VALUES(INT(kind), INT(rollup->step), INT(rollup->begin),
                                 TEXT(rollup->part), STORE_AT(STORE_BYTES, amounts),
                                 STORE_AT(STORE_BYTES, times)));
}

struct visitor {
    store_rollup_visit *visit;
    void *self;
    bool times;
};

static void visit_row(const struct store_row *row, void *self)
{
    const struct visitor *visitor = self;
    struct store_rollup rollup = {0};
    struct store_bytes amounts = {0}, times = {0};
    int64_t kind;

    if (visitor->times)
        store_read(row, STORE_VALUES(INT(kind), INT(rollup.step), INT(rollup.begin),
                                     STORE_AT(STORE_BORROWED, rollup.part),
                                     STORE_AT(STORE_BYTES, amounts), STORE_AT(STORE_BYTES, times)));
    else
        store_read(row, STORE_VALUES(INT(kind), INT(rollup.step), INT(rollup.begin),
                                     STORE_AT(STORE_BORROWED, rollup.part),
                                     STORE_AT(STORE_BYTES, amounts)));
    if (kind < 0 || kind >= ROLLUP_KIND_END)
        return; /* of a newer version */
    rollup.kind = (rollup_kind)kind;
    rollup.amounts = (struct rollup_unpack){.bytes = amounts.at, .count = amounts.count};
    rollup.times = (struct rollup_unpack){.bytes = times.at, .count = times.count};
    visitor->visit(visitor->self, &rollup);
}

bool store_get_rollup(struct store *store, rollup_kind kind, int64_t step, int64_t begin,
                      const char *part, store_rollup_visit *visit, void *self)
{
    struct visitor visitor = {visit, self, true};
    int64_t number = (int64_t)kind;

    return store_each(store, SQL_GET_ROLLUP,
                      STORE_VALUES(INT(number), INT(step), INT(begin), TEXT(part)), visit_row,
                      &visitor);
}

bool store_list_rollups(struct store *store, int64_t step, int64_t from, int64_t until,
                        store_rollup_visit *visit, void *self)
{
    struct visitor visitor = {visit, self, true};
    bool listed = true;

    for (int64_t kind = 0; kind < ROLLUP_KIND_END && listed; kind++)
        listed = store_each(store, SQL_LIST_ROLLUPS,
                            STORE_VALUES(INT(kind), INT(step), INT(from), INT(until)), visit_row,
                            &visitor);
    return listed;
}

static void read_begin(const struct store_row *row, void *self)
{
    store_read(row, STORE_VALUES(INT(*(int64_t *)self)));
}

static bool last_of_kind(struct store *store, int64_t kind, int64_t step, int64_t *ret_begin)
{
    *ret_begin = -1;
    return store_each(store, SQL_LAST_ROLLUP, STORE_VALUES(INT(kind), INT(step)), read_begin,
                      ret_begin);
}

bool store_first_rollup(struct store *store, int64_t step, int64_t from, int64_t *ret_begin)
{
    bool read = true;

    *ret_begin = -1;
    for (int64_t kind = 0; kind < ROLLUP_KIND_END && read; kind++) {
        int64_t begin = -1;

        read = store_each(store, SQL_FIRST_ROLLUP, STORE_VALUES(INT(kind), INT(step), INT(from)),
                          read_begin, &begin);
        if (begin >= 0 && (*ret_begin < 0 || begin < *ret_begin))
            *ret_begin = begin;
    }
    return read;
}

bool store_last_rollup(struct store *store, int64_t step, int64_t *ret_begin)
{
    bool read = true;

    *ret_begin = -1;
    for (int64_t kind = 0; kind < ROLLUP_KIND_END && read; kind++) {
        int64_t begin;

        read = last_of_kind(store, kind, step, &begin);
        if (begin > *ret_begin)
            *ret_begin = begin;
    }
    return read;
}

bool store_prune_rollups(struct store *store, int64_t now)
{
    bool pruned = true;

    for (int step = 0; step < ROLLUP_STEPS; step++) {
        int64_t before = now - rollup_steps[step].kept_seconds;

        for (int64_t kind = 0; kind < ROLLUP_KIND_END && pruned; kind++)
            pruned =
                store_do(store, SQL_PRUNE_ROLLUPS,
                         STORE_VALUES(INT(kind), INT(rollup_steps[step].seconds), INT(before)));
    }
    return pruned;
}

/* ---- reader ---- */

/* One kind has a row for each step; with parts, it has many, and each is looked up. */
static bool read_step(struct store *store, const struct rollup_window *window, int64_t step,
                      int64_t from, int64_t until, struct visitor *visitor)
{
    int64_t kind = (int64_t)window->kind;
    bool read = true;

    if (!rollup_kind_has_parts(window->kind))
        return store_each(store, window->times ? SQL_LIST_ROLLUPS : SQL_LIST_AMOUNTS,
                          STORE_VALUES(INT(kind), INT(step), INT(from), INT(until)), visit_row,
                          visitor);
    for (int64_t begin = from; begin < until && read; begin += step)
        read = store_each(store, SQL_GET_AMOUNTS,
                          STORE_VALUES(INT(kind), INT(step), INT(begin), TEXT(window->part)),
                          visit_row, visitor);
    return read;
}

/* Steps are summed up in order, so those behind the newest row are not summed up yet. */
bool store_read_rollups(struct store *store, const struct rollup_window *window,
                        store_rollup_visit *visit, void *self)
{
    struct visitor visitor = {visit, self, window->times && !rollup_kind_has_parts(window->kind)};
    int64_t from = window->from;

    for (int step = window->step; step >= 0 && from < window->until; step--) {
        int64_t seconds = rollup_steps[step].seconds, end;

        if (!last_of_kind(store, (int64_t)window->kind, seconds, &end))
            return false;
        end = end < 0 ? from : end + seconds;
        end = end < window->until ? end : window->until;
        if (end <= from)
            continue;
        if (!read_step(store, window, seconds, from, end, &visitor))
            return false;
        from = end;
    }
    return true;
}
