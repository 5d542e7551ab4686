/* PLAN, FINAL, TAIL: a transfer is planned and announced segment by segment. */
#ifndef PREFILL_AGENT_ANNOUNCE_H
#define PREFILL_AGENT_ANNOUNCE_H

#include "base/state.h"
#include "base/status.h"
#include "prefill-agent/push.h"

struct outbound;
struct publish;
struct source_transfer;

/* What is announced next, or waits for room to the peer. */
enum source_announce_state {
    ANNOUNCE_PLANNING,      /* segments are planned as the engine publishes them */
    ANNOUNCE_SEGMENT_WAITS, /* a segment is planned, and PLANs of it are still to be sent */
    ANNOUNCE_FINAL_WAITS,   /* everything is planned; FINAL is to be sent */
    ANNOUNCE_TAIL_WAITS,    /* FINAL was sent; TAIL is to be sent */
    ANNOUNCE_ALL_SENT,
    ANNOUNCE_STATES
};
enum source_announce_event {
    ANNOUNCE_ON_SEGMENT,
    ANNOUNCE_ON_SEGMENT_SENT,
    ANNOUNCE_ON_ALL_PLANNED,
    ANNOUNCE_ON_FINAL_SENT,
    ANNOUNCE_ON_TAIL_SENT, /* or there is no tail */
    ANNOUNCE_EVENTS
};

KVR_STATE_MACHINE(source_announce);

struct source_announce {
    enum source_announce_state state;
    bool plan_sent; /* the first PLAN; our regions went before it */
    uint64_t
        token_next[KVR_GROUPS_MAX]; /* behind the last segment; at first behind what is skipped */
    uint32_t watch_next;            /* the publish's watch that is planned next */
    uint32_t segment_count, chunk_count;
    uint64_t bytes, pieces,
        position_end;             /* planned; position_end: in the target's staging memory */
    struct push_segment *segment; /* of SEGMENT_WAITS; else NULL */
    uint32_t kv_group, page_next; /* KV group and first unsent page of that segment */
    struct push_segment *waiting, *waiting_last; /* announced, and not handed to a job yet */
};

/* Plans and announces everything that can be announced now. KVR_AGAIN: the rest waits for room to
 * the peer. */
KVR_MUST_CHECK kvr_status announce_all(struct outbound *outbound, struct source_transfer *transfer,
                                       const struct publish *publish, struct kvr_error *error);
/* Hands the job the segments that were announced while it could not take them. */
void announce_hand_over(struct outbound *outbound, struct source_transfer *transfer);

#endif
