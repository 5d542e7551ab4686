#include "agent/agent_health.h"

#define AWAY_NS (3 * KVR_S) /* the whole process did not run */

#define PROBLEM_ROW(symbol, name, text, next) {name, text, next},
static const struct agent_problem_facts facts[] = {AGENT_PROBLEM_LIST(PROBLEM_ROW)};

const struct agent_problem_facts *agent_problem_facts(agent_problem problem)
{
    return &facts[problem];
}

static void set(struct agent_health *health, agent_problem problem, bool there, kvr_ns since)
{
    if (!there)
        health->since[problem] = 0;
    else if (health->since[problem] == 0)
        health->since[problem] = since;
}

/* The first of them that stands still, by when it moved last; KVR_NEVER: none does. */
static kvr_ns still_since(struct agent_health *health, const struct agent_health_look *look,
                          kvr_ns now)
{
    bool away = now - health->looked_at > AWAY_NS;
    kvr_ns since = KVR_NEVER;

    for (uint32_t i = 0; i < look->thread_count; i++) {
        if (away || look->threads[i].asleep || look->threads[i].steps != health->steps[i])
            health->moved_at[i] = now;
        health->steps[i] = look->threads[i].steps;
        if (now - health->moved_at[i] >= AGENT_STILL_NS && health->moved_at[i] < since)
            since = health->moved_at[i];
    }
    return since;
}

void agent_health_look(struct agent_health *health, const struct agent_health_look *look,
                       kvr_ns now)
{
    kvr_ns still = still_since(health, look, now);

    set(health, AGENT_THREAD_STILL, still != KVR_NEVER, still);
    set(health, AGENT_NO_RAIL, look->rails_up == 0, now);
    set(health, AGENT_STOPPING, look->stopping, now);
    health->looked_at = now;
}

void agent_health_judge(const struct agent_health *health, kvr_ns ran_at, kvr_ns now,
                        struct agent_health_view *ret_view)
{
    kvr_ns since[AGENT_PROBLEM_END];

    for (int problem = 0; problem < AGENT_PROBLEM_END; problem++)
        since[problem] = health->since[problem];
    if (now > ran_at && now - ran_at >= AGENT_STILL_NS)
        since[AGENT_LOOP_STILL] = ran_at;
    if (now < since[AGENT_NO_RAIL] + AGENT_NO_RAIL_NS)
        since[AGENT_NO_RAIL] = 0;
    ret_view->count = 0;
    for (int problem = 0; problem < AGENT_PROBLEM_END; problem++)
        if (since[problem] != 0) {
            ret_view->problems[ret_view->count].problem = (agent_problem)problem;
            ret_view->problems[ret_view->count++].since = since[problem];
        }
}
