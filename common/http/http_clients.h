/* The connections of the HTTP port: how many there may be (http_limits.h), and how long each may
 * take over one request.
 *
 * libmicrohttpd closes an idle connection, but one byte a second keeps a connection open for ever.
 * So each connection must bring a whole request within HTTP_REQUEST_SECONDS of its beginning, and
 * of its last request. Else it is closed.
 *
 * `admit`, `joined`, `asked` and `left`: the daemon's thread. `sweep`: any thread. */
#ifndef KVR_HTTP_CLIENTS_H
#define KVR_HTTP_CLIENTS_H

#include <pthread.h>

#include "base/clock.h"
#include "http/http_limits.h"
#include "http/http_tls.h"

#define HTTP_REQUEST_SECONDS 30

struct http_client {
    struct http_client *next, *previous;
    int socket;    /* libmicrohttpd's; open until `left` has returned */
    uint64_t host; /* of http_limits_host */
    kvr_ns asked_at;
    bool has_asked;          /* a whole request; the daemon's thread */
    struct http_shown shown; /* with TLS; the daemon's thread */
};

struct http_clients {
    pthread_mutex_t lock;
    struct http_client *first; /* guarded by lock, and so are asked_at and the next two */
    uint64_t count;
    struct http_limits limits;
};

KVR_MUST_CHECK kvr_status http_clients_init(struct http_clients *clients, uint64_t max,
                                            uint64_t per_host);
void http_clients_done(struct http_clients *clients); /* all have left */

/* Before it joins: HTTP_LIMIT_END, or the limit that refuses it. */
http_limit http_clients_admit(struct http_clients *clients, uint64_t host);
/* As http_limits_say. */
uint64_t http_clients_say(struct http_clients *clients, bool refused, kvr_ns now);

/* NULL without memory: then only the idle time bounds the connection. */
struct http_client *http_client_joined(struct http_clients *clients, kvr_ns now, int socket,
                                       uint64_t host);
/* A whole request has come. client: NULL is fine, here and below. */
void http_client_asked(struct http_clients *clients, kvr_ns now, struct http_client *client);
/* False: it has left without a whole request. */
bool http_client_left(struct http_clients *clients, struct http_client *client);

/* Closes connections that are too slow. Returns how many there are. */
uint64_t http_clients_sweep(struct http_clients *clients, kvr_ns now);

#endif
