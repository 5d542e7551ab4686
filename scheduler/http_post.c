#include "scheduler/http_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define PROTOBUF_TYPE "application/x-protobuf"

/* ---- reports ---- */

void http_body_forget(struct request *request)
{
    request->http->body_bytes -= request->body_room;
    free(request->body);
    request->body = NULL;
    request->body_bytes = request->body_room = 0;
}

bool http_body_keep(struct request *request, const char *data, size_t size)
{
    size_t needed = request->body_bytes + size, room = request->body_room;
    uint8_t *body;

    if (needed > KVR_REPORT_BYTES_MAX)
        return false;
    if (needed > room) {
        room = room == 0 ? 8192 : room;
        while (room < needed)
            room *= 2;
        if (request->http->body_bytes - request->body_room + room > HTTP_BODIES_BYTES_MAX)
            return false;
        body = realloc(request->body, room);
        if (body == NULL)
            return false;
        request->http->body_bytes += room - request->body_room;
        request->body = body;
        request->body_room = room;
    }
    memcpy(request->body + request->body_bytes, data, size);
    request->body_bytes = needed;
    return true;
}

/* Writer thread. */
static void answered(void *self, kvr_status status, const struct kvr_report_answer *answer,
                     const char *detail)
{
    struct request *request = self;

    request->status = status;
    request->answer = *answer;
    snprintf(request->detail, sizeof(request->detail), "%s", detail);
    MHD_resume_connection(request->connection);
}

enum MHD_Result http_report_answer(struct request *request)
{
    uint8_t *bytes;

    request->waits = WAITS_FOR_NOTHING;
    http_body_forget(request);
    if (request->status != KVR_OK) {
        bool refused = request->status == KVR_STALE || request->status == KVR_REFUSED;

        return http_send_error(request, refused ? MHD_HTTP_CONFLICT : MHD_HTTP_SERVICE_UNAVAILABLE,
                               request->detail);
    }
    bytes = malloc(KVR_REPORT_ANSWER_BYTES);
    if (bytes == NULL)
        return MHD_NO;
    return http_send(request, MHD_HTTP_OK, PROTOBUF_TYPE, bytes,
                     kvr_report_answer_encode(&request->answer, bytes));
}

enum MHD_Result http_report_take(struct request *request)
{
    static const struct kvr_report_answer none;
    struct http *http = request->http;
    struct kvr_error error = {0};
    struct kvr_report *report;
    kvr_status status =
        kvr_report_decode(request->body != NULL ? request->body : (const uint8_t *)"",
                          request->body_bytes, &report, &error);

    if (status != KVR_OK) {
        metrics_refused(http->options.metrics);
        return http_send_error(request,
                               status == KVR_NO_MEMORY   ? MHD_HTTP_SERVICE_UNAVAILABLE
                               : status == KVR_TOO_LARGE ? MHD_HTTP_CONTENT_TOO_LARGE
                                                         : MHD_HTTP_BAD_REQUEST,
                               error.detail);
    }
    if (request->asker.agent[0] != '\0' && strcmp(request->asker.agent, report->agent) != 0) {
        kvr_report_free(report);
        return http_refuse(request, REFUSAL_NAME);
    }
    /* Suspended first: the writer may answer before ingest_submit has returned. */
    MHD_suspend_connection(request->connection);
    request->waits = WAITS_FOR_REPORT;
    if (ingest_submit(http->options.ingest, report,
                      (struct ingest_body){request->body, request->body_bytes}, answered,
                      request) != KVR_OK)
        answered(request, KVR_AGAIN, &none, "more reports wait than can be taken: send it again");
    return MHD_YES;
}

enum MHD_Result http_report_begin(struct request *request)
{
    const char *length =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Content-Length");
    const char *type =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Content-Type");

    if (atomic_load(&request->http->draining))
        return http_send_error(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "the scheduler is shutting down");
    if (type == NULL || strcasecmp(type, PROTOBUF_TYPE) != 0)
        return http_send_error(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                               "a report has Content-Type: " PROTOBUF_TYPE);
    if (length != NULL && strtoull(length, NULL, 10) > KVR_REPORT_BYTES_MAX)
        return http_send_error(request, MHD_HTTP_CONTENT_TOO_LARGE, "a report has at most 4 MiB");
    return MHD_YES;
}

/* ---- orders ---- */

enum MHD_Result http_order_begin(struct request *request)
{
    if (atomic_load(&request->http->draining))
        return http_send_error(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                               "the scheduler is shutting down");
    return MHD_YES;
}

/* For the audit log: what the order says beside its kind and its request. */
static void describe(const struct order *order, char text[KVR_DETAIL_BYTES])
{
    int used = 0;

    if (order->attempt >= 0)
        used = snprintf(text, KVR_DETAIL_BYTES, "attempt %lld", (long long)order->attempt);
    if (order->kind == KVR_ORDER_RENEW || order->kind == KVR_ORDER_RECORD)
        snprintf(text + used, KVR_DETAIL_BYTES - (size_t)used, "%sfor %llu ms",
                 used > 0 ? ", " : "", (unsigned long long)(order->lease_ns / KVR_MS));
}

enum MHD_Result http_order_take(struct request *request, const char *path)
{
    static const struct kvr_report_answer none;
    struct api_answer answer;
    enum MHD_Result result;

    if (!http_question(request, path, &result))
        return result;
    if (!order_parse(path, &request->query, &request->order, &answer))
        return http_send_answer(request, &answer);
    http_audit_begin(request, kvr_order_name(request->order.kind), request->order.object,
                     &request->order.audit);
    describe(&request->order, request->order.audit.detail);
    MHD_suspend_connection(request->connection);
    request->waits = WAITS_FOR_ORDER;
    if (ingest_order(request->http->options.ingest, &request->order, answered, request) != KVR_OK)
        answered(request, KVR_AGAIN, &none, "too much waits to be written: send it again");
    return MHD_YES;
}

enum MHD_Result http_order_answer(struct request *request)
{
    struct api_answer answer;

    request->waits = WAITS_FOR_NOTHING;
    if (request->status != KVR_OK)
        return http_send_error(request,
                               request->status == KVR_NOT_FOUND ? MHD_HTTP_NOT_FOUND
                               : request->status == KVR_REFUSED ? MHD_HTTP_CONFLICT
                                                                : MHD_HTTP_SERVICE_UNAVAILABLE,
                               request->detail);
    order_answer(&request->order, &answer);
    return http_send_answer(request, &answer);
}
