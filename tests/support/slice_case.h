/* A source rank that shares an engine's pages out among target ranks: outbound alone, its ports
 * written down (machine_log.h), and what engine and targets say to it in a word each. */
#ifndef KVR_TESTS_SLICE_CASE_H
#define KVR_TESTS_SLICE_CASE_H

#include "prefill-agent/outbound.h"
#include "prefill-agent/push.h"
#include "tests/support/machine_log.h"

#define SHARE_STAGES 3
#define SHARE_NONCE  1000 /* of target rank or stage 0; the next have the next */

struct share {
    struct outbound outbound;
    struct small_side source, target;
    struct kvr_shared_page page;
    kvr_ns now;
    bool target_staged;          /* what is wanted lands in staging memory */
    uint64_t target_stage_bytes; /* it can, up to these */
};
extern struct share share;

/* A source rank of an engine of tp_size ranks, and two target ranks behind one peer. */
void share_open_rank(uint32_t tp, uint32_t tp_size, bool replicated);
/* The first of two stages, with layers 0 and 1 of four, and three target stages with 1, 2 and 1. */
void share_open_stage(void);

/* Its engine: opens request `number` with its pages, for so many consumers (0: it does not know);
 * watches tokens, which are ready; ends. */
void share_publish(uint32_t number, uint32_t consumers);
void share_watch(uint64_t token_first, uint64_t token_end);
void share_end(void);

/* Of target rank tp of two, which asks the first sibling_count ranks of the source engine. */
void share_want(uint32_t number, uint32_t tp, uint32_t sibling_count, uint64_t skip);
/* Of that target stage, which asks both source stages and has all pages. */
void share_want_stage(uint32_t number, uint32_t stage);
void share_pages(uint32_t tp, uint32_t first, uint32_t count);
void share_landed(uint32_t tp);

#endif
