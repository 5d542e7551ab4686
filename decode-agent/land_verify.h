/* Hashing what landed. The table of the states is in land_verify.c. */
#ifndef DECODE_AGENT_LAND_VERIFY_H
#define DECODE_AGENT_LAND_VERIFY_H

#include "base/state.h"
#include "decode-agent/land_message.h"

struct land;

enum landing_verify_state {
    HASH_IDLE,
    HASH_QUEUED,  /* among the landings that are hashed, a slice at a time */
    HASH_READING, /* the same, and a copy brings bytes back from the pages */
    HASH_STATES
};

enum landing_verify_event {
    HASH_ON_QUEUED,
    HASH_ON_READ,
    HASH_ON_READ_ENDED,
    HASH_ON_REMOVED,
    HASH_EVENTS
};

struct landing_verify {
    enum landing_verify_state state;
    struct landing *next;                          /* in that queue */
    struct landing_digest *digests, *digests_last; /* from the source */
    const struct landing_segment *segment;         /* of the next chunk, as all that follows */
    const struct landing_digest *digest;
    uint32_t chunk, value;
    uint32_t read_end; /* staged: chunks before it were copied back from the pages */
};

KVR_STATE_MACHINE(landing_verify);

void land_verify_add(struct land *land, struct landing *landing);
void land_verify_remove(struct land *land, struct landing *landing);
/* Does a slice of the work, so that the thread reads its rails in between. True: there was any. */
bool land_verify_work(struct land *land);

#endif
