/* The router of a replay: starts the engines as processes, hands them requests as a trace and a
 * limit say, follows every request to its end on both sides, and adds up the figures. */
#ifndef KVR_TOOLS_REPLAY_ROUTER_H
#define KVR_TOOLS_REPLAY_ROUTER_H

#include <stdio.h>
#include <sys/types.h>

#include "tools/replay/replay_faults.h"
#include "tools/replay/replay_figures.h"
#include "tools/replay/replay_message.h"

struct replay_engine_process {
    pid_t pid;
    int socket;                      /* -1: the process is gone, or has said everything */
    bool up;                         /* connected to its agent */
    struct replay_identity identity; /* valid once it is up */
};

/* A time at which layers of a request were ready or in. */
struct replay_layer_time {
    kvr_ns at;
    uint32_t layer_first, layer_end;
    uint64_t token_first, token_end;
};

struct replay_layer_times {
    struct replay_layer_time *items;
    uint32_t count, capacity;
};

/* A request on its way. */
struct replay_live {
    uint32_t request;
    uint32_t engines[REPLAY_ROLES]; /* places in setup->agents */
    uint32_t pending;               /* a bit for each role that has not settled it */
    kvr_ns failed_at;               /* when the first side failed; 0: none has */
    int reason;                     /* of that failure */
    int status[REPLAY_ROLES];       /* first failure of either side */
    uint64_t bytes_wrong;
    kvr_ns opened_at; /* when the target asked for it */
    kvr_ns cancel_at; /* when its recorded end is due; KVR_NEVER: it has none */
    bool cancelled;   /* it was asked to end, as recorded */
    bool struck;      /* a fault that was played met it */
    bool moving;      /* the agents know both sides */
    struct replay_layer_times ready, in;
};

struct replay_router {
    const struct replay_setup *setup;
    struct replay_figures *figures;
    struct replay_engine_process engines[REPLAY_ROLES * REPLAY_AGENTS_MAX]; /* as setup->agents */
    uint32_t engine_count;
    struct replay_live *live; /* concurrency of them */
    uint32_t live_count;
    uint32_t next; /* of the trace's requests */
    struct replay_faults faults;
    kvr_ns last_heard_at; /* any message of any engine */
    kvr_ns cancel_at;     /* next look for requests that only one side has settled */
    kvr_ns progress_at;
    bool stopping;   /* no new requests */
    int exit_status; /* of a FATAL; 0: none */
};

/* Runs the whole replay and fills *figures. The engines' process ids go to the stream, which it
 * closes; NULL: they are not written. Returns 0, or the exit status that an engine asked for: the
 * sentence was written then. */
int replay_route(const struct replay_setup *setup, struct replay_figures *figures, FILE *pids);

/* The process of an engine is gone, and everything that it had. */
void replay_router_settle_lost(struct replay_router *router, uint32_t at);
/* Writes a sentence to standard error. */
void replay_router_say(const char *text);

#endif
