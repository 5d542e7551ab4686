/* Answers over HTTP, with the headers that each of them has. The daemon's thread. */
#ifndef KVR_HTTP_ANSWER_H
#define KVR_HTTP_ANSWER_H

#include <microhttpd.h>
#include <stddef.h>

#include "http/ready.h"

struct http_head {
    unsigned status;
    const char *type;
    const char *methods;    /* that this path takes: GET, HEAD */
    const char *set_cookie; /* NULL: none */
};

/* Takes the body over: from malloc, NULL: no memory. */
enum MHD_Result http_answer(struct MHD_Connection *connection, const struct http_head *head,
                            void *body, size_t size);
/* Takes the reference over. Sends nothing but the ETag to a client that has it already. */
enum MHD_Result http_answer_ready(struct MHD_Connection *connection, struct ready *ready);

/* Of answers that are no page. */
#define HTTP_DATA_POLICY "default-src 'none'; frame-ancestors 'none'"

/* What every answer has. */
void http_answer_common(struct MHD_Response *response, const char *type, const char *cache,
                        const char *policy);

#endif
