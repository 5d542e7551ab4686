/* One HTTP request on its way, shared by the files that serve it. The daemon's thread, unless it
 * says otherwise.
 *
 * http.c has the routes and the answers to GET; http_access.c has the right that each route needs;
 * http_answer.c writes answers. http_post.c takes reports and orders, http_session.c signs browsers
 * in and out, and http_stream.c sends live news.
 */
#ifndef KVR_SCHEDULER_HTTP_REQUEST_H
#define KVR_SCHEDULER_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "scheduler/http.h"
#include "scheduler/page.h"

#define COOKIE_NAME_BYTES 32

struct http {
    struct http_options options;
    struct http_server *server;
    uint16_t port;
    size_t body_bytes; /* of all requests under way; the daemon's thread only */
    _Atomic bool draining;
};

typedef enum request_route {
    ROUTE_PAGE,
    ROUTE_METRICS,
    ROUTE_HEALTH,
    ROUTE_API, /* and every path that does not exist */
    ROUTE_SESSION,
    ROUTE_STREAM,
    ROUTE_REPORT,
    ROUTE_ORDER,
} request_route;

typedef enum request_wait {
    WAITS_FOR_NOTHING, /* or not yet */
    WAITS_FOR_REPORT,  /* suspended until the writer has answered, as for the next */
    WAITS_FOR_ORDER,
    WAITS_FOR_QUERY, /* until the queries' thread has answered */
} request_wait;

/* From its first header to its last byte. */
struct request {
    struct http *http;
    struct MHD_Connection *connection;
    request_route route;
    struct http_asker asker;
    char set_cookie[192]; /* a header of the answer, or "" */
    uint8_t *body;
    size_t body_bytes, body_room;
    request_wait waits;
    struct api_query query;
    struct api_answer answered; /* the query's */
    kvr_status status;          /* the writer's, as the next two */
    struct kvr_report_answer answer;
    char detail[KVR_DETAIL_BYTES];
    struct order order;
    struct stream_seat *seat; /* of a viewer of the stream; NULL: it is none */
    kvr_ns checked_at;        /* its right, last */
};

/* ---- http_answer.c ---- */

/* Takes the body over: from malloc. */
enum MHD_Result http_send(struct request *request, unsigned status, const char *type, void *body,
                          size_t size);
enum MHD_Result http_send_answer(struct request *request, const struct api_answer *answer);
enum MHD_Result http_send_error(struct request *request, unsigned status, const char *message);
enum MHD_Result http_send_page(struct request *request, struct page *page);
/* Fills request->query. False: there are more parameters than any path has. */
bool http_query(struct request *request);
/* The same, and path and parameters are UTF-8. False: it was answered, with *ret_result. */
bool http_question(struct request *request, const char *path, enum MHD_Result *ret_result);

/* ---- http_access.c ---- */

/* Of the cookie of a session. Cookies know no ports, so each scheduler has a name of its own. */
void http_cookie_name(const struct http *http, char name[COOKIE_NAME_BYTES]);

/* Before anything of the request is looked at. False: it was answered, with *ret_result. */
bool http_access(struct request *request, const char *path, const char *method,
                 enum MHD_Result *ret_result);
/* Counts, logs and answers. */
enum MHD_Result http_refuse(struct request *request, refusal why);
/* An entry of the audit log about this request, without its outcome. */
void http_audit_begin(const struct request *request, const char *action, const char *object,
                      struct audit_entry *ret_entry);

/* The same again, later: it still may. */
bool http_still_may(struct request *request, const char *path);

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

/* ---- http_session.c ---- */

enum MHD_Result http_session(struct request *request, const char *method);

/* ---- http_stream.c ---- */

/* Of GET and HEAD. */
enum MHD_Result http_stream(struct request *request);
void http_stream_done(struct request *request);

#endif
