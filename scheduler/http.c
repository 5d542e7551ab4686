#include "scheduler/http_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "scheduler/api_fleet.h"

#define INGEST_PATH       "/ingest/v1/events"
#define SESSION_PATH      "/api/v1/session"
/* At its own limit libmicrohttpd does not take connections, and so cannot refuse them. */
#define SPARE_CONNECTIONS 16

/* ---- GET ---- */

/* Queries' thread. */
static void query_answered(void *self, const struct api_answer *answer)
{
    struct request *request = self;

    request->answered = *answer;
    MHD_resume_connection(request->connection);
}

static enum MHD_Result query_answer(struct request *request)
{
    struct api_answer answer = request->answered;

    request->waits = WAITS_FOR_NOTHING;
    request->answered = (struct api_answer){0}; /* the response owns what it had */
    return http_send_answer(request, &answer);
}

static enum MHD_Result ask(struct request *request, const char *path)
{
    const struct http_options *options = &request->http->options;

    /* Suspended first: the answer may come before queries_ask has returned. */
    MHD_suspend_connection(request->connection);
    request->waits = WAITS_FOR_QUERY;
    if (!queries_ask(api_fleet_is_path(path) ? options->fleet_queries : options->searches, path,
                     &request->query, query_answered, request)) {
        struct api_answer busy;

        api_error(&busy, MHD_HTTP_SERVICE_UNAVAILABLE, "too many questions wait: ask again");
        query_answered(request, &busy);
    }
    return MHD_YES;
}

/* What the client asks for stands in a header; a parameter would be no part of Prometheus' ways. */
static enum MHD_Result get_metrics(struct request *request, const char *path)
{
    request->query = (struct api_query){0};
    if (exposition_wants_open(
            MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Accept")))
        request->query = (struct api_query){.count = 1, .parameters = {{"format", "openmetrics"}}};
    return ask(request, path);
}

static enum MHD_Result get_health(struct request *request, const char *path)
{
    struct api_answer answer;

    api_get_health(request->http->options.health, strcmp(path, "/readyz") == 0, &answer);
    return http_send_answer(request, &answer);
}

static enum MHD_Result get(struct request *request, const char *path)
{
    struct http *http = request->http;
    struct page page;

    if (request->route == ROUTE_METRICS)
        return get_metrics(request, path);
    if (request->route == ROUTE_HEALTH)
        return get_health(request, path);
    if (page_get(http->options.web_root, path, &page))
        return http_send_page(request, &page);
    if (!http_query(request))
        return http_send_error(request, MHD_HTTP_BAD_REQUEST, "too many parameters");
    return ask(request, path);
}

/* ---- the daemon's callbacks ---- */

static void say_refused(struct http *http, uint64_t count, const struct sockaddr *from,
                        http_limit limit)
{
    char text[KVR_ADDRESS_TEXT_BYTES] = "";
    struct kvr_address address;

    if (kvr_address_from_socket(from, &address) == KVR_OK)
        kvr_address_print(&address, text);
    kvr_log_warning("refused %" PRIu64 " connection%s, the last from %s: %s is %" PRIu64
                    ", and so many are there",
                    count, count > 1 ? "s" : "", text, http_limit_option(limit),
                    http->clients.limits.most[limit]);
}

/* libmicrohttpd's own limits refuse without a word. */
static enum MHD_Result admit(void *self, const struct sockaddr *from, socklen_t bytes)
{
    struct http *http = self;
    http_limit limit = http_clients_admit(&http->clients, http_limits_host(from));
    uint64_t unsaid;

    (void)bytes;
    if (limit == HTTP_LIMIT_END)
        return MHD_YES;
    metrics_connection_refused(http->options.metrics, limit, (int64_t)kvr_clock_wall());
    unsaid = http_clients_say(&http->clients, true, kvr_clock_now());
    if (unsaid > 0)
        say_refused(http, unsaid, from, limit);
    return MHD_NO;
}

static void connection_changed(void *self, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct http *http = self;

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = http_client_joined(
            &http->clients, kvr_clock_now(),
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            http_limits_host(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                 ->client_addr));
    else if (!http_client_left(&http->clients, *context))
        metrics_silent(http->options.metrics);
}

static struct request *new_request(struct http *http, struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof(*request));

    if (request != NULL) {
        request->http = http;
        request->connection = connection;
    }
    return request;
}

static request_route route_of(const char *path)
{
    if (strcmp(path, INGEST_PATH) == 0)
        return ROUTE_REPORT;
    if (order_is_path(path))
        return ROUTE_ORDER;
    if (strcmp(path, SESSION_PATH) == 0)
        return ROUTE_SESSION;
    if (strcmp(path, "/metrics") == 0)
        return ROUTE_METRICS;
    if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0)
        return ROUTE_HEALTH;
    return page_is(path) ? ROUTE_PAGE : ROUTE_API;
}

/* The whole request is here. */
static enum MHD_Result serve_whole(struct request *request, const char *path, const char *method)
{
    bool post = strcmp(method, "POST") == 0;

    http_client_asked(
        &request->http->clients, kvr_clock_now(),
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
            ->socket_context);
    switch (request->route) {
    case ROUTE_REPORT:
        return post ? http_report_take(request)
                    : http_send_error(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                                      "reports are posted here");
    case ROUTE_ORDER:
        return post ? http_order_take(request, path)
                    : http_send_error(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                                      "orders are posted here");
    case ROUTE_SESSION:
        return http_session(request, method);
    default:
        break;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_send_error(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                               "only GET and HEAD are known here");
    return get(request, path);
}

/* Its headers are here. */
static enum MHD_Result serve_begin(struct request *request, const char *path, const char *method)
{
    enum MHD_Result result;

    request->route = route_of(path);
    if (!http_access(request, path, method, &result))
        return result;
    if (strcmp(method, "POST") != 0)
        return MHD_YES;
    if (request->route == ROUTE_REPORT)
        return http_report_begin(request);
    return request->route == ROUTE_ORDER ? http_order_begin(request) : MHD_YES;
}

static enum MHD_Result serve(void *self, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *data,
                             size_t *data_size, void **context)
{
    struct request *request = *context;

    (void)version;
    if (request == NULL) {
        request = *context = new_request(self, connection);
        return request != NULL ? serve_begin(request, path, method) : MHD_NO;
    }
    if (*data_size > 0) {
        bool kept =
            request->route != ROUTE_REPORT ||
            http_body_keep(request, data, *data_size); /* bodies of other requests are ignored */

        *data_size = 0;
        return kept ? MHD_YES : MHD_NO; /* closes: no answer is possible within a body */
    }
    switch (request->waits) {
    case WAITS_FOR_REPORT:
        return http_report_answer(request);
    case WAITS_FOR_ORDER:
        return http_order_answer(request);
    case WAITS_FOR_QUERY:
        return query_answer(request);
    case WAITS_FOR_NOTHING:
        break;
    }
    return serve_whole(request, path, method);
}

static void request_done(void *self, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *context;

    (void)self;
    (void)connection;
    (void)code;
    if (request == NULL)
        return;
    http_body_forget(request);
    free(request->answered.body);
    ready_drop(request->answered.ready);
    free(request);
    *context = NULL;
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

kvr_status http_start(const struct http_options *options, struct http **ret_http,
                      uint16_t *ret_port, struct kvr_error *error)
{
    struct http *http = calloc(1, sizeof(*http));
    uint16_t port = 0;
    kvr_status status;
    int fd = -1;

    if (http == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "http", "no memory for the HTTP port");
    http->options = *options;
    status = open_socket(&options->listen, &fd, &port, error);
    if (status != KVR_OK) {
        free(http);
        return status;
    }
    status =
        http_clients_init(&http->clients, options->connections_max, options->connections_per_host);
    if (status != KVR_OK) {
        close(fd);
        free(http);
        return kvr_error_set(error, status, "http", "no memory for %" PRIu64 " connections",
                             options->connections_max);
    }
    snprintf(http->cookie_name, sizeof(http->cookie_name), "%skvrail_%u",
             options->tls != NULL ? "__Host-" : "", port);
    struct MHD_OptionItem encryption[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HTTP_TLS_PRIORITIES},
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)http_tls_retrieve},
        {MHD_OPTION_HTTPS_MEM_TRUST, 0,
         options->tls != NULL ? (void *)(uintptr_t)http_tls_trust(options->tls) : NULL},
        {MHD_OPTION_END, 0, NULL}};
    /* poll, not epoll: its edges are lost when a client's last bytes and its end come together, and
     * the connection stays until it has been idle for long enough. */
    http->daemon = MHD_start_daemon(
        (options->tls != NULL ? MHD_USE_TLS : 0) | MHD_USE_POLL_INTERNAL_THREAD |
            MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
        0, admit, http, serve, http, MHD_OPTION_EXTERNAL_LOGGER, daemon_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, http,
        MHD_OPTION_NOTIFY_COMPLETED, request_done, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)options->connections_max + SPARE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768,
        MHD_OPTION_ARRAY, options->tls != NULL ? encryption : &encryption[3], MHD_OPTION_END);
    if (http->daemon == NULL) {
        http_clients_done(&http->clients);
        close(fd);
        free(http);
        return kvr_error_set(error, KVR_SYSTEM, "http", "libmicrohttpd does not start");
    }
    *ret_http = http;
    *ret_port = port;
    return KVR_OK;
}

void http_drain(struct http *http)
{
    atomic_store(&http->draining, true);
    health_set(http->options.health, HEALTH_STOPPING, "");
}

void http_tick(struct http *http, kvr_ns now)
{
    uint64_t unsaid = http_clients_say(&http->clients, false, now);

    if (unsaid > 0)
        kvr_log_warning("refused %" PRIu64 " more connection%s", unsaid, unsaid > 1 ? "s" : "");
    metrics_set_connections(http->options.metrics, http_clients_sweep(&http->clients, now));
    access_reread(http->options.access, false);
    if (http->options.tls == NULL)
        return;
    http_tls_look(http->options.tls, false);
    metrics_set_expiry(http->options.metrics, http_tls_expiry(http->options.tls));
}

struct http *http_stop(struct http *http)
{
    if (http == NULL)
        return NULL;
    MHD_stop_daemon(http->daemon);
    http_clients_done(&http->clients);
    free(http);
    return NULL;
}
