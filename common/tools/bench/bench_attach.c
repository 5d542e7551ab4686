#include "tools/bench/bench_attach.h"

#include <stdio.h>
#include <string.h>

#define OPEN_MS 30000

static bool failed(const struct bench_attach *what, const char *detail)
{
    fprintf(stderr, "kvrail bench: the engine %s: %s\n", what->name, detail);
    return false;
}

kvrail_status bench_connect(const struct bench_attach *what, struct kvrail **ret_connection,
                            struct kvrail_error *error)
{
    struct kvrail_identity identity = {
        .size = sizeof(struct kvrail_identity),
        .name = what->name,
        .generation = what->generation,
        .tp_size = 1,
        .pp_size = 1,
        .model = "bench",
        .dtype = "bfloat16",
        .layers_total = what->layers,
        .kv_heads_total = 1,
        .head_dim = (uint32_t)(what->page_bytes / BENCH_PAGE_TOKENS / 2),
    };

    memcpy(identity.engine, what->engine, sizeof(identity.engine));
    return kvrail_open(what->socket, &identity, OPEN_MS, ret_connection, error);
}

struct kvrail_region bench_region(const struct bench_attach *what)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .name = "bench",
                                   .memory = KVRAIL_MEMORY_MEMFD,
                                   .device = -1,
                                   .layer_count = what->layers,
                                   .part_count = 1,
                                   .parts = {KVRAIL_PART_KV},
                                   .head_count = 1,
                                   .page_tokens = BENCH_PAGE_TOKENS,
                                   .page_count = what->pages,
                                   .head_bytes = what->page_bytes / BENCH_PAGE_TOKENS};

    kvrail_region_dense(&region);
    return region;
}

bool bench_attach(const struct bench_attach *what, struct kvrail **connection,
                  struct kvrail_memory *memory)
{
    struct kvrail_region region = bench_region(what);
    struct kvrail_error error;
    uint32_t id;

    if (kvrail_memory_create(what->name, region.bytes, memory, &error) != KVRAIL_OK)
        return failed(what, error.detail);
    memset(memory->address, what->engine[0], region.bytes);
    region.fd = memory->fd;
    if (bench_connect(what, connection, &error) != KVRAIL_OK)
        return failed(what, error.detail);
    if (kvrail_region_add(*connection, &region, OPEN_MS, &id) != KVRAIL_OK)
        return failed(what, kvrail_last_error(*connection)->detail);
    return true;
}
