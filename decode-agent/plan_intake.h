/* What the source has announced of a transfer: its segments, by PLAN, and their end, by FINAL. The
 * table of the states is in plan_intake.c. */
#ifndef DECODE_AGENT_PLAN_INTAKE_H
#define DECODE_AGENT_PLAN_INTAKE_H

#include "base/state.h"
#include "decode-agent/inbound.h"
#include "kv/page_table.h"

struct landing_segment;
struct transfer;

enum plan_intake_state {
    INTAKE_IDLE,       /* no PLAN, or the last one is complete */
    INTAKE_COLLECTING, /* a PLAN comes in several messages, and more of it follow */
    INTAKE_FINAL,      /* FINAL has come: no PLAN follows */
    INTAKE_STATES
};

enum plan_intake_event { INTAKE_ON_BEGUN, INTAKE_ON_COMPLETE, INTAKE_ON_FINAL, INTAKE_EVENTS };

struct plan_intake {
    enum plan_intake_state state;
    struct kvr_region_set *remote; /* the source rank's regions, from its first PLAN on */
    struct landing_segment *segments, *segments_last;
    uint32_t segment_count, chunk_count;
    uint64_t bytes;
    uint64_t token_next[KVR_GROUPS_MAX]; /* end of the last segment; at first what is skipped */
    struct kvr_page_table planned;       /* COLLECTING: the source's pages of that PLAN */
    uint32_t planning_group;             /* and its KV group */
    struct kvr_msg_final final;
};

KVR_STATE_MACHINE(plan_intake);

void plan_received(struct inbound *inbound, struct transfer *transfer,
                   const struct kvr_msg_plan *plan);
void final_received(struct inbound *inbound, struct transfer *transfer,
                    const struct kvr_msg_final *final);
void plan_intake_done(struct inbound *inbound, struct plan_intake *intake);

#endif
