/* What this scheduler announces to the others of its database, and takes over from them: transfers
 * that have moved, for the metrics and the stream, and agents' reports, for the fleet.
 *
 * Writer thread. One scheduler alone announces nothing. */
#ifndef KVR_SCHEDULER_NEWS_H
#define KVR_SCHEDULER_NEWS_H

#include "scheduler/apply.h"
#include "scheduler/changes.h"
#include "scheduler/fleet.h"
#include "scheduler/metrics.h"
#include "scheduler/store_news.h"

struct news_parts { /* borrowed */
    struct store *store;
    struct fleet *fleet;
    struct metrics *metrics;
    struct changes *changes; /* NULL: not kept */
    struct apply *apply;     /* NULL: none has begun */
};

/* Takes over all that the others have committed; within a transaction or not. false: the database
 * failed. */
bool news_hear(const struct news_parts *parts);
/* Within a transaction: all that is known comes from the database again. */
bool news_reload(const struct news_parts *parts);

/* Within the transaction that commits them. */
bool news_add_move(struct store *store, uint64_t transfer, const struct metrics_move *move);
bool news_add_report(struct store *store, const struct kvr_report *report);

#endif
