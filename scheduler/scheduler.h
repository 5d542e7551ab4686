/* The scheduler's parts, opened and closed in the order of their dependencies. */
#ifndef KVR_SCHEDULER_SCHEDULER_H
#define KVR_SCHEDULER_SCHEDULER_H

#include "scheduler/http.h"

struct scheduler_options {
    struct store_place place;  /* its folder was made before; retention: of ended transfers */
    uint64_t database_bytes;   /* of SQLite that may be in use; 0: any number */
    struct kvr_address listen; /* a literal, or localhost */
    uint64_t connections_max, connections_per_host;
    const char *web_root; /* NULL: the page that is compiled in */
    struct access_options access;
    const struct kvr_tls_config *tls; /* NULL: plain HTTP */
};

struct scheduler {
    struct store *writer, *reader, *stream_reader;
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct ingest *ingest;
    struct api *api;
    struct api_fleet *api_fleet;
    struct queries *searches, *fleet_queries;
    struct changes *changes;
    struct stream *stream;
    struct access *access;
    struct http_tls *tls;
    struct http *http;
    uint16_t port; /* where it listens */
};

/* *scheduler is zeroed before. The caller closes it, also after a failure. */
KVR_MUST_CHECK kvr_status scheduler_open(const struct scheduler_options *options,
                                         struct scheduler *scheduler, struct kvr_error *error);
/* About once a second, from one thread. */
void scheduler_tick(struct scheduler *scheduler, kvr_ns now);
/* Refuses new reports first, then commits and answers the reports that the writer holds. */
void scheduler_close(struct scheduler *scheduler);

#endif
