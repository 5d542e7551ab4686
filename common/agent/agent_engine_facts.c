/* Engines in the agent's reports: those that are attached, and for a while those that have gone. */
#include <string.h>

#include "agent/agent_state.h"

static void engine_snapshot(const struct kvr_agent *agent, uint32_t index,
                            struct kvr_engine_facts *facts)
{
    const struct kvr_engine *engine = &agent->machine.engines->local[index];

    memcpy(facts->name, engine->name, sizeof(facts->name));
    facts->rank = engine->rank;
    memcpy(facts->model, engine->compat.model, sizeof(facts->model));
    facts->region_count = engine->set != NULL ? engine->set->count : 0;
    facts->region_bytes = agent->engines[index].region_bytes;
    kvr_region_set_geometry(engine->set, &engine->compat, facts->geometry);
}

void agent_engine_lent(struct kvr_agent *agent, uint32_t engine)
{
    struct kvr_engine_facts facts = {0}, *most = &agent->engines[engine].most;

    engine_snapshot(agent, engine, &facts);
    if (facts.region_count >= most->region_count)
        *most = facts;
}

void agent_engine_gone(struct kvr_agent *agent, uint32_t engine, kvr_ns now)
{
    agent_engine_lent(agent, engine); /* it may never have had any */
    gone_book_add(&agent->gone, &agent->engines[engine].most, now);
}

void agent_engines_tell(struct kvr_agent *agent, bool heard, struct kvr_agent_facts *facts)
{
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        if (agent->machine.engines->local[i].attached)
            engine_snapshot(agent, i, &facts->engines[facts->engine_count++]);
    gone_book_tell(&agent->gone, kvr_clock_now(), heard, facts);
}
