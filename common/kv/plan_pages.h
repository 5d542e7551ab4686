/* The pages of a segment in the order of the target's addresses, and the spans of tokens that one
 * page of each side share. Private to common/kv. Pure. */
#ifndef KVR_KV_PLAN_PAGES_H
#define KVR_KV_PLAN_PAGES_H

#include "kv/plan.h"

/* A page of the target, or several whole pages that are neighbours at both ends. */
struct kvr_plan_slot {
    uint32_t target_page;
    uint32_t index; /* the first page's place in the segment's list */
    uint32_t page_count;
};

struct kvr_plan_pages {
    uint64_t token_first, token_end; /* the tokens that move; a state is one token of one page */
    uint64_t moved_end;              /* the token behind those that move */
    uint32_t source_page_count, target_page_count; /* listed pages that hold these tokens */
    uint32_t source_page_tokens, target_page_tokens;
    uint64_t source_first, target_first; /* logical numbers of the first pages listed */
    const uint32_t *source_pages;
    struct kvr_plan_slot *slots; /* from the buddy; sorted by target page */
    uint32_t slot_count;
};

struct kvr_plan_span {
    uint64_t token, tokens;
    uint32_t source_page, target_page;
    uint64_t source_token, target_token; /* in the page */
};

/* Finds the tokens that move, and their pages. KVR_INVALID: tokens without a page. */
KVR_MUST_CHECK kvr_status kvr_plan_pages_find(const struct kvr_plan_input *input,
                                              uint32_t source_page_tokens,
                                              uint32_t target_page_tokens,
                                              struct kvr_plan_pages *ret_pages,
                                              struct kvr_error *error);
/* Fills slots; joins neighbours where both sides have equal pages. KVR_INVALID: a target page
 * listed twice; KVR_NO_MEMORY. The caller frees slots, also after a failure. */
KVR_MUST_CHECK kvr_status kvr_plan_pages_sort(struct kvr_plan_pages *pages,
                                              const uint32_t *target_pages,
                                              struct kvr_buddy *memory, struct kvr_error *error);

/* The spans of one target page, in the order of tokens: of slot->target_page + n. begin sets the
 * first span, next each further one; false when there is none. */
static inline bool kvr_plan_span_set(const struct kvr_plan_pages *pages,
                                     const struct kvr_plan_slot *slot, uint32_t n, uint64_t token,
                                     uint64_t page_begin, struct kvr_plan_span *span)
{
    uint64_t page_end = page_begin + pages->target_page_tokens;
    uint64_t end = page_end < pages->token_end ? page_end : pages->token_end, source, left;

    if (token >= end)
        return false;
    if (pages->source_page_tokens == pages->target_page_tokens) {
        /* By far the most common case, and the only one where a slot has several pages, all whole.
         */
        source = page_begin;
        span->source_page = pages->source_pages[slot->index] + n;
    } else {
        source = token - token % pages->source_page_tokens;
        span->source_page =
            pages->source_pages[token / pages->source_page_tokens - pages->source_first];
    }
    left = pages->source_page_tokens - (token - source);
    span->token = token;
    span->tokens = end - token < left ? end - token : left;
    span->source_token = token - source;
    span->target_token = token - page_begin;
    span->target_page = slot->target_page + n;
    return true;
}

static inline bool kvr_plan_span_begin(const struct kvr_plan_pages *pages,
                                       const struct kvr_plan_slot *slot, uint32_t n,
                                       struct kvr_plan_span *span)
{
    uint64_t begin = (pages->target_first + slot->index) * pages->target_page_tokens;
    uint64_t token = begin > pages->token_first ? begin : pages->token_first;

    return kvr_plan_span_set(pages, slot, n, token, begin, span);
}

static inline bool kvr_plan_span_next(const struct kvr_plan_pages *pages,
                                      const struct kvr_plan_slot *slot, uint32_t n,
                                      struct kvr_plan_span *span)
{
    uint64_t begin = (pages->target_first + slot->index) * pages->target_page_tokens;

    return kvr_plan_span_set(pages, slot, n, span->token + span->tokens, begin, span);
}

#endif
