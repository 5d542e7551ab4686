/* The connections of the HTTP port: how many there may be (http_limits.h), and how long each may
 * take over one request.
 *
 * libmicrohttpd closes an idle connection, but one byte a second keeps a connection open for ever.
 * So each connection must bring a whole request within HTTP_REQUEST_SECONDS of its beginning, and
 * of its last request. Else it is closed.
 *
 * Where there are as many as may be, a new one takes the place of the oldest that has not brought a
 * request yet. Where all have, it takes one of the host that has most, unless its own host would
 * then have as many. So connections that are held open do not keep others out.
 *
 * `admit`, `joined`, `asked` and `left`: the daemon's thread. `sweep`: any thread. */
#ifndef KVR_HTTP_CLIENTS_H
#define KVR_HTTP_CLIENTS_H

#include <pthread.h>

#include "base/clock.h"
#include "http/http_limits.h"
#include "http/http_tls.h"

#define HTTP_REQUEST_SECONDS 30
#define HTTP_CLOSING_MAX     16 /* connections that have lost their place, and are still there */

struct http_client {
    struct http_client *next, *previous;
    int socket;    /* libmicrohttpd's; open until `left` has returned */
    uint64_t host; /* of http_limits_host */
    kvr_ns asked_at;
    bool has_asked, closing; /* a whole request has come; it has lost its place. By lock. */
    struct http_shown shown; /* with TLS; the daemon's thread */
};

struct http_clients {
    pthread_mutex_t lock;
    struct http_client *first, *last; /* the youngest and the oldest; by lock, as the next ones */
    uint64_t count, closing;
    struct http_limits limits;
};

KVR_MUST_CHECK kvr_status http_clients_init(struct http_clients *clients, uint64_t max,
                                            uint64_t per_host);
void http_clients_done(struct http_clients *clients); /* all have left */

/* Before it joins: HTTP_LIMIT_END, or the limit that refuses it. *ret_closed: another one was
 * closed for it. */
http_limit http_clients_admit(struct http_clients *clients, uint64_t host, bool *ret_closed);
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
