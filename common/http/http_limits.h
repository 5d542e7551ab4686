/* Which connections the HTTP port takes: so many in all, and so many of one host, so that one host
 * leaves room for the others. An IPv6 network of 64 bits counts as one host. Pure; the owner has a
 * lock. */
#ifndef KVR_HTTP_LIMITS_H
#define KVR_HTTP_LIMITS_H

#include <sys/socket.h>

#include "base/clock.h"
#include "base/table.h"

/* X(symbol, label of the metric, option) */
#define HTTP_LIMIT_LIST(X)                                                                         \
    X(HTTP_LIMIT_MAX, "all", "--connections-max")                                                  \
    X(HTTP_LIMIT_PER_HOST, "host", "--connections-per-host")

typedef enum http_limit {
#define X(symbol, label, option) symbol,
    HTTP_LIMIT_LIST(X)
#undef X
        HTTP_LIMIT_END, /* no limit is reached */
} http_limit;

const char *http_limit_label(http_limit limit);
const char *http_limit_option(http_limit limit);

struct http_limits {
    uint64_t most[HTTP_LIMIT_END]; /* per host 0: any number */
    struct kvr_table hosts;        /* connections of each */
    void *memory;
    uint64_t unsaid; /* refusals since the last line of the log */
    kvr_ns said_at;  /* 0: never */
};

/* hosts: so many may have connections at once. */
KVR_MUST_CHECK kvr_status http_limits_init(struct http_limits *limits, uint64_t max,
                                           uint64_t per_host, uint32_t hosts);
void http_limits_done(struct http_limits *limits);

uint64_t http_limits_host(const struct sockaddr *from); /* a key */
/* The limit that another connection would exceed where there are `count`. */
http_limit http_limits_reached(const struct http_limits *limits, uint64_t count, uint64_t host);
uint32_t http_limits_count(const struct http_limits *limits, uint64_t host); /* of that host */
void http_limits_joined(struct http_limits *limits, uint64_t host);
void http_limits_left(struct http_limits *limits, uint64_t host);

/* One more was refused, or (refused false) some time has passed. Not 0: a line of the log is due,
 * for so many; there is one a second at most. */
uint64_t http_limits_say(struct http_limits *limits, bool refused, kvr_ns now);

#endif
