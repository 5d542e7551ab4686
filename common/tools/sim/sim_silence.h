/* Processes that stand still: an engine for a while, an agent for longer than deadlines, or both.
 * And what the library between them makes of that (client/client_silence.h). Part of sim_world.h.
 */
#ifndef KVR_TOOLS_SIM_SILENCE_H
#define KVR_TOOLS_SIM_SILENCE_H

#include "client/client_silence.h"

struct sim_agent;
struct sim_engine;
struct sim_event;
struct sim_fetch;
struct sim_held;
struct sim_world;

struct sim_library {
    struct client_silence silence;
    bool on;                                 /* a request is open, or the agent is silent */
    uint64_t turn;                           /* looks that were due in an earlier turn are void */
    kvr_ns stopped_at, stopped_until;        /* its engine */
    struct sim_held *held_first, *held_last; /* notices that its engine has not read */
    bool behind;                             /* they are read now: the words may say more */
};

/* The agent's loop turns. */
void sim_silence_sign(struct sim_agent *agent);
/* A request of the engine was opened. */
void sim_silence_watch(struct sim_engine *engine);
/* The connection has ended. */
void sim_silence_end(struct sim_engine *engine);
/* False: the library keeps the notice to itself; else it may have changed it. */
bool sim_silence_take(struct sim_fetch *fetch, struct kvr_notice *notice);

bool sim_engine_stopped(const struct sim_engine *engine);
/* The engine is stopped: the event comes again when it runs. */
bool sim_engine_deferred(struct sim_engine *engine, const struct sim_event *event);
/* True: the engine reads the notice later. */
bool sim_engine_holds(struct sim_engine *engine, const struct kvr_notice *notice);
/* It runs again, because its agent ends. */
void sim_engine_resume(struct sim_engine *engine);

/* Faults. */
void sim_engine_stop_awhile(struct sim_world *world);
void sim_agent_freeze(struct sim_world *world);
/* An agent wakes and calls a peer silent that it has not listened to. */
void sim_check_blame(struct sim_agent *agent, kvr_status status, const char *detail);

#endif
