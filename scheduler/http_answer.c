#include "scheduler/http_request.h"

#include <stdlib.h>
#include <string.h>

static const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
static const char data_policy[] = "default-src 'none'; frame-ancestors 'none'";

static void add_common(struct MHD_Response *response, const char *type, const char *cache,
                       const char *policy)
{
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", cache);
    MHD_add_response_header(response, "Content-Security-Policy", policy);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
}

static const char *methods(request_route route)
{
    switch (route) {
    case ROUTE_REPORT:
    case ROUTE_ORDER:
        return "POST";
    case ROUTE_SESSION:
        return "GET, HEAD, POST, DELETE";
    default:
        return "GET, HEAD";
    }
}

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
    add_common(response, type, "no-store", data_policy);
    if (request->set_cookie[0] != '\0')
        MHD_add_response_header(response, "Set-Cookie", request->set_cookie);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"kvrail\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", methods(request->route));
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", "1");
    if (status == MHD_HTTP_TOO_MANY_REQUESTS)
        MHD_add_response_header(response, "Retry-After", "60");
    result = MHD_queue_response(request->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static void drop_ready(void *self)
{
    ready_drop(self);
}

/* Takes the reference over. */
static enum MHD_Result send_ready(struct request *request, struct ready *ready)
{
    const char *known =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "If-None-Match");
    bool same = known != NULL && strcmp(known, ready->etag) == 0;
    bool zipped = !same && ready->zipped != NULL &&
                  ready_takes_gzip(MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                               "Accept-Encoding"));
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        same     ? 0
        : zipped ? ready->zipped_size
                 : ready->size,
        zipped ? (void *)ready->zipped : ready->text, drop_ready, ready);
    enum MHD_Result result;

    if (response == NULL) {
        ready_drop(ready);
        return MHD_NO;
    }
    add_common(response, ready->type, "no-store", data_policy);
    MHD_add_response_header(response, "ETag", ready->etag);
    MHD_add_response_header(response, "Vary", "Accept, Accept-Encoding");
    if (zipped)
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    result = MHD_queue_response(request->connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK,
                                response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_send_answer(struct request *request, const struct api_answer *answer)
{
    if (answer->ready != NULL)
        return send_ready(request, answer->ready);
    if (answer->body == NULL)
        return MHD_NO;
    return http_send(request, answer->status,
                     answer->problem ? "application/problem+json" : "application/json",
                     answer->body, strlen(answer->body));
}

enum MHD_Result http_send_error(struct request *request, unsigned status, const char *message)
{
    struct api_answer answer;

    api_error(&answer, status, message);
    return http_send_answer(request, &answer);
}

enum MHD_Result http_send_page(struct request *request, struct page *page)
{
    const char *known =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "If-None-Match");
    bool same = known != NULL && strcmp(known, page->etag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        same ? 0 : page->size, (void *)page->begin,
        page->owned ? MHD_RESPMEM_MUST_COPY : MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_NO;

    if (response != NULL) {
        add_common(response, page->type, "no-cache", page_policy);
        MHD_add_response_header(response, "ETag", page->etag);
        result = MHD_queue_response(request->connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK,
                                    response);
        MHD_destroy_response(response);
    }
    page_done(page);
    return result;
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
