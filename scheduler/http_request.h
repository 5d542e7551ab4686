/* One HTTP request on its way, shared by the files that serve it: http.c (the daemon and GET),
 * http_post.c (reports and orders). The daemon's thread, unless it says otherwise. */
#ifndef KVR_SCHEDULER_HTTP_REQUEST_H
#define KVR_SCHEDULER_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "scheduler/http.h"
#include "scheduler/http_clients.h"

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    struct http_clients clients;
    size_t body_bytes; /* of all requests under way; the daemon's thread only */
    _Atomic bool draining;
};

/* From its first header to its last byte. */
struct request {
    struct http *http;
    struct MHD_Connection *connection;
    uint8_t *body;
    size_t body_bytes, body_room;
    bool posts; /* to a path where one posts */
    enum request_wait {
        WAITS_FOR_NOTHING, /* or not yet */
        WAITS_FOR_REPORT,  /* suspended until the writer has answered, as for the next */
        WAITS_FOR_ORDER,
        WAITS_FOR_QUERY, /* until the queries' thread has answered */
    } waits;
    struct api_query query;
    struct api_answer answered; /* the query's */
    kvr_status status;          /* the writer's, as the next two */
    struct kvr_report_answer answer;
    char detail[KVR_DETAIL_BYTES];
    struct order order;
};

/* Takes the body over: from malloc. */
enum MHD_Result http_send(struct request *request, unsigned status, const char *type, void *body,
                          size_t size);
enum MHD_Result http_send_json(struct request *request, const struct api_answer *answer);
enum MHD_Result http_send_error(struct request *request, unsigned status, const char *message);
/* Fills request->query. False: there are more parameters than any path has. */
bool http_query(struct request *request);

/* ---- http_post.c ---- */

bool http_body_keep(struct request *request, const char *data, size_t size);
void http_body_forget(struct request *request);
/* begin: before the body is read; what will be refused anyway is not received. take: it is whole
 * and waits for the writer. answer: the writer has answered. */
enum MHD_Result http_report_begin(struct request *request);
enum MHD_Result http_report_take(struct request *request);
enum MHD_Result http_report_answer(struct request *request);
enum MHD_Result http_order_begin(struct request *request);
enum MHD_Result http_order_take(struct request *request, const char *path);
enum MHD_Result http_order_answer(struct request *request);

#endif
