#include "scheduler/http_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "scheduler/page.h"

#define INGEST_PATH  "/ingest/v1/events"
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

static const char security_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* ---- answers ---- */

enum MHD_Result http_send(struct request *request, unsigned status, const char *type, void *body,
                          size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (response == NULL) {
        free(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", request->posts ? "POST" : "GET, HEAD");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", "1");
    result = MHD_queue_response(request->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_send_json(struct request *request, const struct api_answer *answer)
{
    if (answer->body == NULL)
        return MHD_NO;
    return http_send(request, answer->status, "application/json", answer->body,
                     strlen(answer->body));
}

enum MHD_Result http_send_error(struct request *request, unsigned status, const char *message)
{
    struct api_answer answer;

    api_error(&answer, status, message);
    return http_send_json(request, &answer);
}

static enum MHD_Result add_parameter(void *self, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct api_query *query = self;

    (void)kind;
    if (query->count < API_PARAMETERS_MAX) {
        query->parameters[query->count].name = name;
        query->parameters[query->count].value = value;
    }
    query->count++;
    return MHD_YES;
}

bool http_query(struct request *request)
{
    request->query = (struct api_query){0};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_parameter,
                              &request->query);
    return request->query.count <= API_PARAMETERS_MAX;
}

/* ---- GET ---- */

static enum MHD_Result send_page(struct request *request, struct page *page)
{
    const char *known =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "If-None-Match");
    bool same = known != NULL && strcmp(known, page->etag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        same ? 0 : page->size, (void *)page->begin,
        page->owned ? MHD_RESPMEM_MUST_COPY : MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_NO;

    if (response != NULL) {
        MHD_add_response_header(response, "Content-Type", page->type);
        MHD_add_response_header(response, "ETag", page->etag);
        MHD_add_response_header(response, "Cache-Control", "no-cache");
        MHD_add_response_header(response, "Content-Security-Policy", security_policy);
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
        result = MHD_queue_response(request->connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK,
                                    response);
        MHD_destroy_response(response);
    }
    page_done(page);
    return result;
}

static enum MHD_Result get_metrics(struct request *request)
{
    struct http *http = request->http;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return MHD_NO;
    metrics_write(http->options.metrics, http->options.fleet, kvr_clock_now(), out);
    if (fclose(out) != 0) {
        free(text);
        return MHD_NO;
    }
    return http_send(request, MHD_HTTP_OK, METRICS_TYPE, text, size);
}

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
    request->answered.body = NULL; /* the response owns it */
    return http_send_json(request, &answer);
}

static enum MHD_Result ask(struct request *request, const char *path)
{
    /* Suspended first: the answer may come before queries_ask has returned. */
    MHD_suspend_connection(request->connection);
    request->waits = WAITS_FOR_QUERY;
    if (!queries_ask(request->http->options.queries, path, &request->query, query_answered,
                     request)) {
        struct api_answer busy;

        api_error(&busy, MHD_HTTP_SERVICE_UNAVAILABLE, "too many questions wait: ask again");
        query_answered(request, &busy);
    }
    return MHD_YES;
}

static enum MHD_Result get(struct request *request, const char *path)
{
    struct http *http = request->http;
    struct page page;

    if (strcmp(path, "/metrics") == 0)
        return get_metrics(request);
    if (page_get(http->options.web_root, path, &page))
        return send_page(request, &page);
    if (!http_query(request))
        return http_send_error(request, MHD_HTTP_BAD_REQUEST, "too many parameters");
    return ask(request, path);
}

/* ---- the daemon's callbacks ---- */

static void connection_changed(void *self, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct http *http = self;

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = http_client_joined(
            &http->clients, kvr_clock_now(),
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else
        http_client_left(&http->clients, *context);
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

/* The whole request is here. */
static enum MHD_Result serve_whole(struct request *request, const char *path, const char *method,
                                   bool reporting)
{
    bool post = strcmp(method, "POST") == 0;

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
    http_client_asked(
        &request->http->clients, kvr_clock_now(),
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
            ->socket_context);
    if (request->posts && !post)
        return http_send_error(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                               reporting ? "reports are posted here" : "orders are posted here");
    if (request->posts)
        return reporting ? http_report_take(request) : http_order_take(request, path);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_send_error(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                               "only GET and HEAD are known here");
    return get(request, path);
}

static enum MHD_Result serve(void *self, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *data,
                             size_t *data_size, void **context)
{
    struct request *request = *context;
    bool reporting = strcmp(path, INGEST_PATH) == 0;

    (void)version;
    if (request == NULL) {
        request = *context = new_request(self, connection);
        if (request == NULL)
            return MHD_NO;
        request->posts = reporting || order_is_path(path);
        if (!request->posts || strcmp(method, "POST") != 0)
            return MHD_YES;
        return reporting ? http_report_begin(request) : http_order_begin(request);
    }
    if (*data_size > 0) {
        bool kept =
            !reporting ||
            http_body_keep(request, data, *data_size); /* bodies of other requests are ignored */

        *data_size = 0;
        return kept ? MHD_YES : MHD_NO; /* closes: no answer is possible within a body */
    }
    return serve_whole(request, path, method, reporting);
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
    http_clients_init(&http->clients);
    /* poll, not epoll: its edges are lost when a client's last bytes and its end come together, and
     * the connection stays until it has been idle for long enough. */
    http->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        serve, http, MHD_OPTION_EXTERNAL_LOGGER, daemon_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_CONNECTION, connection_changed, http, MHD_OPTION_NOTIFY_COMPLETED,
        request_done, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_PER_HOST,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
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
}

void http_tick(struct http *http, kvr_ns now)
{
    http_clients_sweep(&http->clients, now);
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
