/* A source alone: transfers of many small writes, posted by the real way from readiness to
 * completion (push, plan, rail group), without engines, peers and threads; over the null fabric, or
 * over a model of cards. */
#ifndef KVR_TOOLS_BENCH_POST_RIG_H
#define KVR_TOOLS_BENCH_POST_RIG_H

#include "fabric/fabric_null.h"
#include "prefill-agent/push.h"

#define BENCH_POST_JOBS_MAX 16

struct bench_post_options {
    uint64_t page_bytes;
    uint32_t layers, pages; /* of one transfer: so many writes, divided by pieces, each */
    uint32_t rails, jobs;   /* jobs: transfers at a time */
    uint32_t pieces;        /* pages of one write */
    uint32_t in_flight;     /* writes that the null fabric keeps under way, a rail */
    /* NULL: the null fabric, a window as large as it takes, and the clock. Else windows and batches
     * are as `group` has them, and time is the caller's. */
    const struct kvr_fabric *fabric;
    struct kvr_group_options group;
    /* The word of the one job, which somebody else raises. NULL: each job has its own, and every
     * step raises it. */
    _Atomic uint64_t *word;
};

/* One transfer's memory, used again and again. */
struct bench_post_job {
    struct push_job job;
    struct push_segment segment;
    uint8_t *where;
    _Atomic uint64_t word; /* layers that are final, of all transfers of this job so far */
    uint64_t base;
    bool posted, open;
};

struct bench_post_rig {
    struct bench_post_options options;
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
    struct bench_post_job jobs[BENCH_POST_JOBS_MAX];
    uint64_t writes; /* posted by transfers that have ended */
    uint64_t steps;
    uint32_t open; /* jobs */
};

/* False: said on stderr; stop it all the same. */
bool bench_post_rig_start(struct bench_post_rig *rig, const struct bench_post_options *options);
/* Whole transfers, until so many writes have been posted and completed; each layer becomes ready
 * on its own. False: something is stuck. */
bool bench_post_rig_run(struct bench_post_rig *rig, uint64_t writes);
/* One step of the group: up to `opens` transfers begin, and of each open one a layer more is ready.
 * Counts opens down. False: something is wrong; *ret_moved: the group did something. */
bool bench_post_rig_step(struct bench_post_rig *rig, kvr_ns now, uint64_t *opens, bool *ret_moved);
void bench_post_rig_stop(struct bench_post_rig *rig);

#endif
