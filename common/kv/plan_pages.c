#include "kv/plan_pages.h"

#include <inttypes.h>

#define TOKENS_MAX (UINT64_C(1) << 62)
#define PAGES_MAX  (UINT32_MAX / 8) /* spans and runs are counted in 32 bits */
#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

static uint64_t page_end(uint64_t token, uint32_t page_tokens)
{
    return (token + page_tokens - 1) / page_tokens * page_tokens;
}

static kvr_status find_side(const char *side, uint32_t page_tokens, uint32_t listed,
                            const struct kvr_plan_pages *pages, uint64_t *ret_first,
                            uint32_t *ret_count, struct kvr_error *error)
{
    uint64_t first = pages->token_first / page_tokens;
    uint64_t count = pages->token_end > pages->token_first
                         ? page_end(pages->token_end, page_tokens) / page_tokens - first
                         : 0;

    if (count > listed)
        return kvr_error_set(error, KVR_INVALID, "plan",
                             "tokens %" PRIu64 " to %" PRIu64 " need %" PRIu64
                             " %s pages of %" PRIu32 " tokens, %" PRIu32 " are listed",
                             pages->token_first, pages->token_end, count, side, page_tokens,
                             listed);
    if (count > PAGES_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "plan",
                             "a segment of %" PRIu64 " pages, allowed are %" PRIu32, count,
                             PAGES_MAX);
    *ret_first = first;
    *ret_count = (uint32_t)count;
    return KVR_OK;
}

/* The page of a state moves as a whole, whichever tokens the segment has. */
static kvr_status take_state(const struct kvr_plan_input *input, struct kvr_plan_pages *pages,
                             struct kvr_error *error)
{
    bool any = input->token_end > input->token_first;

    pages->moved_end = any ? input->token_end : input->token_first;
    pages->token_first = 0;
    pages->token_end = any;
    pages->source_page_tokens = pages->target_page_tokens = 1;
    if (!any || (input->source_page_count > 0 && input->target_page_count > 0))
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "plan",
                         "no %s page is listed of group %" PRIu32 ", which is a state",
                         input->source_page_count == 0 ? "source" : "target", input->group);
}

kvr_status kvr_plan_pages_find(const struct kvr_plan_input *input, uint32_t source_page_tokens,
                               uint32_t target_page_tokens, struct kvr_plan_pages *ret_pages,
                               struct kvr_error *error)
{
    struct kvr_plan_pages pages = {
        .token_first = input->token_first,
        .token_end = input->token_first,
        .source_page_tokens = source_page_tokens,
        .target_page_tokens = target_page_tokens,
        .source_pages = input->source_pages,
    };

    if (input->token_first > TOKENS_MAX || input->token_end > TOKENS_MAX)
        return kvr_error_set(error, KVR_INVALID, "plan",
                             "tokens %" PRIu64 " to %" PRIu64 ", allowed are 0 to 2^62",
                             input->token_first, input->token_end);
    if (input->token_end > input->token_first) {
        uint64_t source_end = page_end(input->token_end, source_page_tokens);
        uint64_t target_end = page_end(input->token_end, target_page_tokens);

        pages.token_end = source_end < target_end ? source_end : target_end;
    }
    pages.moved_end = pages.token_end;
    if (source_page_tokens == KVR_PAGE_ENDLESS && target_page_tokens == KVR_PAGE_ENDLESS)
        KVR_TRY(take_state(input, &pages, error));
    KVR_TRY(find_side("source", pages.source_page_tokens, input->source_page_count, &pages,
                      &pages.source_first, &pages.source_page_count, error));
    KVR_TRY(find_side("target", pages.target_page_tokens, input->target_page_count, &pages,
                      &pages.target_first, &pages.target_page_count, error));
    *ret_pages = pages;
    return KVR_OK;
}

/* One pass of a radix sort: stable, by the digit at `shift`. */
static void sort_digit(const struct kvr_plan_slot *from, struct kvr_plan_slot *to, uint32_t count,
                       uint32_t shift)
{
    uint32_t places[DIGITS] = {0}, place = 0;

    for (uint32_t i = 0; i < count; i++)
        places[from[i].target_page >> shift & (DIGITS - 1)]++;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t digit_count = places[digit];

        places[digit] = place;
        place += digit_count;
    }
    for (uint32_t i = 0; i < count; i++)
        to[places[from[i].target_page >> shift & (DIGITS - 1)]++] = from[i];
}

static void sort(struct kvr_plan_slot *slots, struct kvr_plan_slot *scratch, uint32_t count)
{
    struct kvr_plan_slot *from = slots, *to = scratch, *swap;
    uint32_t bits = 0;

    for (uint32_t i = 0; i < count; i++)
        bits |= slots[i].target_page;
    for (uint32_t shift = 0; shift < 32 && bits >> shift != 0; shift += DIGIT_BITS) {
        sort_digit(from, to, count, shift);
        swap = from;
        from = to;
        to = swap;
    }
    if (from != slots)
        memcpy(slots, from, (size_t)count * sizeof(*slots));
}

static kvr_status no_memory(const struct kvr_plan_pages *pages, struct kvr_error *error)
{
    return kvr_error_set(
        error, KVR_NO_MEMORY, "plan", "no block of %zu B is left for a plan of %" PRIu32 " pages",
        pages->target_page_count * sizeof(struct kvr_plan_slot), pages->target_page_count);
}

/* An allocator hands out most pages in order, and then there is nothing to sort. */
static kvr_status sort_slots(struct kvr_plan_pages *pages, struct kvr_buddy *memory,
                             struct kvr_error *error)
{
    struct kvr_plan_slot *slots = pages->slots, *scratch;
    uint32_t count = pages->target_page_count, ascending = 1;

    while (ascending < count && slots[ascending].target_page > slots[ascending - 1].target_page)
        ascending++;
    if (ascending >= count)
        return KVR_OK;
    scratch = kvr_buddy_alloc(memory, count * sizeof(*scratch));
    if (scratch == NULL)
        return no_memory(pages, error);
    sort(slots, scratch, count);
    kvr_buddy_free(memory, scratch);
    for (uint32_t i = 1; i < count; i++) {
        if (slots[i].target_page == slots[i - 1].target_page)
            return kvr_error_set(error, KVR_INVALID, "plan",
                                 "target page id %" PRIu32 " is listed twice in one segment",
                                 slots[i].target_page);
    }
    return KVR_OK;
}

/* Joins neighbours at both ends into one slot. */
static void join_slots(struct kvr_plan_pages *pages)
{
    struct kvr_plan_slot *slots = pages->slots;
    uint32_t count = pages->target_page_count, kept = 0;
    /* A first page of which only a part moves stands alone. */
    uint32_t part = pages->token_first % pages->target_page_tokens > 0 ? 0 : UINT32_MAX;

    pages->slot_count = count;
    if (pages->source_page_tokens != pages->target_page_tokens)
        return;
    for (uint32_t i = 0; i < count;) {
        struct kvr_plan_slot slot = slots[i];
        uint32_t source_page = pages->source_pages[slot.index];

        for (i++; i < count && slots[i].target_page == slot.target_page + slot.page_count &&
                  pages->source_pages[slots[i].index] == source_page + slot.page_count &&
                  slot.index != part && slots[i].index != part;
             i++)
            slot.page_count++;
        slots[kept++] = slot;
    }
    pages->slot_count = kept;
}

kvr_status kvr_plan_pages_sort(struct kvr_plan_pages *pages, const uint32_t *target_pages,
                               struct kvr_buddy *memory, struct kvr_error *error)
{
    uint32_t count = pages->target_page_count;

    pages->slots = kvr_buddy_alloc(memory, count * sizeof(*pages->slots));
    if (pages->slots == NULL)
        return no_memory(pages, error);
    for (uint32_t i = 0; i < count; i++)
        pages->slots[i] = (struct kvr_plan_slot){target_pages[i], i, 1};
    KVR_TRY(sort_slots(pages, memory, error));
    join_slots(pages);
    return KVR_OK;
}
