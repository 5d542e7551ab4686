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
bool changes_wanted(struct changes *changes);
/* All that schedulers of this database have committed up to that wall time was put; 0: there is one
 * scheduler alone. */
void changes_set_until(struct changes *changes, int64_t wall_ns);
int64_t changes_until(struct changes *changes);
/* Of some transfers that have changed nothing is known: other schedulers' news were lost. */
void changes_lose(struct changes *changes);
/* It was so since the last call. */
bool changes_were_lost(struct changes *changes);
void changes_take(struct changes *changes, struct changes_taken *ret_taken);

#endif
