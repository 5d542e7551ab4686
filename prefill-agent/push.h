/* Posting: the source's half of a rail group. Runs on the group's thread (kvr_group_user); the loop
 * thread's machine (outbound) talks to it with the messages of push_message.h.
 *
 * A job is the posting of one transfer. It has segments, each a plan. Its layers become ready as an
 * engine's word grows. Ready chunks are posted layer by layer to whichever rail has room. Jobs
 * are ordered by deadline and priority; equal jobs take turns. For every chunk the job remembers
 * the pair that carried it last; for every (target rail, epoch) it counts the accepted posts.
 * RAIL_LOST and QUIET report both to the target.
 *
 *   push_message.h  messages between the loop and a job
 *   push_job.h      what the loop hands over, its owner, a job's states
 *   push_state.h    what the files below share
 *   push.c          the calls of the rail group
 *   push_job.c      the table of a job's states
 *   push_list.c     which chunks went over a pair
 *   push_command.c  the loop's commands
 *   push_report.c   reports to the loop
 *   push_ready.c    what is posted in a job's turn
 *   push_shares.c   which tenant posts next
 *   push_turns.c    which job of it posts next
 *   push_post.c     chunks become writes
 *   push_stage.c    gathering into staging memory before the write
 *   push_probe.c    a write of no bytes: whether the target's device sees our pages */
#ifndef PREFILL_AGENT_PUSH_H
#define PREFILL_AGENT_PUSH_H

#include "device/staging.h"
#include "prefill-agent/push_job.h"
#include "prefill-agent/push_message.h"
#include "prefill-agent/push_shares.h"

#define PUSH_PROBES_MAX 32 /* under way at once; others wait */

/* What a group's thread keeps of a stage (kvr_stage.user). */
struct push_stage {
    struct kvr_stage *stage;
    struct kvr_staging ring;
    struct push_part {
        struct push_job *job; /* NULL: not in use */
        struct push_segment *segment;
        uint32_t chunk; /* of the segment */
        bool gathered, posted, again;
        struct kvr_pair pair; /* if it is posted */
        uint64_t offset;      /* in the stage's memory */
    } parts[KVR_STAGING_PARTS];
    struct push_copy {
        uint32_t part_first, part_count; /* 0: free */
    } copies[KVR_DEVICE_COPIES_MAX];
    uint32_t unposted; /* parts that are gathered and not posted */
};

struct push {
    struct kvr_group *group;
    struct push_job *jobs[KVR_TRANSFERS_MAX];
    struct push_stage *stages[KVR_STAGES_MAX]; /* the stages that jobs have used; NULL */
    kvr_ns now;                                /* of this step */
    struct push_lane {                         /* the jobs of a tenant with something to post */
        struct push_job *turn;                 /* next job of the ring to post; NULL: none */
        uint32_t queued_count;
        uint32_t fresh_count; /* of them, those that have posted only a few batches */
        struct push_job *long_turn[KVR_PEERS_MAX]; /* the job in its long turn; NULL: none */
    } lanes[KVR_TENANTS_MAX];
    struct push_shares shares;                /* of the lanes */
    uint32_t queued_lanes;                    /* that have jobs, a bit each */
    bool sharing;                             /* several have */
    bool on_loan;                             /* a lane without credit may post a batch */
    _Atomic uint64_t posted[KVR_TENANTS_MAX]; /* bytes of each tenant; any thread may read it */
    uint32_t queued_count, open_count;
    bool blocked;                                   /* a job found no room in this step */
    bool more;                                      /* a job's turn ended with ready chunks left */
    struct kvr_shared_page *pages[KVR_ENGINES_MAX]; /* bits of sleeping groups */
    struct visibility_probe *probes, *probing[PUSH_PROBES_MAX]; /* to be posted; under way */
};

/* What kvr_group_open needs; push outlives the group. */
struct kvr_group_user push_user(struct push *push);

#endif
