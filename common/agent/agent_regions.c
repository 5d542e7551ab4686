/* Engines' regions, between the engine port, the machine and the helper threads that map and
 * register memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "base/memfd.h"
#include "device/stage.h"
#include "kv/layout.h"

typedef enum region_state {
    REGION_REGISTERING, /* by a helper */
    REGION_HELD,        /* in its engine's set */
    REGION_LEAVING,     /* waits for its last user, then for a helper */
} region_state;

/* One region, from its REGION_ADD until its memory is let go. */
struct agent_region {
    struct agent_region *next;
    struct kvr_agent *agent;
    region_state state;
    bool drop_wanted; /* by its engine */
    uint32_t tasks;   /* registration tasks that use it: it is released after them */
    bool released;    /* it is to be released after its tasks */
    struct agent_job job;
    uint32_t engine;
    uint64_t serial;
    uint32_t home; /* its rail group */
    struct kvr_req_region request;
    int fd;
    struct kvr_extents *extents; /* until they are imported */
    struct kvr_region *region;
    struct kvr_error error;
    kvr_status status;
};

/* The engine's own number of it; NULL: it has none, or no more. */
static struct agent_region *region_find(const struct kvr_agent *agent, uint32_t engine,
                                        uint32_t number)
{
    struct agent_region *entry = agent->regions;

    while (entry != NULL &&
           (entry->engine != engine || entry->serial != agent->engines[engine].serial ||
            entry->request.layout.region != number))
        entry = entry->next;
    return entry;
}

static void region_forget(struct agent_region *entry)
{
    struct agent_region **link = &entry->agent->regions;

    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    free(entry);
}

/* serial 0: the region was refused and has no engine, also after all have closed. */
static bool engine_lives(const struct agent_region *entry)
{
    return entry->serial != 0 && entry->agent->engines[entry->engine].serial == entry->serial &&
           entry->agent->machine.engines->local[entry->engine].attached;
}

static void region_notify(const struct agent_region *entry, kvr_notice_kind kind, kvr_status status,
                          const char *detail)
{
    struct kvr_notice notice = {
        .kind = kind, .handle = entry->request.layout.region, .status = status};

    snprintf(notice.detail, sizeof(notice.detail), "%s", detail);
    if (engine_lives(entry))
        kvr_engine_port_notify(entry->agent->port, entry->engine, &notice);
}

static void release_work(uv_work_t *work)
{
    struct agent_region *entry = work->data;

    agent_region_release(entry->agent, entry->region);
}

static void release_done(uv_work_t *work, int cancelled)
{
    struct agent_region *entry = work->data;

    (void)cancelled;
    region_notify(entry, KVR_NOTICE_REGION_GONE, KVR_OK, "");
    region_forget(entry);
}

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

static void region_release(struct agent_region *entry)
{
    entry->state = REGION_LEAVING;
    entry->released = true;
    if (entry->tasks > 0)
        return;
    agent_help(&entry->agent->helpers, &entry->job, release_work, release_done);
}

/* The machine says that nothing refers to it any more. */
void agent_region_done(void *self, struct kvr_region *region)
{
    struct kvr_agent *agent = self;
    struct agent_region *entry = agent->regions;

    while (entry != NULL && entry->region != region)
        entry = entry->next;
    if (entry == NULL)
        return;
    agent->engines[entry->engine].region_bytes -= region->layout.bytes;
    region_release(entry);
}

void agent_regions_close(struct kvr_agent *agent)
{
    while (agent->tasks != NULL) {
        struct agent_registration_task *task = agent->tasks;

        agent->tasks = task->next;
        free(task);
    }
    while (agent->regions != NULL) {
        struct agent_region *entry = agent->regions;

        agent->regions = entry->next;
        agent_region_release(agent, entry->region);
        free(entry);
    }
}

static void register_work(uv_work_t *work)
{
    struct agent_region *entry = work->data;
    struct kvr_agent *agent = entry->agent;
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    const uint32_t *first = &agent->groups.first[entry->home];

    if (entry->request.memory != KVR_MEMORY_MEMFD) {
        entry->status = agent_stages_region(agent, entry->home, &entry->request, entry->fd,
                                            entry->extents, &entry->region, &entry->error);
        kvr_extents_release(entry->extents);
        entry->extents = NULL;
        return;
    }
    for (uint32_t i = first[0]; i < first[1]; i++)
        rails[i] = agent->rails[i];
    entry->status = kvr_region_open_memfd(
        &agent->fabric, rails, agent->rail_count, &entry->request.layout, entry->fd,
        entry->request.fd_offset, agent->machine.role == KVR_ROLE_SOURCE,
        agent->machine.role == KVR_ROLE_TARGET, &entry->region, &entry->error);
}

/* Logs that local did not take a region. Regions that cards reach themselves are not offered to it.
 */
static void uncopied_say(const struct agent_region *entry)
{
    if (entry->error.status != KVR_OK)
        kvr_log_failure(KVR_LOG_WARNING,
                        "cards carry the pages of a region for peers of this host too",
                        &entry->error);
}

static void register_done(uv_work_t *work, int cancelled)
{
    struct agent_region *entry = work->data;
    struct kvr_agent *agent = entry->agent;

    (void)cancelled;
    if (entry->status == KVR_OK)
        entry->region->home = entry->home;
    if (entry->status == KVR_OK && (entry->drop_wanted || !engine_lives(entry))) {
        region_release(entry);
        return;
    }
    if (entry->status == KVR_OK) {
        entry->status = kvr_engines_region_add(agent->machine.engines, entry->engine, entry->region,
                                               &entry->error);
        if (entry->status != KVR_OK) {
            region_notify(entry, KVR_NOTICE_REGION_GONE, entry->status, entry->error.detail);
            entry->serial = 0; /* the engine has the notice already */
            region_release(entry);
            return;
        }
    }
    if (entry->status != KVR_OK) {
        kvr_log_failure(KVR_LOG_WARNING, "region refused", &entry->error);
        region_notify(entry, KVR_NOTICE_REGION_GONE, entry->status, entry->error.detail);
        region_forget(entry);
        return;
    }
    uncopied_say(entry);
    entry->state = REGION_HELD;
    agent->engines[entry->engine].region_bytes += entry->request.layout.bytes;
    region_notify(entry, KVR_NOTICE_REGION_READY, KVR_OK, "");
}

static uint32_t registering_count(const struct kvr_agent *agent, uint32_t engine)
{
    uint32_t count = 0;

    for (const struct agent_region *entry = agent->regions; entry != NULL; entry = entry->next)
        count += entry->engine == engine && entry->state == REGION_REGISTERING;
    return count;
}

static kvr_status region_check(const struct kvr_agent *agent, uint32_t engine,
                               const struct kvr_req_region *region, struct kvr_error *error)
{
    if (registering_count(agent, engine) >= AGENT_REGISTERING_MAX)
        return kvr_error_set(error, KVR_FULL, "region",
                             "%d regions of this engine are being registered: wait for them first",
                             AGENT_REGISTERING_MAX);
    if (agent_stages_check(agent, region, error) != KVR_OK)
        return error->status;
    return kvr_layout_check(&region->layout, error);
}

/* All regions of an engine are registered with one rail group, since a transfer has chunks of all
 * of them: with one near the first of them, and engines take such groups in turns. */
static uint32_t home_of(struct kvr_agent *agent, uint32_t engine, int fd, uint64_t offset)
{
    struct agent_engine *state = &agent->engines[engine];
    uint32_t near[KVR_RAIL_GROUPS_MAX], near_count = 0;
    int node;

    if (state->home_known || agent->groups.count <= 1)
        return state->home;
    node = kvr_memfd_node(fd, offset); /* of its first page */
    for (uint32_t i = 0; i < agent->groups.count; i++)
        if (node >= 0 && agent->group[i].node == (uint32_t)node)
            near[near_count++] = i;
    state->home = near_count > 0 ? near[engine % near_count] : engine % agent->groups.count;
    state->home_known = true;
    kvr_log_info("engine %u is served by rail group %u", engine, state->home);
    return state->home;
}

static struct agent_region *region_new(struct kvr_agent *agent, uint32_t engine,
                                       const struct kvr_req_region *region, int fd)
{
    struct agent_region *entry = calloc(1, sizeof(*entry));

    if (entry == NULL)
        return NULL;
    entry->agent = agent;
    entry->job.work.data = entry;
    entry->engine = engine;
    entry->serial = agent->engines[engine].serial;
    entry->request = *region;
    entry->fd = fd;
    entry->home = home_of(agent, engine, fd, region->fd_offset);
    entry->next = agent->regions;
    agent->regions = entry;
    return entry;
}

void agent_region_add(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                      int fd, struct kvr_extents *extents)
{
    struct kvr_agent *agent = self;
    struct kvr_notice notice = {.kind = KVR_NOTICE_REGION_GONE, .handle = region->layout.region};
    struct agent_region *entry;
    struct kvr_error error;

    (void)now;
    if (region_find(agent, engine, region->layout.region) != NULL) {
        /* Notices about one could be taken for the other's. */
        kvr_engine_port_refuse(agent->port, engine, KVR_EXISTS,
                               "two regions of one engine have the same number");
    } else if (region_check(agent, engine, region, &error) != KVR_OK) {
        notice.status = error.status;
        memcpy(notice.detail, error.detail, sizeof(notice.detail));
        kvr_engine_port_notify(agent->port, engine, &notice);
    } else if ((entry = region_new(agent, engine, region, fd)) == NULL) {
        kvr_engine_port_refuse(agent->port, engine, KVR_NO_MEMORY, "no memory for a region");
    } else {
        entry->extents = extents;
        agent_help(&agent->helpers, &entry->job, register_work, register_done);
        return;
    }
    kvr_extents_release(extents);
    if (fd >= 0)
        close(fd);
}

/* Without memory for the set that lacks it, it is held until agent_regions_retry finds some. */
static void region_leave(struct agent_region *entry)
{
    struct kvr_engines *engines = entry->agent->machine.engines;
    region_state before = entry->state;

    entry->state = REGION_LEAVING;
    if (kvr_engines_region_drop(engines, entry->engine, entry->request.layout.region) != KVR_OK)
        entry->state = before;
}

void agent_region_drop(struct kvr_agent *agent, uint32_t engine, const struct kvr_request *request)
{
    uint32_t number = request->region.layout.region;
    struct agent_region *entry = region_find(agent, engine, number);
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_REGION_GONE, .handle = number, .status = KVR_NOT_FOUND};

    if (entry == NULL) {
        snprintf(notice.detail, sizeof(notice.detail), "%s", kvr_status_text(notice.status));
        kvr_engine_port_notify(agent->port, engine, &notice);
        return;
    }
    /* REGION_GONE follows, once, when nothing can touch it any more. */
    entry->drop_wanted = true;
    if (entry->state == REGION_HELD)
        region_leave(entry);
}

void agent_regions_retry(struct kvr_agent *agent)
{
    for (struct agent_region *entry = agent->regions; entry != NULL; entry = entry->next)
        if (entry->state == REGION_HELD && entry->drop_wanted && engine_lives(entry))
            region_leave(entry);
}

/* ---- on another group's rails, or with a stage ---------------------------------------------- */

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

    for (uint32_t i = first[0]; i < first[1]; i++)
        if ((agent->groups.same_host >> i & 1) ==
            0) /* peers of this host use the engine's own group */
            rails[i] = agent->rails[i];
    for (uint32_t i = 0; i < task->count && task->status == KVR_OK; i++)
        task->status = kvr_region_register(&agent->fabric, task->regions[i].entry->region, rails,
                                           agent->machine.role == KVR_ROLE_SOURCE,
                                           agent->machine.role == KVR_ROLE_TARGET,
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
            region_release(entry);
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

static struct agent_registration_task *task_new(struct kvr_agent *agent,
                                                const struct kvr_region_set *set, uint64_t id)
{
    struct agent_registration_task *task =
        calloc(1, sizeof(*task) + set->count * sizeof(task->regions[0]));

    if (task == NULL)
        abort(); /* the requests that need it would wait for ever */
    task->agent = agent;
    task->job.work.data = task;
    task->id = id;
    for (uint32_t i = 0; i < set->count; i++) {
        struct agent_region *entry = agent->regions;

        while (entry != NULL && entry->region != set->locals[i])
            entry = entry->next;
        if (entry == NULL || entry->released)
            continue;
        entry->tasks++;
        task->regions[task->count++].entry = entry;
    }
    return task;
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

    task->group = group;
    task_queue(self, task);
}

void agent_region_stage(void *self, const struct kvr_region_set *set, uint64_t id)
{
    struct agent_registration_task *task = task_new(self, set, id);

    task->stages = true;
    task_queue(self, task);
}
