/* GRANT: the target's slots, rails and staging memory; the job begins. */
#ifndef PREFILL_AGENT_GRANT_H
#define PREFILL_AGENT_GRANT_H

#include "wire/message.h"

struct outbound;
struct source_transfer;

struct source_grant {
    struct push_job *job; /* the group thread's, from GRANT until PUSH_CLOSED; NULL: none */
    uint32_t rail_group;  /* of ours, which posts */
    uint64_t rails;       /* bits of the target's rails */
    uint32_t slot_count;
    uint64_t
        staging_quota; /* bytes of the target's staging memory; 0: none, its pages are written */
    bool local;        /* those are for its host alone, and there are others */
};

void grant_received(struct outbound *outbound, struct source_transfer *transfer,
                    const struct kvr_msg_grant *grant);
/* Of the rails that the message names, those that the transfer may use (bits). */
uint64_t grant_rails_of(const struct outbound *outbound, const struct source_transfer *transfer,
                        const struct kvr_msg_grant *grant);
/* The transfer uses these rails from now on. */
void grant_take(const struct outbound *outbound, struct source_transfer *transfer, uint64_t rails);

#endif
