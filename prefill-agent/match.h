/* WANT, SKIP and PAGES: which publish a target wants, and what of it. */
#ifndef PREFILL_AGENT_MATCH_H
#define PREFILL_AGENT_MATCH_H

#include "agent/core/page_tables.h"
#include "agent/core/region_set.h"
#include "wire/message.h"

struct outbound;
struct past_publish;
struct publish;
struct source_transfer;

/* What a WANT asks for. */
struct source_match {
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    struct kvr_uuid source_engine;
    uint64_t source_generation; /* 0: any */
    uint32_t source_tp, source_pp;
    uint64_t key; /* match_key() of all these */
    struct kvr_rank target;
    uint32_t place; /* of the target rank among the consumers of the publish */
    uint64_t tokens, skip_tokens;
    struct kvr_region_set *remote; /* the target's regions */
    struct kvr_page_tables pages;  /* the target's */
    uint32_t *siblings; /* ranks of the source engine that the target asks, pp << 16 | tp; NULL:
                           this rank alone */
    uint32_t sibling_count;
    int32_t priority; /* of the target's fetch and of the publish together */
    kvr_ns deadline;  /* of a parked WANT; then of its fetch */
    struct kvr_proof proof;
    uint32_t tenant;     /* its number in engines.tenants; KVR_TENANT_NONE: it is given nothing */
    uint64_t refused_by; /* the publish that it met last and may not have; 0: none */
};

void match_want(struct outbound *outbound, uint32_t peer, uint64_t nonce,
                const struct kvr_msg_want *want);
/* What the target has already: its WANT left that open. */
void match_skip(struct outbound *outbound, struct source_transfer *transfer,
                const struct kvr_msg_skip *skip);
void match_pages(struct outbound *outbound, struct source_transfer *transfer,
                 const struct kvr_msg_pages *pages);
/* Of a publish that was just opened: WANTs that came before it. */
void match_parked(struct outbound *outbound, struct publish *publish);
/* Targets that come for it from here on, and parked ones, fail with its end. */
void match_ended(struct outbound *outbound, const struct past_publish *ended);
/* The WANT is no longer parked: it met its publish, or it never will. */
void match_unpark(struct outbound *outbound, const struct source_transfer *transfer);
/* A parked WANT that has waited long enough, or that no engine will publish any more, fails. */
void match_tick(struct outbound *outbound, struct source_transfer *transfer);
/* The same for all WANTs of a source engine that ended. */
void match_engine_down(struct outbound *outbound, const struct kvr_rank *rank);
/* One number for the fields that must be equal. Equal numbers prove nothing: compare the fields. */
uint64_t match_key(const char *request, uint32_t attempt, const struct kvr_uuid *engine,
                   uint64_t generation, uint32_t tp, uint32_t pp);

#endif
