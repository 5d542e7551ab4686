/* PLAN, FINAL, TAIL and DIGEST: what a target is sent about the pages, segment by segment. */
#ifndef PREFILL_AGENT_ANNOUNCE_H
#define PREFILL_AGENT_ANNOUNCE_H

#include "base/state.h"
#include "prefill-agent/push.h"
#include "wire/message.h"

struct outbound;
struct publish;
struct source_transfer;

/* What is announced next, or waits for room to the peer. */
enum source_announce_state {
    ANNOUNCE_PLANNING,      /* segments are planned as the engine publishes them */
    ANNOUNCE_HELD,          /* nothing is planned before SKIP */
    ANNOUNCE_SEGMENT_WAITS, /* a segment is planned, and PLANs of it are still to be sent */
    ANNOUNCE_FINAL_WAITS,   /* everything is planned; FINAL is to be sent */
    ANNOUNCE_TAIL_WAITS,    /* FINAL was sent; TAIL is to be sent */
    ANNOUNCE_ALL_SENT,
    ANNOUNCE_STATES
};
enum source_announce_event {
    ANNOUNCE_ON_HELD, /* WANT leaves open what the target has */
    ANNOUNCE_ON_SKIP,
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
    /* For each KV group the end of its last segment; before that the end of the skipped tokens. */
    uint64_t token_next[KVR_GROUPS_MAX];
    uint32_t watch_next; /* the publish's watch that is planned next */
    uint32_t segment_count, chunk_count;
    uint64_t bytes, pieces;       /* planned */
    uint64_t position_end;        /* the end of the planned bytes in the target's staging memory */
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

/* NULL: there is no memory, and the plan stays the caller's. */
struct push_segment *segment_new(struct outbound *outbound, const struct source_transfer *transfer,
                                 struct kvr_plan *plan);
/* The segment and all behind it, with their plans. */
void segments_free(struct outbound *outbound, struct push_segment *segment);
/* Sets where the chunks lie in the target's staging memory, behind those of earlier segments. */
KVR_MUST_CHECK kvr_status segment_position(struct outbound *outbound,
                                           struct source_transfer *transfer,
                                           struct push_segment *segment, uint64_t quota_bytes,
                                           struct kvr_error *error);

struct source_digest {
    kvr_digest_mode mode;
    const struct push_segment *next; /* its digests are sent next, after all was posted; or NULL */
    uint32_t chunk_end;              /* the digests of chunks before it were sent */
};

/* Every chunk of the transfer was posted once: its digests follow, where the target asked. */
void digest_posted(struct outbound *outbound, struct source_transfer *transfer,
                   const struct push_segment *segment);
/* Sends the digests that wait for room. */
void digest_send(struct outbound *outbound, struct source_transfer *transfer);

#endif
