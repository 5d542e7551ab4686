/* Agents as JSON: /api/v1/agents. Written without a tree: 256 agents with 32 rails each have
 * 300,000 members. Any thread. */
#ifndef KVR_SCHEDULER_API_AGENTS_H
#define KVR_SCHEDULER_API_AGENTS_H

#include "scheduler/api.h"
#include "scheduler/json_writer.h"

void api_get_agents(struct fleet *fleet, const struct api_query *query,
                    struct api_answer *ret_answer);

/* One element of the answer. */
void api_write_agent(struct json_writer *out, const struct agent_view *agent, int64_t now_ns);
/* What is known of an engine, within an object. */
void api_write_engine_members(struct json_writer *out, const struct kvr_engine_facts *engine);

/* api_traits.c: the member "traits" of an agent and of a rail */
void api_write_host_traits(struct json_writer *out, const struct kvr_host_traits *traits);
void api_write_rail_traits(struct json_writer *out, const struct kvr_rail_traits *traits);

#endif
