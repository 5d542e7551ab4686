/* A source engine and a target engine in one process, on the public library: one request goes layer
 * by layer, and the test knows at every moment what has landed.
 *
 *   pair SOURCE-SOCKET TARGET-SOCKET HOST:PORT none|target|wait [digest]
 *
 * target: the target engine alters a byte of the first layer once that is told to be in.
 * wait: after the first layer nothing more is ready until standard input ends.
 * digest: the fetch asks for the digest of every write. Prints the two terminal events. Exit 0:
 * they came. */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <kvrail.h>

#define LAYERS      3
#define PAGE_TOKENS 16
#define PAGES       4
#define TOKENS      (PAGES * PAGE_TOKENS)
#define WAIT_MS     20000

struct engine {
    struct kvrail *agent;
    struct kvrail_memory memory;
    struct kvrail_region region;
    kvrail_handle handle;
    unsigned layers_in;
    bool ended;
};

static int failed(const char *what, const struct kvrail_error *error)
{
    printf("%s: %s\n", what, error->detail);
    return 1;
}

static int attach(struct engine *engine, const char *socket, uint8_t number)
{
    struct kvrail_identity me = {.name = number == 1 ? "pair-source" : "pair-target",
                                 .engine = {number},
                                 .tp_size = 1,
                                 .pp_size = 1,
                                 .generation = 1,
                                 .model = "pair",
                                 .dtype = "bfloat16",
                                 .layers_total = LAYERS,
                                 .kv_heads_total = 2,
                                 .head_dim = 64};
    struct kvrail_error error;
    uint32_t id;

    engine->region = (struct kvrail_region){.name = "kv",
                                            .device = -1,
                                            .layer_count = LAYERS,
                                            .part_count = 2,
                                            .parts = {KVRAIL_PART_K, KVRAIL_PART_V},
                                            .head_count = 2,
                                            .page_tokens = PAGE_TOKENS,
                                            .page_count = 16,
                                            .head_bytes = 128};
    kvrail_region_dense(&engine->region);
    if (kvrail_memory_create("kv", engine->region.bytes, &engine->memory, &error) != KVRAIL_OK)
        return failed("memory", &error);
    engine->region.fd = engine->memory.fd;
    if (kvrail_open(socket, &me, 5000, &engine->agent, &error) != KVRAIL_OK)
        return failed("open", &error);
    if (kvrail_region_add(engine->agent, &engine->region, 10000, &id) != KVRAIL_OK)
        return failed("region", kvrail_last_error(engine->agent));
    return 0;
}

static char *page(const struct engine *engine, unsigned layer, uint32_t number)
{
    return (char *)engine->memory.address + layer * engine->region.layer_stride +
           number * engine->region.page_stride;
}

/* False: it took too long, or the agent is gone. */
static bool events_take(struct engine *engine, const char *who)
{
    struct pollfd readable = {.fd = kvrail_event_fd(engine->agent), .events = POLLIN};
    struct kvrail_event event;
    int got = kvrail_poll(engine->agent, &event, 1);

    if (got == 0)
        return poll(&readable, 1, WAIT_MS) > 0;
    if (got < 0)
        return false;
    if (event.kind == KVRAIL_EVENT_LAYER_IN)
        engine->layers_in += event.layer_count;
    if (event.terminal && event.handle == engine->handle) {
        engine->ended = true;
        printf("%s %s %s: %s\n", who, kvrail_event_name(event.kind), event.status_name,
               event.detail);
    }
    return true;
}

static int open_both(struct engine *source, struct engine *target, const char *source_agent,
                     bool digest)
{
    static const uint32_t source_pages[PAGES] = {7, 8, 3, 10}, target_pages[PAGES] = {0, 5, 6, 15};
    struct kvrail_source_options publish = {.request = "pair", .tokens = TOKENS};
    struct kvrail_source_address from = {.agent = source_agent, .engine = {1}, .generation = 1};
    struct kvrail_target_options fetch = {
        .request = "pair",
        .tokens = TOKENS,
        .sources = &from,
        .source_count = 1,
        .digest = digest ? KVRAIL_DIGEST_FULL : KVRAIL_DIGEST_DEFAULT,
    };

    if (kvrail_source_open(source->agent, &publish, &source->handle) != KVRAIL_OK ||
        kvrail_source_pages(source->agent, source->handle, 0, source_pages, PAGES) != KVRAIL_OK ||
        kvrail_source_watch(source->agent, source->handle, 0, 0, 0, TOKENS) != KVRAIL_OK ||
        kvrail_source_end(source->agent, source->handle, KVRAIL_OK) != KVRAIL_OK)
        return failed("publish", kvrail_last_error(source->agent));
    if (kvrail_target_open(target->agent, &fetch, &target->handle) != KVRAIL_OK ||
        kvrail_target_pages(target->agent, target->handle, 0, target_pages, PAGES) != KVRAIL_OK)
        return failed("fetch", kvrail_last_error(target->agent));
    return 0;
}

int main(int argc, char **argv)
{
    struct engine source = {0}, target = {0};

    if (argc != 5 && argc != 6) {
        printf("usage: pair SOURCE-SOCKET TARGET-SOCKET HOST:PORT none|target|wait [digest]\n");
        return 2;
    }
    if (attach(&source, argv[1], 1) != 0 || attach(&target, argv[2], 2) != 0 ||
        open_both(&source, &target, argv[3], argc == 6) != 0)
        return 1;
    for (unsigned layer = 0; layer < LAYERS && !target.ended; layer++) {
        memset(source.memory.address, (int)layer + 1, source.region.bytes);
        kvrail_ready(source.agent, 0, layer + 1);
        while (target.layers_in == layer && !target.ended)
            if (!events_take(&target, "target"))
                return 1;
        if (layer == 0 && strcmp(argv[4], "target") == 0)
            page(&target, 0, 5)[100] ^= 1;
        while (layer == 0 && strcmp(argv[4], "wait") == 0 && getchar() != EOF)
            ;
    }
    while (!target.ended)
        if (!events_take(&target, "target"))
            return 1;
    while (!source.ended)
        if (!events_take(&source, "source"))
            return 1;
    kvrail_close(source.agent);
    kvrail_close(target.agent);
    return 0;
}
