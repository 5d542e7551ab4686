/* Slots and their bitmaps: which transfers have them, which fetches wait for them (rules 5 and 6).
 * The table of the states is in slots.c. */
#ifndef DECODE_AGENT_SLOTS_H
#define DECODE_AGENT_SLOTS_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct fetch;
struct transfer;

enum slots_state {
    SLOTS_UNKNOWN, /* limits of its sources are not known yet */
    SLOTS_COUNTED, /* the need of every transfer is known */
    SLOTS_QUEUED,  /* something can land: the fetch waits for slots */
    SLOTS_RESERVED,
    SLOTS_STATES
};

enum slots_event {
    SLOTS_ON_COUNTED,
    SLOTS_ON_QUEUED,
    SLOTS_ON_RESERVED,
    SLOTS_ON_WITHDRAWN, /* the fetch fails */
    SLOTS_EVENTS
};

/* What a fetch needs of the slots. */
struct slot_demand {
    enum slots_state state;
    uint64_t next; /* QUEUED: the next fetch in the queue, by id; 0: none */
};

/* What a transfer has of the slots. */
struct slot_claim {
    uint32_t needed; /* the most that it may need; known before WANT */
    uint32_t count;
    uint16_t numbers[KVR_TRANSFER_SLOTS_MAX];
    uint64_t *bits;  /* a bit for each chunk that the slots can name */
    uint64_t *again; /* the same, of those that are asked for again; NULL before the first */
};

KVR_STATE_MACHINE(slots);

/* Counts what the whole fetch may need. False: there is less in all, and it failed. */
bool slots_count(struct inbound *inbound, struct fetch *fetch);
/* The fetch has something to land: reserves slots and bitmaps for all of it, or queues it. */
void slots_want(struct inbound *inbound, struct fetch *fetch);
void slots_release(struct inbound *inbound, struct transfer *transfer);
/* The source's regions are known: reserves what they need beyond the first count. */
KVR_MUST_CHECK kvr_status slots_refine(struct inbound *inbound, struct transfer *transfer,
                                       struct kvr_error *error);
/* Reserves for the fetches of the queue, oldest first, and grants. */
void slots_advance(struct inbound *inbound);
/* The fetch leaves the queue. */
void slots_withdraw(struct inbound *inbound, struct fetch *fetch);

#endif
