#include "scheduler/http_request.h"

#include <stdlib.h>
#include <string.h>

#include "http/exposition.h"
#include "scheduler/api_fleet.h"

#define INGEST_PATH  "/ingest/v1/events"
#define SESSION_PATH "/api/v1/session"
#define STREAM_PATH  "/api/v1/stream"

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
    enum MHD_Result result;
    struct page page;

    if (request->route == ROUTE_METRICS)
        return get_metrics(request, path);
    if (request->route == ROUTE_HEALTH)
        return get_health(request, path);
    if (page_get(http->options.web_root, path, &page))
        return http_send_page(request, &page);
    return http_question(request, path, &result) ? ask(request, path) : result;
}

/* ---- the daemon's callbacks ---- */

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
    if (strcmp(path, STREAM_PATH) == 0)
        return ROUTE_STREAM;
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

    http_server_asked(request->http->server, request->connection);
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
    return request->route == ROUTE_STREAM ? http_stream(request) : get(request, path);
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
    http_stream_done(request);
    http_body_forget(request);
    free(request->answered.body);
    ready_drop(request->answered.ready);
    free(request);
    *context = NULL;
}

/* ---- start and stop ---- */

kvr_status http_start(const struct http_options *options, struct http **ret_http,
                      uint16_t *ret_port, struct kvr_error *error)
{
    struct http *http = calloc(1, sizeof(*http));
    kvr_status status;

    if (http == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "http", "no memory for the HTTP port");
    http->options = *options;
    const struct http_server_options server = {
        .listen = options->listen,
        .connections_max = options->connections_max,
        .connections_per_host = options->connections_per_host,
        .access = options->access,
        .tls = options->tls,
        .counts = metrics_http(options->metrics),
        .serve = serve,
        .done = request_done,
        .self = http,
    };
    status = http_server_start(&server, &http->server, &http->port, error);
    if (status != KVR_OK) {
        free(http);
        return status;
    }
    *ret_http = http;
    *ret_port = http->port;
    return KVR_OK;
}

void http_drain(struct http *http)
{
    atomic_store(&http->draining, true);
    health_set(http->options.health, HEALTH_STOPPING, "");
}

void http_tick(struct http *http, kvr_ns now)
{
    http_server_tick(http->server, now);
    if (http->options.tls != NULL)
        metrics_set_expiry(http->options.metrics, http_tls_expiry(http->options.tls));
}

struct http *http_stop(struct http *http)
{
    if (http == NULL)
        return NULL;
    http_server_stop(http->server);
    free(http);
    return NULL;
}
