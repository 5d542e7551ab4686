/* The agent's own HTTP port, shared by its two files: agent_http.c opens it and takes what the loop
 * shows, agent_http_answer.c answers.
 *
 * The loop publishes a snapshot once a second and never waits: where the snapshot is just
 * being read it goes on, and its next one is a second younger. A thread of the port's own ends slow
 * connections and follows files; libmicrohttpd's thread answers. Both give way to all others of the
 * agent. Without --http there is none of this. */
#ifndef KVR_AGENT_HTTP_STATE_H
#define KVR_AGENT_HTTP_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent_health.h"
#include "http/http_server.h"
#include "http/ready.h"
#include "trace/report.h"

struct agent_http_shown {
    uint64_t serial; /* 0: nothing was published yet */
    struct agent_health health;
    uint64_t dropped;
    bool has_pairs; /* some were reported */
    uint64_t pairs[KVR_PAIR_STATE_END];
    struct kvr_agent_facts facts;
};

struct agent_http {
    const char *name; /* the agent's */
    struct http_server_options options;
    struct http_counts counts;
    struct http_server *server;
    uint16_t port;

    pthread_t thread;
    pthread_mutex_t lock; /* guards the next six */
    pthread_cond_t changed;
    bool started, stop, hung_up;
    kvr_status status; /* of the start */
    struct kvr_error error;

    _Atomic kvr_ns ran_at;      /* the loop */
    struct agent_health health; /* the loop's */
    pthread_mutex_t shown_lock; /* guards the next one */
    struct agent_http_shown shown;

    /* The daemon's thread. */
    struct agent_http_shown copy;
    struct agent_http_text {
        struct ready *text;
        uint64_t serial; /* of the snapshot that it shows */
        bool up;
    } texts[2]; /* Prometheus, OpenMetrics */
};

/* libmicrohttpd's. */
enum MHD_Result agent_http_serve(void *self, struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_size, void **context);

#endif
