/* A source engine that gets its pages back while the target's agent still has writes of them before
 * it, and writes on them at once. Both engines are this process, on the public library.
 *
 *   revoked SOURCE-SOCKET TARGET-SOCKET HOST:PORT cancel TARGET-AGENT-PID
 *   revoked SOURCE-SOCKET TARGET-SOCKET HOST:PORT kill SOURCE-AGENT-PID
 *
 * cancel: the target's agent is stopped while the source posts, cancels, and is given its pages.
 * kill: the source's agent is killed as soon as it may post.
 * Exit 0: whatever was told to be in held the source's bytes at that moment, and never DONE. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvrail.h>

#define LAYERS      8
#define PAGE_TOKENS 64
#define PAGES       16
#define TOKENS      (PAGES * PAGE_TOKENS)
#define WAIT_MS     20000
#define SCRIBBLE    0xdd

struct engine {
    struct kvrail *agent;
    struct kvrail_memory memory;
    struct kvrail_region region;
    kvrail_handle handle;
    unsigned layers_in;
    bool ended, done, wrong;
};

static int failed(const char *what, const struct kvrail_error *error)
{
    printf("%s: %s\n", what, error->detail);
    return 1;
}

static int attach(struct engine *engine, const char *socket, uint8_t number)
{
    struct kvrail_identity me = {.name = number == 1 ? "revoked-source" : "revoked-target",
                                 .engine = {number},
                                 .tp_size = 1,
                                 .pp_size = 1,
                                 .generation = (uint64_t)getpid(),
                                 .model = "revoked",
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
                                            .page_count = PAGES,
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

/* All pages of a layer are one request's. */
static bool holds(const struct engine *engine, unsigned layer)
{
    const unsigned char *bytes =
        (const unsigned char *)engine->memory.address + layer * engine->region.layer_stride;

    for (uint64_t i = 0; i < engine->region.layer_stride; i++)
        if (bytes[i] != layer + 1)
            return false;
    return true;
}

static void layer_in(struct engine *engine, const struct kvrail_event *event)
{
    for (unsigned i = 0; i < event->layer_count; i++) {
        engine->layers_in++;
        if (holds(engine, event->layer_first + i))
            continue;
        printf("layer %u is told to be in, but it is not\n", event->layer_first + i);
        engine->wrong = true;
    }
}

/* False: it took too long. */
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
        layer_in(engine, &event);
    if (event.terminal && event.handle == engine->handle) {
        engine->ended = true;
        engine->done = event.kind == KVRAIL_EVENT_DONE;
        printf("%s %s %s: %s\n", who, kvrail_event_name(event.kind), event.status_name,
               event.detail);
    }
    return true;
}

static int open_both(struct engine *source, struct engine *target, const char *source_agent)
{
    struct kvrail_source_options publish = {.request = "revoked", .tokens = TOKENS};
    struct kvrail_source_address from = {
        .agent = source_agent, .engine = {1}, .generation = (uint64_t)getpid()};
    struct kvrail_target_options fetch = {
        .request = "revoked", .tokens = TOKENS, .sources = &from, .source_count = 1};
    uint32_t pages[PAGES];

    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = i;
    if (kvrail_source_open(source->agent, &publish, &source->handle) != KVRAIL_OK ||
        kvrail_source_pages(source->agent, source->handle, 0, pages, PAGES) != KVRAIL_OK ||
        kvrail_source_watch(source->agent, source->handle, 0, 0, 0, TOKENS) != KVRAIL_OK)
        return failed("publish", kvrail_last_error(source->agent));
    if (kvrail_target_open(target->agent, &fetch, &target->handle) != KVRAIL_OK ||
        kvrail_target_pages(target->agent, target->handle, 0, pages, PAGES) != KVRAIL_OK)
        return failed("fetch", kvrail_last_error(target->agent));
    return 0;
}

/* What makes the source's agent, or its end, give the pages back. */
static bool take_back(struct engine *source, bool kills, pid_t pid)
{
    if (kills) {
        kvrail_ready(source->agent, 0, LAYERS);
        return kill(pid, SIGKILL) == 0;
    }
    kill(pid, SIGSTOP);
    usleep(20000); /* until all its threads have stopped */
    kvrail_ready(source->agent, 0, LAYERS);
    usleep(100000); /* it posts what nobody takes */
    return kvrail_cancel(source->agent, source->handle, KVRAIL_CANCELLED) == KVRAIL_OK;
}

int main(int argc, char **argv)
{
    struct engine source = {0}, target = {0};
    bool kills = argc == 6 && strcmp(argv[4], "kill") == 0;
    pid_t pid = argc == 6 ? (pid_t)atoi(argv[5]) : 0;

    if (pid <= 0) {
        printf("usage: revoked SOURCE-SOCKET TARGET-SOCKET HOST:PORT cancel|kill AGENT-PID\n");
        return 2;
    }
    if (attach(&source, argv[1], 1) != 0 || attach(&target, argv[2], 2) != 0 ||
        open_both(&source, &target, argv[3]) != 0)
        return 1;
    for (unsigned layer = 0; layer < LAYERS; layer++)
        memset((char *)source.memory.address + layer * source.region.layer_stride, (int)layer + 1,
               source.region.layer_stride);
    kvrail_ready(source.agent, 0, 1);
    while (target.layers_in == 0)
        if (!events_take(&target, "target"))
            return 1;
    if (!take_back(&source, kills, pid))
        return 1;
    while (!source.ended)
        if (!events_take(&source, "source"))
            return 1;
    memset(source.memory.address, SCRIBBLE, source.region.bytes);
    if (!kills)
        kill(pid, SIGCONT);
    while (!target.ended)
        if (!events_take(&target, "target"))
            return 1;
    printf("%u of %u layers were in\n", target.layers_in, LAYERS);
    kvrail_close(source.agent);
    kvrail_close(target.agent);
    return target.done || target.wrong;
}
