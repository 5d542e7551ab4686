/* GET /api/v1/stream: a connection that stays, and is suspended while there is no news. */
#include <stdlib.h>

#include "http/http_answer.h"
#include "scheduler/http_request.h"

#define BLOCK_BYTES 32768
#define CHECK_NS    (5 * KVR_S) /* a session, a token or a certificate may have ended */

static void pause_viewer(void *self)
{
    MHD_suspend_connection(((struct request *)self)->connection);
}

static void wake_viewer(void *self)
{
    MHD_resume_connection(((struct request *)self)->connection);
}

static ssize_t read_news(void *self, uint64_t position, char *buffer, size_t room)
{
    struct request *request = self;
    kvr_ns now = kvr_clock_now();
    ssize_t size;

    (void)position;
    if (now >= request->checked_at + CHECK_NS) {
        if (!http_still_may(request, "/api/v1/stream"))
            return MHD_CONTENT_READER_END_OF_STREAM;
        request->checked_at = now;
    }
    size = stream_read(request->http->options.stream, request->seat, buffer, room);
    if (size == STREAM_ENDED)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (size > 0) /* it reads: this connection is not a slow one */
        http_server_asked(request->http->server, request->connection);
    return size;
}

/* What is no number is no id of ours: the viewer gets a snapshot. */
static int64_t last_id_of(struct request *request)
{
    const char *text =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Last-Event-ID");
    long long id = text != NULL ? strtoll(text, NULL, 10) : 0;

    return id > 0 ? (int64_t)id : text != NULL && *text != '\0' ? 1 : 0;
}

enum MHD_Result http_stream(struct request *request)
{
    const struct stream_owner owner = {pause_viewer, wake_viewer, request};
    struct MHD_Response *response;
    enum MHD_Result result;

    if (!http_query(request) || request->query.count > 0)
        return http_send_error(request, MHD_HTTP_BAD_REQUEST, "the stream has no parameters");
    request->seat = stream_join(request->http->options.stream, last_id_of(request), &owner);
    if (request->seat == NULL)
        return http_send_error(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "200 viewers follow the stream already, or the scheduler ends: ask "
                               "/api/v1/summary and /api/v1/transfers instead");
    request->checked_at = kvr_clock_now();
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_news, request, NULL);
    if (response == NULL)
        return MHD_NO;
    http_answer_common(response, "text/event-stream", "no-store", HTTP_DATA_POLICY);
    MHD_add_response_header(response, "Connection", "close");     /* when it ends */
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* nginx would keep it back */
    result = MHD_queue_response(request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

void http_stream_done(struct request *request)
{
    if (request->seat != NULL)
        stream_leave(request->http->options.stream, request->seat);
    request->seat = NULL;
}
