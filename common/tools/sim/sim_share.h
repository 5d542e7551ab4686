/* The ledger of a source's rail group: what was posted for each tenant while both had more. */
#ifndef KVR_TOOLS_SIM_SHARE_H
#define KVR_TOOLS_SIM_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_TENANTS    2
#define SIM_SHARE_JOBS 64 /* of a group; with more it is not counted */

struct sim_group;

/* What can be seen of a group at one moment. */
struct sim_share_view {
    bool unclear;     /* not both tenants have more, or they may not have the same room */
    uint32_t working; /* tenants with more, a bit each */
    uint32_t peer;    /* of all of it */
    uint64_t rails;
    uint64_t mean;    /* bytes of a chunk of it */
    uint64_t refused; /* posts, by rails */
    uint32_t job_count;
    struct sim_share_job {
        uint64_t transfer, bytes, chunks, repeated;
        uint32_t tenant;
    } jobs[SIM_SHARE_JOBS];
};

struct sim_share {
    uint64_t round_bytes, batch_writes;
    uint64_t chunk_bytes; /* the largest mean of a segment's chunks, of all so far */
    struct sim_share_sum {
        uint64_t bytes, chunks;
    } sums[SIM_TENANTS];
    struct sim_share_view before; /* the step that is taken */
};

void sim_share_open(struct sim_group *group, uint32_t window_writes);
/* Around each step of the group. */
void sim_share_before(struct sim_group *group);
void sim_share_after(struct sim_group *group);

#endif
