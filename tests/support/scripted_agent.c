#include "tests/support/scripted_agent.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/test_secret.h"

#define HANDLES 64

/* What one engine has open, by handle. */
struct script_handle {
    uint32_t engine;
    uint64_t handle;
    char request[KVR_REQUEST_BYTES];
    uint32_t pages;
};

struct script {
    struct scripted_agent *agent;
    struct script_handle handles[HANDLES];
    uint32_t handle_count;
    bool close_wanted;
};

static struct script_handle *entry_of(struct script *script, uint32_t engine, uint64_t handle)
{
    for (uint32_t i = 0; i < script->handle_count; i++) {
        if (script->handles[i].engine == engine && script->handles[i].handle == handle)
            return &script->handles[i];
    }
    return NULL;
}

static void remember(struct script *script, uint32_t engine, uint64_t handle, const char *request)
{
    struct script_handle *entry = &script->handles[script->handle_count % HANDLES];

    *entry = (struct script_handle){.engine = engine, .handle = handle};
    snprintf(entry->request, sizeof(entry->request), "%s", request);
    if (script->handle_count < HANDLES)
        script->handle_count++;
}

static void say(struct script *script, uint32_t engine, kvr_notice_kind kind, uint64_t handle,
                kvr_status status, uint64_t bytes)
{
    struct kvr_notice notice = {.kind = kind, .handle = handle, .status = status, .bytes = bytes};

    if (kind == KVR_NOTICE_TAIL_IN || kind == KVR_NOTICE_WHY) {
        notice.payload = (const uint8_t *)"{\"script\": true}";
        notice.payload_bytes = 16;
    }
    kvr_engine_port_notify(script->agent->port, engine, &notice);
}

static void news(struct script *script, uint32_t engine, kvr_notice_kind kind)
{
    struct kvr_notice notice = {.kind = kind, .agent = "p1"};

    kvr_engine_port_notify(script->agent->port, engine, &notice);
}

static void one_of_many(struct script *script, uint32_t engine, uint32_t number)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_PEER_UP};

    snprintf(notice.agent, sizeof(notice.agent), "p%u", number);
    kvr_engine_port_notify(script->agent->port, engine, &notice);
}

static kvr_status on_up(void *self, kvr_ns now, uint32_t engine,
                        const struct kvr_req_attach *attach, struct kvr_error *error)
{
    struct script *script = self;
    struct script_record *record = script->agent->record;

    (void)now;
    if (strcmp(attach->name, "stranger") == 0)
        return kvr_error_set(error, KVR_INCOMPATIBLE, "script", "model is '%s', not 'ours'",
                             attach->compat.model);
    if (atomic_load(&record->sleepy))
        atomic_store(&kvr_engine_port_page(script->agent->port, engine)->asleep, 1);
    atomic_store(&record->engine_last, engine);
    atomic_fetch_add(&record->ups, 1);
    return KVR_OK;
}

static void on_region(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                      const struct kvr_region_memory *memory)
{
    struct script *script = self;
    struct script_record *record = script->agent->record;
    struct kvr_region_memory own = *memory;

    (void)now;
    atomic_store(&record->extents, own.extents != NULL ? own.extents->count : 0);
    atomic_store(&record->dmabuf, own.dmabuf >= 0);
    record->region = *region;
    kvr_region_memory_close(&own);
    atomic_fetch_add(&record->regions, 1);
    script->close_wanted |= strcmp(region->name, "last") == 0;
    if (strcmp(region->name, "slow") == 0 || script->close_wanted)
        return;
    say(script, engine, KVR_NOTICE_LAYER_IN, 0, KVR_OK, 0); /* of no handle: must go unheard */
    say(script, engine, KVR_NOTICE_REGION_READY, region->layout.region, KVR_OK, 0);
}

static void layers(struct script *script, uint32_t engine, uint64_t handle)
{
    static const uint32_t order[] = {0, 1, 2, 3, 5, 6, 7};

    for (uint32_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        struct kvr_notice notice = {.kind = KVR_NOTICE_LAYER_IN,
                                    .handle = handle,
                                    .layer_first = order[i],
                                    .layer_count = 1,
                                    .token_end = order[i] == 7 ? 32 : 16};

        kvr_engine_port_notify(script->agent->port, engine, &notice);
    }
}

static void target_opened(struct script *script, uint32_t engine, const struct kvr_request *request)
{
    const char *name = request->target_open.request;

    atomic_fetch_add(&script->agent->record->targets, 1);
    remember(script, engine, request->handle, name);
    if (strcmp(name, "give up") == 0)
        kvr_engine_port_refuse(script->agent->port, engine, KVR_DRAINING, "given up by script");
    if (strcmp(name, "news") == 0)
        for (uint32_t kind = KVR_NOTICE_PEER_DOWN; kind <= KVR_NOTICE_RAIL_UP; kind++)
            news(script, engine, (kvr_notice_kind)kind);
    for (uint32_t i = 0; i < 400000 && strcmp(name, "old news") == 0; i++)
        one_of_many(script, engine, i);
    if (strcmp(name, "close") == 0)
        script->close_wanted = true;
    if (strcmp(name, "nap") == 0)
        usleep((KVR_ENGINE_PORT_ATTACH_MS + 500) * 1000);
    if (strcmp(name, "layers") == 0)
        layers(script, engine, request->handle);
    for (uint32_t i = 0; i < 400000 && strcmp(name, "flood") == 0; i++)
        say(script, engine, KVR_NOTICE_LAYER_IN, request->handle, KVR_OK, i);
}

static void pages_given(struct script *script, uint32_t engine, const struct kvr_request *request)
{
    struct script_record *record = script->agent->record;
    struct script_handle *entry = entry_of(script, engine, request->handle);
    uint64_t sum = 0;

    if (entry == NULL || entry->pages != request->pages.page_first) {
        atomic_store(&record->out_of_order, true);
        return;
    }
    for (uint32_t i = 0; i < request->pages.id_count; i++)
        sum += request->pages.ids[i];
    entry->pages += request->pages.id_count;
    atomic_fetch_add(&record->ids, request->pages.id_count);
    atomic_fetch_add(&record->id_sum, sum);
    if (request->kind != KVR_REQ_TARGET_PAGES || strcmp(entry->request, "whole") != 0)
        return;
    say(script, engine, KVR_NOTICE_ACCEPTED, request->handle, KVR_OK, 0);
    say(script, engine, KVR_NOTICE_LAYER_IN, request->handle, KVR_OK, 0);
    say(script, engine, KVR_NOTICE_TAIL_IN, request->handle, KVR_OK, 0);
    say(script, engine, KVR_NOTICE_DONE, request->handle, KVR_OK, 77);
    say(script, engine, KVR_NOTICE_LAYER_IN, request->handle, KVR_OK, 0); /* late: unheard */
}

static void cancelled(struct script *script, uint32_t engine, const struct kvr_request *request)
{
    struct script_handle *entry = entry_of(script, engine, request->handle);

    atomic_fetch_add(&script->agent->record->cancels, 1);
    if (entry != NULL && strcmp(entry->request, "race") == 0)
        say(script, engine, KVR_NOTICE_DONE, request->handle, KVR_OK, 1);
    say(script, engine, KVR_NOTICE_CANCELLED, request->handle, request->cancel.reason, 0);
}

static void why_asked(struct script *script, uint32_t engine, const struct kvr_request *request)
{
    uint64_t count;
    int doorbell = kvr_engine_port_doorbell(script->agent->port, engine);

    if (read(doorbell, &count, sizeof(count)) == (ssize_t)sizeof(count))
        atomic_fetch_add(&script->agent->record->rung, 1);
    say(script, engine, KVR_NOTICE_WHY, request->handle, KVR_OK, 0);
}

static void on_request(void *self, kvr_ns now, uint32_t engine, const struct kvr_request *request)
{
    struct script *script = self;
    struct script_record *record = script->agent->record;
    struct script_handle *entry;

    (void)now;
    atomic_fetch_add(&record->requests, 1);
    switch (request->kind) {
    case KVR_REQ_SOURCE_OPEN:
        atomic_fetch_add(&record->sources, 1);
        remember(script, engine, request->handle, request->source_open.request);
        return;
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_TARGET_PAGES:
        pages_given(script, engine, request);
        return;
    case KVR_REQ_WATCH:
        atomic_store(&record->word0,
                     atomic_load(&kvr_engine_port_page(script->agent->port, engine)->words[0]));
        return;
    case KVR_REQ_SOURCE_END:
        entry = entry_of(script, engine, request->handle);
        say(script, engine, KVR_NOTICE_SOURCE_FREE, request->handle, request->end.status,
            entry != NULL ? entry->pages : 0);
        return;
    case KVR_REQ_TARGET_OPEN:
        target_opened(script, engine, request);
        return;
    case KVR_REQ_CANCEL:
        cancelled(script, engine, request);
        return;
    case KVR_REQ_WHY:
        why_asked(script, engine, request);
        return;
    case KVR_REQ_REGION_DROP:
        say(script, engine, KVR_NOTICE_REGION_GONE, request->region.layout.region, KVR_OK, 0);
        return;
    default:
        return;
    }
}

/* As many as the record says, of 60 KB each. */
static kvr_status on_pairs(void *self, kvr_ns now, uint32_t engine, struct kvr_error *error)
{
    static uint8_t payload[60000];
    struct script *script = self;
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_PAIRS, .payload = payload, .payload_bytes = sizeof(payload)};
    uint32_t count = atomic_load(&script->agent->record->pairs);

    (void)now;
    if (count == 0)
        return kvr_error_set(error, KVR_UNSUPPORTED, "script", "there are no pairs");
    for (uint32_t i = 0; i < count; i++)
        kvr_engine_port_notify(script->agent->port, engine, &notice);
    return KVR_OK;
}

static void on_down(void *self, kvr_ns now, uint32_t engine, kvr_status why, const char *detail)
{
    struct script *script = self;
    struct script_record *record = script->agent->record;

    (void)now;
    snprintf(record->down_detail, sizeof(record->down_detail), "%s", detail);
    atomic_store(&record->down_why, (int)why);
    if (!atomic_load(&record->keep))
        kvr_engine_port_release(script->agent->port, engine);
    atomic_fetch_add(&record->downs, 1);
}

/* ---- running --------------------------------------------------------------------------------- */

static void on_stop(uv_async_t *stop)
{
    struct scripted_agent *agent = stop->data;

    kvr_engine_port_close(agent->port);
    uv_close((uv_handle_t *)stop, NULL);
    uv_close((uv_handle_t *)&agent->let_go, NULL);
}

static void on_let_go(uv_async_t *let_go)
{
    struct scripted_agent *agent = let_go->data;

    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        kvr_engine_port_release(agent->port, i);
}

void scripted_agent_let_go(struct scripted_agent *agent)
{
    atomic_store(&agent->record->keep, false);
    uv_async_send(&agent->let_go);
}

static void on_turn(uv_check_t *check)
{
    struct script *script = check->data;

    if (!script->close_wanted)
        return;
    kvr_engine_port_close(script->agent->port);
    uv_close((uv_handle_t *)check, NULL);
}

static int on_words(void *self, uint32_t engine)
{
    (void)engine;
    return ((struct script *)self)->agent->revocation_fd;
}

static void open_port(struct scripted_agent *agent, struct script *script)
{
    struct kvr_engine_handler handler = {.self = script,
                                         .revocation_words = on_words,
                                         .address = "scripted:1",
                                         .up = on_up,
                                         .region = on_region,
                                         .request = on_request,
                                         .pairs = on_pairs,
                                         .down = on_down};
    struct kvr_error error;

    script->agent = agent;
    if (uv_loop_init(&agent->loop) != 0 ||
        kvr_engine_port_open(&agent->loop, agent->path, "scripted", &handler, &agent->port,
                             &error) != KVR_OK) {
        fprintf(stderr, "scripted agent: %s\n", error.detail);
        abort();
    }
}

static void *run_thread(void *self)
{
    struct scripted_agent *agent = self;

    uv_run(&agent->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void new_agent(struct scripted_agent *agent)
{
    static int count;
    struct kvr_error error;

    memset(agent, 0, sizeof(*agent));
    snprintf(agent->path, sizeof(agent->path), "/tmp/kvrail-script-%d-%d", (int)getpid(), count++);
    agent->record = mmap(NULL, sizeof(*agent->record), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(agent->record != MAP_FAILED);
    assert_int_equal(
        kvr_revocation_words_create(&agent->revocation_fd, &agent->revocation_words, &error),
        KVR_OK);
}

static struct script *thread_script;

void scripted_agent_start_thread(struct scripted_agent *agent)
{
    new_agent(agent);
    thread_script = calloc(1, sizeof(*thread_script));
    assert_non_null(thread_script);
    open_port(agent, thread_script);
    agent->stop.data = agent->let_go.data = agent;
    assert_int_equal(uv_async_init(&agent->loop, &agent->stop, on_stop), 0);
    assert_int_equal(uv_async_init(&agent->loop, &agent->let_go, on_let_go), 0);
    assert_int_equal(pthread_create(&agent->thread, NULL, run_thread, agent), 0);
}

/* The child serves until it is killed, also after its port is closed. */
static void run_process(struct scripted_agent *agent, int ready)
{
    static struct script script;
    uv_check_t check;

    open_port(agent, &script);
    uv_check_init(&agent->loop, &check);
    check.data = &script;
    uv_check_start(&check, on_turn);
    if (write(ready, "r", 1) != 1)
        abort();
    uv_run(&agent->loop, UV_RUN_DEFAULT);
    for (;;)
        pause();
}

void scripted_agent_start_process(struct scripted_agent *agent)
{
    int ready[2];
    char byte;

    new_agent(agent);
    assert_int_equal(pipe(ready), 0);
    agent->pid = fork();
    assert_true(agent->pid >= 0);
    if (agent->pid == 0)
        run_process(agent, ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
}

void scripted_agent_stop(struct scripted_agent *agent)
{
    if (agent->pid != 0) {
        kill(agent->pid, SIGKILL);
        waitpid(agent->pid, NULL, 0);
        unlink(agent->path);
    } else {
        uv_async_send(&agent->stop);
        pthread_join(agent->thread, NULL);
        assert_int_equal(uv_loop_close(&agent->loop), 0);
        assert_int_equal(access(agent->path, F_OK), -1);
        free(thread_script);
    }
    munmap(agent->record, sizeof(*agent->record));
    kvr_revocation_words_close(agent->revocation_words);
    close(agent->revocation_fd);
}

/* ---- the engine's side ----------------------------------------------------------------------- */

kvrail_status scripted_open(const struct scripted_agent *agent, const char *name,
                            uint32_t timeout_ms, struct kvrail **ret_connection,
                            struct kvrail_error *error)
{
    struct kvrail_identity identity = {.size = sizeof(struct kvrail_identity),
                                       .name = name,
                                       .generation = 1,
                                       .tp_size = 1,
                                       .pp_size = 1,
                                       .model = "tiny",
                                       .dtype = "bfloat16",
                                       .layers_total = 2,
                                       .kv_heads_total = 1,
                                       .head_dim = 64};

    return kvrail_open(agent->path, &identity, timeout_ms, ret_connection, error);
}

struct kvrail *scripted_engine(const struct scripted_agent *agent, const char *name)
{
    struct kvrail *engine = NULL;
    struct kvrail_error error = {0};

    if (scripted_open(agent, name, SCRIPTED_WAIT_MS, &engine, &error) != KVRAIL_OK)
        fail_msg("kvrail_open: %s", error.detail);
    return engine;
}

void scripted_engine_with_child(const struct scripted_agent *agent, int *ret_hold)
{
    int hold[2];
    pid_t child;

    assert_int_equal(pipe(hold), 0);
    child = fork();
    if (child == 0) {
        char byte;

        (void)scripted_engine(agent, "parent");
        close(hold[1]);
        if (fork() == 0)
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
        _exit(0);
    }
    close(hold[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    *ret_hold = hold[1];
}

kvrail_handle scripted_source(struct kvrail *engine, const char *request)
{
    struct kvrail_source_options options = {.size = sizeof(struct kvrail_source_options),
                                            .request = request,
                                            .tokens = 64,
                                            .secret = TEST_SECRET};
    kvrail_handle handle = 0;

    assert_int_equal(kvrail_source_open(engine, &options, &handle), KVRAIL_OK);
    return handle;
}

kvrail_handle scripted_target(struct kvrail *engine, const char *request)
{
    struct kvrail_source_address source = {
        .size = sizeof(struct kvrail_source_address), .agent = "127.0.0.1:1", .generation = 1};
    struct kvrail_target_options options = {.size = sizeof(struct kvrail_target_options),
                                            .request = request,
                                            .tokens = 64,
                                            .sources = &source,
                                            .source_count = 1,
                                            .secret = TEST_SECRET};
    kvrail_handle handle = 0;

    assert_int_equal(kvrail_target_open(engine, &options, &handle), KVRAIL_OK);
    return handle;
}

int scripted_event(struct kvrail *engine, struct kvrail_event *event)
{
    struct pollfd readable = {.fd = kvrail_event_fd(engine), .events = POLLIN};

    for (kvr_ns end = kvr_clock_now() + SCRIPTED_WAIT_MS * KVR_MS; kvr_clock_now() < end;) {
        int got = kvrail_poll(engine, event, 1);

        if (got != 0)
            return got;
        (void)poll(&readable, 1, 1000);
    }
    return 0;
}

bool scripted_reached(_Atomic uint32_t *counter, uint32_t value)
{
    for (kvr_ns end = kvr_clock_now() + SCRIPTED_WAIT_MS * KVR_MS; kvr_clock_now() < end;) {
        if (atomic_load(counter) >= value)
            return true;
        usleep(1000);
    }
    return false;
}
