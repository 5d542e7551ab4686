/* The faults of a recording, as far as a replay can cause them. The replay kills its own engines
 * and starts them anew. Where --faults agents says so, the replay stops and kills agents by
 * signals. Other faults (of rails, planes, schedulers) are counted as not played, by kind.
 *
 * With --speed a fault comes at its time, with --speed max when all requests before it have begun.
 */
#ifndef KVR_TOOLS_REPLAY_FAULTS_H
#define KVR_TOOLS_REPLAY_FAULTS_H

#include "tools/replay/replay_agents.h"

typedef enum replay_strike {
    REPLAY_STRIKE_NONE,    /* a replay cannot cause it */
    REPLAY_STRIKE_RESTART, /* of an engine: killed, and started anew */
    REPLAY_STRIKE_KILL,    /* of an agent: killed */
    REPLAY_STRIKE_STOP,    /* of an agent: stopped for a while */
} replay_strike;

/* X(kind, strike): of other kinds none is caused. */
#define REPLAY_FAULT_LIST(X)                                                                       \
    X(KVR_FAULT_ENGINE_ENDED, REPLAY_STRIKE_RESTART)                                               \
    X(KVR_FAULT_AGENT_ENDED, REPLAY_STRIKE_KILL)                                                   \
    X(KVR_FAULT_AGENT_SILENT, REPLAY_STRIKE_STOP)                                                  \
    X(KVR_FAULT_AGENT_ABSENT, REPLAY_STRIKE_STOP)

replay_strike replay_strike_of(const char *kind);

/* What the faults do to the agent of one place, or to its engine. */
struct replay_struck {
    bool down;      /* until its engine is connected again */
    bool killed;    /* the agent: no further signal is sent to its process */
    kvr_ns thaw_at; /* 0: the agent runs */
};

struct replay_faults {
    uint32_t next;                                                 /* of the recording's */
    struct replay_struck struck[REPLAY_ROLES * REPLAY_AGENTS_MAX]; /* as setup->agents */
};

struct replay_router;

/* Plays what is due. */
void replay_faults_play(struct replay_router *router, kvr_ns now);
/* When the next one is due, or an agent is to go on. KVR_NEVER: only a request brings the next. */
kvr_ns replay_faults_due(const struct replay_router *router);
/* A fault that is at work meets requests of this place. */
bool replay_faults_meet(const struct replay_router *router, uint32_t at);
/* Lets stopped agents go on, and counts the faults that were not reached. */
void replay_faults_end(struct replay_router *router);

#endif
