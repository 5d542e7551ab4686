#include "scheduler/http_request.h"

#include <string.h>

#include "http/http_answer.h"
#include "http/problem.h"
#include "scheduler/api_parameters.h"

static const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
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
    const struct http_head head = {
        .status = status,
        .type = type,
        .methods = methods(request->route),
        .set_cookie = request->set_cookie[0] != '\0' ? request->set_cookie : NULL,
    };

    return http_answer(request->connection, &head, body, size);
}

enum MHD_Result http_send_answer(struct request *request, const struct api_answer *answer)
{
    if (answer->ready != NULL)
        return http_answer_ready(request->connection, answer->ready);
    if (answer->body == NULL)
        return MHD_NO;
    return http_send(request, answer->status, answer->problem ? PROBLEM_TYPE : "application/json",
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
        http_answer_common(response, page->type,
                           page->kept_for_ever ? "public, max-age=31536000, immutable" : "no-cache",
                           page_policy);
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

bool http_question(struct request *request, const char *path, enum MHD_Result *ret_result)
{
    struct api_answer answer;

    if (!http_query(request)) {
        *ret_result = http_send_error(request, MHD_HTTP_BAD_REQUEST, "too many parameters");
        return false;
    }
    if (api_check_text(path, &request->query, &answer))
        return true;
    *ret_result = http_send_answer(request, &answer);
    return false;
}
