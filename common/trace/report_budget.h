/* Inside the codecs of reports and their answers: protobuf-c may allocate so much and no more. A
 * report has ten thousand small pieces, which live and die together: they come from few blocks. */
#ifndef KVR_TRACE_REPORT_BUDGET_H
#define KVR_TRACE_REPORT_BUDGET_H

#include <protobuf-c/protobuf-c.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/types.h"

#define REPORT_BLOCK_BYTES 65536

struct report_block {
    struct report_block *next;
    alignas(max_align_t) uint8_t bytes[];
};

struct report_budget {
    size_t left;
    uint8_t *bytes;              /* of the block in use, from report_budget_begin on */
    size_t used, room;           /* of it */
    struct report_block *blocks; /* those that were allocated, the newest first */
};

/* The first block is the caller's, so that a small report allocates nothing; aligned for any type.
 */
static inline void report_budget_begin(struct report_budget *budget, size_t left, uint8_t *bytes,
                                       size_t room)
{
    *budget = (struct report_budget){.left = left, .bytes = bytes, .room = room};
}

static inline void *report_budget_alloc(void *data, size_t size)
{
    struct report_budget *budget = data;
    void *piece;

    if (size > budget->left)
        return NULL;
    budget->left -= size;
    size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (size > budget->room - budget->used) {
        size_t room = kvr_min_u64(budget->left, REPORT_BLOCK_BYTES);
        struct report_block *block;

        if (room < size)
            room = size;
        block = malloc(sizeof(*block) + room);
        if (block == NULL)
            return NULL;
        block->next = budget->blocks;
        budget->blocks = block;
        budget->bytes = block->bytes;
        budget->used = 0;
        budget->room = room;
    }
    piece = budget->bytes + budget->used;
    budget->used += size;
    return piece;
}

static inline void report_budget_free(void *data, void *memory)
{
    (void)data, (void)memory; /* with all others, by report_budget_end */
}

static inline ProtobufCAllocator report_budget_allocator(struct report_budget *budget)
{
    return (ProtobufCAllocator){report_budget_alloc, report_budget_free, budget};
}

/* Frees all that was allocated. */
static inline void report_budget_end(struct report_budget *budget)
{
    while (budget->blocks != NULL) {
        struct report_block *next = budget->blocks->next;

        free(budget->blocks);
        budget->blocks = next;
    }
}

#endif
