/* The rails of an agent. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_host.h"
#include "agent/agent_state.h"
#include "base/log.h"
#include "device/device_cuda.h"
#include "fabric/calibration.h"
#include "fabric/fabric_provider.h"
#include "fabric/local/fabric_local.h"
#include "wire/compat.h"

/* How many heartbeat bounds a port of --rail-ports rests. A peer is fenced after one bound without
 * a word, and writes to no old address that much later. */
#define PORT_REST_BOUNDS 4

/* What a write may be on all of our rails. */
static void limits_narrow(struct kvr_agent *agent, const struct kvr_rail_facts *facts)
{
    struct kvr_write_limits *limits = &agent->limits;

    limits->pieces_local = kvr_min_u32(limits->pieces_local, facts->write.pieces_local);
    limits->pieces_remote = kvr_min_u32(limits->pieces_remote, facts->write.pieces_remote);
    limits->chunk_bytes_max = kvr_min_u64(limits->chunk_bytes_max, facts->write.bytes_max);
}

/* A device is given much at once: each of its turns costs the same, whatever it moves. */
#define MOVE_BYTES (8u << 20)

static void move_bytes_set(struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        const struct kvr_rail_facts *facts = agent->fabric.ops->rail_facts(agent->rails[i]);

        if (facts->moves_pages)
            agent->groups.move_bytes = kvr_min_u64(MOVE_BYTES, facts->write.bytes_max);
    }
}

/* What was measured here narrows what the provider says. */
static kvr_status calibration_use(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    struct kvr_write_limits *limits = &agent->limits, widest;
    struct kvr_calibration calibration;
    kvr_status status;

    if (!config->calibration || config->state_dir[0] == '\0')
        return KVR_OK;
    status = kvr_calibration_load(config->state_dir, agent->provider, &calibration, error);
    if (status != KVR_OK)
        return status == KVR_NOT_FOUND ? KVR_OK : status;
    widest = *limits;
    limits->pieces_local =
        kvr_min_u32(limits->pieces_local, kvr_min_u32(calibration.imm_iov, calibration.pieces));
    limits->pieces_remote = kvr_min_u32(limits->pieces_remote,
                                        kvr_min_u32(calibration.imm_rma_iov, calibration.pieces));
    limits->chunk_bytes_max = kvr_min_u64(limits->chunk_bytes_max, calibration.chunk_bytes_max);
    limits->calibrated = limits->pieces_local < widest.pieces_local ||
                         limits->pieces_remote < widest.pieces_remote ||
                         limits->chunk_bytes_max < widest.chunk_bytes_max;
    kvr_log_info("calibrated with %s: %u pieces a write, of at most %" PRIu64 " KiB",
                 calibration.libfabric, limits->pieces_local, limits->chunk_bytes_max >> 10);
    return KVR_OK;
}

static void unseen_say(const struct kvr_error *error)
{
    kvr_log_failure(KVR_LOG_WARNING,
                    "device memory of an engine on this host is not seen from here, and staged",
                    error);
}

bool agent_serves_gpus(const struct kvr_agent_config *config)
{
    return strcmp(config->device, "cuda") == 0 && access(KVR_CUDA_CONTROL, F_OK) == 0;
}

static kvr_status rail_open(struct kvr_agent *agent, const char *provider, const char *name,
                            struct kvr_error *error)
{
    bool card = !kvr_provider_find(provider)->same_host_only;
    struct kvr_rail_options options = {0};
    const struct kvr_rail_facts *facts;

    if (agent->rail_count == (card ? KVR_AGENT_CARDS_MAX : KVR_RAILS_MAX))
        return kvr_error_set(error, KVR_TOO_LARGE, "rails",
                             "an agent uses at most %d cards: give the others to a second agent",
                             KVR_AGENT_CARDS_MAX);
    snprintf(options.provider, sizeof(options.provider), "%s", provider);
    snprintf(options.name, sizeof(options.name), "%s", name);
    options.copy_threads = (uint32_t)agent->config->copying.local_copy_threads;
    options.device_memory = agent_serves_gpus(agent->config);
    options.device_emulated = strcmp(agent->config->device, "emulated-direct") == 0;
    options.unseen = unseen_say;
    options.peers = KVR_PEERS_MAX;
    options.window_writes = (uint32_t)agent->config->posting.window_writes;
    snprintf(options.congestion, sizeof(options.congestion), "%s",
             agent->config->posting.tcp_congestion);
    options.ports = agent->ports_of_rails;
    options.port_rest =
        PORT_REST_BOUNDS * KVR_BEATS_MAX * kvr_agent_time(agent->config, agent->config->heartbeat);
    options.acknowledge = agent->config->posting.acknowledge;
    options.inline_bytes = (uint32_t)agent->config->posting.inline_bytes;
    KVR_TRY(agent->fabric.ops->rail_open(agent->fabric.self, &options,
                                         &agent->rails[agent->rail_count], error));
    facts = agent->fabric.ops->rail_facts(agent->rails[agent->rail_count]);
    limits_narrow(agent, facts);
    agent_congestion_check(facts, agent->config->posting.tcp_congestion);
    if (agent->rail_count++ == 0)
        agent_memlock_check(facts);
    agent_exposed_say(agent->config, facts);
    return KVR_OK;
}

/* As --rail and --group name it, with or without a plane. */
static kvr_status named_rail_open(struct kvr_agent *agent, const char *given,
                                  struct kvr_error *error)
{
    char name[KVR_OPTION_ITEM_BYTES], label[KVR_PLANE_BYTES];

    KVR_TRY(agent_plane_split(given, name, label, error));
    if (strcmp(name, KVR_RAIL_ALL) == 0)
        return kvr_error_set(error, KVR_INVALID, "rails",
                             "'%s' is every card, and --rail names one plane: name the planes by "
                             "--plane PATTERN=PLANE",
                             given);
    KVR_TRY(rail_open(agent, agent->provider, name, error));
    agent_plane_label(agent, agent->rails[agent->rail_count - 1], label);
    return KVR_OK;
}

/* Those of one group, as --group names them; it then is one. */
static kvr_status group_rails_open(struct kvr_agent *agent, const char *names,
                                   struct kvr_error *error)
{
    char text[KVR_OPTION_ITEM_BYTES], *rest, *name;
    uint32_t count = agent->rail_count;

    snprintf(text, sizeof(text), "%s", names);
    for (name = strtok_r(text, "+", &rest); name != NULL; name = strtok_r(NULL, "+", &rest)) {
        if (strcmp(name, KVR_RAIL_ALL) == 0)
            return kvr_error_set(error, KVR_INVALID, "rails",
                                 "--group is '%s', but its cards are named one by one; --rail all "
                                 "takes every card and divides them into groups by itself",
                                 names);
        KVR_TRY(named_rail_open(agent, name, error));
    }
    if (agent->rail_count == count)
        return kvr_error_set(error, KVR_INVALID, "rails",
                             "--group is '%s', but must name cards as NAME+NAME", names);
    agent->groups.first[++agent->groups.count] = agent->rail_count;
    return KVR_OK;
}

static const struct kvr_rail_facts *facts_of(const struct kvr_agent *agent, uint32_t rail)
{
    return agent->fabric.ops->rail_facts(agent->rails[rail]);
}

/* Rails [first, end), of one group and one kind, in a line: a host may have so many that the log
 * would hold back most of a line each. */
static void rails_say_together(const struct kvr_agent *agent, uint32_t first, uint32_t end)
{
    const struct kvr_rail_facts *kind = facts_of(agent, first);
    char names[KVR_AGENT_CARDS_MAX * 32] = "";
    size_t used = 0;

    for (uint32_t i = first; i < end && used < sizeof(names); i++) {
        const struct kvr_rail_facts *facts = facts_of(agent, i);

        const char *label = agent_plane_label_of(agent, agent->rails[i]);

        used +=
            (size_t)snprintf(names + used, sizeof(names) - used, "%s%s%s%s", i > first ? ", " : "",
                             facts->source[0] != '\0' ? facts->source : facts->name,
                             label[0] != '\0' ? "@" : "", label);
    }
    if (end - first == 1)
        kvr_log_info("rail %u: %s over %s (%s), %u pieces a write, in group %u", first, names,
                     kind->provider_path, kvr_fabric_version(kind->provider),
                     kind->write.pieces_local, kvr_rail_groups_of(&agent->groups, first));
    else
        kvr_log_info("rails %u to %u: %s over %s (%s), %u pieces a write, in group %u", first,
                     end - 1, names, kind->provider_path, kvr_fabric_version(kind->provider),
                     kind->write.pieces_local, kvr_rail_groups_of(&agent->groups, first));
}

/* Once they have their numbers. */
static void rails_say(const struct kvr_agent *agent)
{
    for (uint32_t i = 0, end; i < agent->rail_count; i = end) {
        for (end = i + 1; end < agent->rail_count; end++) {
            if (kvr_rail_groups_of(&agent->groups, end) != kvr_rail_groups_of(&agent->groups, i) ||
                strcmp(facts_of(agent, end)->provider, facts_of(agent, i)->provider) != 0)
                break;
        }
        rails_say_together(agent, i, end);
    }
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        if (facts_of(agent, i)->writes == KVR_WRITES_EMULATED)
            kvr_log_warning("rail %u (%s) has no RDMA write: libfabric sends, and the target's "
                            "processor copies, at a part of the card's speed "
                            "(FI_EFA_USE_DEVICE_RDMA, or the type of the instance)",
                            i, facts_of(agent, i)->name);
    }
}

/* Every usable card of the provider. */
static kvr_status all_rails_open(struct kvr_agent *agent, struct kvr_error *error)
{
    struct agent_host *host;

    KVR_TRY(agent_host_cards(agent, &host, error));
    for (uint32_t i = 0; i < host->cards.count; i++) {
        const struct kvr_host_rail *rail = &host->groups.rails[host->cards.rails[i]];

        /* An address is one rail, a domain may have several. */
        KVR_TRY(rail_open(agent, agent->provider,
                          rail->source[0] != '\0' ? rail->source : rail->name, error));
    }
    return KVR_OK;
}

static bool says_all(const struct kvr_option_list *rails)
{
    for (uint32_t i = 0; i < rails->count; i++) {
        if (strcmp(rails->items[i], KVR_RAIL_ALL) == 0)
            return true;
    }
    return false;
}

static kvr_status rails_check(const struct kvr_agent_config *config, struct kvr_error *error)
{
    if (config->groups.count > 0 && config->rails.count > 0)
        return kvr_error_set(error, KVR_INVALID, "rails",
                             "--group and --rail are both given: name every card in a --group");
    if (config->rails.count > 1 && says_all(&config->rails))
        return kvr_error_set(error, KVR_INVALID, "rails",
                             "--rail all is every card: leave out the other --rail, or all");
    return KVR_OK;
}

static kvr_status rails_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_provider *provider = kvr_provider_find(agent->provider);
    const struct kvr_agent_config *config = agent->config;
    bool named = config->groups.count + config->rails.count > 0;
    bool all = named ? says_all(&config->rails) : provider->all_cards;

    KVR_TRY(rails_check(config, error));
    if (all && !provider->same_host_only)
        return all_rails_open(agent, error);
    if (all || !named)
        return rail_open(agent, agent->provider, provider->default_rail, error);
    for (uint32_t i = 0; i < config->groups.count; i++)
        KVR_TRY(group_rails_open(agent, config->groups.items[i], error));
    for (uint32_t i = 0; i < config->rails.count; i++)
        KVR_TRY(named_rail_open(agent, config->rails.items[i], error));
    return KVR_OK;
}

/* One more in each group, behind its cards, for the peers of this host. */
static kvr_status local_rails_open(struct kvr_agent *agent, struct kvr_error *error)
{
    struct kvr_rail_groups *groups = &agent->groups;

    for (uint32_t g = 0; g < groups->count; g++) {
        uint32_t place = groups->first[g + 1];
        struct kvr_rail *rail;

        KVR_TRY(rail_open(agent, KVR_FABRIC_LOCAL, "", error));
        rail = agent->rails[agent->rail_count - 1];
        memmove(&agent->rails[place + 1], &agent->rails[place],
                (agent->rail_count - 1 - place) * sizeof(agent->rails[0]));
        agent->rails[place] = rail;
        groups->same_host |= UINT64_C(1) << place;
        for (uint32_t next = g + 1; next <= groups->count; next++)
            groups->first[next]++;
    }
    return KVR_OK;
}

/* Which rails carry a tag with each write, in their final places. */
static void tagged_set(struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < agent->rail_count; i++)
        if (agent->fabric.ops->rail_facts(agent->rails[i])->immediate_bits == 64)
            agent->groups.tagged |= UINT64_C(1) << i;
}

/* Whether --rail-ports is enough for the rails that are open. */
static kvr_status ports_check(const struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_rail_ports *ports = &agent->ports_of_rails;
    unsigned count = kvr_rail_ports_count(ports), rails = 0;

    for (uint32_t i = 0; i < agent->rail_count; i++)
        rails +=
            kvr_provider_find(agent->fabric.ops->rail_facts(agent->rails[i])->provider)->rail_ports;
    if (count == 0 || count >= KVR_PORTS_OF_RAIL * rails)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "rails",
                         "--rail-ports %s has %u port%s, but %u rail%s need%s %u, each for its "
                         "endpoint and for a successor, and every agent of this host as many: "
                         "widen the range",
                         agent->config->rail_ports, count, count == 1 ? "" : "s", rails,
                         rails == 1 ? "" : "s", rails == 1 ? "s" : "", KVR_PORTS_OF_RAIL * rails);
}

/* Cards first, then what their number and place decide. */
static kvr_status rails_and_groups_open(struct kvr_agent *agent, struct kvr_error *error)
{
    KVR_TRY(rails_open(agent, error));
    KVR_TRY(ports_check(agent, error));
    KVR_TRY(calibration_use(agent, error));
    return agent_cores_choose(agent, error); /* before anything is allocated for a thread */
}

kvr_status agent_rails_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    kvr_status status;
    uint32_t pieces;

    agent->mixed = kvr_provider_cards(config->provider, agent->provider);
    if (agent->mixed)
        kvr_fabric_mixed(&agent->fabric);
    else
        kvr_fabric_of(agent->provider, &agent->fabric);
    pieces = config->posting.pieces > 0 ? (uint32_t)config->posting.pieces : KVR_IOV_MAX;
    agent->limits = (struct kvr_write_limits){.pieces_local = pieces,
                                              .pieces_remote = pieces,
                                              .chunk_bytes_max = config->posting.chunk_bytes_max};
    if (config->rail_ports[0] != '\0' &&
        kvr_rail_ports_parse(config->rail_ports, &agent->ports_of_rails, error) != KVR_OK)
        return agent_option_refuse("rail-ports", error);
    status = rails_and_groups_open(agent, error);
    agent_host_forget(agent);
    KVR_TRY(status);
    if (agent->mixed)
        KVR_TRY(local_rails_open(agent, error));
    KVR_TRY(agent_revocation_open(agent, error));
    move_bytes_set(agent);
    tagged_set(agent);
    KVR_TRY(agent_planes_find(agent, error));
    agent_traits_read(agent);
    rails_say(agent);
    agent_trial_announce(agent);
    KVR_TRY(agent_filter_open(agent, error));
    KVR_TRY(agent_groups_open(agent, error));
    agent_pairs_open(agent);
    status =
        agent->program->init(config, &agent->ports, &agent->memory, &agent->groups, &agent->limits);
    if (status != KVR_OK)
        return kvr_error_set(error, status, "tables",
                             "--table-memory %" PRIu64 " MiB is too small for the agent's tables",
                             config->table_memory >> 20);
    KVR_TRY(agent_groups_start(agent, error));
    agent_filter_listening(agent);
    return KVR_OK;
}

void agent_rails_close(struct kvr_agent *agent)
{
    agent_pairs_close(agent);
    for (uint32_t i = 0; i < agent->rail_count; i++)
        agent->fabric.ops->rail_close(agent->rails[i]);
    agent_filter_close(agent); /* no port is left */
}

/* Rails without an endpoint too: a peer that does not know a rail would never hear of its
 * successor. */
uint32_t agent_rails_now(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    const struct kvr_agent *agent = self;

    for (uint32_t i = 0; i < agent->rail_count; i++)
        ret_rails[i] = kvr_group_address(agent_group_of(agent, i)->group, i);
    return agent->rail_count;
}
