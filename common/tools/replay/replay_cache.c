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
    TAILQ_INIT(&cache->order);
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

static uint32_t *pages_of(const struct cache *cache, const struct cache_entry *entry)
{
    return cache->page_ids + (size_t)(entry - cache->entries) * cache->block_pages;
}

/* The mixed ids of two blocks may meet in one key: the entry decides between them. */
static struct cache_entry *find(const struct cache *cache, uint64_t block, uint32_t position)
{
    struct cache_entry *entry;
    uint32_t index;

    if (!kvr_table_find(&cache->table, key_of(block, position), &index))
        return NULL;
    entry = &cache->entries[index];
    return entry->block == block && entry->position == position ? entry : NULL;
}

uint32_t cache_match(struct cache *cache, const uint64_t *blocks, uint32_t count,
                     uint32_t *ret_page_ids)
{
    for (uint32_t position = 0; position < count; position++) {
        struct cache_entry *entry = find(cache, blocks[position], position);

        if (entry == NULL)
            return position;
        entry->pins++;
        TAILQ_REMOVE(&cache->order, entry, link);
        TAILQ_INSERT_HEAD(&cache->order, entry, link);
        memcpy(ret_page_ids + (size_t)position * cache->block_pages, pages_of(cache, entry),
               cache->block_pages * sizeof(ret_page_ids[0]));
    }
    return count;
}

uint32_t cache_peek(const struct cache *cache, const uint64_t *blocks, uint32_t count)
{
    uint32_t position = 0;

    while (position < count && find(cache, blocks[position], position) != NULL)
        position++;
    return position;
}

void cache_unpin(struct cache *cache, const uint64_t *blocks, uint32_t count)
{
    for (uint32_t position = 0; position < count; position++) {
        struct cache_entry *entry = find(cache, blocks[position], position);

        assert(entry != NULL && entry->pins > 0);
        entry->pins--;
    }
}

bool cache_insert(struct cache *cache, uint64_t block, uint32_t position, const uint32_t *page_ids)
{
    uint64_t key = key_of(block, position);
    struct cache_entry *entry;
    uint32_t index;

    if (cache->count == cache->capacity || kvr_table_find(&cache->table, key, NULL))
        return false;
    index = cache->unused[cache->capacity - cache->count - 1];
    if (kvr_table_insert(&cache->table, key, index) != KVR_OK)
        return false;
    cache->count++;
    entry = &cache->entries[index];
    *entry = (struct cache_entry){.block = block, .position = position};
    memcpy(pages_of(cache, entry), page_ids, cache->block_pages * sizeof(page_ids[0]));
    TAILQ_INSERT_HEAD(&cache->order, entry, link);
    return true;
}

bool cache_evict(struct cache *cache, struct cache_entry *ret_entry, uint32_t *ret_page_ids)
{
    struct cache_entry *entry = TAILQ_LAST(&cache->order, cache_order);

    while (entry != NULL && entry->pins > 0)
        entry = TAILQ_PREV(entry, cache_order, link);
    if (entry == NULL)
        return false;
    TAILQ_REMOVE(&cache->order, entry, link);
    kvr_table_remove(&cache->table, key_of(entry->block, entry->position));
    *ret_entry = *entry;
    memcpy(ret_page_ids, pages_of(cache, entry), cache->block_pages * sizeof(ret_page_ids[0]));
    cache->count--;
    cache->unused[cache->capacity - cache->count - 1] = (uint32_t)(entry - cache->entries);
    return true;
}
