/* The events to come in virtual time, a heap: earliest first; of equal times the one that was added
 * first. So a run has one order. Memory is the heap's own and grows with its events. */
#ifndef KVR_TOOLS_VIRTUAL_HEAP_H
#define KVR_TOOLS_VIRTUAL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct virtual_event {
    kvr_ns at;
    uint64_t number; /* of the event, in the order of their adding */
    uint32_t kind, subject;
};

struct virtual_heap {
    struct virtual_event *events;
    size_t count, room;
    uint64_t added;
};

/* False without memory. */
bool virtual_heap_add(struct virtual_heap *heap, kvr_ns at, uint32_t kind, uint32_t subject);
/* False: nothing is left. */
bool virtual_heap_next(struct virtual_heap *heap, struct virtual_event *ret_event);
void virtual_heap_done(struct virtual_heap *heap);

#endif
