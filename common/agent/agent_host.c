#include "agent/agent_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "fabric/fabric_provider.h"

static kvr_status find(struct kvr_agent *agent, struct agent_host *host, struct kvr_error *error)
{
    unsigned count =
        kvr_fabric_list(agent->provider, host->offered, KVR_HOST_RAILS_MAX, &host->none);

    host->offered_count = kvr_min_u32(count, KVR_HOST_RAILS_MAX);
    KVR_TRY(kvr_topology_read(NULL, &host->topology, error));
    host->groups.topology = host->topology;
    kvr_host_rails_choose(&host->groups, host->offered, host->offered_count);
    kvr_host_groups_make(&host->groups);
    return KVR_OK;
}

kvr_status agent_host_read(struct kvr_agent *agent, struct agent_host **ret_host,
                           struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    if (agent->found == NULL) {
        agent->found = calloc(1, sizeof(*agent->found));
        if (agent->found == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "host", "no memory for the host's topology");
        status = find(agent, agent->found, error);
    }
    if (status != KVR_OK)
        agent_host_forget(agent);
    *ret_host = agent->found;
    return status;
}

void agent_host_forget(struct kvr_agent *agent)
{
    if (agent->found != NULL)
        kvr_topology_free(agent->found->topology);
    free(agent->found);
    agent->found = NULL;
}

#define LINE_BYTES 800 /* of several cards: the log would hold back most of a line each */

static void say_left_out(const struct kvr_host_cards *cards)
{
    uint32_t written = kvr_min_u32(cards->left_out_count, KVR_LEFT_OUT_MAX);
    char line[LINE_BYTES] = "";

    for (uint32_t i = 0; i < written; i++) {
        size_t used = strlen(line);

        snprintf(line + used, sizeof(line) - used, "%s%s", used > 0 ? "; " : "",
                 cards->left_out[i]);
        if (i + 1 < written && strlen(line) + strlen(cards->left_out[i + 1]) + 3 < sizeof(line))
            continue;
        kvr_log_info("--rail all leaves out %s", line);
        line[0] = '\0';
    }
    if (cards->left_out_count > written)
        kvr_log_info("--rail all leaves out %u more cards", cards->left_out_count - written);
}

static kvr_status refuse_none(const struct kvr_agent *agent, const struct agent_host *host,
                              struct kvr_error *error)
{
    const struct kvr_host_cards *cards = &host->cards;

    if (host->offered_count == 0) {
        *error = host->none;
        return host->none.status;
    }
    if (cards->left_out_count == 0)
        return kvr_error_set(error, KVR_NOT_FOUND, "rails",
                             "provider %s has nothing but loopback on this host, and --rail all is "
                             "of cards: name the rail",
                             agent->provider);
    return kvr_error_set(error, KVR_NOT_FOUND, "rails",
                         "provider %s has no usable card on this host; of %u the first is %s",
                         agent->provider, cards->left_out_count, cards->left_out[0]);
}

kvr_status agent_host_cards(struct kvr_agent *agent, struct agent_host **ret_host,
                            struct kvr_error *error)
{
    struct agent_host *host = NULL;

    KVR_TRY(agent_host_read(agent, &host, error));
    *ret_host = host;
    kvr_host_cards_usable(&host->groups, agent->provider, host->offered, host->offered_count,
                          &host->cards);
    say_left_out(&host->cards);
    if (host->cards.count == 0)
        return refuse_none(agent, host, error);
    if (host->cards.count > KVR_AGENT_CARDS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "rails",
                             "provider %s has %u usable cards on this host, and an agent uses at "
                             "most %d: name its cards by --rail, and give the others to a second "
                             "agent",
                             agent->provider, host->cards.count, KVR_AGENT_CARDS_MAX);
    return KVR_OK;
}
