/* The scheduler's parts, opened and closed in the order that they need of each other. */
#ifndef KVR_SCHEDULER_SCHEDULER_H
#define KVR_SCHEDULER_SCHEDULER_H

#include "scheduler/http.h"

struct scheduler_options {
    const char *state_dir;     /* made before */
    kvr_ns retention;          /* of what has ended; KVR_NEVER: for ever */
    struct kvr_address listen; /* a literal, or localhost */
    const char *web_root;      /* NULL: the page that is compiled in */
};

struct scheduler {
    struct store *writer, *reader;
    struct fleet *fleet;
    struct metrics *metrics;
    struct ingest *ingest;
    struct api *api;
    struct http *http;
    uint16_t port; /* where it listens */
};

/* *scheduler is zeroed, and to be closed whatever comes of it. */
KVR_MUST_CHECK kvr_status scheduler_open(const struct scheduler_options *options,
                                         struct scheduler *scheduler, struct kvr_error *error);
/* Reports are refused first, then what the writer holds is committed and answered. */
void scheduler_close(struct scheduler *scheduler);

#endif
