/* The end of an agent: it takes no new work, waits for the old, and names the requests that it
 * gives up. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"

#define LINGER_NS  (5 * KVR_S) /* for requests that were given up to settle */
#define NAMES_MAX  64
#define NAMES_ROOM 600 /* of a log line */

void agent_drain_on_signal(struct kvr_agent *agent, int signal)
{
    char why[24];

    if (agent->signalled) {
        kvr_log_warning("second signal %d: leaving at once", signal);
        kvr_log_flush();
        _exit(1);
    }
    agent->signalled = true;
    snprintf(why, sizeof(why), "signal %d", signal);
    if (agent->draining) /* its engines have ended before */
        kvr_log_info("%s: the agent ends already; a second signal ends it at once", why);
    else
        agent_drain(agent, why);
}

void agent_drain(struct kvr_agent *agent, const char *why)
{
    kvr_log_info("%s: taking no new work, %u requests to end", why,
                 agent->machine.requests(agent->machine.self, NULL, 0));
    agent->draining = true;
    agent->drained = false;
    agent->drain_end =
        kvr_clock_now() + kvr_agent_time(agent->config, agent->config->drain_timeout);
    agent->machine.drain(agent->machine.self, "this agent is shutting down");
}

void agent_rest(struct kvr_agent *agent, bool drained)
{
    if (agent->draining || agent->drained == drained)
        return;
    agent->drained = drained;
    agent->machine.drain(agent->machine.self,
                         drained ? "an operator has drained this agent: use another one" : NULL);
    if (drained)
        kvr_log_info("the scheduler drains this agent: it takes no new requests; %u go on",
                     agent->machine.requests(agent->machine.self, NULL, 0));
    else
        kvr_log_info("the scheduler resumes this agent: it takes new requests again");
}

/* "a, b and 5 more": as many names as fit into a line. */
static void name_requests(const struct kvr_agent *agent, char text[NAMES_ROOM])
{
    const char *requests[NAMES_MAX];
    uint32_t all = agent->machine.requests(agent->machine.self, requests, NAMES_MAX);
    uint32_t named = 0;
    size_t used = 0;

    text[0] = '\0';
    for (; named < all && named < NAMES_MAX; named++) {
        size_t bytes = strlen(requests[named]) + 2;

        if (used + bytes + 32 > NAMES_ROOM)
            break;
        used += (size_t)snprintf(text + used, NAMES_ROOM - used, "%s%s", named > 0 ? ", " : "",
                                 requests[named]);
    }
    if (named < all)
        snprintf(text + used, NAMES_ROOM - used, " and %u more", all - named);
}

static void give_up(struct kvr_agent *agent, kvr_ns now)
{
    uint32_t count = agent->machine.requests(agent->machine.self, NULL, 0);
    char names[NAMES_ROOM];

    name_requests(agent, names);
    kvr_log_warning("giving up %u requests that did not end within --drain-timeout: %s", count,
                    names);
    agent->given_up = true;
    agent->drain_end = now + LINGER_NS;
    agent->machine.cancel_all(agent->machine.self, now, KVR_DRAINING, "the agent is shutting down");
}

bool agent_drained(struct kvr_agent *agent, kvr_ns now)
{
    uint32_t live = agent->machine.live(agent->machine.self);

    if (!agent->draining || agent->closing)
        return false;
    if (live == 0) {
        kvr_log_info("%s has ended all work and stops", agent->config->name);
        return true;
    }
    if (now < agent->drain_end)
        return false;
    if (!agent->given_up) {
        give_up(agent, now);
        return false;
    }
    kvr_log_warning("%u transfers did not settle: their pages are free when this process is gone",
                    live);
    return true;
}
