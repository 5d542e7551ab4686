/* The connections of the HTTP port, and how long each may take over one request.
 *
 * libmicrohttpd closes an idle connection, but one byte a second keeps a connection open for ever.
 * So each connection must bring a whole request within HTTP_REQUEST_SECONDS of its beginning, and
 * of its last request. Else it is closed.
 *
 * `joined`, `asked` and `left`: the daemon's thread. `sweep`: any thread. */
#ifndef KVR_SCHEDULER_HTTP_CLIENTS_H
#define KVR_SCHEDULER_HTTP_CLIENTS_H

#include <pthread.h>

#include "base/clock.h"
#include "scheduler/http_tls.h"

#define HTTP_REQUEST_SECONDS 30

struct http_client {
    struct http_client *next, *previous;
    int socket; /* libmicrohttpd's; open until `left` has returned */
    kvr_ns asked_at;
    bool has_asked;          /* a whole request; the daemon's thread */
    struct http_shown shown; /* with TLS; the daemon's thread */
};

struct http_clients {
    pthread_mutex_t lock;
    struct http_client *first; /* guarded by lock, and so is asked_at */
};

void http_clients_init(struct http_clients *clients);
void http_clients_done(struct http_clients *clients); /* all have left */

/* NULL without memory: then only the idle time bounds the connection. */
struct http_client *http_client_joined(struct http_clients *clients, kvr_ns now, int socket);
/* A whole request has come. client: NULL is fine, here and below. */
void http_client_asked(struct http_clients *clients, kvr_ns now, struct http_client *client);
/* False: it has left without a whole request. */
bool http_client_left(struct http_clients *clients, struct http_client *client);

/* Closes connections that are too slow. */
void http_clients_sweep(struct http_clients *clients, kvr_ns now);

#endif
