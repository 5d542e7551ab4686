/* Engines, between the engine port and the machine. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"

static void page_tell(struct kvr_agent *agent, uint32_t engine, struct kvr_shared_page *page)
{
    struct kvr_group_message message = agent->machine.page_command(engine, page);

    for (uint32_t *group = &message.head.group; *group < agent->groups.count; (*group)++)
        agent_command(agent, &message);
}

static void attached_say(const struct kvr_agent *agent, uint32_t engine,
                         const struct kvr_req_attach *attach)
{
    const struct kvr_engine_peer *peer = kvr_engine_port_peer(agent->port, engine);
    char process[64];

    if (peer->pid > 0)
        snprintf(process, sizeof(process), "process %d", (int)peer->pid);
    else
        snprintf(process, sizeof(process), "a process of another pid namespace");
    kvr_log_info("engine %u \"%s\" attached (%s, user %u, group %u): model %s, tp %u of %u, "
                 "pp %u of %u, generation %" PRIu64,
                 engine, attach->name, process, (unsigned)peer->user, (unsigned)peer->group,
                 attach->compat.model, attach->rank.tp, attach->rank.tp_size, attach->rank.pp,
                 attach->rank.pp_size, attach->rank.generation);
}

static kvr_status engine_up(struct kvr_agent *agent, uint32_t engine,
                            const struct kvr_req_attach *attach, struct kvr_error *error)
{
    struct kvr_shared_page *page = kvr_engine_port_page(agent->port, engine);
    kvr_status status;

    KVR_TRY(agent_words_open(agent, engine, error));
    status = kvr_engines_up(agent->machine.engines, engine, attach, page, error);
    if (status != KVR_OK)
        agent_words_close(agent, engine);
    return status;
}

static uint32_t on_tenants(void *self, int socket, const struct kvr_engine_peer *peer)
{
    struct kvr_agent *agent = self;

    return kvr_tenant_access_of(&agent->tenant_access, agent->tenants.count, socket, peer);
}

static kvr_status tenants_check(const struct kvr_agent *agent, uint32_t engine,
                                struct kvr_error *error)
{
    const struct kvr_engine_peer *peer = kvr_engine_port_peer(agent->port, engine);

    if (peer->tenants != 0)
        return KVR_OK;
    return kvr_error_set(error, KVR_NOT_AUTHORIZED, "tenant",
                         "process %d of user %u, group %u may act for no tenant: no --tenant of "
                         "this agent names its user or one of its groups, and none is for all",
                         (int)peer->pid, (unsigned)peer->user, (unsigned)peer->group);
}

static kvr_status on_up(void *self, kvr_ns now, uint32_t engine,
                        const struct kvr_req_attach *attach, struct kvr_error *error)
{
    struct kvr_agent *agent = self;
    struct kvr_shared_page *page = kvr_engine_port_page(agent->port, engine);

    (void)now;
    if (agent->draining)
        return kvr_error_set(error, KVR_DRAINING, "agent", "this agent is shutting down");
    KVR_TRY(tenants_check(agent, engine, error));
    KVR_TRY(engine_up(agent, engine, attach, error));
    agent->machine.engines->local[engine].tenants =
        kvr_engine_port_peer(agent->port, engine)->tenants;
    agent->engines[engine] = (struct agent_engine){
        .serial = ++agent->serial_next, .doorbell = -1, .lent = agent->engines[engine].lent};
    if (agent->machine.page_command != NULL) {
        int doorbell = kvr_engine_port_doorbell(agent->port, engine);

        agent->engines[engine].doorbell = doorbell;
        for (uint32_t i = 0; i < agent->groups.count; i++)
            if (kvr_group_thread_watch(agent->group[i].thread, doorbell) != KVR_OK)
                kvr_log_warning("engine %u cannot wake rail group %u: no memory", engine, i);
        page_tell(agent, engine, page);
    }
    attached_say(agent, engine, attach);
    return KVR_OK;
}

static void on_stranger(void *self, const char *detail)
{
    (void)self;
    kvr_log_warning("an engine was turned away: %s", detail);
}

static void on_down(void *self, kvr_ns now, uint32_t engine, kvr_status why, const char *detail)
{
    struct kvr_agent *agent = self;

    if (why != KVR_CANCELLED)
        agent->counters[KVR_COUNTER_ENGINES_LOST]++;
    kvr_log_info("engine %u \"%s\" is gone: %s", engine, agent->machine.engines->local[engine].name,
                 detail);
    agent_engine_gone(agent, engine, now);
    agent->machine.engine_down(agent->machine.self, now, engine);
}

static void engine_release(struct kvr_agent *agent, uint32_t engine)
{
    agent_words_close(agent, engine);
    kvr_engine_port_release(agent->port, engine);
}

/* Nothing of ours touches the engine's memory any more; rail threads may still poll its page. */
void agent_engine_done(void *self, uint32_t engine)
{
    struct kvr_agent *agent = self;

    agent->engines[engine].serial = 0;
    if (agent->machine.page_command == NULL) {
        engine_release(agent, engine);
        return;
    }
    for (uint32_t i = 0; i < agent->groups.count && agent->engines[engine].doorbell >= 0; i++)
        kvr_group_thread_unwatch(agent->group[i].thread, agent->engines[engine].doorbell);
    agent->engines[engine].doorbell = -1;
    agent->engines[engine].pages_left = agent->groups.count;
    page_tell(agent, engine, NULL);
}

void agent_page_forgotten(struct kvr_agent *agent, uint32_t engine)
{
    if (--agent->engines[engine].pages_left == 0)
        engine_release(agent, engine);
}

static void why_answer(struct kvr_agent *agent, uint32_t engine, uint64_t handle)
{
    char json[4096];
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_WHY, .handle = handle, .payload = (const uint8_t *)json};

    agent->machine.why(agent->machine.self, engine, handle, json, sizeof(json));
    notice.payload_bytes = (uint32_t)strlen(json);
    kvr_engine_port_notify(agent->port, engine, &notice);
}

static void on_request(void *self, kvr_ns now, uint32_t engine, const struct kvr_request *request)
{
    struct kvr_agent *agent = self;

    if (request->kind == KVR_REQ_WHY)
        why_answer(agent, engine, request->handle);
    else if (request->kind == KVR_REQ_REGION_DROP)
        agent_region_drop(agent, engine, request);
    else if (agent->machine.serves(request->kind))
        agent->machine.request(agent->machine.self, now, engine, request);
    else
        kvr_engine_port_refuse(agent->port, engine, KVR_UNSUPPORTED,
                               agent->machine.role == KVR_ROLE_SOURCE
                                   ? "this is a prefill-agent: it publishes and does not fetch"
                                   : "this is a decode-agent: it fetches and does not publish");
}

static uint32_t deadline_ms(const struct kvr_agent_config *config)
{
    kvr_ns ms = kvr_agent_time(config, config->deadline) / KVR_MS;

    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

kvr_status agent_engines_open(struct kvr_agent *agent, struct kvr_error *error)
{
    struct kvr_engine_access access;
    struct kvr_engine_handler handler = {.self = agent,
                                         .revocation_words = agent_words_fd,
                                         .without_secret = agent->config->tls.insecure,
                                         .deadline_ms = deadline_ms(agent->config),
                                         .address = agent->address,
                                         .access = &access,
                                         .tenants = on_tenants,
                                         .stranger = on_stranger,
                                         .up = on_up,
                                         .region = agent_region_add,
                                         .request = on_request,
                                         .pairs = agent_pairs_answer,
                                         .down = on_down};
    kvr_status status = kvr_engine_access_read(&agent->config->engines.users,
                                               &agent->config->engines.groups, &access, error);

    if (status != KVR_OK)
        return status;
    return kvr_engine_port_open(&agent->loop, agent->engine_socket, agent->config->name, &handler,
                                &agent->port, error);
}
