/* The scheduler's port (http_server.h), and what its paths mean.
 *
 *   POST /ingest/v1/events   agents' reports; suspended until the writer has committed
 *   POST /api/v1/requests/…  order.h; likewise
 *   …    /api/v1/session     http_session.c
 *   GET  /healthz, /readyz   api_health.c
 *   GET  /metrics, /api/…    api.h, api_fleet.h
 *   GET  /api/v1/stream      http_stream.c
 *   GET  /, /app-HASH.js …   the page, compiled in or from --web-root
 *
 * Bodies are at most KVR_REPORT_BYTES_MAX, all bodies together HTTP_BODIES_BYTES_MAX. */
#ifndef KVR_SCHEDULER_HTTP_H
#define KVR_SCHEDULER_HTTP_H

#include "http/http_server.h"
#include "scheduler/api.h"
#include "scheduler/ingest.h"
#include "scheduler/queries.h"
#include "scheduler/stream.h"

#define HTTP_BODIES_BYTES_MAX ((size_t)64 << 20)

struct http_options {
    struct kvr_address listen;                      /* a literal, or localhost */
    uint64_t connections_max, connections_per_host; /* 0 per host: any number */
    const char *web_root;                           /* NULL: the page that is compiled in */
    struct ingest *ingest;
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct queries *searches, *fleet_queries; /* of api.h, and of api_fleet.h */
    struct stream *stream;
    struct access *access;
    struct http_tls *tls; /* NULL: plain HTTP */
};

struct http;

KVR_MUST_CHECK kvr_status http_start(const struct http_options *options, struct http **ret_http,
                                     uint16_t *ret_port, struct kvr_error *error);
/* About once a second, from one thread: ends connections that are too slow, and follows files that
 * have changed. */
void http_tick(struct http *http, kvr_ns now);
/* From now on reports are answered 503; what the writer holds is still answered. */
void http_drain(struct http *http);
/* After ingest_stop and queries_stop. Returns NULL. */
struct http *http_stop(struct http *http);

#endif
