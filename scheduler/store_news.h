/* What the schedulers of one database announce to each other: which transfers have moved, and what
 * agents have reported. The writer's; with SQLite there is one scheduler, and nothing to announce.
 *
 * News are rows of the transaction that they belong to, so they are there if it is, in the order of
 * the commits. They are written while another scheduler lives, and kept for a minute. */
#ifndef KVR_SCHEDULER_STORE_NEWS_H
#define KVR_SCHEDULER_STORE_NEWS_H

#include "scheduler/store.h"

/* For a scheduler that has begun no transaction for so long, no news are kept. */
#define NEWS_ABSENT_NS (30 * KVR_S)
#define NEWS_KEPT_NS   (60 * KVR_S)

/* A move of a transfer, or where report_bytes is not 0 an agent's report without its events. */
struct store_news {
    uint64_t transfer;
    transfer_state from, to; /* STATE_END: it was not there, or is not any more */
    bool held_before, held;
    kvr_status reason;
    const uint8_t *report; /* borrowed, as by kvr_report_encode */
    size_t report_bytes;
};

/* Within a transaction. Another scheduler lives. */
bool store_news_wanted(struct store *store);
bool store_news_add(struct store *store, const struct store_news *news);

/* Of the other schedulers, in the order of their commits, since the last call; within a transaction
 * or not. */
typedef void store_news_visit(void *self, const struct store_news *news);
bool store_news_read(struct store *store, store_news_visit *visit, void *self);
/* All that was committed up to this wall time, in ns, was read or is this store's own; 0: there is
 * one scheduler alone. It grows. */
int64_t store_news_until(struct store *store);
/* Within a transaction: this scheduler is new, or was away for too long. Then the caller reads
 * again all that it knows of the database, and news go on from here once that is committed. */
bool store_news_lost(struct store *store);

/* Between transactions: this scheduler keeps the house for all of them. Another one does so within
 * seconds when it is gone. */
bool store_leads(struct store *store);
/* Within a transaction; the leader. */
bool store_news_prune(struct store *store);

#endif
