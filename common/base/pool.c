#include "base/pool.h"

#include <assert.h>
#include <string.h>

#include "base/poison.h"

#define END (UINT32_MAX - 1u) /* as next: the last free slot */

static size_t round_up(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

size_t kvr_pool_bytes(uint32_t count, size_t slot_bytes)
{
    return round_up((size_t)count * sizeof(struct kvr_pool_entry)) +
           (size_t)count * round_up(slot_bytes);
}

void kvr_pool_init(struct kvr_pool *pool, void *memory, uint32_t count, size_t slot_bytes)
{
    assert(count > 0 && count <= 1u << 31 && (uintptr_t)memory % 16 == 0);
    pool->entries = memory;
    pool->slots = (unsigned char *)memory + round_up((size_t)count * sizeof(struct kvr_pool_entry));
    pool->slot_bytes = round_up(slot_bytes);
    pool->count = count;
    pool->used_count = pool->reach = 0;
    pool->free_first = pool->free_last = END;
    for (uint32_t i = 0; i < count; i++)
        pool->entries[i] = (struct kvr_pool_entry){1, END};
}

static void *slot_at(const struct kvr_pool *pool, uint32_t index)
{
    return pool->slots + (size_t)index * pool->slot_bytes;
}

static uint64_t id_of(const struct kvr_pool *pool, uint32_t index)
{
    return (uint64_t)pool->entries[index].generation << 32 | index;
}

/* One that was never used while few rest, else the one that rests for longest; END: all are taken.
 */
static uint32_t take_free(struct kvr_pool *pool)
{
    uint32_t index = pool->free_first;

    if (pool->reach < pool->count && pool->reach - pool->used_count < KVR_POOL_RESTING)
        return pool->reach++;
    if (index == END)
        return END;
    pool->free_first = pool->entries[index].next;
    if (pool->free_first == END)
        pool->free_last = END;
    return index;
}

void *kvr_pool_acquire(struct kvr_pool *pool, uint64_t *ret_id)
{
    uint32_t index = take_free(pool);

    if (index == END)
        return NULL;
    pool->entries[index].next = KVR_POOL_TAKEN;
    pool->used_count++;
    *ret_id = id_of(pool, index);
    KVR_UNPOISON(slot_at(pool, index), pool->slot_bytes);
    return memset(slot_at(pool, index), 0, pool->slot_bytes);
}

void kvr_pool_release(struct kvr_pool *pool, uint64_t id)
{
    uint32_t index = kvr_pool_index(id);

    assert(kvr_pool_get(pool, id) != NULL);
    if (++pool->entries[index].generation == 0)
        pool->entries[index].generation = 1;
    pool->entries[index].next = END;
    if (pool->free_last == END)
        pool->free_first = index;
    else
        pool->entries[pool->free_last].next = index;
    pool->free_last = index;
    pool->used_count--;
    KVR_POISON(slot_at(pool, index), pool->slot_bytes);
}

void *kvr_pool_at(const struct kvr_pool *pool, uint32_t index, uint64_t *ret_id)
{
    if (index >= pool->count || pool->entries[index].next != KVR_POOL_TAKEN)
        return NULL;
    if (ret_id != NULL)
        *ret_id = id_of(pool, index);
    return slot_at(pool, index);
}

void *kvr_pool_next(const struct kvr_pool *pool, const void *slot)
{
    size_t index = 0;

    if (slot != NULL)
        index = (size_t)((const unsigned char *)slot - pool->slots) / pool->slot_bytes + 1;
    for (; pool->used_count > 0 && index < pool->reach; index++)
        if (pool->entries[index].next == KVR_POOL_TAKEN)
            return slot_at(pool, (uint32_t)index);
    return NULL;
}
