#include "tools/virtual/virtual_heap.h"

#include <stdlib.h>

static bool earlier(const struct virtual_event *a, const struct virtual_event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static bool make_room(struct virtual_heap *heap)
{
    size_t room = heap->room > 0 ? 2 * heap->room : 1024;
    struct virtual_event *larger;

    if (heap->count < heap->room)
        return true;
    larger = realloc(heap->events, room * sizeof(larger[0]));
    if (larger == NULL)
        return false;
    heap->events = larger;
    heap->room = room;
    return true;
}

bool virtual_heap_add(struct virtual_heap *heap, kvr_ns at, uint32_t kind, uint32_t subject)
{
    struct virtual_event event = {at, heap->added, kind, subject};
    size_t place;

    if (!make_room(heap))
        return false;
    heap->added++;
    for (place = heap->count++; place > 0; place = (place - 1) / 2) {
        if (!earlier(&event, &heap->events[(place - 1) / 2]))
            break;
        heap->events[place] = heap->events[(place - 1) / 2];
    }
    heap->events[place] = event;
    return true;
}

bool virtual_heap_next(struct virtual_heap *heap, struct virtual_event *ret_event)
{
    struct virtual_event last;
    size_t place = 0, child;

    if (heap->count == 0)
        return false;
    *ret_event = heap->events[0];
    last = heap->events[--heap->count];
    while ((child = 2 * place + 1) < heap->count) {
        if (child + 1 < heap->count && earlier(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!earlier(&heap->events[child], &last))
            break;
        heap->events[place] = heap->events[child];
        place = child;
    }
    heap->events[place] = last;
    return true;
}

void virtual_heap_done(struct virtual_heap *heap)
{
    free(heap->events);
    *heap = (struct virtual_heap){0};
}
