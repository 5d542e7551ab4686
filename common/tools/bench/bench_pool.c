#include "tools/bench/bench_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SEED 20u /* the orders are at random and the same in every run */

void bench_pool_touch(const struct kvrail_memory *memory)
{
    volatile uint8_t *bytes = memory->address;

    if (madvise(memory->address, memory->bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (uint64_t at = 0; at < memory->bytes; at += 4096) {
        uint8_t value = bytes[at];

        bytes[at] = value;
    }
}

static bool memory_open(const char *name, uint64_t bytes, struct kvrail_memory *memory)
{
    struct kvrail_error error = {0};

    if (kvrail_memory_create(name, bytes, memory, &error) == KVRAIL_OK) {
        bench_pool_touch(memory);
        return true;
    }
    fprintf(stderr, "kvrail bench: %s\n", error.detail);
    memory->fd = -1;
    return false;
}

uint32_t *bench_page_order(uint32_t count, bool scatter, struct kvr_rng *rng)
{
    uint32_t *ids = malloc(count * sizeof(ids[0]));

    for (uint32_t i = 0; ids != NULL && i < count; i++)
        ids[i] = i;
    for (uint32_t i = count; ids != NULL && scatter && i > 1; i--) {
        uint32_t other = (uint32_t)kvr_rng_below(rng, i), id = ids[i - 1];

        ids[i - 1] = ids[other];
        ids[other] = id;
    }
    return ids;
}

bool bench_pool_open(struct bench_pool *pool, uint64_t page_bytes, uint32_t layers, uint32_t slice,
                     uint64_t bytes, bool scatter)
{
    struct kvr_rng rng;

    *pool = (struct bench_pool){
        .source.fd = -1,
        .target.fd = -1,
        .page_bytes = page_bytes,
        .layers = layers,
        .slice = slice,
        .slices = (uint32_t)(bytes / (page_bytes * layers * slice)),
    };
    pool->page_count = pool->slices * slice;
    kvr_rng_init(&rng, SEED);
    pool->source_ids = bench_page_order(pool->page_count, scatter, &rng);
    pool->target_ids = bench_page_order(pool->page_count, scatter, &rng);
    if (pool->source_ids == NULL || pool->target_ids == NULL) {
        fprintf(stderr, "kvrail bench: no memory for %u page ids\n", pool->page_count);
        return false;
    }
    return memory_open("bench-source", bench_pool_bytes(pool), &pool->source) &&
           memory_open("bench-target", bench_pool_bytes(pool), &pool->target);
}

void bench_pool_close(struct bench_pool *pool)
{
    if (pool->source.address != NULL)
        kvrail_memory_destroy(&pool->source);
    if (pool->target.address != NULL)
        kvrail_memory_destroy(&pool->target);
    free(pool->source_ids);
    free(pool->target_ids);
}

uint64_t bench_pool_bytes(const struct bench_pool *pool)
{
    return pool->page_bytes * pool->layers * pool->page_count;
}

void bench_pool_page(const struct bench_pool *pool, uint64_t index, uint64_t *ret_source_offset,
                     uint64_t *ret_target_offset)
{
    uint64_t request_pages = (uint64_t)pool->slice * pool->layers;
    uint64_t request = index / request_pages % pool->slices, within = index % request_pages;
    uint64_t layer = within / pool->slice;
    uint64_t at = request * pool->slice + within % pool->slice;

    *ret_source_offset = (layer * pool->page_count + pool->source_ids[at]) * pool->page_bytes;
    *ret_target_offset = (layer * pool->page_count + pool->target_ids[at]) * pool->page_bytes;
}

static void stamp(const struct bench_pool *pool, const struct kvrail_memory *memory, uint64_t seed)
{
    for (uint64_t page = 0; page < (uint64_t)pool->layers * pool->page_count; page++) {
        uint64_t word = kvr_mix64(seed + page);
        uint8_t *bytes = (uint8_t *)memory->address + page * pool->page_bytes;

        memcpy(bytes, &word, sizeof(word));
        memcpy(bytes + pool->page_bytes - sizeof(word), &word, sizeof(word));
    }
}

void bench_pool_stamp(const struct bench_pool *pool)
{
    stamp(pool, &pool->source, 0);
    stamp(pool, &pool->target, (uint64_t)1 << 40);
}

uint64_t bench_pool_wrong(const struct bench_pool *pool, uint64_t page_count)
{
    uint64_t last = pool->page_bytes - sizeof(uint64_t), wrong = 0;

    for (uint64_t i = 0; i < page_count && i < (uint64_t)pool->layers * pool->page_count; i++) {
        const uint8_t *source, *target;
        uint64_t source_offset, target_offset;

        bench_pool_page(pool, i, &source_offset, &target_offset);
        source = (const uint8_t *)pool->source.address + source_offset;
        target = (const uint8_t *)pool->target.address + target_offset;
        if (memcmp(source, target, sizeof(uint64_t)) != 0 ||
            memcmp(source + last, target + last, sizeof(uint64_t)) != 0)
            wrong++;
    }
    return wrong;
}
