/* The transfers that the writer has in memory: those of its transaction, and those of earlier ones
 * of which news will come. Memory holds what the database has, but for this transaction.
 *
 * Writer thread, within its transaction. */
#ifndef KVR_SCHEDULER_KNOWN_H
#define KVR_SCHEDULER_KNOWN_H

#include <uthash.h>

#include "scheduler/event_pack.h"
#include "scheduler/store.h"

/* What one start of one agent reported about a transfer in this transaction. */
struct reported {
    struct reported *next;
    char agent[KVR_NAME_BYTES];
    uint64_t boot;
    struct event_pack pack;
    const uint8_t *spans; /* borrowed from the report until the flush */
    uint32_t spans_bytes; /* 0: none */
};

struct known_transfer {
    UT_hash_handle hh;
    uint64_t id;
    struct transfer transfer;
    bool touched;                     /* in this transaction, as all below */
    struct known_transfer *next;      /* of those touched */
    struct reported *reported, **end; /* the oldest first; where it ends */
    transfer_state state_before;      /* STATE_END: it was not there */
    bool held_before, ended_before[2];
    bool remove; /* an opening that became a transfer */
};

struct known {
    struct store *store;
    struct known_transfer *all; /* by id */
    struct known_transfer *touched;
};

/* The transfer, from memory, from the database, or new. NULL: the database or memory fails. */
struct known_transfer *known_touch(struct known *known, uint64_t id);
/* Where the transfer's events of this report go. NULL: no memory. */
struct reported *known_reported(struct known_transfer *transfer, const struct kvr_report *report);
/* The opening's events become the transfer's. */
bool known_join(struct known *known, struct known_transfer *transfer,
                struct known_transfer *opening);
/* Writes the rows of all that were touched. */
bool known_flush(struct known *known);
/* Ends the transaction. committed: those with news to come stay; else none that was touched does.
 */
void known_end(struct known *known, bool committed);
/* Between transactions. */
void known_forget(struct known *known);

#endif
