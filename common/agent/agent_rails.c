/* The rails of an agent, its group and its thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/address.h"
#include "base/log.h"
#include "fabric/calibration.h"
#include "fabric/fabric_ofi.h"
#include "wire/compat.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What a write may be on all of our rails. */
static void limits_narrow(struct kvr_agent *agent, const struct kvr_rail_facts *facts)
{
    struct kvr_write_limits *limits = &agent->limits;

    limits->pieces_local = (uint32_t)smaller(limits->pieces_local, facts->write.pieces_local);
    limits->pieces_remote = (uint32_t)smaller(limits->pieces_remote, facts->write.pieces_remote);
    limits->chunk_bytes_max = smaller(limits->chunk_bytes_max, facts->write.bytes_max);
}

/* What was measured here narrows what the provider says. */
static kvr_status calibration_use(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    struct kvr_write_limits *limits = &agent->limits;
    struct kvr_calibration calibration;
    kvr_status status;

    if (!config->calibration || config->state_dir[0] == '\0')
        return KVR_OK;
    status = kvr_calibration_load(config->state_dir, config->provider, &calibration, error);
    if (status != KVR_OK)
        return status == KVR_NOT_FOUND ? KVR_OK : status;
    limits->pieces_local =
        (uint32_t)smaller(limits->pieces_local, smaller(calibration.imm_iov, calibration.pieces));
    limits->pieces_remote = (uint32_t)smaller(limits->pieces_remote,
                                              smaller(calibration.imm_rma_iov, calibration.pieces));
    limits->chunk_bytes_max = smaller(limits->chunk_bytes_max, calibration.chunk_bytes_max);
    kvr_log_info("calibrated with libfabric %s: %u pieces a write, of at most %" PRIu64 " KiB",
                 calibration.libfabric, limits->pieces_local, limits->chunk_bytes_max >> 10);
    return KVR_OK;
}

/* A tcp rail takes whatever connects to it. */
static kvr_status exposed_check(const struct kvr_agent *agent, const struct kvr_rail_facts *facts,
                                struct kvr_error *error)
{
    struct kvr_address address;

    if (agent->config->insecure || strcmp(facts->provider, "tcp") != 0 ||
        kvr_address_parse(facts->source, 0, NULL, &address) != KVR_OK ||
        kvr_address_is_loopback(&address))
        return KVR_OK;
    return kvr_error_set(error, KVR_REFUSED, "rails",
                         "rail %s is open to other hosts, and nothing is encrypted: take loopback "
                         "rails, or say --insecure",
                         facts->source);
}

static kvr_status rail_open(struct kvr_agent *agent, const char *name, struct kvr_error *error)
{
    struct kvr_rail_options options = {0};
    const struct kvr_rail_facts *facts;
    kvr_status status;

    snprintf(options.provider, sizeof(options.provider), "%s", agent->config->provider);
    snprintf(options.name, sizeof(options.name), "%s", name);
    status = agent->fabric.ops->rail_open(agent->fabric.self, &options,
                                          &agent->rails[agent->rail_count], error);
    if (status != KVR_OK)
        return status;
    facts = agent->fabric.ops->rail_facts(agent->rails[agent->rail_count]);
    limits_narrow(agent, facts);
    kvr_log_info("rail %u: %s over %s (libfabric %s), %u pieces a write", agent->rail_count,
                 facts->source[0] != '\0' ? facts->source : facts->name, facts->provider_path,
                 kvr_fabric_ofi_version(), facts->write.pieces_local);
    agent->rail_count++;
    return exposed_check(agent, facts, error);
}

static void group_notify(void *self)
{
    struct kvr_agent *agent = self;

    uv_async_send(&agent->group_events);
}

kvr_status agent_rails_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    struct kvr_group_options options = {
        .fabric = &agent->fabric,
        .rails = agent->rails,
        .window_writes = (uint32_t)config->window_writes,
        .window_bytes = config->window_bytes,
        .silence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat),
        .absence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat) / 2,
        .clock = kvr_clock_now,
        .user = agent->machine.user,
    };
    struct kvr_group_thread_options thread = {
        .spin_ns = config->spin, .notify = group_notify, .notify_self = agent};
    kvr_status status;

    kvr_fabric_ofi(&agent->fabric);
    agent->limits = (struct kvr_write_limits){.pieces_local = KVR_IOV_MAX,
                                              .pieces_remote = KVR_IOV_MAX,
                                              .chunk_bytes_max = config->chunk_bytes_max};
    if (config->rails.count > KVR_RAILS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "rails", "%u rails: an agent has at most %u",
                             config->rails.count, KVR_RAILS_MAX);
    for (uint32_t i = 0; i < config->rails.count; i++) {
        status = rail_open(agent, config->rails.items[i], error);
        if (status != KVR_OK)
            return status;
    }
    if (config->rails.count == 0) {
        bool tcp = strcmp(config->provider, "tcp") == 0;

        status = rail_open(agent, tcp ? "127.0.0.1" : "", error);
        if (status != KVR_OK)
            return status;
    }
    status = calibration_use(agent, error);
    if (status != KVR_OK)
        return status;
    status = agent_cores_choose(agent, error); /* before anything is allocated for the thread */
    if (status != KVR_OK)
        return status;
    thread.cores = agent->cores;
    thread.core_count = agent->core_count;
    options.rail_count = agent->rail_count;
    status = kvr_group_open(&options, &agent->group, error);
    if (status != KVR_OK)
        return status;
    status = agent->machine.init(agent->machine.self, config, &agent->ports, &agent->memory,
                                 agent->group, agent->rail_count, &agent->limits);
    if (status != KVR_OK)
        return kvr_error_set(error, status, "tables",
                             "--table-memory %" PRIu64 " MiB is too small for the agent's tables",
                             config->table_memory >> 20);
    return kvr_group_thread_start(agent->group, &thread, &agent->thread, error);
}

void agent_rails_close(struct kvr_agent *agent)
{
    if (agent->thread != NULL)
        kvr_group_thread_stop(agent->thread);
    if (agent->group != NULL)
        kvr_group_close(agent->group);
    for (uint32_t i = 0; i < agent->rail_count; i++)
        agent->fabric.ops->rail_close(agent->rails[i]);
}

uint32_t agent_rails_now(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    struct kvr_agent *agent = self;
    uint32_t count = 0;

    for (uint32_t i = 0; i < agent->rail_count; i++) {
        struct kvr_rail_address address = kvr_group_address(agent->group, i);

        if (address.bytes > 0)
            ret_rails[count++] = address;
    }
    return count;
}
