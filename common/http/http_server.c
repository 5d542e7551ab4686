#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "http/http_server_state.h"

/* At its own limit libmicrohttpd does not take connections, and so cannot refuse them. */
#define SPARE_CONNECTIONS HTTP_CLOSING_MAX

/* ---- connections ---- */

static void say_refused(const struct http_server *server, uint64_t count,
                        const struct sockaddr *from, http_limit limit)
{
    const char *fixed = limit == HTTP_LIMIT_PER_HOST ? "the limit of one host" : "the limit";
    char text[KVR_ADDRESS_TEXT_BYTES] = "";
    struct kvr_address address;

    if (kvr_address_from_socket(from, &address) == KVR_OK)
        kvr_address_print(&address, text);
    kvr_log_warning("refused %" PRIu64 " connection%s%s, the last from %s: %s is %" PRIu64
                    ", and so many are there",
                    count, count > 1 ? "s" : "",
                    limit == HTTP_LIMIT_MAX ? " or closed others for them" : "", text,
                    server->options.limits_fixed ? fixed : http_limit_option(limit),
                    server->clients.limits.most[limit]);
}

/* libmicrohttpd's own limits refuse without a word. */
static enum MHD_Result admit(void *self, const struct sockaddr *from, socklen_t bytes)
{
    struct http_server *server = self;
    bool closed;
    http_limit limit = http_clients_admit(&server->clients, http_limits_host(from), &closed);
    enum MHD_Result result = limit == HTTP_LIMIT_END ? MHD_YES : MHD_NO;
    uint64_t unsaid;

    (void)bytes;
    if (limit == HTTP_LIMIT_END && !closed)
        return MHD_YES;
    if (closed)
        limit = HTTP_LIMIT_MAX;
    http_counts_refuse(server->options.counts, limit, (int64_t)kvr_clock_wall());
    unsaid = http_clients_say(&server->clients, true, kvr_clock_now());
    if (unsaid > 0)
        say_refused(server, unsaid, from, limit);
    return result;
}

static void connection_changed(void *self, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = self;

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = http_client_joined(
            &server->clients, kvr_clock_now(),
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            http_limits_host(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                 ->client_addr));
    else if (!http_client_left(&server->clients, *context))
        atomic_fetch_add(&server->options.counts->silent, 1);
}

void http_server_asked(struct http_server *server, struct MHD_Connection *connection)
{
    http_client_asked(
        &server->clients, kvr_clock_now(),
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void daemon_log(void *self, const char *format, va_list arguments)
{
    char line[256];

    (void)self;
    if (!kvr_log_enabled(KVR_LOG_DEBUG))
        return; /* the daemon logs every client that closes its connection */
    vsnprintf(line, sizeof(line), format, arguments);
    line[strcspn(line, "\n")] = '\0';
    kvr_log_debug("http: %s", line);
}
#pragma GCC diagnostic pop

/* ---- start and stop ---- */

static kvr_status open_socket(const struct kvr_address *listen_at, int *ret_fd, uint16_t *ret_port,
                              struct kvr_error *error)
{
    char printed[KVR_ADDRESS_TEXT_BYTES];
    struct kvr_address address = *listen_at;
    struct sockaddr_storage at;
    socklen_t bytes;
    kvr_status status;
    int fd, yes = 1;

    if (strcmp(address.host, "localhost") == 0)
        strcpy(address.host, "127.0.0.1");
    kvr_address_print(&address, printed);
    status = kvr_address_to_socket(&address, &at, &bytes);
    if (status != KVR_OK)
        return kvr_error_set(error, status, "http", "%s: a numeric address is needed to listen on",
                             printed);
    fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kvr_error_system(error, "http", errno, "no socket to listen on");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, (struct sockaddr *)&at, bytes) != 0 || listen(fd, 256) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        kvr_error_system(error, "http", errno, "cannot listen on %s", printed);
        close(fd);
        return KVR_SYSTEM;
    }
    status = kvr_address_from_socket((struct sockaddr *)&at, &address);
    if (status != KVR_OK) {
        close(fd);
        return kvr_error_set(error, status, "http", "cannot listen on %s", printed);
    }
    *ret_fd = fd;
    *ret_port = address.port;
    return KVR_OK;
}

/* Takes the socket over when it succeeds. */
static bool start_daemon(struct http_server *server, int fd)
{
    const struct http_server_options *options = &server->options;
    struct MHD_OptionItem encryption[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HTTP_TLS_PRIORITIES},
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)http_tls_retrieve},
        {MHD_OPTION_HTTPS_MEM_TRUST, 0,
         options->tls != NULL ? (void *)(uintptr_t)http_tls_trust(options->tls) : NULL},
        {MHD_OPTION_END, 0, NULL}};

    /* poll, not epoll: its edges are lost when a client's last bytes and its end come together, and
     * the connection stays until it has been idle for long enough. */
    server->daemon = MHD_start_daemon(
        (options->tls != NULL ? MHD_USE_TLS : 0) | MHD_USE_POLL_INTERNAL_THREAD |
            MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        0, admit, server, options->serve, options->self, MHD_OPTION_EXTERNAL_LOGGER, daemon_log,
        NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_CONNECTION, connection_changed,
        server, MHD_OPTION_NOTIFY_COMPLETED, options->done, options->self,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections_max + SPARE_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_ARRAY,
        options->tls != NULL ? encryption : &encryption[3], MHD_OPTION_END);
    return server->daemon != NULL;
}

kvr_status http_server_start(const struct http_server_options *options,
                             struct http_server **ret_server, uint16_t *ret_port,
                             struct kvr_error *error)
{
    struct http_server *server = calloc(1, sizeof(*server));
    kvr_status status;
    int fd = -1;

    if (server == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "http", "no memory for the HTTP port");
    server->options = *options;
    status = open_socket(&options->listen, &fd, ret_port, error);
    if (status != KVR_OK) {
        free(server);
        return status;
    }
    status = http_clients_init(&server->clients, options->connections_max,
                               options->connections_per_host);
    if (status != KVR_OK) {
        close(fd);
        free(server);
        return kvr_error_set(error, status, "http", "no memory for %" PRIu64 " connections",
                             options->connections_max);
    }
    *ret_server = server; /* before the first request asks for it */
    if (start_daemon(server, fd))
        return KVR_OK;
    *ret_server = NULL;
    http_clients_done(&server->clients);
    close(fd);
    free(server);
    return kvr_error_set(error, KVR_SYSTEM, "http", "libmicrohttpd does not start");
}

void http_server_tick(struct http_server *server, kvr_ns now)
{
    uint64_t unsaid = http_clients_say(&server->clients, false, now);

    if (unsaid > 0)
        kvr_log_warning("refused %" PRIu64 " more connection%s", unsaid, unsaid > 1 ? "s" : "");
    atomic_store(&server->options.counts->connections, http_clients_sweep(&server->clients, now));
    access_reread(server->options.access, false);
    if (server->options.tls != NULL)
        http_tls_look(server->options.tls, false);
}

struct http_server *http_server_stop(struct http_server *server)
{
    if (server == NULL)
        return NULL;
    MHD_stop_daemon(server->daemon);
    http_clients_done(&server->clients);
    free(server);
    return NULL;
}
