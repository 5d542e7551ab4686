/* Notices to every engine of the agent: agents and cards that come and go. Also the log lines about
 * requests. */
#include <inttypes.h>
#include <stdio.h>

#include "agent/agent_state.h"
#include "base/log.h"

static void tell_engines(struct kvr_agent *agent, struct kvr_notice *notice, const char *name)
{
    snprintf(notice->agent, sizeof(notice->agent), "%s", name);
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        if (agent->machine.engines->local[i].attached)
            kvr_engine_port_notify(agent->port, i, notice);
}

void agent_tell_peer_up(struct kvr_agent *agent, const char *name)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_PEER_UP};

    tell_engines(agent, &notice, name);
}

void agent_tell_peer_warm(struct kvr_agent *agent, const char *name)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_PEER_WARM};

    tell_engines(agent, &notice, name);
}

void agent_tell_peer_down(struct kvr_agent *agent, const struct kvr_peer_info *peer,
                          kvr_status status, const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_PEER_DOWN, .status = status};

    snprintf(notice.detail, sizeof(notice.detail), "%s: %s", peer->address, detail);
    tell_engines(agent, &notice, peer->agent);
}

void agent_tell_turned_away(struct kvr_agent *agent, kvr_ns now, const char *who, kvr_status status,
                            const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_TARGET_REFUSED, .status = status};

    if ((status != KVR_INCOMPATIBLE && status != KVR_VERSION) ||
        agent->machine.role != KVR_ROLE_SOURCE ||
        (agent->turned_away_told != 0 && now - agent->turned_away_told < KVR_S))
        return;
    agent->turned_away_told = now;
    snprintf(notice.detail, sizeof(notice.detail), "%s", detail);
    tell_engines(agent, &notice, who);
}

/* The engines of both sides do not match, or plan otherwise: a configuration must change. Agents
 * that were refused at hello have logged that already, and have no peer here. */
static bool is_refusal(const struct kvr_event *event)
{
    return event->kind == KVR_EVENT_FAILING && event->peer[0] != '\0' &&
           (event->outcome == KVR_INCOMPATIBLE || event->outcome == KVR_PLAN_MISMATCH);
}

static void emit(void *self, const struct kvr_event *event)
{
    const struct kvr_agent *agent = self;

    if (is_refusal(event))
        kvr_log_warning("request \"%s\", attempt %" PRIu32 ", cannot go %s \"%s\" (%s): %s",
                        event->request, event->attempt,
                        event->role == KVR_ROLE_SOURCE ? "to" : "from", event->peer,
                        kvr_status_name(event->outcome), event->detail);
    agent->reports.emit(agent->reports.self, event);
}

struct kvr_event_sink agent_events(struct kvr_agent *agent, struct kvr_event_sink reports)
{
    agent->reports = reports;
    return (struct kvr_event_sink){.self = agent, .emit = emit};
}

void agent_tell_rail(struct kvr_agent *agent, uint32_t rail, kvr_status status, const char *why)
{
    const struct kvr_rail_facts *facts = agent->fabric.ops->rail_facts(agent->rails[rail]);
    const char *name = facts->source[0] != '\0' ? facts->source : facts->name;
    struct kvr_notice notice = {.kind = KVR_NOTICE_RAIL_UP, .status = status};

    if ((status != KVR_OK) == agent->rail_down[rail])
        return;
    agent->rail_down[rail] = status != KVR_OK;
    if (status != KVR_OK) {
        notice.kind = KVR_NOTICE_RAIL_DOWN;
        snprintf(notice.detail, sizeof(notice.detail), "%s", why);
        kvr_log_warning("rail %" PRIu32 ", %s, is down: %s; it is tried again every second", rail,
                        name, why);
    } else {
        kvr_log_info("rail %" PRIu32 ", %s, is up again", rail, name);
    }
    tell_engines(agent, &notice, name);
}
