#include "http/http_answer.h"

#include <stdlib.h>
#include <string.h>

void http_answer_common(struct MHD_Response *response, const char *type, const char *cache,
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

enum MHD_Result http_answer(struct MHD_Connection *connection, const struct http_head *head,
                            void *body, size_t size)
{
    struct MHD_Response *response =
        body != NULL ? MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE) : NULL;
    enum MHD_Result result;

    if (response == NULL) {
        free(body);
        return MHD_NO;
    }
    http_answer_common(response, head->type, "no-store", HTTP_DATA_POLICY);
    if (head->set_cookie != NULL)
        MHD_add_response_header(response, "Set-Cookie", head->set_cookie);
    if (head->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"kvrail\"");
    if (head->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", head->methods);
    if (head->status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", "1");
    if (head->status == MHD_HTTP_TOO_MANY_REQUESTS)
        MHD_add_response_header(response, "Retry-After", "60");
    result = MHD_queue_response(connection, head->status, response);
    MHD_destroy_response(response);
    return result;
}

static void drop_ready(void *self)
{
    ready_drop(self);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

enum MHD_Result http_answer_ready(struct MHD_Connection *connection, struct ready *ready)
{
    const char *known = header(connection, "If-None-Match");
    bool same = known != NULL && strcmp(known, ready->etag) == 0;
    bool zipped =
        !same && ready->zipped != NULL && ready_takes_gzip(header(connection, "Accept-Encoding"));
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
    http_answer_common(response, ready->type, "no-store", HTTP_DATA_POLICY);
    MHD_add_response_header(response, "ETag", ready->etag);
    MHD_add_response_header(response, "Vary", "Accept, Accept-Encoding");
    if (zipped)
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    result = MHD_queue_response(connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}
