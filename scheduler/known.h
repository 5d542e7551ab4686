/* The transfers that the writer has in memory: those of its transaction, and those of earlier ones
 * of which news will come. Memory holds what the database has, but for this transaction.
 *
 * Writer thread, within its transaction. */
#ifndef KVR_SCHEDULER_KNOWN_H
#define KVR_SCHEDULER_KNOWN_H

#include <uthash.h>

#include "scheduler/event_pack.h"
#include "scheduler/store.h"

/* What one start of one agent reported about a transfer since the last flush. */
struct reported {
    struct reported *next;
    char agent[KVR_NAME_BYTES];
    uint64_t boot;
    struct event_pack pack;
    uint8_t *spans, *pages;            /* owned, until the flush */
    uint32_t spans_bytes, pages_bytes; /* 0: none */
};

struct known_transfer {
    UT_hash_handle hh;
    uint64_t id;
    struct transfer transfer;
    bool touched;                     /* in this transaction, as all below */
    bool dirty;                       /* since the last flush */
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
/* They come with the end of the transfer, once. False: no memory. */
bool known_keep_records(struct reported *reported, const struct kvr_event *event);
/* The opening's events become the transfer's. */
bool known_join(struct known *known, struct known_transfer *transfer,
                struct known_transfer *opening);
/* Writes the rows of all that were touched since the last flush. */
bool known_flush(struct known *known);
/* Ends the transaction. committed: those with news to come stay; else none that was touched does.
 */
void known_end(struct known *known, bool committed);
/* Between transactions: transfers that have ended were removed from the database. */
void known_forget_ended(struct known *known);
void known_forget(struct known *known); /* all of them; between transactions */

#endif
