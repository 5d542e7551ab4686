/* A fixed pool of equal slots, on memory that the caller gives.
 *
 * A slot is named by an id, generation << 32 | index. Releasing a slot ends its generation, so an
 * id that outlived its slot is found out instead of meeting the next user. No id is ever 0. Slots
 * are reused oldest first, and KVR_POOL_RESTING rest before one is: a stale id stays wrong for
 * long, and memory that was never needed at once is never touched. One thread. */
#ifndef KVR_BASE_POOL_H
#define KVR_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define KVR_POOL_RESTING 256

struct kvr_pool_entry {
    uint32_t generation; /* of the slot's present or next use; never 0 */
    uint32_t next;       /* free slot behind this one, or a mark; pool.c knows */
};

struct kvr_pool {
    struct kvr_pool_entry *entries;
    unsigned char *slots;
    size_t slot_bytes;
    uint32_t count;                 /* slots in all */
    uint32_t used_count;            /* slots acquired */
    uint32_t reach;                 /* slots at and above it were never acquired */
    uint32_t free_first, free_last; /* of those that rest, the oldest and the youngest */
};

/* Memory for `count` slots (1 to 2^31) of slot_bytes each. */
size_t kvr_pool_bytes(uint32_t count, size_t slot_bytes);
/* memory: kvr_pool_bytes(), aligned to 16, borrowed until the pool is forgotten. Slots are aligned
 * to 16. */
void kvr_pool_init(struct kvr_pool *pool, void *memory, uint32_t count, size_t slot_bytes);

/* A zeroed slot, yours until kvr_pool_release(); NULL when all are taken. */
void *kvr_pool_acquire(struct kvr_pool *pool, uint64_t *ret_id);
/* The id must be live: releasing twice is a bug of ours and asserts. */
void kvr_pool_release(struct kvr_pool *pool, uint64_t id);

/* To walk the live slots: index from 0 to reach - 1. NULL where a slot is free.
 * ret_id may be NULL. */
void *kvr_pool_at(const struct kvr_pool *pool, uint32_t index, uint64_t *ret_id);
/* The live slot behind this one, which may have been released meanwhile; NULL: there is none.
 * slot NULL: the first. */
void *kvr_pool_next(const struct kvr_pool *pool, const void *slot);
/* A loop over the live slots; its body may release any of them. */
#define KVR_POOL_EACH(type, slot, pool)                                                            \
    for (type *slot = NULL; (slot = kvr_pool_next((pool), slot)) != NULL;)

static inline uint32_t kvr_pool_index(uint64_t id)
{
    return (uint32_t)id;
}

#define KVR_POOL_TAKEN UINT32_MAX /* as an entry's next: not free */

/* The slot of an id; NULL when the id is stale, 0 or nonsense: ids from outside may come here.
 * Inline: it is asked for every write and every completion. */
static inline void *kvr_pool_get(const struct kvr_pool *pool, uint64_t id)
{
    uint32_t index = kvr_pool_index(id);

    if (index >= pool->count || pool->entries[index].next != KVR_POOL_TAKEN ||
        pool->entries[index].generation != (uint32_t)(id >> 32))
        return NULL;
    return pool->slots + (size_t)index * pool->slot_bytes;
}

#endif
