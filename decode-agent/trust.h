/* Whether what landed of a transfer may be announced (rules 3, 4 and 11), and the messages that
 * begin a round: MISSING and ROOM. The table of the states is in trust.c. */
#ifndef DECODE_AGENT_TRUST_H
#define DECODE_AGENT_TRUST_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct landing_filter;
struct transfer;

enum trust_state {
    TRUST_CLEAN,   /* each chunk was posted once; writes may still arrive */
    TRUST_QUIET,   /* each chunk was posted once, and no write can still arrive */
    TRUST_TAINTED, /* chunks were posted again: a late copy may overwrite bytes in use */
    TRUST_PROVEN,  /* chunks were posted again, and no write can still arrive */
    TRUST_STATES
};

enum trust_event {
    TRUST_ON_MISSING_SENT, /* the source posts chunks again: a new round */
    TRUST_ON_ROOM_SENT,    /* the source posts the next chunks: a new round */
    TRUST_ON_QUIET,        /* the counts of the present round are equal, or the epochs are closed */
    TRUST_ON_READ_BACK,    /* copies read the pages, to hash them: quiet is proven again later */
    TRUST_EVENTS
};

struct trust {
    enum trust_state state;
    uint32_t round;       /* of the last MISSING or ROOM; 0: none */
    uint32_t quiet_round; /* of the last QUIET */
    kvr_ns quiet_at;      /* when it came */
    kvr_ns suspect_at;    /* when to ask whether counts are still unequal; KVR_NEVER: not */
    /* Of each rail that the source may write on the latest epoch: what a fence must close. */
    struct kvr_epoch_count epochs[KVR_RAILS_MAX];
    uint32_t epoch_count;
    uint64_t lost; /* bits of rails: the source gave up what it posted there on the latest epoch */
};

KVR_STATE_MACHINE(trust);

static inline bool trust_quiet(const struct trust *trust)
{
    return trust->state == TRUST_QUIET || trust->state == TRUST_PROVEN;
}

/* What landed may be announced. */
bool transfer_trusted(const struct inbound *inbound, const struct transfer *transfer);
/* The reason that holds announcements back, as a word for `why`: "absence" of this agent, or
 * "repeats". "": no reason. */
const char *transfer_held_by(const struct inbound *inbound, const struct transfer *transfer);

/* The source may write on this epoch of the rail. */
void transfer_epoch_add(struct transfer *transfer, uint32_t rail, uint32_t epoch);
/* The source gave up what it posted on this epoch of the rail. */
void transfer_rail_lost(struct transfer *transfer, uint32_t rail, uint32_t epoch);
bool transfer_may_use(const struct transfer *transfer, uint32_t rail);

void quiet_received(struct inbound *inbound, struct transfer *transfer,
                    const struct kvr_msg_quiet *quiet);
/* The rail thread reports that no write of this round can still arrive. */
void quiet_proven(struct inbound *inbound, struct transfer *transfer, uint32_t round);
/* Counts are still unequal: a write was lost, or hangs. Ends the epochs that differ. */
void suspects_check(struct inbound *inbound, struct transfer *transfer);

/* The source lost a rail: asks the rail thread which of those chunks are not here. */
void rail_lost_received(struct inbound *inbound, struct transfer *transfer,
                        const struct kvr_msg_rail_lost *lost);
/* The rail thread's answer: asks the source to post those chunks again. */
void missing_send(struct inbound *inbound, struct transfer *transfer,
                  const struct landing_filter *filter);

/* Sends ROOM where there is more room, and where no repeated write can land in it. */
void room_check(struct inbound *inbound, struct transfer *transfer);

#endif
