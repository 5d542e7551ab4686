/* The rail groups of an agent: each with its thread, and messages to and from it. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "wire/compat.h"

const struct agent_group *agent_group_of(const struct kvr_agent *agent, uint32_t rail)
{
    return &agent->group[kvr_rail_groups_of(&agent->groups, rail)];
}

/* ---- messages ------------------------------------------------------------------------------- */

void agent_command(void *self, const struct kvr_group_message *message)
{
    struct agent_group *group = &((struct kvr_agent *)self)->group[message->head.group];
    struct kvr_group_message now = *message;

    now.head.at = kvr_clock_now();
    group->kick = true;
    pair_book_command(&((struct kvr_agent *)self)->pairs, message);
    if (!kvr_group_command(group->group, &now))
        abort(); /* a command may not be lost: nothing that follows would be true */
}

/* A thread is woken once for all that was queued. */
void agent_groups_kick(struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < agent->groups.count; i++) {
        struct agent_group *group = &agent->group[i];

        if (group->kick && group->thread != NULL)
            kvr_group_thread_kick(group->thread);
        group->kick = false;
    }
}

/* Nothing can be written to it, and only here is known why. */
static void unreachable_say(const struct kvr_group_message *message)
{
    if (message->head.kind == KVR_GROUP_PEER_ADDED && message->peer_rails.status == KVR_NO_RAIL)
        kvr_log_warning("no rail of group %u reaches peer %u: %s", message->head.group,
                        message->peer_rails.peer, message->peer_rails.rails->unreachable);
}

static void listen_to_groups(void *self)
{
    struct kvr_agent *agent = self;
    const struct kvr_machine *machine = &agent->machine;
    struct kvr_group_message message;
    struct kvr_error refused;
    uint32_t engine;

    for (uint32_t i = 0; i < agent->groups.count; i++) {
        while (kvr_group_event(agent->group[i].group, &message)) {
            if (agent->stamps != NULL)
                agent->listened_at = kvr_clock_now();
            unreachable_say(&message); /* the machine frees what it points to */
            agent_warmth_heard(agent, kvr_clock_now(), &message);
            if (agent_pairs_heard(agent, &message))
                continue;
            if (message.head.kind == KVR_GROUP_RECYCLED)
                agent_filter_listening(agent);
            if (machine->page_forgotten != NULL && machine->page_forgotten(&message, &engine))
                agent_page_forgotten(agent, engine);
            else
                machine->group(machine->self, kvr_clock_now(), &message);
            if (message.head.kind == KVR_GROUP_RECYCLED) {
                kvr_group_refused(agent->group[i].group, message.recycled.rail, &refused);
                agent_tell_rail(agent, message.recycled.rail, message.recycled.status,
                                refused.detail);
            }
        }
    }
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* From another group's thread. */
static void group_wake(void *self, uint32_t number)
{
    kvr_group_thread_kick(((struct kvr_agent *)self)->group[number].thread);
}

static kvr_status group_open(struct kvr_agent *agent, uint32_t number, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    const uint32_t *first = &agent->groups.first[number];
    struct kvr_group_options options = {
        .fabric = &agent->fabric,
        .rails = agent->rails,
        .number = number,
        .rail_first = first[0],
        .rail_count = first[1] - first[0],
        .planes = agent->planes.of,
        .other_planes = agent_other_planes(config),
        .window_writes = (uint32_t)config->posting.window_writes,
        .connections = (uint32_t)config->posting.connections,
        .window_bytes = config->posting.window_bytes,
        .batch_writes = (uint32_t)config->posting.batch,
        .warm_up = config->posting.warm_up,
        .silence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat),
        .absence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat) / 2,
        .clock = kvr_clock_now,
        .stamps = number == 0 ? agent->stamps : NULL, /* one thread writes a station */
        .wake = group_wake,
        .wake_self = agent,
    };

    if (agent->program->group_open(number, &options.user) != KVR_OK)
        return kvr_error_set(error, KVR_NO_MEMORY, "rails", "no memory for a rail group");
    return kvr_group_open(&options, &agent->group[number].group, error);
}

/* Each by a thread that runs where the group's will: what is touched here first lies there. */
kvr_status agent_groups_open(struct kvr_agent *agent, struct kvr_error *error)
{
    cpu_set_t before, cores;
    struct kvr_group *groups[KVR_RAIL_GROUPS_MAX];
    bool restores = sched_getaffinity(0, sizeof(before), &before) == 0;
    kvr_status status = KVR_OK;

    for (uint32_t i = 0; i < agent->groups.count && status == KVR_OK; i++) {
        const struct agent_group *group = &agent->group[i];

        CPU_ZERO(&cores);
        for (uint32_t k = 0; k < group->core_count; k++)
            CPU_SET((unsigned)group->cores[k], &cores);
        if (restores && group->core_count > 0)
            (void)sched_setaffinity(0, sizeof(cores), &cores);
        status = group_open(agent, i, error);
        groups[i] = group->group;
        if (restores && group->core_count > 0)
            (void)sched_setaffinity(0, sizeof(before), &before);
    }
    return status == KVR_OK ? kvr_groups_join(groups, agent->groups.count, error) : status;
}

static void group_notify(void *self)
{
    kvr_doorbell_ring(&((struct kvr_agent *)self)->group_events);
}

kvr_status agent_groups_start(struct kvr_agent *agent, struct kvr_error *error)
{
    struct kvr_group_thread_options options = {
        .spin_ns = agent->config->posting.spin, .notify = group_notify, .notify_self = agent};
    kvr_status status =
        kvr_doorbell_open(&agent->group_events, &agent->loop, listen_to_groups, agent, error);

    for (uint32_t i = 0; i < agent->groups.count && status == KVR_OK; i++) {
        struct agent_group *group = &agent->group[i];

        options.cores = group->cores;
        options.core_count = group->core_count;
        status = kvr_group_thread_start(group->group, &options, &group->thread, error);
        if (status != KVR_OK && group->core_count > 0)
            status = agent_option_refuse("cores", error);
    }
    return status;
}

void agent_groups_stop(struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < agent->groups.count; i++)
        kvr_group_thread_end(agent->group[i].thread);
    for (uint32_t i = 0; i < agent->groups.count; i++) {
        kvr_group_thread_stop(agent->group[i].thread);
        agent->group[i].thread = NULL;
    }
}

void agent_groups_close(struct kvr_agent *agent)
{
    agent_groups_stop(agent);
    for (uint32_t i = 0; i < agent->groups.count; i++)
        kvr_group_close(agent->group[i].group);
    kvr_doorbell_release(&agent->group_events);
}
