/* Writes in flight: a slot for each, named by generation << 32 | index, so that a completion for a
 * write that has ended is detected. This is no kvr_pool: every write goes through it, and the slot
 * used last is still in the cache. Private to rail_group*.c. */
#ifndef KVR_RAIL_GROUP_FLIGHT_H
#define KVR_RAIL_GROUP_FLIGHT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group_link;

/* A write that the provider has accepted. Its link stays as long as it does. */
struct group_flight {
    uint64_t token;
    struct group_link *link;
    uint64_t bytes, posted_at; /* posted_at: the step's now */
    uint32_t generation;       /* odd while it is in flight */
    bool asks;                 /* it completes when it has come through, and not before */
};

struct group_flights {
    struct group_flight *slots;
    uint32_t *free; /* a stack of slots */
    uint32_t free_count, count;
};

/* A flight, and the name under which the provider gives it back. */
static inline struct group_flight *flight_take(struct group_flights *flights, uint64_t *ret_id)
{
    uint32_t index;
    struct group_flight *flight;

    assert(flights->free_count > 0); /* there are as many as the windows of all rails */
    index = flights->free[--flights->free_count];
    flight = &flights->slots[index];
    *ret_id = (uint64_t)++flight->generation << 32 | index;
    return flight;
}

static inline struct group_flight *flight_find(const struct group_flights *flights, uint64_t id)
{
    uint32_t index = (uint32_t)id, generation = (uint32_t)(id >> 32);

    if (index >= flights->count || (generation & 1) == 0 ||
        flights->slots[index].generation != generation)
        return NULL;
    return &flights->slots[index];
}

static inline void flight_free(struct group_flights *flights, struct group_flight *flight)
{
    flight->generation++;
    flights->free[flights->free_count++] = (uint32_t)(flight - flights->slots);
}

#endif
