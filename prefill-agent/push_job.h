/* A posting job: the posting of one transfer, and what the loop hands over with it.
 *
 * Ownership. The loop thread makes a job and all it points to. A message hands an object to the
 * group's thread, and another message gives it back (push_message.h):
 *
 *   struct push_job          PUSH_OPEN          PUSH_CLOSED; of a failover, see below
 *   struct push_segment      PUSH_SEGMENT       with its job
 *   struct push_retransmit   PUSH_RETRANSMIT    PUSH_RETRANSMIT_DONE
 *   struct push_list         PUSH_LIST          PUSH_LISTED
 *   struct push_failover     PUSH_FAILOVER      PUSH_FAILED_OVER, with the successor
 *   struct visibility_probe  PUSH_PROBE         PUSH_PROBED
 *
 * In between, the loop neither reads nor writes the object. It keeps its own copy of the members
 * that it needs later (the slots, the quota). PUSH_COUNT and struct push_sum report a job's work.
 * One exception: with PUSH_POSTED the loop may read the digests of the chunks that were posted,
 * which the group's thread writes no more. */
#ifndef PREFILL_AGENT_PUSH_JOB_H
#define PREFILL_AGENT_PUSH_JOB_H

#include <stdatomic.h>

#include "agent/core/region_set.h"
#include "base/state.h"
#include "device/stage.h"
#include "kv/plan.h"
#include "rail_group/rail_group.h"
#include "trace/spans.h"

enum push_job_state {
    PUSH_JOB_POSTING,       /* what is ready is posted */
    PUSH_JOB_AWAITING_STOP, /* successor of a job that is to stop: posts nothing before PUSH_STOP */
    PUSH_JOB_FAILED,        /* its bytes could not be gathered: posts nothing more */
    PUSH_JOB_STOPPED,       /* posts nothing more; its counts are final */
    PUSH_JOB_CLOSING,       /* given back with the completion of its last write */
    PUSH_JOB_STATES,
};

enum push_job_event {
    PUSH_JOB_COPY_FAILED,
    PUSH_JOB_STOP,
    PUSH_JOB_HAND_ON, /* all that is left goes to a successor in another group */
    PUSH_JOB_CLOSE,
    PUSH_JOB_EVENTS,
};

KVR_STATE_MACHINE(push_job);

struct push_segment {
    struct push_segment *next;
    struct kvr_plan *plan;
    uint32_t chunk_first;         /* within the transfer */
    const _Atomic uint64_t *word; /* NULL: all layers are ready */
    uint64_t word_base;
    uint32_t layer_base; /* number of the rank's first layer */
    uint8_t *where;      /* a chunk each: index into the job's pairs, PUSH_NOWHERE before */
    uint64_t *digests;   /* a chunk each, of those that the job hashes; NULL: it hashes none */
    /* A chunk each: its position in the transfer's quota of the target's staging memory
     * (kvr_plan_positions); NULL where the target's pages are written. */
    uint64_t *positions;
    /* push's own */
    uint32_t chunk_next, chunk_ready, layers_ready;
    uint32_t layers_posted, layer_end; /* of the first layer with chunks never posted: its end */
    uint32_t chunk_room;               /* chunks before it have room there */
    struct kvr_plan_cursor cursor;     /* at chunk_next */
};
#define PUSH_NOWHERE 255

/* What the target asks for: chunks once more (MISSING), or only more room (ROOM). */
struct push_retransmit {
    struct push_retransmit *next;
    uint32_t round, run_count;     /* no runs: nothing is posted once more */
    uint64_t room;                 /* as the quota's; no more than it had: as before */
    uint32_t run_next, chunk_next; /* push's own */
    struct kvr_chunk_run runs[];
};

/* The granted rails cannot be reached: the job goes on over others. PUSH_LIST asks for what it has
 * posted so far, and the target says what is posted once more (rule 3). */
struct push_failover {
    /* Goes on in another group, which begins it by PUSH_OPEN. The job itself only waits for its
     * completions. NULL: the job goes on itself. */
    struct push_job *successor;
    struct kvr_region_set *target;     /* with the keys of the rails */
    const struct kvr_remote_key *keys; /* as the job's */
    uint64_t target_rails;
};

struct push_list {
    struct push_list *behind; /* the loop's */
    /* Asked: pairs of this rail of ours, or to this epoch of a target rail; PUSH_ANY: not asked. */
    uint32_t rail, target_rail, epoch;
    uint32_t next; /* 0 at first; ask again with what the answer left here */
    /* Answered: one pair that was not answered before, and the chunks that went over it last. */
    bool found;
    struct kvr_pair pair;
    uint32_t run_count, run_capacity;
    struct kvr_chunk_run runs[];
};
#define PUSH_ANY UINT32_MAX

/* Whether a target's device sees our pages: a zero-byte write probes it. */
struct visibility_probe {
    struct visibility_probe *next; /* push's own */
    uint64_t transfer;             /* the loop's */
    uint32_t peer, engine;
    uint64_t target_rails; /* bits of those that may be used; 0: any */
    struct kvr_region_set *source, *target;
    kvr_status status; /* KVR_OK: visible; KVR_COPY_FAILED: not visible; else unknown */
};

/* The target's staging memory, where segments have positions, and this transfer's part of it. */
struct push_quota {
    struct kvr_remote_region memory;
    uint64_t offset, bytes; /* 0 bytes: none, the target's pages are written */
    uint64_t room;          /* chunks that end at this position, or before, may be posted */
};

/* When the job posts (push_turns.c). */
struct push_turn {
    kvr_ns deadline;         /* of the fetch; KVR_NEVER */
    int32_t priority;        /* larger goes first */
    uint32_t tenant, weight; /* it takes of that share of the rails, of this size; 0: 1 */
    /* push's own */
    uint64_t rank;                /* of this step */
    uint32_t batches;             /* that the job has posted */
    bool queued;                  /* it is in the ring */
    struct push_job *next, *prev; /* ring of jobs with something to post */
};

struct push_pair {
    struct kvr_pair pair;
    uint64_t count;    /* accepted posts */
    uint64_t repeated; /* of them, those that were not the first of their chunk */
    uint64_t bytes;    /* of all of them */
    bool retired;      /* our endpoint of that time is closed: never used again */
    bool listed;       /* its chunks were named by PUSH_LISTED */
};

/* What was posted, and over which pairs. */
struct push_posts {
    struct push_pair pairs[KVR_EPOCHS_PER_TRANSFER];
    uint32_t pair_count, pair_last; /* pair_last: of the last write */
    uint64_t outstanding, accepted, repeated;
    uint64_t rails;              /* bit r: our rail r carried a part */
    struct kvr_span_book *spans; /* the loop's, lent; NULL: not asked for */
};

/* What the loop knows already. */
struct push_told {
    bool round;   /* that all of the present round was posted, or is without room */
    bool ready;   /* that every layer is ready */
    bool no_rail; /* that no pair is usable */
};

struct push_job {
    uint32_t index, peer;
    uint64_t transfer;
    const struct kvr_region_set *source, *target;
    /* Of GRANT, by the target's layouts, or one of its quota; the loop's, until the transfer ends.
     * NULL: those of `target`, or of `quota`. */
    const struct kvr_remote_key *keys;
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint32_t slot_count, tag; /* tag: as in GRANT */
    uint64_t target_rails;    /* bit r: it may be written on the target's rail r */
    kvr_digest_mode digest;
    struct push_quota quota;
    bool direct_copy;      /* the target's device copies the pages: the regions' `moved` */
    struct kvr_stage *via; /* its chunks are gathered there first; NULL: cards read the pages */
    _Atomic uint64_t *revocation_word; /* where the target copies by itself (rule 11); else NULL */
    struct push_turn turn;
    enum push_job_state state;
    /* push's own */
    struct push_stage *stage; /* of `via` */
    uint32_t staged;          /* of its chunks, being gathered or gathered and not posted */
    struct push_segment *first, *last, *open; /* open: the first with chunks not posted */
    bool final;                               /* no more segments */
    uint32_t round;                           /* the latest that the target has asked for */
    struct push_retransmit *retransmit_first, *retransmit_last;
    struct push_posts posts;
    kvr_ns ready_first, ready_last; /* when layers were seen to be ready; 0: none was */
    struct push_told told;
};

#endif
