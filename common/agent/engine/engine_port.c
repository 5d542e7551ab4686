#include "agent/engine/engine_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/core/tenants.h"
#include "agent/engine/engine_link.h"
#include "base/pidfd.h"

#define WHERE "engine_port"
/* Connections that are accepted before the rest of the loop has its turn. */
#define BURST 16

/* ---- accepting ------------------------------------------------------------------------------ */

/* Refuses an engine that gets no index; best effort, the socket's buffer is empty. */
static void turn_away(struct kvr_engine_port *port, int socket, const struct kvr_error *error)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_REFUSED, .status = error->status};
    size_t bytes;

    memcpy(notice.detail, error->detail, sizeof(notice.detail));
    if (kvr_notice_encode(&notice, port->sending, sizeof(port->sending), &bytes) != KVR_OK ||
        kvr_packet_send(socket, port->sending, bytes, NULL) != KVR_OK)
        return;
}

/* Engines that have ended free their places soon: with AGAIN the new engine waits for that. */
static kvr_status say_full(const struct kvr_engine_port *port, struct kvr_error *error)
{
    uint32_t gone = 0;

    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        if (port->engines[i].state == ENGINE_DOWN || port->engines[i].state == ENGINE_LEAVING)
            gone++;
    if (gone == 0)
        return kvr_error_set(error, KVR_FULL, WHERE, "this agent has its %d engines already",
                             KVR_ENGINES_MAX);
    return kvr_error_set(error, KVR_AGAIN, WHERE,
                         "this agent has its %d engines already; %u of them have ended, and their "
                         "pages are not free yet",
                         KVR_ENGINES_MAX, gone);
}

static kvr_status take_engine(struct kvr_engine_port *port, int socket, struct kvr_error *error)
{
    struct engine_link *engine;
    struct kvr_engine_peer peer;
    int pidfd = -1;
    kvr_status status;

    status = kvr_engine_peer(socket, &port->access, &pidfd, &peer, error);
    if (status != KVR_OK) {
        port->refused++;
        if (port->handler.stranger != NULL)
            port->handler.stranger(port->handler.self, error->detail);
        return status;
    }
    peer.tenants = port->handler.tenants != NULL
                       ? port->handler.tenants(port->handler.self, socket, &peer)
                       : KVR_TENANTS_ALL;
    if (port->free_count == 0) {
        status = say_full(port, error);
    } else {
        engine = &port->engines[port->free_ring[port->free_head]];
        status = engine_link_start(engine, socket, pidfd, &peer, error);
    }
    if (status != KVR_OK) {
        if (pidfd >= 0)
            close(pidfd);
        return status;
    }
    port->free_head = (port->free_head + 1) % KVR_ENGINES_MAX;
    port->free_count--;
    return KVR_OK;
}

/* Without a descriptor left the connection would stay readable for ever: it is taken with the spare
 * one and closed. */
static void drop_with_spare(struct kvr_engine_port *port)
{
    int socket;

    close(port->spare_fd);
    socket = accept4(port->socket, NULL, NULL, SOCK_CLOEXEC);
    if (socket >= 0)
        close(socket);
    port->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_connection(uv_poll_t *handle, int status, int events)
{
    struct kvr_engine_port *port = handle->data;

    (void)status;
    (void)events;
    for (int i = 0; i < BURST; i++) {
        struct kvr_error error;
        int socket = accept4(port->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (socket < 0) {
            if (errno == EMFILE || errno == ENFILE)
                drop_with_spare(port);
            return;
        }
        if (take_engine(port, socket, &error) != KVR_OK) {
            turn_away(port, socket, &error);
            close(socket);
        }
    }
}

void engine_port_freed(struct kvr_engine_port *port, uint32_t index)
{
    port->free_ring[(port->free_head + port->free_count++) % KVR_ENGINES_MAX] = (uint8_t)index;
}

/* ---- open and close ------------------------------------------------------------------------- */

static void port_free(struct kvr_engine_port *port)
{
    if (port->socket >= 0)
        close(port->socket);
    if (port->pidfd >= 0)
        close(port->pidfd);
    if (port->spare_fd >= 0)
        close(port->spare_fd);
    kvr_engine_decoder_close(port->decoder);
    free(port);
}

void engine_port_handle_closed(struct kvr_engine_port *port)
{
    port->handles--;
    if (port->closing && port->handles == 0)
        port_free(port);
}

static void on_port_closed(uv_handle_t *handle)
{
    engine_port_handle_closed(handle->data);
}

static void on_turn_end(uv_prepare_t *turn_end)
{
    struct kvr_engine_port *port = turn_end->data;

    uv_prepare_stop(turn_end);
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        engine_link_let_out(&port->engines[i]);
}

void engine_port_holds(struct kvr_engine_port *port)
{
    if (!port->closing)
        uv_prepare_start(&port->turn_end, on_turn_end);
}

/* ---- beats ---------------------------------------------------------------------------------- */

static void on_beat(uv_timer_t *beat)
{
    struct kvr_engine_port *port = beat->data;
    kvr_ns now = kvr_clock_now();
    uint32_t pages = 0;

    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++) {
        struct kvr_shared_page *page = port->engines[i].shared.page;

        if (page == NULL)
            continue;
        atomic_store(&page->alive_at, now);
        pages++;
    }
    if (pages == 0)
        uv_timer_stop(beat);
}

void engine_port_beats(struct kvr_engine_port *port)
{
    if (!port->closing && !uv_is_active((uv_handle_t *)&port->beat))
        uv_timer_start(&port->beat, on_beat, KVR_ENGINE_BEAT_NS / KVR_MS,
                       KVR_ENGINE_BEAT_NS / KVR_MS);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void prepare_engines(struct kvr_engine_port *port)
{
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++) {
        port->engines[i] = (struct engine_link){.port = port,
                                                .index = i,
                                                .socket = -1,
                                                .pidfd = -1,
                                                .shared = {.page_fd = -1, .doorbell = -1}};
        engine_port_freed(port, i);
    }
}

static kvr_status prepare(struct kvr_engine_port *port, struct kvr_error *error)
{
    port->decoder = kvr_engine_decoder_open();
    if (port->decoder == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, WHERE, "no memory for the engine port");
    port->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    port->pidfd = kvr_pidfd_open(getpid());
    if (port->pidfd < 0)
        return kvr_error_system(error, WHERE, errno,
                                "cannot open our own pidfd, by which engines see our end "
                                "(Linux 5.3 or newer is needed)");
    return kvr_engine_listen(port->path, &port->access, &port->socket, error);
}

static kvr_status listen_in_loop(struct kvr_engine_port *port, struct kvr_error *error)
{
    int failed = uv_poll_init(port->loop, &port->listener, port->socket);

    if (failed != 0) {
        kvr_engine_unlink(port->path, port->socket);
        return kvr_error_set(error, KVR_SYSTEM, WHERE, "cannot watch %s: %s", port->path,
                             uv_strerror(failed));
    }
    port->listener.data = port;
    uv_prepare_init(port->loop, &port->turn_end);
    uv_timer_init(port->loop, &port->beat);
    port->turn_end.data = port->beat.data = port;
    port->handles = 3;
    uv_poll_start(&port->listener, UV_READABLE, on_connection);
    return KVR_OK;
}

kvr_status kvr_engine_port_open(uv_loop_t *loop, const char *path, const char *agent,
                                const struct kvr_engine_handler *handler,
                                struct kvr_engine_port **ret_port, struct kvr_error *error)
{
    struct kvr_engine_port *port = calloc(1, sizeof(*port));
    kvr_status status;

    if (port == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, WHERE, "no memory for the engine port");
    port->loop = loop;
    port->handler = *handler;
    if (handler->access != NULL)
        port->access = *handler->access;
    port->socket = port->pidfd = port->spare_fd = -1;
    snprintf(port->agent, sizeof(port->agent), "%s", agent);
    prepare_engines(port);
    if ((size_t)snprintf(port->path, sizeof(port->path), "%s", path) >= sizeof(port->path))
        status = kvr_error_set(error, KVR_INVALID, WHERE,
                               "the engine socket's path '%s' has more than %zu bytes", path,
                               sizeof(port->path) - 1);
    else
        status = prepare(port, error);
    if (status == KVR_OK)
        status = listen_in_loop(port, error);
    if (status != KVR_OK) {
        port_free(port);
        return status;
    }
    *ret_port = port;
    return KVR_OK;
}

void kvr_engine_port_close(struct kvr_engine_port *port)
{
    if (port == NULL || port->closing)
        return;
    port->closing = true;
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        engine_link_leave(&port->engines[i]);
    uv_close((uv_handle_t *)&port->listener, on_port_closed);
    uv_close((uv_handle_t *)&port->turn_end, on_port_closed);
    uv_close((uv_handle_t *)&port->beat, on_port_closed);
    kvr_engine_unlink(port->path, port->socket);
}

/* ---- engines -------------------------------------------------------------------------------- */

/* Also inside handler.up, where the engine is not owned yet. NULL: no such engine. */
static struct engine_link *find(const struct kvr_engine_port *port, uint32_t engine)
{
    struct engine_link *link;

    if (engine >= KVR_ENGINES_MAX)
        return NULL;
    link = (struct engine_link *)(uintptr_t)&port->engines[engine];
    return link->state == ENGINE_FREE || link->state == ENGINE_LEAVING ? NULL : link;
}

void kvr_engine_port_notify(struct kvr_engine_port *port, uint32_t engine,
                            const struct kvr_notice *notice)
{
    struct engine_link *link = find(port, engine);

    if (link != NULL)
        engine_link_notify(link, notice);
}

void kvr_engine_port_refuse(struct kvr_engine_port *port, uint32_t engine, kvr_status why,
                            const char *detail)
{
    struct engine_link *link = find(port, engine);

    if (link != NULL)
        engine_link_refuse(link, why, detail);
}

void kvr_engine_port_release(struct kvr_engine_port *port, uint32_t engine)
{
    struct engine_link *link = find(port, engine);

    if (link != NULL)
        engine_link_release(link);
}

struct kvr_shared_page *kvr_engine_port_page(const struct kvr_engine_port *port, uint32_t engine)
{
    const struct engine_link *link = find(port, engine);

    return link != NULL ? link->shared.page : NULL;
}

const struct kvr_engine_peer *kvr_engine_port_peer(const struct kvr_engine_port *port,
                                                   uint32_t engine)
{
    const struct engine_link *link = find(port, engine);

    return link != NULL ? &link->peer : NULL;
}

uint64_t kvr_engine_port_refused(const struct kvr_engine_port *port)
{
    return port != NULL ? port->refused : 0;
}

uint64_t kvr_engine_port_news_dropped(const struct kvr_engine_port *port)
{
    return port != NULL ? port->news_dropped : 0;
}

int kvr_engine_port_doorbell(const struct kvr_engine_port *port, uint32_t engine)
{
    const struct engine_link *link = find(port, engine);

    return link != NULL ? link->shared.doorbell : -1;
}
