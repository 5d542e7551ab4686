/* A port with HTTP: libmicrohttpd in one thread of its own.
 *
 * Here are the port, its connections and their limits, and the right of each request. What a path
 * means is the owner's. Connections that are idle, or slow over a request (http_clients.h), are
 * closed, and their number is bounded, also of one host (http_limits.h), so garbage costs nothing.
 */
#ifndef KVR_HTTP_SERVER_H
#define KVR_HTTP_SERVER_H

#include <microhttpd.h>

#include "base/address.h"
#include "http/access.h"
#include "http/http_counts.h"
#include "http/http_tls.h"

#define HTTP_IDLE_SECONDS 15

struct http_server_options {
    struct kvr_address listen;                      /* a literal, or localhost */
    uint64_t connections_max, connections_per_host; /* 0 per host: any number */
    struct access *access;
    struct http_tls *tls; /* NULL: plain HTTP */
    struct http_counts *counts;
    MHD_AccessHandlerCallback serve; /* libmicrohttpd's; the daemon's thread */
    MHD_RequestCompletedCallback done;
    void *self;        /* of both */
    bool limits_fixed; /* they are no options */
};

/* The sender of a request, as far as that is known. */
struct http_asker {
    struct kvr_address from; /* host empty: not known */
    struct access_actor actor;
    char agent[KVR_NAME_BYTES]; /* that a certificate names; "": none does */
};

struct http_server;

/* Both are set before the first request comes. */
KVR_MUST_CHECK kvr_status http_server_start(const struct http_server_options *options,
                                            struct http_server **ret_server, uint16_t *ret_port,
                                            struct kvr_error *error);
/* About once a second, from one thread: ends connections that are too slow, and follows files that
 * have changed. */
void http_server_tick(struct http_server *server, kvr_ns now);
/* NULL is fine; returns NULL. */
struct http_server *http_server_stop(struct http_server *server);

/* ---- the daemon's thread, for `serve` ---- */

/* Once the headers are there, before anything of the request is looked at. cookie: of a session, or
 * NULL. REFUSAL_END: it may. */
refusal http_server_check(struct http_server *server, struct MHD_Connection *connection,
                          access_need need, const char *path, const char *cookie,
                          struct http_asker *ret_asker);
/* Counts and logs a refusal; returns its status and sentence. */
const struct refusal_facts *http_server_refuse(struct http_server *server,
                                               const struct http_asker *asker, refusal why);
/* The whole request is here. */
void http_server_asked(struct http_server *server, struct MHD_Connection *connection);

#endif
