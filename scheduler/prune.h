/* Rows that leave the database: those past their retention, and the oldest ended transfers while
 * more bytes are in use than the bound.
 *
 * Above the bound transfers go until 95 % of it are in use. Later rows take the pages that become
 * free. A round of reports waits until no more is in use than before the last round, or than the
 * bound. So the file grows beyond the bound by one round at most.
 *
 * Small transactions of the writer's thread, between its rounds. */
#ifndef KVR_SCHEDULER_PRUNE_H
#define KVR_SCHEDULER_PRUNE_H

#include "scheduler/apply.h"
#include "scheduler/health.h"

struct prune_options {
    struct apply *apply;
    struct store *store;
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    kvr_ns retention; /* KVR_NEVER: rows of any age stay */
    uint64_t bound;   /* bytes; 0: none. Only of SQLite */
};

struct prune {
    struct prune_options options;
    uint64_t used; /* bytes, at the last look */
    uint64_t hold; /* with more in use, the next round waits */
    bool aged;     /* rows past their retention may be left */
    bool shrinks;  /* more than the bound was in use, and still is more than 95 % of it */
    bool bare;     /* no ended transfer was left to remove; until more rows come */
};

/* Rows without news since this wall time are past their retention. A retention longer than the time
 * since 1970 keeps everything. */
static inline int64_t prune_kept_since(kvr_ns wall, kvr_ns retention)
{
    return retention < wall ? (int64_t)(wall - retention) : 0;
}

struct prune prune_begin(const struct prune_options *options);
/* Rows have come. */
void prune_after_round(struct prune *prune);
/* Time has passed. */
void prune_after_pause(struct prune *prune);

/* Something may be there to remove. */
bool prune_wanted(const struct prune *prune);
/* And the next round waits for it. */
bool prune_holds(const struct prune *prune);
/* Removes some of it, in one transaction. now_ns: wall. */
void prune_some(struct prune *prune, int64_t now_ns);

#endif
