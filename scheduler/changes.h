/* The transfers that the writer has committed since they were taken last, for the stream
 * (stream.h).
 *
 * At most CHANGES_MAX are kept, the newest. Of a transfer only its last state counts. Nothing is
 * kept while there is no viewer. Any thread: a lock of its own. */
#ifndef KVR_SCHEDULER_CHANGES_H
#define KVR_SCHEDULER_CHANGES_H

#include "scheduler/transfer.h"

#define CHANGES_MAX 64

struct change {
    bool removed; /* its row was merged into another one; only its id counts */
    struct transfer transfer;
};

struct changes_taken {
    uint32_t count;
    uint64_t left_out; /* older ones that found no room */
    struct change list[CHANGES_MAX];
};

struct changes;

struct changes *changes_open(void); /* NULL: no memory */
struct changes *changes_close(struct changes *changes);

/* false: what was kept is forgotten. */
void changes_want(struct changes *changes, bool wanted);
/* After the commit; the writer. */
void changes_put(struct changes *changes, const struct transfer *transfer, bool removed);
void changes_take(struct changes *changes, struct changes_taken *ret_taken);

#endif
