/* Inside the codecs of reports and their answers: protobuf-c may allocate so much and no more. */
#ifndef KVR_TRACE_REPORT_BUDGET_H
#define KVR_TRACE_REPORT_BUDGET_H

#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>

struct report_budget {
    size_t left;
};

static inline void *report_budget_alloc(void *data, size_t size)
{
    struct report_budget *budget = data;

    if (size > budget->left)
        return NULL;
    budget->left -= size;
    return malloc(size);
}

static inline void report_budget_free(void *data, void *memory)
{
    (void)data;
    free(memory);
}

static inline ProtobufCAllocator report_budget_allocator(struct report_budget *budget)
{
    return (ProtobufCAllocator){report_budget_alloc, report_budget_free, budget};
}

#endif
