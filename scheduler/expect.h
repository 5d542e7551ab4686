/* What a round of reports will ask the database for: the transfers of its events that memory does
 * not have, and where each agent's events are. The store reads it at once (store_expect). Writer
 * thread. */
#ifndef KVR_SCHEDULER_EXPECT_H
#define KVR_SCHEDULER_EXPECT_H

#include "scheduler/known.h"

#define EXPECT_MAX 8192 /* transfers of one round; more are asked for one by one */

struct expect {
    uint64_t ids[EXPECT_MAX];
    struct store_start *starts;
    size_t id_count, start_count, start_room;
};

/* Within a transaction. False: the database or memory fails. The reports are borrowed until the
 * transaction ends. */
bool expect_reports(struct expect *expect, const struct known *known,
                    const struct kvr_report *const reports[], size_t count);
void expect_done(struct expect *expect);

#endif
