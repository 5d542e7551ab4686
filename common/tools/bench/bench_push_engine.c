#include "tools/bench/bench_push_engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/entropy.h"
#include "tools/bench/bench_attach.h"
#include "tools/bench/bench_device.h"

#define START_NS       (60 * KVR_S)
#define MORE_NS        (30 * KVR_S) /* beyond a turn's duration */
#define REGION_MS      30000
#define DEADLINE_MS    20000
#define EVENTS         32
#define RETRY_MS       1
#define TURN_ENDS      UINT64_MAX              /* in the pipe, in place of a number */
#define REQUESTS_ASIDE (4 * BENCH_FETCHES_MAX) /* known and not ended */

/* One request at one engine. */
struct request {
    uint64_t number;
    kvrail_handle handle;
    unsigned step; /* calls that were accepted */
    kvr_ns opened_at;
    bool live;
};

struct engine {
    const struct push_engines *shared;
    struct kvrail *connection;
    struct bench_device device;  /* has its pages; or they are the pool's memory */
    struct bench_result *result; /* of the turn */
    struct request requests[REQUESTS_ASIDE];
    uint32_t live;
    uint64_t begun, ended; /* requests in all */
    bool blocked;          /* a call had no room */
    bool last_told;        /* source: the turn has no more requests */
};

/* ---- both ----------------------------------------------------------------------------------- */

static bool fail(struct engine *engine, const char *what, const char *detail)
{
    bench_problem(engine->result, "%s%s", what, detail);
    return false;
}

/* Where a GPU has the pages: as many bytes as the pool, which is then their mirror. */
static bool place(struct engine *engine, struct kvrail_region *region)
{
    const char *kind = engine->shared->options->device;

    if (strcmp(kind, "none") == 0)
        return true;
    region->memory = KVRAIL_MEMORY_CUDA_VMM; /* of an emulated device a memfd in its clothes */
    region->device = 0;
    if (strcmp(kind, "cuda") != 0)
        return true;
    if (!bench_device_open(&engine->device, kind) ||
        !bench_device_allocate(&engine->device, region->bytes))
        return fail(engine, "has no memory on the GPU", "");
    if (engine->device.allocation.import.fd < 0)
        return fail(engine, "has memory on the GPU that this machine's driver lets no other ",
                    "process open");
    region->fd = engine->device.allocation.import.fd;
    return true;
}

/* Between a GPU and the mirror, before and after a turn with checked pages. */
static void mirror(struct engine *engine, const struct bench_order *order, kvr_device_way way,
                   const struct kvrail_memory *memory)
{
    if (order->count > 0 && engine->device.device != NULL &&
        !bench_device_move(&engine->device, way, memory->address))
        bench_problem(engine->result, "could not copy its pages");
}

static bool attach(struct engine *engine, const char *socket_path, const char *name,
                   const uint8_t id[16], const struct kvrail_memory *memory)
{
    const struct bench_pool *pool = engine->shared->pool;
    struct bench_attach what = {.socket = socket_path,
                                .name = name,
                                .generation = engine->shared->generation,
                                .layers = pool->layers,
                                .pages = pool->page_count,
                                .page_bytes = pool->page_bytes};
    struct kvrail_region region = bench_region(&what);
    struct kvrail_error error = {0};
    uint32_t region_id;

    memcpy(what.engine, id, sizeof(what.engine));
    bench_pool_touch(memory);
    if (bench_connect(&what, &engine->connection, &error) != KVRAIL_OK)
        return fail(engine, "found no agent: ", error.detail);
    region.fd = memory->fd;
    if (!place(engine, &region))
        return false;
    if (kvrail_region_add(engine->connection, &region, REGION_MS, &region_id) != KVRAIL_OK)
        return fail(engine,
                    "could not lend its pages: ", kvrail_last_error(engine->connection)->detail);
    return true;
}

/* True when a call was accepted: the request's next step. */
static bool accepted(struct engine *engine, struct request *request, kvrail_status status)
{
    if (status == KVRAIL_OK) {
        request->step++;
        return true;
    }
    engine->blocked = true;
    if (status != KVRAIL_AGAIN)
        bench_problem(engine->result, "had a call refused: %s (%s)",
                      kvrail_last_error(engine->connection)->detail, kvrail_status_name(status));
    return false;
}

/* A new request; NULL: the one that has its pages is still live. */
static struct request *begin(struct engine *engine, uint64_t number)
{
    struct request *room = NULL;

    for (uint32_t i = 0; i < REQUESTS_ASIDE; i++) {
        struct request *request = &engine->requests[i];

        if (!request->live)
            room = request;
        else if (request->number % engine->shared->pool->slices ==
                 number % engine->shared->pool->slices)
            return NULL;
    }
    if (room == NULL)
        return NULL;
    *room = (struct request){.number = number, .opened_at = kvr_clock_now(), .live = true};
    engine->live++;
    engine->begun++;
    return room;
}

static struct request *find(struct engine *engine, kvrail_handle handle)
{
    for (uint32_t i = 0; i < REQUESTS_ASIDE; i++)
        if (engine->requests[i].live && engine->requests[i].handle == handle)
            return &engine->requests[i];
    return NULL;
}

static void end(struct engine *engine, struct request *request, const struct kvrail_event *event)
{
    request->live = false;
    engine->live--;
    engine->ended++;
    engine->result->count++;
    engine->result->bytes += event->bytes;
    engine->result->writes += event->writes;
    engine->result->retries += event->retries;
    if (event->status != KVRAIL_OK)
        bench_problem(engine->result, "saw request %" PRIu64 " fail: %s %s (%s)", request->number,
                      kvrail_event_name(event->kind), event->detail, event->status_name);
}

/* Takes all events. The target records how long its fetches took. */
static void take_events(struct engine *engine, bool target)
{
    struct kvrail_event events[EVENTS];
    int count;

    do {
        count = kvrail_poll(engine->connection, events, EVENTS);
        for (int i = 0; i < count; i++) {
            struct request *request = events[i].terminal ? find(engine, events[i].handle) : NULL;

            if (request == NULL)
                continue;
            engine->result->last_at = kvr_clock_now();
            if (target)
                kvr_histogram_record(engine->shared->fetch_ns,
                                     engine->result->last_at - request->opened_at);
            end(engine, request, &events[i]);
        }
    } while (count == EVENTS);
    if (count < 0)
        bench_problem(engine->result, "lost its agent");
}

static void wait_for(struct engine *engine, int other)
{
    struct pollfd descriptors[2] = {
        {.fd = kvrail_event_fd(engine->connection), .events = POLLIN},
        {.fd = other, .events = POLLIN},
    };

    (void)poll(descriptors, 2, engine->blocked ? RETRY_MS : 1000);
}

static void request_name(uint64_t number, char text[32])
{
    snprintf(text, 32, "bench-%" PRIu64, number);
}

static const uint32_t *slice_of(const struct bench_pool *pool, const uint32_t *ids, uint64_t number)
{
    return ids + number % pool->slices * pool->slice;
}

/* ---- source --------------------------------------------------------------------------------- */

/* Publishes one request, all layers ready. Steps that had no room are tried again. */
static void publish(struct engine *engine, struct request *request)
{
    const struct bench_pool *pool = engine->shared->pool;
    struct kvrail *connection = engine->connection;
    uint64_t tokens = (uint64_t)pool->slice * BENCH_PAGE_TOKENS;
    uint64_t word = request->number * pool->layers;
    char name[32];
    struct kvrail_source_options options = {.size = sizeof(struct kvrail_source_options),
                                            .request = name,
                                            .tokens = tokens,
                                            .consumers = 1,
                                            .secret = engine->shared->secret};

    request_name(request->number, name);
    if (request->step == 0 &&
        !accepted(engine, request, kvrail_source_open(connection, &options, &request->handle)))
        return;
    if (request->step == 1 &&
        !accepted(engine, request,
                  kvrail_source_pages(connection, request->handle, 0,
                                      slice_of(pool, pool->source_ids, request->number),
                                      pool->slice)))
        return;
    if (request->step == 2 &&
        !accepted(engine, request,
                  kvrail_source_watch(connection, request->handle, 0, word, 0, tokens)))
        return;
    if (request->step == 3)
        (void)accepted(engine, request, kvrail_ready(connection, 0, word + pool->layers));
    if (request->step == 4)
        (void)accepted(engine, request, kvrail_source_end(connection, request->handle, KVRAIL_OK));
}

/* Requests in order, because the readiness word only grows. */
static void publish_all(struct engine *engine, int numbers)
{
    static struct request *now; /* the one that has steps left */
    static uint64_t number;
    static bool known; /* a number was read that is not begun */

    while (!engine->result->failed && !engine->blocked) {
        if (now != NULL) {
            publish(engine, now);
            if (now->step == 5)
                now = NULL;
            continue;
        }
        if (!known && read(numbers, &number, sizeof(number)) != (ssize_t)sizeof(number))
            return;
        if (number == TURN_ENDS) {
            engine->last_told = true;
            return;
        }
        known = true;
        now = begin(engine, number);
        if (now == NULL)
            return; /* its pages are still lent: the event that frees them wakes us */
        known = false;
    }
}

static void source_turn(void *self, const struct bench_order *order, struct bench_result *result)
{
    struct engine *engine = self;
    int numbers = engine->shared->numbers[0];

    engine->result = result;
    engine->last_told = false;
    mirror(engine, order, KVR_DEVICE_SCATTER, &engine->shared->pool->source);
    while (!result->failed && (!engine->last_told || engine->live > 0)) {
        engine->blocked = false;
        take_events(engine, false);
        publish_all(engine, numbers);
        if (!engine->last_told || engine->live > 0)
            wait_for(engine, numbers);
    }
}

static void serve(struct engine *engine, int socket, bench_child_turn *turn)
{
    bench_child_serve(socket, engine->result, turn, engine);
    kvrail_close(engine->connection);
    bench_device_close(&engine->device);
}

static void source_main(void *self, int socket)
{
    static struct engine engine;
    const struct push_engines *shared = self;
    struct bench_result result = {0};

    engine.shared = shared;
    engine.result = &result;
    (void)attach(&engine, shared->agents->source_socket, "bench-source", shared->engine,
                 &shared->pool->source);
    serve(&engine, socket, source_turn);
}

/* ---- target --------------------------------------------------------------------------------- */

static void fetch(struct engine *engine, struct request *request)
{
    const struct push_engines *shared = engine->shared;
    const struct bench_pool *pool = shared->pool;
    struct kvrail_source_address source = {.size = sizeof(struct kvrail_source_address),
                                           .agent = shared->agents->source_address,
                                           .generation = shared->generation};
    char name[32];
    struct kvrail_target_options options = {
        .size = sizeof(struct kvrail_target_options),
        .request = name,
        .tokens = (uint64_t)pool->slice * BENCH_PAGE_TOKENS,
        .deadline_ms = DEADLINE_MS,
        .sources = &source,
        .source_count = 1,
        .secret = shared->secret,
    };

    request_name(request->number, name);
    memcpy(source.engine, shared->engine, sizeof(source.engine));
    if (request->step == 0 &&
        !accepted(engine, request,
                  kvrail_target_open(engine->connection, &options, &request->handle)))
        return;
    if (request->step == 1)
        (void)accepted(engine, request,
                       kvrail_target_pages(engine->connection, request->handle, 0,
                                           slice_of(pool, pool->target_ids, request->number),
                                           pool->slice));
}

static void tell_source(struct engine *engine, uint64_t number)
{
    if (write(engine->shared->numbers[1], &number, sizeof(number)) != (ssize_t)sizeof(number))
        bench_problem(engine->result, "could not tell the source");
}

/* Opens what there is room for. */
static void fetch_more(struct engine *engine, bool more)
{
    static struct request *now; /* the one that has steps left */

    while (!engine->result->failed && !engine->blocked) {
        uint64_t number = engine->begun;

        if (now != NULL) {
            fetch(engine, now);
            if (now->step == 2)
                now = NULL;
            continue;
        }
        if (!more || engine->live >= engine->shared->options->fetches)
            return;
        now = begin(engine, number);
        if (now == NULL)
            return;
        tell_source(engine, number);
    }
}

static void target_turn(void *self, const struct bench_order *order, struct bench_result *result)
{
    struct engine *engine = self;
    const struct kvrail_memory *memory = &engine->shared->pool->target;
    kvr_ns end_at;
    bool more = true;

    engine->result = result;
    mirror(engine, order, KVR_DEVICE_SCATTER, memory);
    result->first_at = kvr_clock_now();
    end_at = result->first_at + order->duration;
    while (!result->failed && (more || engine->live > 0)) {
        engine->blocked = false;
        take_events(engine, true);
        more = order->count > 0 ? engine->begun < order->count : kvr_clock_now() < end_at;
        fetch_more(engine, more);
        if (engine->live > 0)
            wait_for(engine, -1);
    }
    result->count = engine->begun;
    tell_source(engine, TURN_ENDS);
    mirror(engine, order, KVR_DEVICE_GATHER, memory);
}

static void target_main(void *self, int socket)
{
    static struct engine engine;
    static const uint8_t id[16] = "bench-target";
    const struct push_engines *shared = self;
    struct bench_result result = {0};

    engine.shared = shared;
    engine.result = &result;
    (void)attach(&engine, shared->agents->target_socket, "bench-target", id, &shared->pool->target);
    serve(&engine, socket, target_turn);
}

/* ---- the conductor's side -------------------------------------------------------------------- */

bool push_engines_start(struct push_engines *engines)
{
    struct bench_result result;

    engines->fetch_ns = mmap(NULL, sizeof(*engines->fetch_ns), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (engines->fetch_ns == MAP_FAILED || pipe2(engines->numbers, O_CLOEXEC | O_NONBLOCK) != 0) {
        perror("kvrail bench");
        return false;
    }
    kvr_random_bytes(engines->engine, sizeof(engines->engine));
    engines->generation = kvr_clock_wall();
    kvrail_secret_draw(engines->secret);
    return bench_child_start(&engines->source, "source engine", source_main, engines) &&
           bench_child_start(&engines->target, "target engine", target_main, engines) &&
           bench_child_result(&engines->source, START_NS, &result) &&
           bench_child_result(&engines->target, START_NS, &result);
}

bool push_engines_run(struct push_engines *engines, kvr_ns duration, uint64_t requests,
                      struct bench_result *ret_result)
{
    struct bench_order order = {.duration = duration};
    struct bench_result freed;

    if (requests > 0)
        order.count = engines->requests + requests;
    if (!bench_child_order(&engines->source, &order) ||
        !bench_child_order(&engines->target, &order) ||
        !bench_child_result(&engines->target, duration + MORE_NS, ret_result))
        return false;
    engines->requests = ret_result->count;
    return bench_child_result(&engines->source, MORE_NS, &freed);
}

kvr_ns push_engines_cpu_time(const struct push_engines *engines)
{
    return bench_cpu_time(engines->source.pid) + bench_cpu_time(engines->target.pid);
}

void push_engines_stop(struct push_engines *engines)
{
    bench_child_stop(&engines->target);
    bench_child_stop(&engines->source);
}
