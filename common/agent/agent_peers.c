/* Peers, between the control channel and the machine. */
#include <stdio.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/address.h"
#include "base/log.h"
#include "fabric/local/fabric_local.h"

static void on_hello(void *self, struct kvr_msg_hello *ret_hello)
{
    struct kvr_agent *agent = self;

    ret_hello->boot = agent->boot;
    snprintf(ret_hello->agent, sizeof(ret_hello->agent), "%s", agent->config->name);
    snprintf(ret_hello->provider, sizeof(ret_hello->provider), "%s", agent->provider);
    snprintf(ret_hello->host, sizeof(ret_hello->host), "%s", agent->host);
    ret_hello->limits = agent->limits;
    ret_hello->digest = kvr_agent_digest(agent->config);
    ret_hello->rails = agent->hello_rails;
    ret_hello->rail_count = agent_rails_now(agent, agent->hello_rails);
    ret_hello->compats = agent->hello_compats;
    ret_hello->compat_count = 0;
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        if (agent->machine.engines->local[i].attached)
            agent->hello_compats[ret_hello->compat_count++] =
                agent->machine.engines->local[i].compat;
}

/* Whether this agent reaches the peer's rails for agents of one host. */
static kvr_status same_host_reached(const struct kvr_msg_hello *hello, struct kvr_error *error)
{
    kvr_status status = kvr_error_set(error, KVR_UNSUPPORTED, "peer", "it has no rail for that");

    for (uint32_t i = 0; i < hello->rail_count; i++) {
        const struct kvr_rail_address *rail = &hello->rails[i];

        if (!rail->same_host || rail->bytes == 0)
            continue;
        status = kvr_fabric_local_reaches(rail->address, rail->bytes, error);
        if (status != KVR_OK)
            return status;
    }
    return status;
}

/* Logs how bytes travel between this agent and the peer. */
static void same_host_say(const struct kvr_agent *agent, uint32_t peer,
                          const struct kvr_msg_hello *hello, kvr_status status,
                          const struct kvr_error *error)
{
    bool neighbour = strcmp(agent->host, hello->host) == 0;

    if (status == KVR_OK)
        kvr_log_info("peer %u is on this host: %s memory that both map", peer,
                     agent->machine.role == KVR_ROLE_TARGET ? "its pages are copied from"
                                                            : "it may copy pages from");
    else
        kvr_log(neighbour ? KVR_LOG_WARNING : KVR_LOG_INFO,
                "peer %u is reached over %s alone, not by provider local: %s", peer,
                agent->provider, error->detail);
}

/* Announces the peer to the machine, with the rails that this agent can reach. */
static void mixed_up(struct kvr_agent *agent, kvr_ns now, uint32_t peer,
                     const struct kvr_msg_hello *hello)
{
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    struct kvr_msg_hello reached = *hello;
    struct kvr_error error;
    kvr_status status = same_host_reached(hello, &error);

    same_host_say(agent, peer, hello, status, &error);
    reached.rails = rails;
    reached.rail_count = 0;
    for (uint32_t i = 0; i < hello->rail_count; i++)
        if (status == KVR_OK || !hello->rails[i].same_host)
            rails[reached.rail_count++] = hello->rails[i];
    agent->machine.peer_up(agent->machine.self, now, peer, &reached);
}

static void on_up(void *self, kvr_ns now, uint32_t peer, const struct kvr_msg_hello *hello)
{
    struct kvr_agent *agent = self;
    struct kvr_error error;

    agent->peers_up++;
    agent->words_missed_said[peer] = false;
    agent_filter_peer_up(agent, peer, hello);
    agent->counters[KVR_COUNTER_TLS_SESSIONS] += agent->credentials != NULL;
    agent_warmth_up(agent, now, peer);
    pair_book_up(&agent->pairs, peer, hello->agent);
    pair_news_forget(&agent->pair_news, peer);
    kvr_log_info("peer %u is up: \"%s\" on %s, %u rails", peer, hello->agent, hello->host,
                 hello->rail_count);
    if (agent->groups.same_host != 0) {
        mixed_up(agent, now, peer, hello);
    } else {
        if (agent->offers_socket > 0 && same_host_reached(hello, &error) != KVR_OK)
            kvr_log_failure(KVR_LOG_WARNING, "nothing can be fetched from this peer", &error);
        agent->machine.peer_up(agent->machine.self, now, peer, hello);
    }
    agent_tell_peer_up(agent, hello->agent);
}

static void on_message(void *self, kvr_ns now, uint32_t peer, const struct kvr_message *message)
{
    struct kvr_agent *agent = self;

    agent->machine.message(agent->machine.self, now, peer, message);
}

static void on_lost(void *self, kvr_ns now, uint32_t peer, kvr_status status, const char *detail)
{
    struct kvr_agent *agent = self;
    struct kvr_peer_info info;
    bool was_up = kvr_peers_info(agent->peers, peer, &info) && info.agent[0] != '\0';
    bool said = agent_static_peer_lost(agent, now, peer, was_up, status);

    if (was_up) {
        agent->peers_up -= agent->peers_up > 0;
        agent_tell_peer_down(agent, &info, status, detail);
    }
    agent_warmth_lost(agent, peer);
    pair_book_lost(&agent->pairs, peer);
    if (!said) {
        agent->counters[status == KVR_INCOMPATIBLE || status == KVR_VERSION
                            ? KVR_COUNTER_HANDSHAKE_FAILURES
                            : KVR_COUNTER_PEERS_LOST]++;
        kvr_log_warning("peer %u is lost (%s): %s", peer, kvr_status_name(status), detail);
    }
    agent->machine.peer_lost(agent->machine.self, now, peer, status, detail);
    agent_filter_peer_lost(agent, peer);
}

static void on_writable(void *self, kvr_ns now, uint32_t peer)
{
    struct kvr_agent *agent = self;

    agent->machine.peer_writable(agent->machine.self, now, peer);
}

static void on_refused(void *self, kvr_tls_refusal refusal)
{
    agent_tls_refused(self, refusal);
}

static void on_turned_away(void *self, kvr_ns now, const char *who, kvr_status status,
                           const char *detail)
{
    struct kvr_agent *agent = self;

    if (status == KVR_AGAIN) {
        agent->counters[KVR_COUNTER_HELLOS_LIMITED]++;
        kvr_log_warning("put off %s: %s", who, detail);
        return;
    }
    agent->counters[KVR_COUNTER_HANDSHAKE_FAILURES]++;
    kvr_log_warning("turned away %s (%s): %s", who, kvr_status_name(status), detail);
    agent_tell_turned_away(agent, now, who, status, detail);
}

kvr_status agent_send(void *self, uint32_t peer, const struct kvr_message *message)
{
    return kvr_peers_send(((struct kvr_agent *)self)->peers, peer, message);
}

kvr_status agent_dial(void *self, const char *address, uint32_t *ret_peer, struct kvr_error *error)
{
    return kvr_peers_dial(((struct kvr_agent *)self)->peers, address, ret_peer, error);
}

void agent_hang_up(void *self, uint32_t peer, kvr_status status, const char *detail)
{
    kvr_peers_end(((struct kvr_agent *)self)->peers, peer, status, detail);
}

/* The address of every interface cannot be dialed: the host's name stands for it. */
static bool is_wildcard(const struct kvr_address *address)
{
    return strcmp(address->host, "0.0.0.0") == 0 || strcmp(address->host, "::") == 0;
}

/* What --advertise names, else what we listen on; with the port that we listen on where it has
 * none. */
static kvr_status address_find(struct kvr_agent *agent, struct kvr_error *error)
{
    bool named = agent->config->advertise[0] != '\0';
    struct kvr_address address;
    char text[KVR_ADDRESS_TEXT_BYTES];
    kvr_status status = kvr_address_parse(named ? agent->config->advertise : agent->config->listen,
                                          0, error, &address);

    if (status != KVR_OK)
        return status;
    if (address.port == 0 || !named)
        address.port = kvr_peers_port(agent->peers);
    if (is_wildcard(&address))
        snprintf(address.host, sizeof(address.host), "%s", agent->host);
    kvr_address_print(&address, text);
    if (strlen(text) >= sizeof(agent->address))
        return kvr_error_set(error, KVR_INVALID, "agent",
                             "'%s' has more than %zu bytes, and a fetch names its sources in them",
                             text, sizeof(agent->address) - 1);
    memcpy(agent->address, text, strlen(text) + 1);
    return KVR_OK;
}

kvr_status agent_peers_open(struct kvr_agent *agent, struct kvr_error *error)
{
    struct kvr_peers_options options = {
        .owner = {.self = agent,
                  .hello = on_hello,
                  .up = on_up,
                  .message = on_message,
                  .lost = on_lost,
                  .writable = on_writable,
                  .refused = on_refused,
                  .turned_away = on_turned_away},
        .credentials = agent->credentials,
        .roles = agent_tls_roles(agent),
        .beat_ms = (uint32_t)(kvr_agent_time(agent->config, agent->config->heartbeat) / KVR_MS),
    };
    kvr_status status = kvr_peers_open(&agent->loop, &options, &agent->peers, error);

    if (status == KVR_OK && agent->config->listen[0] != '\0')
        status = kvr_peers_listen(agent->peers, agent->config->listen, error);
    if (status != KVR_OK)
        return status == KVR_INVALID ? agent_option_refuse("listen", error) : status;
    if (agent->config->listen[0] != '\0')
        status = address_find(agent, error);
    return status == KVR_INVALID ? agent_option_refuse("advertise", error) : status;
}
