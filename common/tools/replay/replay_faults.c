#include "tools/replay/replay_faults.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/replay/replay_processes.h"
#include "trace/faults.h"

#define STOPPED_FOR (5 * KVR_S) /* where a recording does not say how long */

replay_strike replay_strike_of(const char *kind)
{
#define ROW(kind, strike) {kind, strike},
    static const struct {
        kvr_fault_kind kind;
        replay_strike strike;
    } rows[] = {REPLAY_FAULT_LIST(ROW)};
#undef ROW

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(kvr_fault_name(rows[i].kind), kind) == 0)
            return rows[i].strike;
    return REPLAY_STRIKE_NONE;
}

/* What the options allow. */
static replay_strike strike_of(const struct replay_router *router,
                               const struct replay_recorded_fault *fault)
{
    const char *allowed = router->setup->options.faults;
    replay_strike strike = replay_strike_of(fault->kind);

    if (strcmp(allowed, "none") == 0 || fault->agent < 0)
        return REPLAY_STRIKE_NONE;
    return strcmp(allowed, "agents") == 0 || strike == REPLAY_STRIKE_RESTART ? strike
                                                                             : REPLAY_STRIKE_NONE;
}

static uint32_t place_of(const struct replay_router *router,
                         const struct replay_recorded_fault *fault)
{
    const struct replay_recorded_agent *agent = &router->setup->recording.agents[fault->agent];

    return replay_agent_at(&router->setup->agents, agent->role, agent->given);
}

/* Requests that are at this place may fail from now on. */
static void mark_live(struct replay_router *router, uint32_t at)
{
    for (uint32_t i = 0; i < router->live_count; i++)
        for (int role = 0; role < (int)REPLAY_ROLES; role++)
            if (router->live[i].engines[role] == at)
                router->live[i].struck = true;
}

/* False, with a sentence: it did not get there. A killed agent's number may be another process's.
 */
static bool send_signal(struct replay_router *router, uint32_t at, int number, const char *what)
{
    const struct replay_agents *agents = &router->setup->agents;
    pid_t pid = agents->items[at].pid;
    char label[REPLAY_AGENT_LABEL_BYTES], text[REPLAY_AGENT_LABEL_BYTES + 160];
    const char *why = "this replay killed it before";

    if (!router->faults.struck[at].killed) {
        if (pid > 1 && kill(pid, number) == 0)
            return true;
        why = pid > 1 ? strerror(errno) : "--agent-pids does not give its process";
    }
    snprintf(text, sizeof(text), "%s (process %d) was not %s: %s",
             replay_agent_label(agents, at, label), (int)pid, what, why);
    replay_router_say(text);
    return false;
}

/* Requests that end with the engine were struck. */
static bool restart_engine(struct replay_router *router, uint32_t at)
{
    router->faults.struck[at].down = true;
    mark_live(router, at);
    replay_process_kill(router, at);
    replay_router_settle_lost(router, at);
    return replay_process_start(router, at);
}

static bool kill_agent(struct replay_router *router, uint32_t at)
{
    struct replay_struck *struck = &router->faults.struck[at];

    if (!send_signal(router, at, SIGKILL, "killed"))
        return false;
    *struck = (struct replay_struck){.down = true, .killed = true};
    mark_live(router, at);
    return true;
}

static bool stop_agent(struct replay_router *router, uint32_t at, int64_t for_us)
{
    kvr_ns recorded = for_us > 0 ? (kvr_ns)for_us * KVR_US : STOPPED_FOR;
    double speed = router->setup->speed > 0 ? router->setup->speed : 1;

    if (!send_signal(router, at, SIGSTOP, "stopped"))
        return false;
    router->faults.struck[at].thaw_at = kvr_clock_now() + (kvr_ns)((double)recorded / speed);
    mark_live(router, at);
    return true;
}

/* False: it did not come about. */
static bool strike(struct replay_router *router, const struct replay_recorded_fault *fault)
{
    uint32_t at;

    if (strike_of(router, fault) == REPLAY_STRIKE_NONE)
        return false;
    at = place_of(router, fault);
    switch (strike_of(router, fault)) {
    case REPLAY_STRIKE_RESTART:
        return restart_engine(router, at);
    case REPLAY_STRIKE_KILL:
        return kill_agent(router, at);
    case REPLAY_STRIKE_STOP:
        return stop_agent(router, at, fault->for_us);
    case REPLAY_STRIKE_NONE:
        break;
    }
    return false;
}

/* When a fault comes; with --speed max 0 or KVR_NEVER. */
static kvr_ns due_at(const struct replay_router *router, const struct replay_recorded_fault *fault)
{
    const struct replay_setup *setup = router->setup;
    kvr_ns at = fault->at_us > 0 ? (kvr_ns)fault->at_us * KVR_US : 0;

    if (setup->speed > 0)
        return router->figures->started_at + replay_scaled(setup, at);
    return router->next == setup->trace.request_count ||
                   replay_request(setup, router->next)->at > at
               ? 0
               : KVR_NEVER;
}

static void thaw(struct replay_router *router, kvr_ns now)
{
    for (uint32_t i = 0; i < router->engine_count; i++) {
        struct replay_struck *struck = &router->faults.struck[i];

        if (struck->thaw_at == 0 || now < struck->thaw_at)
            continue;
        struck->thaw_at = 0;
        (void)send_signal(router, i, SIGCONT, "let go on");
    }
}

void replay_faults_play(struct replay_router *router, kvr_ns now)
{
    const struct replay_recording *recording = &router->setup->recording;

    thaw(router, now);
    while (router->faults.next < recording->fault_count) {
        const struct replay_recorded_fault *fault = &recording->faults[router->faults.next];

        if (due_at(router, fault) > now)
            return;
        router->faults.next++;
        replay_reasons_add(strike(router, fault) ? &router->figures->faults_played
                                                 : &router->figures->faults_not_played,
                           fault->kind);
    }
}

kvr_ns replay_faults_due(const struct replay_router *router)
{
    const struct replay_recording *recording = &router->setup->recording;
    kvr_ns due = KVR_NEVER;

    if (router->faults.next < recording->fault_count)
        due = due_at(router, &recording->faults[router->faults.next]);
    for (uint32_t i = 0; i < router->engine_count; i++) {
        kvr_ns thaw_at = router->faults.struck[i].thaw_at;

        if (thaw_at != 0 && thaw_at < due)
            due = thaw_at;
    }
    return due;
}

bool replay_faults_meet(const struct replay_router *router, uint32_t at)
{
    return router->faults.struck[at].down || router->faults.struck[at].thaw_at != 0;
}

void replay_faults_end(struct replay_router *router)
{
    const struct replay_recording *recording = &router->setup->recording;

    thaw(router, KVR_NEVER);
    for (; router->faults.next < recording->fault_count; router->faults.next++)
        replay_reasons_add(&router->figures->faults_not_played,
                           recording->faults[router->faults.next].kind);
}
