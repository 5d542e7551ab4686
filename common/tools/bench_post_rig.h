/* A source alone: transfers of many small writes, posted over the null fabric by the real way from
 * readiness to completion (push, plan, rail group), without engines, peers and threads. */
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
    uint32_t in_flight;     /* writes that the fabric keeps under way, a rail */
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
};

/* False: said on stderr; stop it all the same. */
bool bench_post_rig_start(struct bench_post_rig *rig, const struct bench_post_options *options);
/* Whole transfers, until so many writes have been posted and completed; each layer becomes ready
 * on its own. False: something is stuck. */
bool bench_post_rig_run(struct bench_post_rig *rig, uint64_t writes);
void bench_post_rig_stop(struct bench_post_rig *rig);

#endif
