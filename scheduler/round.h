/* The reports of one round of the writer, to ask the database about all of them at once. Writer
 * thread. */
#ifndef KVR_SCHEDULER_ROUND_H
#define KVR_SCHEDULER_ROUND_H

#include "scheduler/store.h"

#define ROUND_MAX 256 /* reports */

struct round {
    const struct kvr_report *reports[ROUND_MAX];
    struct store_start starts[ROUND_MAX];
    bool has_orders[ROUND_MAX];
    size_t count, answered;
};

void round_begin(struct round *round);
/* Borrowed until the next round begins. */
void round_add(struct round *round, const struct kvr_report *report);
/* Which of the agents that reported may have orders: asked once for all of them. Where the database
 * fails, none. */
void round_find_orders(struct round *round, struct store *store);
/* The report that was added next; the first call is about the first one. */
bool round_next_has_orders(struct round *round);

#endif
