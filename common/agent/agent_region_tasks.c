/* Registers regions of an engine on another rail group's rails, for a failover, or gives them a
 * stage, so that their fragments can be copied. */
#include <stdlib.h>

#include "agent/agent_region.h"
#include "base/log.h"
#include "device/stage.h"

/* A task for helper threads: register regions with one more rail group's rails, or give them a
 * stage. One task at a time, so that no two do the same work. */
struct agent_registration_task {
    struct agent_registration_task *next;
    struct kvr_agent *agent;
    struct agent_job job;
    uint64_t id;
    bool stages;
    uint32_t group, count; /* group: where none stages */
    kvr_status status;
    struct kvr_error error;
    struct {
        struct agent_region *entry;
        struct kvr_memory *memory[KVR_RAILS_MAX]; /* that it got */
        struct kvr_stage *stage;
        struct kvr_device_memory *pages; /* NULL: it got none */
    } regions[];
};

static void stages_work(struct agent_registration_task *task)
{
    for (uint32_t i = 0; i < task->count && task->status == KVR_OK; i++) {
        const struct kvr_region *region = task->regions[i].entry->region;

        if (region->stage == NULL)
            task->status = agent_stages_host(task->agent, region, &task->regions[i].stage,
                                             &task->regions[i].pages, &task->error);
    }
}

static void rails_work(struct agent_registration_task *task)
{
    struct kvr_agent *agent = task->agent;
    const uint32_t *first = &agent->groups.first[task->group];
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    bool target = agent->machine.role == KVR_ROLE_TARGET;

    for (uint32_t i = first[0]; i < first[1]; i++)
        if ((agent->groups.same_host >> i & 1) ==
            0) /* peers of this host use the engine's own group */
            rails[i] = agent->rails[i];
    for (uint32_t i = 0; i < task->count && task->status == KVR_OK; i++)
        task->status = kvr_region_register(&agent->fabric, task->regions[i].entry->region, rails,
                                           agent->machine.role == KVR_ROLE_SOURCE,
                                           target ? KVR_REMOTE_GRANTED : KVR_REMOTE_NONE,
                                           task->regions[i].memory, &task->error);
}

static void task_work(uv_work_t *work)
{
    struct agent_registration_task *task = work->data;

    if (task->stages)
        stages_work(task);
    else
        rails_work(task);
}

/* True when any region has more than it had. */
static bool adopt(struct agent_registration_task *task)
{
    bool more = false;

    for (uint32_t i = 0; i < task->count; i++) {
        struct agent_region *entry = task->regions[i].entry;

        if (task->regions[i].pages != NULL) {
            entry->region->stage = task->regions[i].stage;
            entry->region->pages = task->regions[i].pages;
            entry->region->device = task->regions[i].stage->device;
        }
        more |= kvr_region_adopt(&task->agent->fabric, entry->region, task->regions[i].memory);
        if (--entry->tasks == 0 && entry->released)
            agent_region_let_go(entry);
    }
    return more;
}

static void task_next(struct kvr_agent *agent);

static void task_done(uv_work_t *work, int cancelled)
{
    struct agent_registration_task *task = work->data;
    struct kvr_agent *agent = task->agent;
    bool more;

    (void)cancelled;
    agent->tasks = task->next;
    more = adopt(task);
    if (task->status == KVR_OK && more)
        kvr_log_warning("rail group %u carries on for engine %u: its own group reaches no peer",
                        task->group, task->regions[0].entry->engine);
    else if (task->status != KVR_OK)
        kvr_log_failure(KVR_LOG_WARNING,
                        task->stages ? "fragments cannot be staged for the next 30 seconds"
                                     : "another rail group cannot carry on",
                        &task->error);
    if (!agent->closing)
        agent->machine.registered(agent->machine.self, kvr_clock_now(), task->id, task->status);
    free(task);
    task_next(agent);
}

static void task_next(struct kvr_agent *agent)
{
    if (agent->tasks != NULL && !agent->closing)
        agent_help(&agent->helpers, &agent->tasks->job, task_work, task_done);
}

/* Several regions of a set may lie in one memory. */
static bool task_has(const struct agent_registration_task *task, const struct agent_region *entry)
{
    for (uint32_t i = 0; i < task->count; i++)
        if (task->regions[i].entry == entry)
            return true;
    return false;
}

static struct agent_registration_task *task_new(struct kvr_agent *agent,
                                                const struct kvr_region_set *set, uint64_t id)
{
    struct agent_registration_task *task =
        calloc(1, sizeof(*task) + set->count * sizeof(task->regions[0]));

    if (task == NULL)
        return NULL;
    task->agent = agent;
    task->job.work.data = task;
    task->id = id;
    for (uint32_t i = 0; i < set->count; i++) {
        struct agent_region *entry = agent->regions;

        while (entry != NULL && (!agent_region_is_whole(entry) || entry->region != set->locals[i] ||
                                 entry->of != NULL))
            entry = entry->next;
        if (entry == NULL || task_has(task, entry))
            continue;
        entry->tasks++;
        task->regions[task->count++].entry = entry;
    }
    return task;
}

/* Without memory for a task the machine still gets an answer, from the loop. Of more than are
 * remembered the requests wait until their deadline. */
static void answer_later(struct kvr_agent *agent, uint64_t id)
{
    if (agent->unregistered_count < AGENT_UNREGISTERED_MAX)
        agent->unregistered[agent->unregistered_count++] = id;
}

void agent_region_tasks_answer(struct kvr_agent *agent)
{
    while (agent->unregistered_count > 0)
        agent->machine.registered(agent->machine.self, kvr_clock_now(),
                                  agent->unregistered[--agent->unregistered_count], KVR_NO_MEMORY);
}

static void task_queue(struct kvr_agent *agent, struct agent_registration_task *task)
{
    if (agent->tasks != NULL) {
        agent->tasks_last->next = task;
        agent->tasks_last = task;
        return;
    }
    agent->tasks = agent->tasks_last = task;
    task_next(agent);
}

void agent_region_register(void *self, const struct kvr_region_set *set, uint32_t group,
                           uint64_t id)
{
    struct agent_registration_task *task = task_new(self, set, id);

    if (task == NULL) {
        answer_later(self, id);
        return;
    }
    task->group = group;
    task_queue(self, task);
}

void agent_region_stage(void *self, const struct kvr_region_set *set, uint64_t id)
{
    struct agent_registration_task *task = task_new(self, set, id);

    if (task == NULL) {
        answer_later(self, id);
        return;
    }
    task->stages = true;
    task_queue(self, task);
}

void agent_region_tasks_close(struct kvr_agent *agent)
{
    while (agent->tasks != NULL) {
        struct agent_registration_task *task = agent->tasks;

        agent->tasks = task->next;
        free(task);
    }
}
