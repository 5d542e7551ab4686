/* Posting: the source's half of a rail group. Runs on the group's thread (kvr_group_user); the loop
 * thread's machine (outbound) talks to it with the messages below.
 *
 * A job is the posting of one transfer. It has segments, each a plan whose layers become ready as
 * an engine's word grows; ready chunks are posted layer by layer to whichever rail has room, jobs
 * by deadline and priority and else in turns. For every chunk the job remembers over which pair it
 * went last, and for every (target rail, epoch) how many posts were accepted: what RAIL_LOST and
 * QUIET tell the target.
 *
 * A job and all it points to is made by the loop thread, handed over by PUSH_OPEN, PUSH_SEGMENT and
 * PUSH_AGAIN, and given back by PUSH_CLOSED and PUSH_AGAIN_DONE. Counts come back as messages,
 * never through shared memory. */
#ifndef PREFILL_AGENT_PUSH_H
#define PREFILL_AGENT_PUSH_H

#include <stdatomic.h>

#include "agent/region_set.h"
#include "device/stage.h"
#include "device/staging.h"
#include "fabric/rail_group.h"
#include "kv/plan.h"
#include "wire/engine_message.h"

enum push_kind {
    /* loop → group; index: the job's */
    PUSH_OPEN = KVR_GROUP_KIND_USER, /* pointer: struct push_job */
    PUSH_SEGMENT,                    /* pointer: struct push_segment */
    PUSH_FINAL,                      /* no more segments */
    PUSH_AGAIN,                      /* pointer: struct push_again: the target's MISSING or ROOM */
    PUSH_LIST,                       /* pointer: struct push_list: which chunks went over a pair */
    PUSH_MOVE,                       /* pointer: struct push_move: other rails, another group */
    PUSH_STOP,                       /* post no more */
    PUSH_CLOSE,                      /* after STOP, or when nothing will be posted any more */
    PUSH_LOOK,                       /* pointer: struct push_look; index is nobody's */
    PUSH_PAGE,                       /* index: engine; pointer: its shared page, NULL: forget it */
    /* group → loop */
    PUSH_FIRST_POST, /* a: when its first layer was seen to be ready */
    PUSH_ALL_READY,  /* before the first POSTED; a: when the last layer was seen to be ready */
    PUSH_COUNT,   /* a: target rail, b: epoch, c: accepted posts; several before POSTED, STOPPED */
    PUSH_POSTED,  /* everything of round a was accepted; b: posts in all, c: of them repeated;
                     pointer: the job's first segment, to read the digests */
    PUSH_RESTS,   /* as POSTED, of what has room in the target's staging memory; the rest waits */
    PUSH_STOPPED, /* b, c as POSTED; id: bit r = our rail r carried a part */
    PUSH_AGAIN_DONE,  /* pointer: struct push_again, taken in */
    PUSH_LISTED,      /* pointer: struct push_list, filled */
    PUSH_COPY_FAILED, /* bytes could not be gathered: POSTED will not come */
    PUSH_NO_RAIL,     /* chunks are left and no pair is usable */
    PUSH_RAIL_BACK,   /* after NO_RAIL: posting goes on */
    PUSH_MOVED,       /* pointer: struct push_move; of what went before it all may be lost */
    PUSH_LOOKED,      /* pointer: struct push_look, answered */
    PUSH_CLOSED,      /* pointer: the job; every accepted post has its completion */
    PUSH_PAGE_SET, /* index and pointer of the PUSH_PAGE: the page before is no longer looked at */
};

struct push_segment {
    struct push_segment *next;
    struct kvr_plan *plan;
    uint32_t chunk_first;         /* within the transfer */
    const _Atomic uint64_t *word; /* NULL: all layers are ready */
    uint64_t word_base;
    uint32_t layer_base; /* number of the rank's first layer */
    uint8_t *where;      /* a chunk each: index into the job's pairs, PUSH_NOWHERE before */
    uint64_t *digests;   /* a chunk each, of those that the job hashes; NULL: it hashes none. The
                            loop may read them once PUSH_POSTED was told */
    /* a chunk each: its position in the transfer's share of the target's staging memory
     * (kvr_plan_positions); NULL where the target's pages are written */
    uint64_t *positions;
    /* push's own */
    uint32_t chunk_next, chunk_ready, layers_ready;
    uint32_t chunk_room;           /* chunks before it have room there */
    struct kvr_plan_cursor cursor; /* at chunk_next */
};
#define PUSH_NOWHERE 255

struct push_again {
    struct push_again *next;
    uint32_t round, run_count;     /* no runs: nothing again, but more room */
    uint64_t room;                 /* as push_job's; no more than it had: as before */
    uint32_t run_next, chunk_next; /* push's own */
    struct kvr_chunk_run runs[];
};

/* What was granted cannot be reached: the job goes on elsewhere. What it has posted so far is asked
 * for by PUSH_LIST, and posted again only as the target then says (rule 3). */
struct push_move {
    struct push_job *heir; /* goes on in its stead, in another group, where PUSH_OPEN begins it; the
                              job itself only waits for its completions. NULL: it goes on itself */
    struct kvr_region_set *target; /* with the keys of the rails */
    uint64_t target_rails;
};

struct push_list {
    struct push_list *behind; /* the loop's */
    /* asked: pairs of this rail of ours, or to this epoch of a target rail; PUSH_ANY: not asked */
    uint32_t rail, target_rail, epoch;
    uint32_t next; /* 0 at first; ask again with what the answer left here */
    /* answered: one pair that was not answered before, and the chunks that went over it last */
    bool found;
    struct kvr_pair pair;
    uint32_t run_count, run_capacity;
    struct kvr_chunk_run runs[];
};
#define PUSH_ANY UINT32_MAX

/* Whether a target's device sees our pages: a write of nothing says. */
struct push_look {
    struct push_look *next; /* push's own */
    uint64_t offer;         /* the loop's */
    uint32_t peer, engine;
    uint64_t target_rails; /* bits of those that it may be asked over; 0: any */
    struct kvr_region_set *source, *target;
    kvr_status status; /* KVR_OK: it does; KVR_COPY_FAILED: not; else nobody knows */
};
#define PUSH_LOOKS 32 /* under way at once; others wait */
#define PUSH_PART_LOOK                                                                             \
    UINT32_MAX /* upper half of a look's token; of a job's it is a part's number */

struct push_pair {
    struct kvr_pair pair;
    uint64_t count; /* accepted posts */
    bool retired;   /* our endpoint of that time is closed: never used again */
    bool listed;    /* its chunks were named by PUSH_LISTED */
};

struct push_job {
    uint32_t index, peer;
    uint64_t transfer;
    const struct kvr_region_set *source, *target;
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint32_t slot_count;
    uint64_t target_rails; /* bit r: it may be written on the target's rail r */
    kvr_digest_mode digest;
    /* Where segments have positions: the target's staging memory, and this transfer's share of it.
     */
    struct kvr_remote_region share;
    uint64_t share_offset, share_bytes; /* 0 bytes: none, the target's pages are written */
    uint64_t room;         /* chunks that end at this position there, or before, may be posted */
    bool moves;            /* the target moves the pages itself: the regions' `moved` */
    struct kvr_stage *via; /* its chunks are gathered there first; NULL: cards read the pages */
    kvr_ns deadline;       /* of the fetch; KVR_NEVER */
    int32_t priority;      /* larger goes first */
    bool late;             /* an heir of what is to stop: it posts nothing before PUSH_STOP comes */
    /* push's own */
    _Atomic uint64_t *loan;       /* where the target copies itself: its word; else NULL */
    struct push_stage *stage;     /* of `via` */
    uint32_t staged;              /* of its chunks, being gathered or gathered and not posted */
    uint64_t rank;                /* of this step */
    uint32_t batches;             /* that it has posted */
    struct push_job *next, *prev; /* ring of jobs with something to post */
    struct push_segment *first, *last, *open; /* open: the first with chunks not posted */
    struct push_again *again_first, *again_last;
    struct push_pair pairs[KVR_EPOCHS_PER_TRANSFER];
    uint32_t pair_count, pair_last, round; /* pair_last: of the last write */
    uint64_t outstanding, posted, repeated, rails;
    kvr_ns ready_first, ready_last; /* when layers were seen to be ready; 0: none was */
    bool queued, final, stopped, closing, posted_told, ready_told, no_rail_told, copy_failed;
};

/* What of a stage a group's thread keeps (kvr_stage.user). */
struct push_stage {
    struct kvr_stage *stage;
    struct kvr_staging ring;
    struct push_part {
        struct push_job *job; /* NULL: not in use */
        struct push_segment *segment;
        uint32_t chunk; /* of the segment */
        bool gathered, posted, again;
        uint64_t offset; /* in the stage's memory */
    } parts[KVR_STAGING_PARTS];
    struct push_copy {
        uint32_t part_first, part_count; /* 0: free */
    } copies[KVR_DEVICE_COPIES_MAX];
    uint32_t unposted; /* parts that are gathered and not posted */
};

struct push {
    struct kvr_group *group;
    struct push_job *jobs[KVR_TRANSFERS_MAX];
    struct push_stage *stages[KVR_STAGES_MAX]; /* those that a job had; NULL */
    kvr_ns now;                                /* of this step */
    struct push_job *turn;                     /* next job of the ring to post */
    struct push_job *long_turn[KVR_PEERS_MAX]; /* whose turn is not over; NULL */
    uint32_t queued_count, open_count;
    uint32_t fresh_count; /* of those queued, that have not had a few batches */
    bool blocked;         /* a job found no room in this step */
    bool more;            /* a job's turn ended before all that was ready had been posted */
    struct kvr_shared_page *pages[KVR_ENGINES_MAX]; /* where we say that we sleep */
    struct push_look *looks, *looking[PUSH_LOOKS];  /* to be posted; under way */
};

/* push_look.c */
void push_look_add(struct push *push, struct push_look *look);
bool push_look_work(struct push *push); /* true when one was posted or answered */
/* Its write has ended: it is answered. */
void push_looked(struct push *push, uint32_t place, kvr_status status);

/* push_list.c: answers PUSH_LIST. */
void push_list_fill(struct push_job *job, struct push_list *list);

/* push_stage.c */
/* What this thread keeps of it; NULL is fine. */
struct push_stage *push_stage_of(struct push *push, struct kvr_stage *stage);
/* Gathers as many of `count` chunks from the cursor's as one copy takes; *ret_count with KVR_OK.
 * again: they were posted before. */
kvr_status push_stage_gather(struct push *push, struct push_job *job, struct push_segment *segment,
                             struct kvr_plan_cursor *cursor, uint32_t count, bool again,
                             uint32_t *ret_count);
/* Takes what was gathered, and posts it; true when anything moved. */
bool push_stage_work(struct push *push);
void push_stage_written(struct push_job *job, uint32_t part);
/* The job posts no more. */
void push_stage_stop(struct push_job *job);
bool push_stage_busy(const struct push *push); /* something is gathered or being gathered */

/* push_post.c */
/* Posts as many of `count` chunks from the cursor's as leave over one pair, or has them gathered,
 * to be posted a little later; *ret_count with KVR_OK. again: they were posted before. */
kvr_status push_send(struct push *push, struct push_job *job, struct push_segment *segment,
                     struct kvr_plan_cursor *cursor, uint32_t count, bool again,
                     uint32_t *ret_count);
/* One chunk as a write of its own. gathered: where its bytes lie in the
 * stage's memory, or NULL where the pages themselves are read. */
struct push_write {
    uint32_t chunk; /* of the segment */
    const struct push_part *gathered;
    uint64_t token;
    bool more;
};
kvr_status push_post_one(struct push *push, struct push_job *job, struct push_segment *segment,
                         const struct push_write *write);
/* push.c */
void push_tell(struct push *push, const struct push_job *job, uint32_t kind, uint64_t a, uint64_t b,
               uint64_t c, void *pointer);
/* What the end of a part may be the last of. */
void push_check(struct push *push, struct push_job *job);
/* Tells once that no rail is usable, and once that one is again. */
void push_tell_rail(struct push *push, struct push_job *job, kvr_status status, bool progress);
void push_copy_failed(struct push *push, struct push_job *job);

/* push_turns.c: which job is next. */
void push_enqueue(struct push *push, struct push_job *job);
void push_dequeue(struct push *push, struct push_job *job);
bool push_work(struct push *push, kvr_ns now);
/* push.c: one job's turn. True when it posted something; *ret_blocked when there is no room for
 * more. */
bool push_post(struct push *push, struct push_job *job, bool *ret_blocked);

/* What kvr_group_open needs; push outlives the group. */
struct kvr_group_user push_user(struct push *push);

#endif
