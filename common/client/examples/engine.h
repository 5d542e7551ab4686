/* What the examples have in common, in C and C++: an engine that takes memory for its pages, opens
 * a connection to the agent on its host, and gives it that memory. */
#ifndef EXAMPLE_ENGINE_H
#define EXAMPLE_ENGINE_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvrail.h>

#define LAYERS      4
#define TOKENS      64
#define PAGE_TOKENS 16
#define PAGES       (TOKENS / PAGE_TOKENS) /* of the one request */

struct engine {
    struct kvrail *agent;
    struct kvrail_memory memory;
    struct kvrail_region region;
    uint64_t generation;
};

/* The secret of the request, which both engines must know: no other engine is given its pages. A
 * router that starts both would give it to both; here both have it in their environment. NULL: a
 * source's library draws one. */
static inline const char *engine_secret(void)
{
    return getenv("REQUEST_SECRET");
}

/* The tenant of the request; NULL: the first that the agent lets this engine act for. */
static inline const char *engine_tenant(void)
{
    return getenv("REQUEST_TENANT");
}

static inline int engine_failed(const char *what, const struct kvrail_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->detail);
    return 1;
}

/* Larger after every restart. */
static inline uint64_t engine_generation(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* 128 pages of 16 tokens, of each layer K and V with two heads of 64 values: [layer][part][page].
 */
static inline void engine_layout(struct kvrail_region *region)
{
    memset(region, 0, sizeof(*region));
    region->size = sizeof(*region);
    region->name = "kv";
    region->device = -1;
    region->layer_count = LAYERS;
    region->part_count = 2;
    region->parts[0] = KVRAIL_PART_K;
    region->parts[1] = KVRAIL_PART_V;
    region->head_count = 2;
    region->page_tokens = PAGE_TOKENS;
    region->page_count = 128;
    region->head_bytes = 128;
    kvrail_region_dense(region);
}

/* With a region that says where its memory is. 0, or 1 with the reason on stderr. `id` is the
 * engine's id; a fetch names its source by it. */
static inline int engine_join(const char *socket, const char *name, uint8_t id,
                              struct engine *engine)
{
    struct kvrail_identity me;
    struct kvrail_error error;
    uint32_t region_id;

    memset(&me, 0, sizeof(me));
    me.size = sizeof(me);
    me.name = name;
    me.engine[0] = id;
    me.generation = engine->generation = engine_generation();
    me.tp_size = me.pp_size = 1;
    me.model = "example";
    me.dtype = "bfloat16";
    me.layers_total = LAYERS;
    me.kv_heads_total = 2;
    me.head_dim = 64;
    if (kvrail_open(socket, &me, 2000, &engine->agent, &error) != KVRAIL_OK)
        return engine_failed("open", &error);
    if (kvrail_region_add(engine->agent, &engine->region, 10000, &region_id) != KVRAIL_OK)
        return engine_failed("region", kvrail_last_error(engine->agent));
    return 0;
}

/* The same, with host memory of its own. */
static inline int engine_start(const char *socket, const char *name, uint8_t id,
                               struct engine *engine)
{
    struct kvrail_error error;

    engine_layout(&engine->region);
    if (kvrail_memory_create("kv", engine->region.bytes, &engine->memory, &error) != KVRAIL_OK)
        return engine_failed("memory", &error);
    engine->region.fd = engine->memory.fd;
    return engine_join(socket, name, id, engine);
}

/* A secret that the library drew, for the target. A real engine returns it with the request, and
 * shows it nowhere. 0, or 1 with the reason on stderr. */
static inline int engine_show_secret(const struct engine *engine, kvrail_handle source)
{
    char secret[KVRAIL_SECRET_BYTES];

    if (engine_secret() != NULL)
        return 0;
    if (kvrail_source_secret(engine->agent, source, secret) != KVRAIL_OK)
        return engine_failed("secret", kvrail_last_error(engine->agent));
    printf("secret %s\n", secret);
    (void)fflush(stdout);
    return 0;
}

/* Waits for the next event; 0 when there will never be another. */
static inline int engine_wait(const struct engine *engine, struct kvrail_event *event)
{
    struct pollfd readable;
    int got;

    readable.fd = kvrail_event_fd(engine->agent);
    readable.events = POLLIN;
    while ((got = kvrail_poll(engine->agent, event, 1)) == 0)
        poll(&readable, 1, -1);
    return got > 0;
}

/* How many bytes of these pages differ from the example source's, which fills layer n with n + 1.
 */
static inline size_t engine_wrong_bytes(const struct engine *engine, const uint32_t *pages,
                                        size_t page_count)
{
    const struct kvrail_region *region = &engine->region;
    const unsigned char *memory = (const unsigned char *)engine->memory.address;
    size_t wrong = 0;

    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t part = 0; part < region->part_count; part++)
            for (size_t page = 0; page < page_count; page++) {
                const unsigned char *at = memory + layer * region->layer_stride +
                                          part * region->part_stride +
                                          pages[page] * region->page_stride;

                for (uint64_t i = 0; i < region->page_stride; i++)
                    wrong += at[i] != layer + 1;
            }
    return wrong;
}

#endif
