#include "tools/replay/replay_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static uint64_t key_of(uint64_t block, uint32_t position)
{
    return kvr_mix64(block) + position;
}

bool cache_init(struct cache *cache, uint32_t capacity, uint32_t block_pages)
{
    uint32_t room = capacity > 0 ? capacity : 1;

    memset(cache, 0, sizeof(*cache));
    cache->capacity = capacity;
    cache->block_pages = block_pages;
    cache->newest = cache->oldest = CACHE_NONE;
    cache->table_memory = malloc(kvr_table_bytes(room));
    cache->entries = calloc(room, sizeof(cache->entries[0]));
    cache->page_ids = calloc((size_t)room * block_pages, sizeof(cache->page_ids[0]));
    cache->unused = calloc(room, sizeof(cache->unused[0]));
    if (cache->table_memory == NULL || cache->entries == NULL || cache->page_ids == NULL ||
        cache->unused == NULL) {
        cache_done(cache);
        return false;
    }
    kvr_table_init(&cache->table, cache->table_memory, room);
    for (uint32_t i = 0; i < capacity; i++)
        cache->unused[i] = capacity - 1 - i;
    return true;
}

void cache_done(struct cache *cache)
{
    free(cache->table_memory);
    free(cache->entries);
    free(cache->page_ids);
    free(cache->unused);
    memset(cache, 0, sizeof(*cache));
}

static void unlink_entry(struct cache *cache, uint32_t index)
{
    struct cache_entry *entry = &cache->entries[index];

    if (entry->newer != CACHE_NONE)
        cache->entries[entry->newer].older = entry->older;
    else
        cache->newest = entry->older;
    if (entry->older != CACHE_NONE)
        cache->entries[entry->older].newer = entry->newer;
    else
        cache->oldest = entry->newer;
}

static void link_newest(struct cache *cache, uint32_t index)
{
    struct cache_entry *entry = &cache->entries[index];

    entry->newer = CACHE_NONE;
    entry->older = cache->newest;
    if (cache->newest != CACHE_NONE)
        cache->entries[cache->newest].newer = index;
    else
        cache->oldest = index;
    cache->newest = index;
}

/* The mixed ids of two blocks may meet in one key: the entry decides between them. */
static uint32_t find(const struct cache *cache, uint64_t block, uint32_t position)
{
    uint32_t index;

    if (!kvr_table_find(&cache->table, key_of(block, position), &index))
        return CACHE_NONE;
    if (cache->entries[index].block != block || cache->entries[index].position != position)
        return CACHE_NONE;
    return index;
}

uint32_t cache_match(struct cache *cache, const uint64_t *blocks, uint32_t count,
                     uint32_t *ret_page_ids)
{
    for (uint32_t position = 0; position < count; position++) {
        uint32_t index = find(cache, blocks[position], position);

        if (index == CACHE_NONE)
            return position;
        cache->entries[index].pins++;
        unlink_entry(cache, index);
        link_newest(cache, index);
        memcpy(ret_page_ids + (size_t)position * cache->block_pages,
               cache->page_ids + (size_t)index * cache->block_pages,
               cache->block_pages * sizeof(ret_page_ids[0]));
    }
    return count;
}

void cache_unpin(struct cache *cache, const uint64_t *blocks, uint32_t count)
{
    for (uint32_t position = 0; position < count; position++) {
        uint32_t index = find(cache, blocks[position], position);

        assert(index != CACHE_NONE && cache->entries[index].pins > 0);
        cache->entries[index].pins--;
    }
}

bool cache_insert(struct cache *cache, uint64_t block, uint32_t position, const uint32_t *page_ids)
{
    uint64_t key = key_of(block, position);
    uint32_t index;

    if (cache->count == cache->capacity || kvr_table_find(&cache->table, key, NULL))
        return false;
    index = cache->unused[cache->capacity - cache->count - 1];
    if (kvr_table_insert(&cache->table, key, index) != KVR_OK)
        return false;
    cache->count++;
    cache->entries[index] = (struct cache_entry){.block = block, .position = position};
    memcpy(cache->page_ids + (size_t)index * cache->block_pages, page_ids,
           cache->block_pages * sizeof(page_ids[0]));
    link_newest(cache, index);
    return true;
}

bool cache_evict(struct cache *cache, struct cache_entry *ret_entry, uint32_t *ret_page_ids)
{
    uint32_t index = cache->oldest;

    while (index != CACHE_NONE && cache->entries[index].pins > 0)
        index = cache->entries[index].newer;
    if (index == CACHE_NONE)
        return false;
    unlink_entry(cache, index);
    kvr_table_remove(&cache->table,
                     key_of(cache->entries[index].block, cache->entries[index].position));
    *ret_entry = cache->entries[index];
    memcpy(ret_page_ids, cache->page_ids + (size_t)index * cache->block_pages,
           cache->block_pages * sizeof(ret_page_ids[0]));
    cache->count--;
    cache->unused[cache->capacity - cache->count - 1] = index;
    return true;
}
