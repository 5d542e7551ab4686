/* The table of rollups: rows of 1 s, of which 60 become one of a minute once it is over, and so on.
 * store.h has the threads. */
#ifndef KVR_SCHEDULER_STORE_ROLLUPS_H
#define KVR_SCHEDULER_STORE_ROLLUPS_H

#include "scheduler/rollup_pack.h"
#include "scheduler/store.h"

/* X(seconds, seconds that its rows are kept for): each a multiple of the one before. */
#define ROLLUP_STEP_LIST(X)                                                                        \
    X(1, 3600)                                                                                     \
    X(60, 2 * 86400)                                                                               \
    X(3600, 31 * 86400)                                                                            \
    X(86400, 366 * 86400)
#define ROLLUP_STEPS 4

struct rollup_step {
    int64_t seconds, kept_seconds;
};
extern const struct rollup_step rollup_steps[ROLLUP_STEPS];

/* Amounts and times are borrowed for the call, or for the visit. */
struct store_rollup {
    rollup_kind kind;
    int64_t step, begin; /* seconds; begin: since 1970 */
    const char *part;
    struct rollup_unpack amounts, times;
};
typedef void store_rollup_visit(void *self, const struct store_rollup *rollup);

/* ---- writer: between begin and commit ---- */

bool store_put_rollup(struct store *store, const struct store_rollup *rollup);
/* Visits the row, if it is there. */
bool store_get_rollup(struct store *store, rollup_kind kind, int64_t step, int64_t begin,
                      const char *part, store_rollup_visit *visit, void *self);
/* All rows of one step that begin in [from, until). */
bool store_list_rollups(struct store *store, int64_t step, int64_t from, int64_t until,
                        store_rollup_visit *visit, void *self);
/* The first begin of such rows from `from` on, or the last one of all; -1: there is none. */
bool store_first_rollup(struct store *store, int64_t step, int64_t from, int64_t *ret_begin);
bool store_last_rollup(struct store *store, int64_t step, int64_t *ret_begin);
/* Removes some rows past their time; now: seconds since 1970. */
bool store_prune_rollups(struct store *store, int64_t now);

/* ---- reader ---- */

struct rollup_window {
    rollup_kind kind;
    const char *part;    /* "" for kinds without parts */
    int64_t from, until; /* multiples of its step; the first that does not count */
    int step;            /* a place in rollup_steps */
    bool times;          /* else rows come without them */
};
/* The rows of the window, of that step; where those are not summed up yet, of finer ones. In the
 * order of their begins. */
bool store_read_rollups(struct store *store, const struct rollup_window *window,
                        store_rollup_visit *visit, void *self);

#endif
