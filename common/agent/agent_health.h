/* Whether an agent works, for its /healthz. Pure.
 *
 * The loop looks at the agent once a second. Another thread judges what the loop saw: it also sees
 * that the loop itself stands still. */
#ifndef KVR_AGENT_AGENT_HEALTH_H
#define KVR_AGENT_AGENT_HEALTH_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/limits.h"

#define AGENT_STILL_NS   (5 * KVR_S) /* a thread that should run and does not, for so long */
#define AGENT_NO_RAIL_NS (2 * KVR_S) /* endpoints that are replaced are away for less */

/* X(symbol, name, what it is, what to do) */
#define AGENT_PROBLEM_LIST(X)                                                                      \
    X(AGENT_LOOP_STILL, "loop_still", "the agent's loop does not run",                             \
      "look at the load and the disks of this host, then start the agent again")                   \
    X(AGENT_THREAD_STILL, "rail_thread_still", "a thread that drives rails does not run",          \
      "look at the load of its cores (--cores), then start the agent again")                       \
    X(AGENT_NO_RAIL, "no_rail", "no rail carries writes",                                          \
      "look at the cards, their links and the agent's log")                                        \
    X(AGENT_STOPPING, "stopping", "the agent ends its work and takes no more", "start it again")

#define AGENT_PROBLEM_SYMBOL(symbol, name, text, next) symbol,
typedef enum agent_problem {
    AGENT_PROBLEM_LIST(AGENT_PROBLEM_SYMBOL) AGENT_PROBLEM_END
} agent_problem;

struct agent_problem_facts {
    const char *name, *text, *next;
};
const struct agent_problem_facts *agent_problem_facts(agent_problem problem);

/* What the loop sees. */
struct agent_health_look {
    uint32_t rails_up, thread_count;
    bool stopping;
    struct {
        uint64_t steps;
        bool asleep; /* until there is work */
    } threads[KVR_RAIL_GROUPS_MAX];
};

/* Zeroed at first. */
struct agent_health {
    kvr_ns looked_at;                /* 0: never */
    kvr_ns since[AGENT_PROBLEM_END]; /* 0: that problem is not there */
    uint64_t steps[KVR_RAIL_GROUPS_MAX];
    kvr_ns moved_at[KVR_RAIL_GROUPS_MAX];
};

void agent_health_look(struct agent_health *health, const struct agent_health_look *look,
                       kvr_ns now);

struct agent_health_view {
    int count;
    struct {
        agent_problem problem;
        kvr_ns since;
    } problems[AGENT_PROBLEM_END];
};
/* ran_at: when the loop ran last, which may be after it has looked last. */
void agent_health_judge(const struct agent_health *health, kvr_ns ran_at, kvr_ns now,
                        struct agent_health_view *ret_view);

#endif
