/* This agent's word with kvrail-filter, which closes the ports of its tcp rails to all but its
 * authenticated peers.
 *
 * The filter knows a port before peers hear of the endpoint there, and a peer's addresses before
 * the session's RESUME goes out. So a peer never meets a closed port. All calls wait for the
 * filter's answer, a second at most; a filter that does not answer is let go and asked again later.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/address.h"
#include "base/log.h"
#include "base/network_namespace.h"

#define RETRY_NS (2 * KVR_S)

static bool configured(const struct kvr_agent *agent)
{
    return agent->config->rail_filter[0] != '\0' && agent->filter.opened;
}

static const struct kvr_rail_facts *facts_of(const struct kvr_agent *agent, uint32_t rail)
{
    return agent->fabric.ops->rail_facts(agent->rails[rail]);
}

/* ---- what is said ---- */

static kvr_status say(struct kvr_agent *agent, kvr_filter_kind kind,
                      const struct kvr_filter_address *address, uint16_t first, uint16_t last,
                      struct kvr_error *error)
{
    struct kvr_filter_message message = {
        .kind = kind, .address = *address, .first = first, .last = last};

    return kvr_filter_client_say(&agent->filter.client, &message, error);
}

static kvr_status guards_say(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_rail_ports *ports = &agent->ports_of_rails;

    for (uint32_t i = 0; i < agent->rail_count && ports->first != 0; i++) {
        const struct kvr_rail_facts *facts = facts_of(agent, i);
        struct kvr_filter_address address;
        struct sockaddr_storage socket;
        struct kvr_address source;
        socklen_t bytes;
        uint16_t none;

        if (!facts->exposed || kvr_address_parse(facts->source, 0, NULL, &source) != KVR_OK ||
            kvr_address_to_socket(&source, &socket, &bytes) != KVR_OK ||
            !kvr_filter_address_from((const uint8_t *)&socket, bytes, &address, &none))
            continue;
        KVR_TRY(say(agent, KVR_FILTER_GUARD, &address, ports->first, ports->last, error));
    }
    return KVR_OK;
}

/* Where a rail listens now, if it is one that the filter can keep. */
static struct agent_filter_place place_of(const struct kvr_agent *agent, uint32_t rail)
{
    struct agent_filter_place place = {.port = 0};
    struct kvr_rail_address now;

    if (!facts_of(agent, rail)->exposed)
        return place;
    now = kvr_group_address(agent_group_of(agent, rail)->group, rail);
    if (!kvr_filter_address_from(now.address, now.bytes, &place.address, &place.port))
        place.port = 0;
    return place;
}

static bool same_place(const struct agent_filter_place *a, const struct agent_filter_place *b)
{
    return a->port == b->port &&
           (a->port == 0 || kvr_filter_address_compare(&a->address, &b->address) == 0);
}

static kvr_status ports_say(struct kvr_agent *agent, struct kvr_error *error)
{
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        struct agent_filter_place *known = &agent->filter.places[i], place = place_of(agent, i);

        if (same_place(known, &place))
            continue;
        if (known->port != 0)
            KVR_TRY(
                say(agent, KVR_FILTER_PORT_GONE, &known->address, known->port, known->port, error));
        if (place.port != 0)
            KVR_TRY(say(agent, KVR_FILTER_PORT, &place.address, place.port, place.port, error));
        *known = place;
    }
    return KVR_OK;
}

static bool of_another_peer(const struct kvr_agent *agent, uint32_t but,
                            const struct kvr_filter_address *address)
{
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        const struct agent_filter_peer *other = &agent->filter.peers[peer];

        for (uint32_t i = 0; peer != but && i < other->count; i++) {
            if (kvr_filter_address_compare(&other->addresses[i], address) == 0)
                return true;
        }
    }
    return false;
}

static kvr_status peer_say(struct kvr_agent *agent, uint32_t peer, bool there,
                           struct kvr_error *error)
{
    const struct agent_filter_peer *known = &agent->filter.peers[peer];

    for (uint32_t i = 0; i < known->count; i++) {
        if (there || !of_another_peer(agent, peer, &known->addresses[i]))
            KVR_TRY(say(agent, there ? KVR_FILTER_PEER : KVR_FILTER_PEER_GONE, &known->addresses[i],
                        0, 0, error));
    }
    return KVR_OK;
}

/* ---- the filter comes and goes ---- */

static void lost(struct kvr_agent *agent, const struct kvr_error *error)
{
    struct agent_filter *filter = &agent->filter;

    kvr_filter_client_close(&filter->client);
    filter->retry_at = kvr_clock_now() + RETRY_NS;
    filter->refused += filter->client.refused;
    filter->client.refused = 0;
    if (filter->away_said)
        return;
    agent->counters[KVR_COUNTER_FILTERS_LOST]++;
    kvr_log_warning("kvrail-filter at %s: %s. Until it answers, any host or user that reaches the "
                    "ports of the rails may connect",
                    agent->config->rail_filter, error->detail);
    filter->away_said = true;
}

/* Ends what a call above began. */
static void settle(struct kvr_agent *agent, kvr_status status, struct kvr_error *error)
{
    if (status == KVR_OK)
        status = kvr_filter_client_commit(&agent->filter.client, error);
    if (status != KVR_OK)
        lost(agent, error);
}

static kvr_status connect_and_say(struct kvr_agent *agent, struct kvr_error *error)
{
    struct agent_filter *filter = &agent->filter;

    memset(filter->places, 0, sizeof(filter->places));
    KVR_TRY(kvr_filter_client_open(agent->config->rail_filter, &filter->client, error));
    KVR_TRY(guards_say(agent, error));
    if (filter->listening)
        KVR_TRY(ports_say(agent, error));
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        KVR_TRY(peer_say(agent, peer, true, error));
    return kvr_filter_client_commit(&filter->client, error);
}

void agent_filter_tick(struct kvr_agent *agent, kvr_ns now)
{
    struct agent_filter *filter = &agent->filter;
    struct kvr_error error;

    if (!configured(agent))
        return;
    if (filter->client.fd >= 0) {
        if (kvr_filter_client_hear(&filter->client, &error) != KVR_OK)
            lost(agent, &error);
    } else if (now >= filter->retry_at) {
        if (connect_and_say(agent, &error) != KVR_OK) {
            lost(agent, &error);
            return;
        }
        if (filter->away_said)
            kvr_log_info("kvrail-filter at %s answers again: the rails' ports are closed to all "
                         "but peers",
                         agent->config->rail_filter);
        filter->away_said = false;
    }
    agent->counters[KVR_COUNTER_RAIL_STRANGERS] = filter->refused + filter->client.refused;
}

/* ---- what happens to the agent ---- */

void agent_filter_listening(struct kvr_agent *agent)
{
    struct kvr_error error;

    agent->filter.listening = true;
    if (configured(agent) && agent->filter.client.fd >= 0)
        settle(agent, ports_say(agent, &error), &error);
}

/* A source's rails are only written from: no peer connects to them. */
void agent_filter_peer_up(struct kvr_agent *agent, uint32_t peer, const struct kvr_msg_hello *hello)
{
    struct agent_filter_peer *known = &agent->filter.peers[peer];
    struct kvr_error error;
    uint16_t port;

    if (!configured(agent) || agent->machine.role == KVR_ROLE_SOURCE || hello->rail_count == 0)
        return;
    known->addresses = calloc(hello->rail_count, sizeof(known->addresses[0]));
    if (known->addresses == NULL)
        return;
    for (uint32_t i = 0; i < hello->rail_count; i++) {
        const struct kvr_rail_address *rail = &hello->rails[i];

        if (!rail->same_host && kvr_filter_address_from(rail->address, rail->bytes,
                                                        &known->addresses[known->count], &port))
            known->count++;
    }
    if (agent->filter.client.fd >= 0)
        settle(agent, peer_say(agent, peer, true, &error), &error);
}

void agent_filter_peer_lost(struct kvr_agent *agent, uint32_t peer)
{
    struct agent_filter_peer *known = &agent->filter.peers[peer];
    struct kvr_error error;

    if (known->addresses != NULL && agent->filter.client.fd >= 0)
        settle(agent, peer_say(agent, peer, false, &error), &error);
    free(known->addresses);
    *known = (struct agent_filter_peer){0};
}

/* ---- start and end ---- */

/* Logs from where the tcp rails can be reached, before any peer is there. */
static void protection_say(const struct kvr_agent *agent)
{
    bool exposed = false;

    for (uint32_t i = 0; i < agent->rail_count; i++)
        exposed = exposed || facts_of(agent, i)->exposed;
    if (!exposed)
        return;
    if (agent->filter.client.fd >= 0)
        kvr_log_info("ports of the tcp rails: kvrail-filter closes them to all but authenticated "
                     "peers");
    else if (kvr_network_namespace_alone())
        kvr_log_info("ports of the tcp rails: no other process is in this network namespace; "
                     "which hosts reach them is its firewall's matter");
    else
        kvr_log_warning("ports of the tcp rails: any host or user that reaches them may connect, "
                        "and can end this agent: run kvrail-filter and say --rail-filter (see "
                        "security.md)");
}

kvr_status agent_filter_open(struct kvr_agent *agent, struct kvr_error *error)
{
    struct kvr_error why;
    kvr_status status;

    agent->filter.opened = true;
    agent->filter.client = KVR_FILTER_CLIENT_NONE;
    if (configured(agent)) {
        status = connect_and_say(agent, &why);
        if (status != KVR_OK && agent->config->rail_filter_required)
            return kvr_error_set(error, KVR_REFUSED, "filter",
                                 "--rail-filter-required, but kvrail-filter at %.80s: %.120s",
                                 agent->config->rail_filter, why.detail);
        if (status != KVR_OK)
            lost(agent, &why);
    }
    protection_say(agent);
    return KVR_OK;
}

void agent_filter_close(struct kvr_agent *agent)
{
    if (!agent->filter.opened)
        return;
    kvr_filter_client_close(&agent->filter.client);
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        free(agent->filter.peers[peer].addresses);
    agent->filter.opened = false;
}
