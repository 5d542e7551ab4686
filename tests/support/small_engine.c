#include "tests/support/small_engine.h"

#include "tests/support/test_secret.h"
#include <poll.h>
#include <stdio.h>
#include <time.h>

#define WAIT_MS   20000
#define WHY_MS    2000
#define WHY_BYTES 4096

static int failed(const char *what, const struct kvrail_error *error)
{
    printf("%s: %s\n", what, error->detail);
    return 1;
}

uint64_t engine_start_time(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return 1;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int engine_attach(struct engine *engine, const char *socket, uint8_t number,
                  const struct engine_shape *shape)
{
    struct kvrail_identity me = {.size = sizeof(struct kvrail_identity),
                                 .name = number == 1 ? "small-source" : "small-target",
                                 .engine = {number},
                                 .tp_size = 1,
                                 .pp_size = 1,
                                 .generation = shape->generation,
                                 .model = shape->model,
                                 .dtype = "bfloat16",
                                 .layers_total = shape->layers,
                                 .kv_heads_total = 2,
                                 .head_dim = 64};
    struct kvrail_error error;
    uint32_t id;

    engine->region = (struct kvrail_region){.size = sizeof(struct kvrail_region),
                                            .name = "kv",
                                            .device = -1,
                                            .layer_count = shape->layers,
                                            .part_count = 2,
                                            .parts = {KVRAIL_PART_K, KVRAIL_PART_V},
                                            .head_count = 2,
                                            .page_tokens = shape->page_tokens,
                                            .page_count = shape->pages,
                                            .head_bytes = 128};
    kvrail_region_dense(&engine->region);
    if (kvrail_memory_create("kv", engine->region.bytes, &engine->memory, &error) != KVRAIL_OK)
        return failed("memory", &error);
    engine->region.fd = engine->memory.fd;
    if (shape->place != NULL && shape->place(engine) != 0)
        return 1;
    if (kvrail_open(socket, &me, 5000, &engine->agent, &error) != KVRAIL_OK)
        return failed("open", &error);
    if (kvrail_region_add(engine->agent, &engine->region, 10000, &id) != KVRAIL_OK)
        return failed("region", kvrail_last_error(engine->agent));
    return 0;
}

int engine_publish(struct engine *engine, const char *request, const uint32_t *pages,
                   uint32_t page_count)
{
    uint64_t tokens = (uint64_t)page_count * engine->region.page_tokens;
    struct kvrail_source_options publish = {.size = sizeof(struct kvrail_source_options),
                                            .request = request,
                                            .tokens = tokens,
                                            .secret = TEST_SECRET};

    if (kvrail_source_open(engine->agent, &publish, &engine->handle) != KVRAIL_OK ||
        kvrail_source_pages(engine->agent, engine->handle, 0, pages, page_count) != KVRAIL_OK ||
        kvrail_source_watch(engine->agent, engine->handle, 0, engine->base, 0, tokens) != KVRAIL_OK)
        return failed("publish", kvrail_last_error(engine->agent));
    return 0;
}

int engine_fetch(struct engine *engine, const struct kvrail_target_options *options,
                 const uint32_t *pages, uint32_t page_count)
{
    if (kvrail_target_open(engine->agent, options, &engine->handle) != KVRAIL_OK ||
        kvrail_target_pages(engine->agent, engine->handle, 0, pages, page_count) != KVRAIL_OK)
        return failed("fetch", kvrail_last_error(engine->agent));
    return 0;
}

static bool readable(const struct engine *engine, int ms)
{
    struct pollfd events = {.fd = kvrail_event_fd(engine->agent), .events = POLLIN};

    return poll(&events, 1, ms) > 0;
}

static void note(struct engine *engine, const char *who, const struct kvrail_event *event)
{
    engine->waited_ms = 0;
    if (event->kind == KVRAIL_EVENT_LAYER_IN)
        engine->layers_in += event->layer_count;
    if (event->terminal && event->handle == engine->handle) {
        engine->ended = true;
        engine->done = event->kind == KVRAIL_EVENT_DONE;
        printf("%s %s %s: %s\n", who, kvrail_event_name(event->kind), event->status_name,
               event->detail);
    }
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int poll_one(struct engine *engine, const char *who, struct kvrail_event *event)
{
    int got = kvrail_poll(engine->agent, event, 1);

    if (got <= 0)
        *event = (struct kvrail_event){0};
    else if (event->kind != KVRAIL_EVENT_WHY)
        note(engine, who, event);
    return got;
}

bool engine_why(struct engine *engine, char *ret_text, size_t bytes)
{
    struct kvrail_event event = {0};

    if (kvrail_why(engine->agent, engine->handle) != KVRAIL_OK)
        return false;
    while (event.kind != KVRAIL_EVENT_WHY)
        if (poll_one(engine, "before the answer", &event) <= 0 && !readable(engine, WHY_MS))
            return false;
    snprintf(ret_text, bytes, "%.*s", (int)event.payload_bytes, (const char *)event.payload);
    return true;
}

/* Nothing came: prints what its agent says that it waits for. */
static bool print_why(struct engine *engine, const char *who)
{
    char text[WHY_BYTES];

    printf("%s: no event in %d ms\n", who, WAIT_MS);
    if (engine_why(engine, text, sizeof(text)))
        printf("%s\n", text);
    return false;
}

bool engine_take(struct engine *engine, const char *who, struct kvrail_event *event)
{
    int got = poll_one(engine, who, event);
    uint64_t began;

    if (got != 0)
        return got > 0;
    if (engine->waited_ms >= WAIT_MS)
        return print_why(engine, who);
    began = now_ms();
    (void)readable(engine, WAIT_MS);
    engine->waited_ms += now_ms() - began;
    return true;
}

char *engine_page(const struct engine *engine, unsigned layer, uint32_t page)
{
    return (char *)engine->memory.address + layer * engine->region.layer_stride +
           page * engine->region.page_stride;
}
