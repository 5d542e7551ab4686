/* The staging memory of a transfer: a quota of its stage's memory, and the queue of those that wait
 * for one. The table of the states is in staging_quota.c. */
#ifndef DECODE_AGENT_STAGING_QUOTA_H
#define DECODE_AGENT_STAGING_QUOTA_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct landing_segment;
struct transfer;

enum staging_quota_state {
    QUOTA_NONE,
    QUOTA_AWAITS_STAGE, /* the stage is not open yet */
    QUOTA_QUEUED,       /* older fetches wait for the same memory, or there is none left */
    QUOTA_RING,         /* more bytes may come than it holds: the source reuses it (room.c) */
    QUOTA_WHOLE,        /* it holds all bytes that may come */
    QUOTA_STATES
};

enum staging_quota_event {
    QUOTA_ON_STAGE_CLOSED,
    QUOTA_ON_FULL,
    QUOTA_ON_TAKEN_RING,
    QUOTA_ON_TAKEN_WHOLE,
    QUOTA_ON_GIVEN_BACK,
    QUOTA_EVENTS
};

struct staging_quota {
    enum staging_quota_state state;
    uint64_t offset, bytes;           /* in the stage's memory; 0 bytes: none */
    struct staging_pool *pool;        /* QUEUED: where it waits; else NULL */
    struct transfer *before, *behind; /* its neighbours in that queue */
    uint64_t position_end;            /* end of the planned bytes (kvr_plan_positions) */
    uint64_t room_free;               /* up to here the bytes are in the pages */
    uint64_t room;                    /* up to here the source may write */
};

KVR_STATE_MACHINE(staging_quota);

/* True: the transfer needs no quota, or has one now. False: it waits, or has failed. */
bool staging_quota_take(struct inbound *inbound, struct transfer *transfer);
void staging_quota_give(struct inbound *inbound, struct transfer *transfer);
/* Grants waiting transfers while there is memory, oldest fetch first. */
void staging_quotas_advance(struct inbound *inbound);
/* Bytes between two reports of room (LAND_ROOM); 0: none, the quota holds all. */
uint64_t staging_quota_step(const struct transfer *transfer);
/* Sets where the chunks of the transfer's next segment lie in its quota. KVR_OK without a quota. */
KVR_MUST_CHECK kvr_status staging_quota_positions(struct inbound *inbound,
                                                  struct transfer *transfer,
                                                  struct landing_segment *segment,
                                                  struct kvr_error *error);

#endif
