#include "agent/engine/engine_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pidfd.h"

/* Packets of one engine that are handled before others have their turn. */
#define BURST            64
/* More than the smallest packets that a socket's buffer holds: a dead engine left no more. */
#define DRAIN_MAX        1024
/* Room in the queue that only REFUSED and DETACHED may take. */
#define LAST_WORDS_BYTES 2048

static void read_some(struct engine_link *engine);
static void on_socket(uv_poll_t *handle, int status, int events);
static void watch_process(struct engine_link *engine);

/* ---- ending --------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct engine_link *engine = handle->data;
    struct kvr_engine_port *port = engine->port;

    engine->handles--;
    if (engine->handles == 0 && engine->state == ENGINE_LEAVING) {
        free(engine->queue_memory);
        engine->queue_memory = NULL;
        engine->state = ENGINE_FREE;
        engine_port_freed(port, engine->index);
    }
    engine_port_handle_closed(port);
}

static void close_socket(struct engine_link *engine)
{
    if (engine->socket < 0)
        return;
    uv_close((uv_handle_t *)&engine->socket_poll, on_closed);
    close(engine->socket);
    engine->socket = -1;
}

static void close_process(struct engine_link *engine)
{
    if (engine->pidfd < 0)
        return;
    uv_close((uv_handle_t *)&engine->process_poll, on_closed);
    close(engine->pidfd);
    engine->pidfd = -1;
}

void engine_link_leave(struct engine_link *engine)
{
    if (engine->state == ENGINE_FREE || engine->state == ENGINE_LEAVING)
        return;
    engine->state = ENGINE_LEAVING;
    engine->owned = false;
    engine_extents_drop(&engine->extents);
    close_socket(engine);
    close_process(engine);
    uv_close((uv_handle_t *)&engine->timer, on_closed);
    kvr_engine_shared_close(&engine->shared);
}

/* DOWN ends when the owner has released the engine, and the last notices are sent or the engine is
 * dead. */
static void leave_if_settled(struct engine_link *engine)
{
    if (engine->state != ENGINE_DOWN || engine->owned)
        return;
    if (engine->socket < 0 || kvr_packet_queue_empty(&engine->queue))
        engine_link_leave(engine);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void watch(struct engine_link *engine)
{
    /* From an engine that was given up, only its end is read. */
    int events = engine->state == ENGINE_DOWN ? UV_DISCONNECT : UV_READABLE;

    if (engine->socket < 0)
        return;
    if (engine->blocked)
        events |= UV_WRITABLE;
    if (events == engine->watched)
        return;
    engine->watched = events;
    uv_poll_start(&engine->socket_poll, events, on_socket);
}

static kvr_status flush_news(struct engine_link *engine)
{
    uint8_t *packet = engine->port->sending;
    const struct kvr_notice *notice;
    kvr_status status = KVR_OK;
    size_t bytes;

    while (engine->socket >= 0 && (notice = engine_news_first(&engine->news)) != NULL) {
        if (kvr_notice_encode(notice, packet, KVR_PACKET_BYTES_MAX, &bytes) == KVR_OK)
            status = kvr_packet_send(engine->socket, packet, bytes, NULL);
        if (status == KVR_AGAIN)
            return status;
        engine_news_pop(&engine->news);
    }
    return KVR_OK;
}

static void flush(struct engine_link *engine)
{
    uint8_t *packet = engine->port->sending;
    kvr_status status = KVR_OK;

    while (engine->socket >= 0 && status == KVR_OK) {
        size_t bytes = kvr_packet_queue_peek(&engine->queue, packet, KVR_PACKET_BYTES_MAX);

        if (bytes == 0)
            break;
        status = kvr_packet_send(engine->socket, packet, bytes, NULL);
        if (status != KVR_AGAIN) /* a dead engine reads nothing; reading finds its end */
            kvr_packet_queue_pop(&engine->queue);
        if (status == KVR_PEER_LOST)
            status = KVR_OK;
    }
    if (status == KVR_OK)
        status = flush_news(engine);
    engine->blocked = status == KVR_AGAIN;
    watch(engine);
}

static kvr_status enqueue(struct engine_link *engine, const struct kvr_notice *notice,
                          size_t keep_free, struct kvr_error *error)
{
    uint8_t *packet = engine->port->sending;
    struct kvr_notice stamped = *notice;
    size_t bytes;

    stamped.at = kvr_clock_now();
    if (engine->shared.page != NULL) /* before the notice: its reader knows that this agent runs */
        atomic_store(&engine->shared.page->alive_at, stamped.at);
    if (kvr_notice_encode(&stamped, packet, KVR_PACKET_BYTES_MAX, &bytes) == KVR_OK) {
        if (kvr_packet_check(engine->socket, bytes, error) != KVR_OK)
            return KVR_TOO_LARGE;
        if (kvr_packet_queue_fits(&engine->queue, bytes + keep_free, 1) &&
            kvr_packet_queue_push(&engine->queue, packet, bytes))
            return KVR_OK;
    }
    return kvr_error_set(error, KVR_FULL, "engine_port",
                         "the engine does not read its notices: call kvrail_poll more often");
}

static void say_last(struct engine_link *engine, kvr_notice_kind kind, kvr_status why,
                     const char *detail)
{
    struct kvr_notice notice = {.kind = kind, .status = why};

    engine_link_let_out(engine);
    if (kind == KVR_NOTICE_DETACHED) /* nothing comes after it */
        engine->news.count = 0;
    snprintf(notice.detail, sizeof(notice.detail), "%s", detail);
    (void)!enqueue(engine, &notice, 0, NULL);
    flush(engine);
}

static void notify(struct engine_link *engine, const struct kvr_notice *notice)
{
    struct kvr_error error;

    if (engine->socket < 0 || engine->overflowed)
        return;
    if (enqueue(engine, notice, LAST_WORDS_BYTES, &error) != KVR_OK) {
        /* No later notice may be sent past the gap: a DONE without its TAIL_IN would be wrong.
         * DETACHED hands back the pages of lost terminal notices. */
        engine->overflowed = true;
        engine_link_refuse(engine, error.status, error.detail);
        return;
    }
    if (engine->state != ENGINE_GREETING && !engine->blocked)
        flush(engine);
}

void engine_link_let_out(struct engine_link *engine)
{
    bool held = engine->holds;

    engine->holds = false;
    if (held)
        notify(engine, &engine->held);
}

static void tell_news(struct engine_link *engine, const struct kvr_notice *notice)
{
    struct kvr_notice stamped = *notice;

    if (engine->socket < 0 || engine->overflowed)
        return;
    stamped.at = kvr_clock_now();
    engine->port->news_dropped += engine_news_put(&engine->news, &stamped);
    if (engine->state != ENGINE_GREETING && !engine->blocked)
        flush(engine);
}

void engine_link_notify(struct engine_link *engine, const struct kvr_notice *notice)
{
    if (engine_news_takes(notice)) {
        engine_link_let_out(engine);
        tell_news(engine, notice);
        return;
    }
    if (engine->holds && kvr_notice_join(&engine->held, notice))
        return;
    engine_link_let_out(engine);
    if (notice->kind != KVR_NOTICE_LAYER_IN) {
        notify(engine, notice);
        return;
    }
    engine->held = *notice;
    engine->holds = true;
    engine_port_holds(engine->port);
}

/* ---- going down ----------------------------------------------------------------------------- */

/* LIVE → DOWN, with the one call of handler.down; an engine that was never up just leaves. */
static void go_down(struct engine_link *engine, kvr_status why, const char *detail)
{
    const struct kvr_engine_handler *handler = &engine->port->handler;

    if (!engine->owned) {
        engine_link_leave(engine);
        return;
    }
    engine->state = ENGINE_DOWN;
    engine_extents_drop(&engine->extents); /* no region of it will come */
    watch(engine);
    handler->down(handler->self, kvr_clock_now(), engine->index, why, detail);
    leave_if_settled(engine);
}

static void engine_died(struct engine_link *engine)
{
    char detail[KVR_DETAIL_BYTES];
    bool was_down = engine->state == ENGINE_DOWN;

    close_socket(engine);
    close_process(engine);
    if (was_down) {
        leave_if_settled(engine);
        return;
    }
    if (engine->peer.pid > 0)
        snprintf(detail, sizeof(detail), "the engine process %d ended or closed its connection",
                 (int)engine->peer.pid);
    else
        snprintf(detail, sizeof(detail),
                 "the engine's process, of another pid namespace, ended or closed its connection");
    go_down(engine, KVR_ENGINE_LOST, detail);
}

/* Sends the reason to the engine, and calls the handler. */
static void give_up(struct engine_link *engine, kvr_status why, const char *detail)
{
    if (engine->state != ENGINE_GREETING && engine->state != ENGINE_LIVE)
        return;
    say_last(engine, KVR_NOTICE_REFUSED, why, detail);
    go_down(engine, why, detail);
}

static void on_timer(uv_timer_t *timer)
{
    struct engine_link *engine = timer->data;

    /* After a while without a core the loop looks at the time before it looks at sockets. */
    if (engine->pending == KVR_OK && engine->state == ENGINE_GREETING) {
        read_some(engine);
        if (engine->state == ENGINE_GREETING && engine->pending == KVR_OK)
            give_up(engine, KVR_TIMED_OUT, "no attach came within 5 s of the connection");
        return;
    }
    if (engine->pending != KVR_OK)
        give_up(engine, engine->pending, engine->pending_detail);
    else if (engine->state == ENGINE_DOWN && !engine->owned)
        engine_link_leave(engine); /* it does not read the answer to PAIRS */
}

void engine_link_refuse(struct engine_link *engine, kvr_status why, const char *detail)
{
    if (engine->pending != KVR_OK ||
        (engine->state != ENGINE_GREETING && engine->state != ENGINE_LIVE))
        return;
    engine->pending = why;
    snprintf(engine->pending_detail, sizeof(engine->pending_detail), "%s", detail);
    uv_timer_start(&engine->timer, on_timer, 0, 0);
}

void engine_link_release(struct engine_link *engine)
{
    if (engine->state != ENGINE_DOWN || !engine->owned)
        return;
    engine->owned = false;
    kvr_engine_shared_close(&engine->shared);
    if (engine->socket >= 0)
        say_last(engine, KVR_NOTICE_DETACHED, KVR_OK, "");
    leave_if_settled(engine);
}

/* ---- requests ------------------------------------------------------------------------------- */

static kvr_status send_attached(struct engine_link *engine)
{
    struct kvr_engine_port *port = engine->port;
    struct kvr_packet_fds fds = {KVR_ATTACHED_FDS,
                                 {engine->shared.page_fd, engine->shared.doorbell, port->pidfd}};
    struct kvr_notice notice = {.kind = KVR_NOTICE_ATTACHED, .abilities = KVR_ABILITIES};
    int words = port->handler.revocation_words != NULL
                    ? port->handler.revocation_words(port->handler.self, engine->index)
                    : -1;
    size_t bytes;

    if (port->handler.without_secret)
        notice.abilities |= KVR_ABILITY_WITHOUT_SECRET;
    if (words >= 0)
        fds.fds[fds.count++] = words;
    memcpy(notice.agent, port->agent, sizeof(notice.agent));
    if (port->handler.address != NULL) {
        notice.payload = (const uint8_t *)port->handler.address;
        notice.payload_bytes = (uint32_t)strlen(port->handler.address);
    }
    KVR_TRY(kvr_notice_encode(&notice, port->sending, sizeof(port->sending), &bytes));
    return kvr_packet_send(engine->socket, port->sending, bytes, &fds);
}

/* Of an engine that the kernel shows no pidfd of: the one that it sent, if it is one. It is watched
 * and nothing else, so an engine that sends another process's misleads the agent about itself
 * alone. */
static void take_pidfd(struct engine_link *engine, struct kvr_packet_fds *fds)
{
    if (engine->pidfd < 0 && fds->count > 0 && kvr_pidfd_is(fds->fds[fds->count - 1])) {
        engine->pidfd = fds->fds[--fds->count];
        watch_process(engine);
    }
    kvr_packet_fds_close(fds); /* before the answer, so that an attached engine sees none left */
}

static void attach(struct engine_link *engine, const struct kvr_req_attach *request)
{
    const struct kvr_engine_handler *handler = &engine->port->handler;
    struct kvr_error error = {0};
    kvr_status status = kvr_engine_shared_open(&engine->shared, &error);

    if (status == KVR_OK) {
        atomic_store(&engine->shared.page->deadline_ms, handler->deadline_ms);
        atomic_store(&engine->shared.page->alive_at, kvr_clock_now());
        engine_port_beats(engine->port);
        status = handler->up(handler->self, kvr_clock_now(), engine->index, request, &error);
    }
    if (status != KVR_OK) {
        give_up(engine, status, error.detail[0] != '\0' ? error.detail : kvr_status_text(status));
        return;
    }
    engine->owned = true;
    if (engine->pending == KVR_OK)
        uv_timer_stop(&engine->timer);
    if (send_attached(engine) != KVR_OK) {
        engine_died(engine);
        return;
    }
    engine->state = ENGINE_LIVE;
    flush(engine);
}

/* For a process that stays no engine: the answer, and the end. */
static void answer_pairs(struct engine_link *engine)
{
    const struct kvr_engine_handler *handler = &engine->port->handler;
    struct kvr_error error = {0};
    kvr_status status = KVR_UNSUPPORTED;

    if (handler->pairs != NULL)
        status = handler->pairs(handler->self, kvr_clock_now(), engine->index, &error);
    if (engine->pending != KVR_OK) /* the answer did not fit */
        return;
    say_last(engine, KVR_NOTICE_DETACHED, status, error.detail);
    engine->state = ENGINE_DOWN;
    watch(engine);
    leave_if_settled(engine);
}

static void take_request(struct engine_link *engine, const struct kvr_request *request,
                         struct kvr_packet_fds *fds)
{
    const struct kvr_engine_handler *handler = &engine->port->handler;

    bool first = request->kind == KVR_REQ_ATTACH || request->kind == KVR_REQ_PAIRS;

    if (first != (engine->state == ENGINE_GREETING)) {
        give_up(engine, KVR_MALFORMED, "attach must be the first packet, and only the first");
        return;
    }
    switch (request->kind) {
    case KVR_REQ_ATTACH:
        take_pidfd(engine, fds);
        attach(engine, &request->attach);
        return;
    case KVR_REQ_PAIRS:
        answer_pairs(engine);
        return;
    case KVR_REQ_REGION_ADD:
        engine_link_region(engine, &request->region, fds);
        return;
    case KVR_REQ_REGION_EXTENTS:
        engine_extents_take(&engine->extents, &request->extents, fds);
        return;
    case KVR_REQ_DETACH:
        go_down(engine, KVR_CANCELLED, "the engine detached");
        return;
    default:
        handler->request(handler->self, kvr_clock_now(), engine->index, request);
    }
}

/* The machine has made a key of it. */
static void forget_secret(struct kvr_engine_port *port, struct kvr_request *request, size_t bytes)
{
    if (request->kind != KVR_REQ_SOURCE_OPEN && request->kind != KVR_REQ_TARGET_OPEN)
        return;
    kvr_secret_wipe(request, sizeof(*request));
    kvr_secret_wipe(port->received, bytes);
    kvr_engine_decoder_wipe(port->decoder);
}

/* false: there is nothing more to read from this engine now. */
static bool take_packet(struct engine_link *engine)
{
    struct kvr_engine_port *port = engine->port;
    struct kvr_packet_fds fds;
    struct kvr_request request;
    struct kvr_error error;
    size_t bytes;
    kvr_status status =
        kvr_packet_receive(engine->socket, port->received, sizeof(port->received), &bytes, &fds);

    if (status == KVR_AGAIN)
        return false;
    if (status == KVR_PEER_LOST) {
        engine_died(engine);
        return false;
    }
    if (status == KVR_MALFORMED)
        kvr_error_set(&error, status, "engine_port",
                      "a packet is longer than 64 KiB or brings too many descriptors");
    else if (status == KVR_FULL)
        kvr_error_set(
            &error, status, "engine_port",
            "the agent may open no more descriptors (RLIMIT_NOFILE): raise it (ulimit -n, "
            "or LimitNOFILE= of the service)");
    else
        status = kvr_request_decode(port->decoder, port->received, bytes, &request, &error);
    if (status == KVR_OK) {
        take_request(engine, &request, &fds);
        forget_secret(port, &request, bytes);
    } else {
        give_up(engine, status, error.detail);
    }
    kvr_packet_fds_close(&fds);
    return true;
}

static bool reads(const struct engine_link *engine)
{
    return engine->pending == KVR_OK &&
           (engine->state == ENGINE_GREETING || engine->state == ENGINE_LIVE);
}

/* Handles every packet that a dead engine sent before it died, then its end. A child of the engine
 * may go on sending. */
static void drain(struct engine_link *engine)
{
    for (int i = 0; i < DRAIN_MAX && reads(engine); i++)
        if (!take_packet(engine))
            break;
    if (engine->socket >= 0 && engine->state != ENGINE_LEAVING)
        engine_died(engine);
}

static void read_some(struct engine_link *engine)
{
    for (int i = 0; i < BURST && reads(engine); i++)
        if (!take_packet(engine))
            break;
}

static void on_socket(uv_poll_t *handle, int status, int events)
{
    struct engine_link *engine = handle->data;

    if (status < 0 || (events & UV_DISCONNECT) != 0) {
        drain(engine);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        flush(engine);
        leave_if_settled(engine);
    }
    if ((events & UV_READABLE) != 0)
        read_some(engine);
}

/* A child of the engine may hold the socket open; the pidfd shows the end of the process itself. */
static void on_process(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    drain(handle->data);
}

/* ---- beginning ------------------------------------------------------------------------------ */

/* Its handle is closed with the descriptor. */
static void watch_process(struct engine_link *engine)
{
    if (engine->pidfd < 0)
        return;
    if (uv_poll_init(engine->port->loop, &engine->process_poll, engine->pidfd) != 0) {
        close(engine->pidfd);
        engine->pidfd = -1;
        return;
    }
    uv_poll_start(&engine->process_poll, UV_READABLE, on_process);
    engine->handles++;
    engine->port->handles++;
}

static void start_handles(struct engine_link *engine)
{
    struct kvr_engine_port *port = engine->port;

    engine->socket_poll.data = engine->process_poll.data = engine->timer.data = engine;
    uv_timer_init(port->loop, &engine->timer);
    uv_timer_start(&engine->timer, on_timer, KVR_ENGINE_PORT_ATTACH_MS, 0);
    engine->handles = 2;
    port->handles += engine->handles;
    watch_process(engine);
    watch(engine);
}

kvr_status engine_link_start(struct engine_link *engine, int socket, int pidfd,
                             const struct kvr_engine_peer *peer, struct kvr_error *error)
{
    struct kvr_engine_port *port = engine->port;
    uint8_t *memory =
        malloc(KVR_ENGINE_PORT_QUEUE_BYTES + ENGINE_NEWS_MAX * sizeof(struct kvr_notice));
    int failed;

    assert(engine->state == ENGINE_FREE);
    if (memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "engine_port", "no memory for another engine");
    *engine = (struct engine_link){.port = port,
                                   .index = engine->index,
                                   .socket = socket,
                                   .pidfd = pidfd,
                                   .peer = *peer,
                                   .shared = {.page_fd = -1, .doorbell = -1},
                                   .queue_memory = memory};
    failed = uv_poll_init(port->loop, &engine->socket_poll, socket);
    if (failed != 0) {
        free(memory);
        engine->queue_memory = NULL;
        return kvr_error_set(error, KVR_SYSTEM, "engine_port", "cannot watch a socket: %s",
                             uv_strerror(failed));
    }
    kvr_packet_queue_init(&engine->queue, memory, KVR_ENGINE_PORT_QUEUE_BYTES);
    engine->news.list = (struct kvr_notice *)(memory + KVR_ENGINE_PORT_QUEUE_BYTES);
    engine->state = ENGINE_GREETING;
    start_handles(engine);
    return KVR_OK;
}
