#include "tools/replay/replay_engine.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/entropy.h"
#include "tools/replay/replay_journal.h"

#define OPEN_TIMEOUT_MS      10000
#define REGION_TIMEOUT_MS    120000
#define RECONNECT_TIMEOUT_MS 2000
#define RECONNECT_EVERY      (100 * KVR_MS)
#define BLOCKED_RETRY        (2 * KVR_MS)
#define EVENTS_PER_POLL      32

static double process_cpu_s(void)
{
    struct timespec used;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / (double)KVR_S;
}

void replay_engine_cancel(struct replay_engine *engine, kvrail_handle handle, kvrail_status reason)
{
    if (engine->connection != NULL &&
        kvrail_cancel(engine->connection, handle, reason) != KVRAIL_OK)
        engine->blocked = true;
}

void replay_engine_init(struct replay_engine *engine, const struct replay_setup *setup, uint32_t at,
                        int router, const struct replay_engine_ops *ops, void *self)
{
    *engine = (struct replay_engine){
        .setup = setup,
        .ops = ops,
        .self = self,
        .at = at,
        .role = setup->agents.items[at].role == KVR_ROLE_SOURCE ? "source" : "target",
        .router = router,
    };
    replay_agent_label(&setup->agents, at, engine->label);
}

static const char *socket_path(const struct replay_engine *engine)
{
    return engine->setup->agents.items[engine->at].socket;
}

static kvrail_status attach(struct replay_engine *engine, uint32_t timeout_ms,
                            struct kvrail_error *error)
{
    const struct model_geometry *geometry = &engine->setup->geometry;
    struct kvrail_identity identity = {
        .size = sizeof(struct kvrail_identity),
        .name = engine->label,
        .generation = kvr_clock_wall(),
        .tp_size = 1,
        .pp_size = 1,
        .model = geometry->model->name,
        .dtype = geometry->model->dtype,
        .layers_total = geometry->layers,
        .kv_heads_total = geometry->heads,
        .head_dim = geometry->head_bytes / geometry->model->dtype_bytes,
    };

    engine->identity.generation = identity.generation;
    memcpy(identity.engine, engine->identity.engine.bytes, sizeof(identity.engine));
    return kvrail_open(socket_path(engine), &identity, timeout_ms, &engine->connection, error);
}

/* Registers the pages; from then on the engine can be used. */
static kvrail_status lend_memory(struct replay_engine *engine, struct kvrail_error *error)
{
    struct replay_message message = {.kind = REPLAY_UP, .own = engine->identity};
    kvrail_status status = KVRAIL_OK;
    uint32_t region;

    for (uint32_t i = 0; status == KVRAIL_OK && i < engine->region_count; i++) {
        struct kvrail_region lent = replay_region_lent(engine, i);

        status = kvrail_region_add(engine->connection, &lent, REGION_TIMEOUT_MS, &region);
    }
    if (status != KVRAIL_OK) {
        *error = *kvrail_last_error(engine->connection);
        kvrail_close(engine->connection);
        engine->connection = NULL;
        return status;
    }
    engine->down_said = false;
    replay_journal_note(engine, "attached");
    (void)replay_send(engine->router, &message);
    return KVRAIL_OK;
}

/* Attaches before memory takes its seconds, so that a wrong path is reported at once. */
static bool open_engine(struct replay_engine *engine, int *ret_exit)
{
    struct kvrail_error error = {0};
    kvrail_status status;
    bool absent;

    *ret_exit = 1;
    kvr_random_bytes(engine->identity.engine.bytes, sizeof(engine->identity.engine.bytes));
    status = attach(engine, OPEN_TIMEOUT_MS, &error);
    if (status == KVRAIL_OK) {
        if (!replay_memory_make(engine))
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
               engine->label, socket_path(engine), error.detail, kvrail_status_name(status));
    return false;
}

static void close_engine(struct replay_engine *engine)
{
    kvrail_close(engine->connection);
    engine->connection = NULL;
    replay_memory_done(engine);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void start_request(struct replay_engine *engine, const struct replay_message *message)
{
    struct replay_engine_request *request = calloc(1, engine->ops->request_bytes);

    if (request == NULL || engine->live_count == REPLAY_REQUESTS_MAX) {
        free(request);
        replay_say(engine->router, REPLAY_FATAL, 1, "no memory for another request");
        return;
    }
    request->index = message->request;
    memcpy(request->secret, message->start.secret, sizeof(request->secret));
    engine->live[engine->live_count++] = request;
    if (engine->ops->start != NULL)
        engine->ops->start(request, message);
    if (engine->connection == NULL || engine->down_said)
        engine->ops->give_up(engine->self, request, KVRAIL_AGENT_LOST);
}

/* REPLAY_CANCEL or REPLAY_WITHDRAW. */
static void cancel_request(struct replay_engine *engine, const struct replay_message *message)
{
    for (uint32_t i = 0; i < engine->live_count; i++) {
        struct replay_engine_request *request = engine->live[i];

        if (request->index != message->request || request->terminal)
            continue;
        if (request->handle == 0)
            engine->ops->give_up(engine->self, request, KVRAIL_CANCELLED);
        else if (message->kind == REPLAY_CANCEL || !request->matched)
            replay_engine_cancel(engine, request->handle, KVRAIL_CANCELLED);
        return;
    }
}

static void take_event(struct replay_engine *engine, const struct kvrail_event *event)
{
    for (uint32_t i = 0; i < engine->live_count; i++) {
        struct replay_engine_request *request = engine->live[i];

        if (request->handle != event->handle || request->terminal)
            continue;
        request->matched = request->matched || event->kind == KVRAIL_EVENT_ACCEPTED;
        replay_journal_event(engine, request, event);
        engine->ops->event(engine->self, request, event);
        return;
    }
    replay_journal_event(engine, NULL, event);
}

static void lose_requests(struct replay_engine *engine)
{
    for (uint32_t i = engine->live_count; i > 0; i--) {
        struct replay_engine_request *request = engine->live[i - 1];

        if (!request->terminal && request->handle == 0) {
            engine->ops->give_up(engine->self, request, KVRAIL_AGENT_LOST);
        } else if (!request->terminal) {
            replay_journal_missing(engine, request);
            engine->ops->lost(engine->self, request);
        }
    }
}

void replay_engine_forget(struct replay_engine *engine, void *request)
{
    uint32_t at = 0;

    while (engine->live[at] != request)
        at++;
    for (engine->live_count--; at < engine->live_count; at++)
        engine->live[at] = engine->live[at + 1];
    free(request);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void say_down(struct replay_engine *engine, const char *detail)
{
    if (engine->down_said)
        return;
    engine->down_said = true;
    replay_say(engine->router, REPLAY_DOWN, KVRAIL_AGENT_LOST, "the %s engine lost its agent%s%s",
               engine->label, detail[0] != '\0' ? ": " : "", detail);
}

static void lose_connection(struct replay_engine *engine)
{
    const struct replay_options *options = &engine->setup->options;

    replay_journal_note(engine, "detached");
    say_down(engine, kvrail_last_error(engine->connection)->detail);
    lose_requests(engine);
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
            if (events[i].kind == KVRAIL_EVENT_AGENT_LOST ||
                events[i].kind == KVRAIL_EVENT_REFUSED) {
                replay_journal_event(engine, NULL, &events[i]);
                say_down(engine, events[i].detail);
            } else
                take_event(engine, &events[i]);
        }
    }
}

/* False when the router is gone: then this engine's work is over. */
static bool take_messages(struct replay_engine *engine)
{
    struct replay_message message;
    int got;

    while ((got = replay_receive(engine->router, &message)) > 0) {
        if (message.kind == REPLAY_START)
            start_request(engine, &message);
        else if (message.kind == REPLAY_CANCEL || message.kind == REPLAY_WITHDRAW)
            cancel_request(engine, &message);
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
                   engine->label, error.detail);
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

    (void)replay_wait(fds, 2, wake_at);
}

static void run(struct replay_engine *engine)
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
        if (engine->finishing && engine->live_count == 0)
            return;
        if (engine->blocked && wake_at > now + BLOCKED_RETRY)
            wake_at = now + BLOCKED_RETRY;
        if (engine->reconnect_at != 0 && wake_at > engine->reconnect_at)
            wake_at = engine->reconnect_at;
        if (wake_at > now)
            sleep_until(engine, wake_at);
    }
}

int replay_engine_main(struct replay_engine *engine)
{
    struct replay_message totals = {.kind = REPLAY_TOTALS};
    int exit_status = 0;
    bool opened = open_engine(engine, &exit_status);

    if (opened) {
        run(engine);
        replay_journal_finished(engine);
        if (engine->ops->end != NULL)
            engine->ops->end(engine->self, &totals);
        totals.totals.cpu_s = process_cpu_s() - engine->cpu_s_start;
        totals.totals.tables_recorded = engine->tables_recorded;
        totals.totals.tables_otherwise = engine->tables_otherwise;
    }
    close_engine(engine); /* first: the router kills an engine that has sent its totals */
    if (opened)
        (void)replay_send(engine->router, &totals);
    return opened ? 0 : exit_status;
}
