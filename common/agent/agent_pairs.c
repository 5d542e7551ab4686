/* How our rails reach those of peers: asks the rail groups, for the scheduler. */
#include "agent/agent_state.h"
#include "wire/compat.h"

void agent_pairs_open(struct kvr_agent *agent)
{
    agent->pairs.planes = agent->planes.of;
    agent->pairs.group_count = agent->groups.count;
    agent->pairs.silence_ns =
        KVR_BEATS_MAX * kvr_agent_time(agent->config, agent->config->heartbeat);
}

static void ask(struct kvr_agent *agent)
{
    const struct kvr_report_pairs *rows;
    struct kvr_group_message message;

    if (pair_book_next(&agent->pairs, &message))
        agent_command(agent, &message);
    rows = pair_book_take(&agent->pairs);
    if (rows != NULL)
        kvr_reporter_pairs(agent->reporter, rows);
}

void agent_pairs_second(struct kvr_agent *agent, kvr_ns now)
{
    if (agent->machine.role != KVR_ROLE_SOURCE || agent->closing)
        return;
    pair_book_round(&agent->pairs, now);
    ask(agent);
}

bool agent_pairs_heard(struct kvr_agent *agent, const struct kvr_group_message *message)
{
    bool alone = pair_book_heard(&agent->pairs, message);

    if (message->head.kind == KVR_GROUP_PAIRS_END)
        ask(agent);
    return alone;
}
