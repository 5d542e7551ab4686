#include "tools/replay_engine.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "base/rng.h"

#define OPEN_TIMEOUT_MS      10000
#define REGION_TIMEOUT_MS    120000
#define RECONNECT_TIMEOUT_MS 2000
#define RECONNECT_EVERY      (100 * KVR_MS)
#define BLOCKED_RETRY        (2 * KVR_MS)
#define EVENTS_PER_POLL      32

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static double process_cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double replay_engine_cpu_s(const struct replay_engine *engine)
{
    return process_cpu_s() - engine->cpu_s_start;
}

uint8_t *replay_engine_page(const struct replay_engine *engine, uint32_t layer, uint32_t part_index,
                            uint32_t page)
{
    const struct kvrail_region *region = &engine->region;

    return (uint8_t *)engine->memory.address + region->base +
           (layer - region->layer_first) * region->layer_stride + part_index * region->part_stride +
           page * region->page_stride;
}

void replay_engine_cancel(struct replay_engine *engine, kvrail_handle handle, kvrail_status reason)
{
    if (engine->connection != NULL &&
        kvrail_cancel(engine->connection, handle, reason) != KVRAIL_OK)
        engine->blocked = true;
}

/* As --device-memory says. */
static bool on_device(const struct replay_engine *engine)
{
    const char *where = engine->setup->options.device_memory;

    return strcmp(where, "both") == 0 || strcmp(where, engine->role) == 0;
}

static void describe_region(struct replay_engine *engine)
{
    const struct model_geometry *geometry = &engine->setup->geometry;
    struct kvrail_region *region = &engine->region;
    uint32_t heads = geometry->heads / engine->setup->ranks;

    region->name = engine->role;
    region->memory = on_device(engine) ? KVRAIL_MEMORY_CUDA_VMM : KVRAIL_MEMORY_MEMFD;
    region->device = on_device(engine) ? 0 : -1;
    region->layer_count = geometry->layers;
    region->part_count = geometry->model->part_count;
    memcpy(region->parts, geometry->model->parts, sizeof(geometry->model->parts));
    region->replicated = geometry->model->parts[0] == KVRAIL_PART_MLA;
    region->head_first = engine->rank * heads;
    region->head_count = heads;
    region->head_bytes = geometry->head_bytes;
    region->page_tokens = engine->setup->page_tokens;
    region->page_count = engine->setup->page_count;
    kvrail_region_dense(region);
}

/* Pages of a memfd that were never touched cost twenty times what a copy costs: touch them now. */
static void touch_memory(struct kvrail_memory *memory)
{
    if (madvise(memory->address, memory->bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (uint64_t at = 0; at < memory->bytes; at += 4096)
        ((volatile uint8_t *)memory->address)[at] = 0;
}

static bool make_memory(struct replay_engine *engine)
{
    struct kvrail_error error = {0};
    char name[32];

    describe_region(engine);
    snprintf(name, sizeof(name), "replay-%s", engine->role);
    if (kvrail_memory_create(name, engine->region.bytes, &engine->memory, &error) != KVRAIL_OK) {
        replay_say(engine->router, REPLAY_FATAL, 1, "the %s engine's memory: %s", engine->role,
                   error.detail);
        return false;
    }
    engine->region.fd = engine->memory.fd;
    touch_memory(&engine->memory);
    if (pages_init(&engine->pages, engine->setup->page_count, engine->setup->order,
                   engine->setup->options.seed + (engine->role[0] == 's' ? 1 : 2)))
        return true;
    replay_say(engine->router, REPLAY_FATAL, 1, "no memory for %u page ids",
               engine->setup->page_count);
    return false;
}

static kvrail_status attach(struct replay_engine *engine, uint32_t timeout_ms,
                            struct kvrail_error *error)
{
    const struct model_geometry *geometry = &engine->setup->geometry;
    struct kvrail_identity identity = {
        .name = engine->role,
        .generation = kvr_clock_wall(),
        .tp = engine->rank,
        .tp_size = engine->setup->ranks,
        .pp_size = 1,
        .model = geometry->model->name,
        .dtype = geometry->model->dtype,
        .layers_total = geometry->layers,
        .kv_heads_total = geometry->heads,
        .head_dim = geometry->head_bytes / geometry->model->dtype_bytes,
    };

    engine->identity.generation = identity.generation;
    memcpy(identity.engine, engine->identity.engine.bytes, sizeof(identity.engine));
    return kvrail_open(engine->socket_path, &identity, timeout_ms, &engine->connection, error);
}

/* Registers the pages; from then on the engine can be used. */
static kvrail_status lend_memory(struct replay_engine *engine, struct kvrail_error *error)
{
    struct replay_message message = {.kind = REPLAY_UP, .rank = engine->identity};
    kvrail_status status;
    uint32_t region;

    status = kvrail_region_add(engine->connection, &engine->region, REGION_TIMEOUT_MS, &region);
    if (status != KVRAIL_OK) {
        *error = *kvrail_last_error(engine->connection);
        kvrail_close(engine->connection);
        engine->connection = NULL;
        return status;
    }
    engine->down_said = false;
    (void)replay_send(engine->router, &message);
    return KVRAIL_OK;
}

/* The agent is asked for before memory takes its seconds, so that a wrong path is told at once. */
bool replay_engine_open(struct replay_engine *engine, int *ret_exit)
{
    struct kvrail_error error = {0};
    kvrail_status status;
    bool absent;

    *ret_exit = 1;
    kvr_random_bytes(engine->identity.engine.bytes, sizeof(engine->identity.engine.bytes));
    status = attach(engine, OPEN_TIMEOUT_MS, &error);
    if (status == KVRAIL_OK) {
        if (!make_memory(engine))
            return false;
        status = lend_memory(engine, &error);
    }
    if (status == KVRAIL_OK) {
        engine->cpu_s_start = process_cpu_s();
        return true;
    }
    absent = status == KVRAIL_SYSTEM || status == KVRAIL_TIMED_OUT || status == KVRAIL_AGENT_LOST ||
             status == KVRAIL_DRAINING;
    *ret_exit = absent ? REPLAY_EXIT_NO_AGENT : 1;
    replay_say(engine->router, REPLAY_FATAL, *ret_exit, "the %s engine's agent at %s: %s (%s)",
               engine->role, engine->socket_path, error.detail, kvrail_status_name(status));
    return false;
}

void replay_engine_close(struct replay_engine *engine)
{
    kvrail_close(engine->connection);
    engine->connection = NULL;
    pages_done(&engine->pages);
    kvrail_memory_destroy(&engine->memory);
}

static void say_down(struct replay_engine *engine, const char *detail)
{
    if (engine->down_said)
        return;
    engine->down_said = true;
    replay_say(engine->router, REPLAY_DOWN, KVRAIL_AGENT_LOST, "the %s engine lost its agent%s%s",
               engine->role, detail[0] != '\0' ? ": " : "", detail);
}

static void lose_connection(struct replay_engine *engine)
{
    const struct replay_options *options = &engine->setup->options;

    say_down(engine, kvrail_last_error(engine->connection)->detail);
    engine->ops->lost(engine->self);
    kvrail_close(engine->connection);
    engine->connection = NULL;
    if (!options->reconnect)
        return;
    engine->reconnect_at = kvr_clock_now();
    engine->reconnect_until = engine->reconnect_at + options->reconnect_for;
}

static void take_events(struct replay_engine *engine)
{
    struct kvrail_event events[EVENTS_PER_POLL];
    int count = 1;

    while (engine->connection != NULL && count > 0) {
        count = kvrail_poll(engine->connection, events, EVENTS_PER_POLL);
        if (count < 0) {
            lose_connection(engine);
            return;
        }
        for (int i = 0; i < count; i++) {
            if (events[i].kind == KVRAIL_EVENT_AGENT_LOST || events[i].kind == KVRAIL_EVENT_REFUSED)
                say_down(engine, events[i].detail);
            else
                engine->ops->event(engine->self, &events[i]);
        }
    }
}

/* False when the router is gone: then nobody wants this engine's work any more. */
static bool take_messages(struct replay_engine *engine)
{
    struct replay_message message;
    int got;

    while ((got = replay_receive(engine->router, &message)) > 0) {
        if (message.kind == REPLAY_START)
            engine->ops->start(engine->self, &message);
        else if (message.kind == REPLAY_CANCEL || message.kind == REPLAY_WITHDRAW)
            engine->ops->cancel(engine->self, &message);
        else if (message.kind == REPLAY_FINISH)
            engine->finishing = true;
    }
    return got == 0;
}

static void reconnect(struct replay_engine *engine, kvr_ns now)
{
    struct kvrail_error error = {0};
    kvrail_status status;

    if (engine->reconnect_at == 0 || now < engine->reconnect_at)
        return;
    status = attach(engine, RECONNECT_TIMEOUT_MS, &error);
    if (status == KVRAIL_OK)
        status = lend_memory(engine, &error);
    if (status == KVRAIL_OK) {
        engine->reconnect_at = 0;
    } else if (now >= engine->reconnect_until) {
        engine->reconnect_at = 0;
        replay_say(engine->router, REPLAY_FATAL, 1, "the %s engine's agent did not come back: %s",
                   engine->role, error.detail);
    } else {
        engine->reconnect_at = kvr_clock_now() + RECONNECT_EVERY;
    }
}

static void sleep_until(const struct replay_engine *engine, kvr_ns wake_at)
{
    struct pollfd fds[2] = {
        {.fd = engine->router, .events = POLLIN},
        {.fd = engine->connection != NULL ? kvrail_event_fd(engine->connection) : -1,
         .events = POLLIN},
    };
    kvr_ns now = kvr_clock_now(), wait = wake_at > now ? wake_at - now : 0;
    struct timespec timeout = {(time_t)(wait / KVR_S), (long)(wait % KVR_S)};

    (void)ppoll(fds, 2, wake_at == KVR_NEVER ? NULL : &timeout, NULL);
}

void replay_engine_run(struct replay_engine *engine)
{
    for (;;) {
        kvr_ns now, wake_at;

        if (!take_messages(engine))
            return;
        take_events(engine);
        engine->blocked = false;
        now = kvr_clock_now();
        wake_at = engine->ops->step(engine->self, now);
        if (engine->connection == NULL && !engine->finishing)
            reconnect(engine, now);
        if (engine->finishing && engine->ops->idle(engine->self))
            return;
        if (engine->blocked && wake_at > now + BLOCKED_RETRY)
            wake_at = now + BLOCKED_RETRY;
        if (engine->reconnect_at != 0 && wake_at > engine->reconnect_at)
            wake_at = engine->reconnect_at;
        if (wake_at > now)
            sleep_until(engine, wake_at);
    }
}
