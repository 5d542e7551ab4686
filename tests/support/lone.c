/* One small engine in a process of its own, on the public library: a source that goes layer by
 * layer, or its target.
 *
 *   lone source SOCKET REQUEST LAYERS                 computes so many of its 3 layers
 *   lone target SOCKET REQUEST HOST:PORT GENERATION   fetches from that source
 *
 * A source that computes fewer waits for the end of its request. It prints `generation N` when its
 * pages are published. A target prints `layers N` as they come, and after DONE how many bytes are
 * wrong. Each prints its terminal event, the source when it has written on its pages again. Exit 0:
 * all went well; 3: the request ended otherwise; 1: the rest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/small_engine.h"

#define LAYERS 3
#define PAGES  8

static const uint32_t source_pages[PAGES] = {7, 8, 3, 10, 0, 15, 12, 5};
static const uint32_t target_pages[PAGES] = {0, 5, 6, 15, 9, 2, 11, 7};
static struct engine_shape shape = {
    .model = "lone", .layers = LAYERS, .page_tokens = 16, .pages = 16};

/* No two pages, parts or places of a page have the same bytes in order. */
static unsigned char byte_of(const char *request, unsigned layer, uint32_t page, uint64_t at)
{
    uint64_t value = (uint64_t)request[strlen(request) - 1] * 31 + layer * 7919 + page * 104729;

    value = (value + at / 7) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned char)((value >> 32) + at);
}

/* Of a page: K, then V. */
static unsigned char *part_of(const struct engine *engine, unsigned layer, unsigned part,
                              uint32_t page)
{
    return (unsigned char *)engine_page(engine, layer, page) + part * engine->region.part_stride;
}

static uint64_t part_bytes(const struct engine *engine)
{
    return engine->region.page_stride;
}

static void compute(const struct engine *engine, const char *request, unsigned layer)
{
    for (uint32_t page = 0; page < PAGES; page++)
        for (unsigned part = 0; part < 2; part++)
            for (uint64_t i = 0; i < part_bytes(engine); i++)
                part_of(engine, layer, part, source_pages[page])[i] =
                    byte_of(request, layer, page * 2 + part, i);
}

static uint64_t wrong_bytes(const struct engine *engine, const char *request)
{
    uint64_t wrong = 0;

    for (unsigned layer = 0; layer < LAYERS; layer++)
        for (uint32_t page = 0; page < PAGES; page++)
            for (unsigned part = 0; part < 2; part++)
                for (uint64_t i = 0; i < part_bytes(engine); i++)
                    wrong += part_of(engine, layer, part, target_pages[page])[i] !=
                             byte_of(request, layer, page * 2 + part, i);
    return wrong;
}

static int source(struct engine *engine, char **argv)
{
    unsigned layers = (unsigned)strtoul(argv[4], NULL, 10);
    struct kvrail_event event;

    if (engine_attach(engine, argv[2], 1, &shape) != 0 ||
        engine_publish(engine, argv[3], source_pages, PAGES) != 0)
        return 1;
    printf("generation %" PRIu64 "\n", shape.generation);
    for (unsigned layer = 0; layer < layers; layer++) {
        compute(engine, argv[3], layer);
        kvrail_ready(engine->agent, 0, layer + 1);
    }
    if (layers == LAYERS &&
        kvrail_source_end(engine->agent, engine->handle, KVRAIL_OK) != KVRAIL_OK)
        return 1;
    while (!engine->ended) {
        if (!engine_take(engine, "source", &event))
            return 1;
        if (engine->ended)
            memset(engine->memory.address, 0xdd, engine->region.bytes);
        if (engine->ended && event.status != KVRAIL_OK)
            return 3;
    }
    return 0;
}

static int target(struct engine *engine, char **argv)
{
    struct kvrail_source_address from = {.size = sizeof(struct kvrail_source_address),
                                         .agent = argv[4],
                                         .engine = {1},
                                         .generation = strtoull(argv[5], NULL, 10)};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .request = argv[3],
                                          .tokens = PAGES * shape.page_tokens,
                                          .sources = &from,
                                          .source_count = 1,
                                          .secret = getenv("REQUEST_SECRET")};
    struct kvrail_event event;
    uint64_t wrong;

    if (engine_attach(engine, argv[2], 2, &shape) != 0 ||
        engine_fetch(engine, &fetch, target_pages, PAGES) != 0)
        return 1;
    while (!engine->ended) {
        if (!engine_take(engine, "target", &event))
            return 1;
        if (event.kind == KVRAIL_EVENT_LAYER_IN)
            printf("layers %u\n", engine->layers_in);
    }
    if (!engine->done)
        return 3;
    wrong = wrong_bytes(engine, argv[3]);
    printf("%" PRIu64 " bytes wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct engine engine = {0};
    int status;

    shape.generation = engine_start_time();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5 && strcmp(argv[1], "source") == 0) {
        status = source(&engine, argv);
    } else if (argc == 6 && strcmp(argv[1], "target") == 0) {
        status = target(&engine, argv);
    } else {
        printf("usage: lone source SOCKET REQUEST LAYERS\n"
               "       lone target SOCKET REQUEST HOST:PORT GENERATION\n");
        return 2;
    }
    if (engine.agent != NULL)
        kvrail_close(engine.agent);
    return status;
}
