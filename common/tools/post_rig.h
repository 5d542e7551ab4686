/* A source alone: transfers of many small writes on the real path from readiness to completion
 * (push, plan, rail group), without engines, peers and threads. It runs over the null fabric, or
 * over a model of cards. */
#ifndef KVR_TOOLS_POST_RIG_H
#define KVR_TOOLS_POST_RIG_H

#include "fabric/sim/fabric_null.h"
#include "prefill-agent/push.h"

#define POST_RIG_JOBS_MAX 16

struct post_rig_options {
    uint64_t page_bytes;
    uint32_t layers, pages; /* of one transfer: so many writes, divided by pieces, each */
    uint32_t rails, jobs;   /* jobs: transfers at a time */
    uint32_t pieces;        /* pages of one write */
    uint32_t in_flight;     /* writes that the null fabric keeps under way, a rail */
    bool spans;             /* each transfer notes when its layers pass */
    /* NULL: the null fabric, a window as large as it takes, and the clock. Else windows and batches
     * are as `group` has them, and time is the caller's. */
    const struct kvr_fabric *fabric;
    struct kvr_group_options group;
    /* The word of the one job; the caller raises it. NULL: each job has its own, and every
     * step raises it. */
    _Atomic uint64_t *word;
};

/* One transfer's memory, used again and again. */
struct post_rig_job {
    struct push_job job;
    struct push_segment segment;
    uint8_t *where;
    struct kvr_span_book *spans; /* or NULL */
    _Atomic uint64_t word;       /* layers that are final, of all transfers of this job so far */
    uint64_t base;
    bool posted, open;
};

struct post_rig {
    struct post_rig_options options;
    struct kvr_fabric_null null;
    struct kvr_fabric fabric;
    struct kvr_rail *rails[KVR_RAILS_MAX];
    struct kvr_group *group;
    struct push push;
    struct kvr_buddy memory;
    void *memory_block;
    struct kvr_plan *plan;
    struct kvr_region_layout layout;
    struct kvr_region *region, *regions[1];
    struct kvr_remote_region remote;
    struct kvr_region_set source, target;
    struct post_rig_job jobs[POST_RIG_JOBS_MAX];
    uint64_t writes; /* posted by transfers that have ended */
    uint64_t steps;
    uint32_t open; /* jobs */
};

/* False: said on stderr; stop it all the same. */
bool post_rig_start(struct post_rig *rig, const struct post_rig_options *options);
/* Whole transfers, until so many writes have been posted and completed; each layer becomes ready
 * on its own. False: something is stuck. */
bool post_rig_run(struct post_rig *rig, uint64_t writes);
/* One step of the group: up to `opens` transfers begin, and of each open one a layer more is ready.
 * Counts opens down. False: something is wrong; *ret_moved: the group did something. */
bool post_rig_step(struct post_rig *rig, kvr_ns now, uint64_t *opens, bool *ret_moved);
void post_rig_stop(struct post_rig *rig);

#endif
