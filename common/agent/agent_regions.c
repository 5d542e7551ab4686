/* Engines' regions, between the engine port, the machine and the helper threads that map and
 * register memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_region.h"
#include "base/fault_guard.h"
#include "base/log.h"
#include "kv/layout.h"

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

bool agent_region_is_whole(const struct agent_region *entry)
{
    return entry->state != REGION_REGISTERING && !entry->released;
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

void agent_region_let_go(struct agent_region *entry)
{
    entry->state = REGION_LEAVING;
    entry->released = true;
    if (entry->tasks > 0)
        return;
    agent_help(&entry->agent->helpers, &entry->job, release_work, release_done);
}

/* Its memory is another's. */
static void lodger_leave(struct agent_region *entry)
{
    struct agent_region *of = entry->of;

    region_notify(entry, KVR_NOTICE_REGION_GONE, KVR_OK, "");
    region_forget(entry);
    if (--of->lodgers == 0 && of->left)
        agent_region_let_go(of);
}

/* The machine says that nothing refers to it any more. */
void agent_region_done(void *self, struct kvr_region *region, uint32_t number)
{
    struct kvr_agent *agent = self;
    struct agent_region *entry = agent->regions;

    while (entry != NULL && (!agent_region_is_whole(entry) || entry->region != region ||
                             entry->request.layout.region != number))
        entry = entry->next;
    if (entry == NULL)
        return;
    if (entry->of != NULL) {
        lodger_leave(entry);
        return;
    }
    agent->engines[entry->engine].region_bytes -= region->layout.bytes;
    entry->state = REGION_LEAVING;
    entry->left = true;
    if (entry->lodgers == 0)
        agent_region_let_go(entry);
}

void agent_regions_close(struct kvr_agent *agent)
{
    agent_region_tasks_close(agent);
    while (agent->regions != NULL) {
        struct agent_region *entry = agent->regions;

        agent->regions = entry->next;
        if (entry->of == NULL)
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
    bool target = agent->machine.role == KVR_ROLE_TARGET;

    if (entry->request.memory != KVR_MEMORY_MEMFD) {
        entry->status = agent_stages_region(agent, entry->home, &entry->request, &entry->memory,
                                            &entry->region, &entry->error);
        kvr_region_memory_close(&entry->memory);
        return;
    }
    for (uint32_t i = first[0]; i < first[1]; i++)
        rails[i] = agent->rails[i];
    entry->status = kvr_region_open_memfd(
        &agent->fabric, rails, agent->rail_count, &entry->request.layout, entry->memory.fd,
        entry->request.fd_offset, agent->machine.role == KVR_ROLE_SOURCE,
        target ? KVR_REMOTE_GRANTED : KVR_REMOTE_NONE, &entry->region, &entry->error);
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
        agent_region_let_go(entry);
        return;
    }
    if (entry->status == KVR_OK) {
        entry->status =
            kvr_engines_region_add(agent->machine.engines, entry->engine, &entry->request.layout,
                                   entry->region, &entry->error);
        if (entry->status != KVR_OK) {
            region_notify(entry, KVR_NOTICE_REGION_GONE, entry->status, entry->error.detail);
            entry->serial = 0; /* the engine has the notice already */
            agent_region_let_go(entry);
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
    agent_engine_lent(agent, entry->engine);
    region_notify(entry, KVR_NOTICE_REGION_READY, KVR_OK, "");
}

static uint32_t registering_count(const struct kvr_agent *agent, uint32_t engine)
{
    uint32_t count = 0;

    for (const struct agent_region *entry = agent->regions; entry != NULL; entry = entry->next)
        count += entry->engine == engine && entry->state == REGION_REGISTERING;
    return count;
}

/* All memory that the engine has brought, also what it has dropped and a card still reads. */
static uint64_t memory_of(const struct kvr_agent *agent, uint32_t engine)
{
    uint64_t bytes = 0;

    for (const struct agent_region *entry = agent->regions; entry != NULL; entry = entry->next)
        if (entry->engine == engine && entry->request.memory_of == 0)
            bytes += entry->request.layout.bytes;
    return bytes;
}

static kvr_status quota_check(struct kvr_agent *agent, uint32_t engine,
                              const struct kvr_req_region *region, struct kvr_error *error)
{
    uint64_t quota = agent->config->engines.memory, used;

    if (quota == 0 || region->memory_of != 0)
        return KVR_OK;
    used = memory_of(agent, engine);
    if (used <= quota && region->layout.bytes <= quota - used)
        return KVR_OK;
    agent->counters[KVR_COUNTER_QUOTA_MEMORY]++;
    return kvr_error_set(error, KVR_FULL, "region",
                         "region %u has %llu bytes, this engine has registered %llu, and "
                         "--engine-memory of this agent is %llu: drop a region, or raise it",
                         region->layout.region, (unsigned long long)region->layout.bytes,
                         (unsigned long long)used, (unsigned long long)quota);
}

static kvr_status region_check(struct kvr_agent *agent, uint32_t engine,
                               const struct kvr_req_region *region, struct kvr_error *error)
{
    if (registering_count(agent, engine) >= KVR_REGISTERING_MAX)
        return kvr_error_set(error, KVR_FULL, "region",
                             "%d regions of this engine are being registered: wait for them first",
                             KVR_REGISTERING_MAX);
    KVR_TRY(quota_check(agent, engine, region, error));
    if (region->memory_of == 0 && agent_stages_check(agent, region, error) != KVR_OK)
        return error->status;
    return kvr_layout_check(&region->layout, error);
}

static struct agent_region *region_new(struct kvr_agent *agent, uint32_t engine,
                                       const struct kvr_req_region *region,
                                       const struct kvr_region_memory *memory)
{
    struct agent_region *entry = calloc(1, sizeof(*entry));

    if (entry == NULL)
        return NULL;
    entry->agent = agent;
    entry->job.work.data = entry;
    entry->engine = engine;
    entry->serial = agent->engines[engine].serial;
    entry->request = *region;
    entry->memory = *memory;
    if (region->memory_of == 0)
        entry->home = agent_home_of(agent, engine, region, memory->fd);
    entry->next = agent->regions;
    agent->regions = entry;
    return entry;
}

/* The region that has brought its memory. */
static kvr_status memory_find(const struct kvr_agent *agent, uint32_t engine,
                              const struct kvr_req_region *region, struct agent_region **ret_of,
                              struct kvr_error *error)
{
    struct agent_region *of = region_find(agent, engine, region->memory_of);

    if (of == NULL || of->state != REGION_HELD || of->drop_wanted)
        return kvr_error_set(error, KVR_NOT_FOUND, "region",
                             "region %u lies in the memory of region %u, which is not ready or was "
                             "dropped",
                             region->layout.region, region->memory_of);
    of = of->of != NULL ? of->of : of;
    if (region->layout.bytes > of->region->layout.bytes)
        return kvr_error_set(error, KVR_INVALID, "region",
                             "region %u has %llu bytes, and the memory of region %u has %llu",
                             region->layout.region, (unsigned long long)region->layout.bytes,
                             region->memory_of, (unsigned long long)of->region->layout.bytes);
    *ret_of = of;
    return KVR_OK;
}

/* Nothing is mapped or registered anew. */
static kvr_status lodger_add(struct agent_region *entry, struct kvr_error *error)
{
    struct kvr_agent *agent = entry->agent;
    struct agent_region *of = NULL;

    KVR_TRY(memory_find(agent, entry->engine, &entry->request, &of, error));
    KVR_TRY(kvr_engines_region_add(agent->machine.engines, entry->engine, &entry->request.layout,
                                   of->region, error));
    entry->of = of;
    entry->region = of->region;
    entry->home = of->home;
    entry->state = REGION_HELD;
    of->lodgers++;
    agent_engine_lent(agent, entry->engine);
    kvr_log_info("region '%s' lies in the memory of region '%s'", entry->request.name,
                 of->request.name);
    region_notify(entry, KVR_NOTICE_REGION_READY, KVR_OK, "");
    return KVR_OK;
}

void agent_region_add(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                      const struct kvr_region_memory *memory)
{
    struct kvr_agent *agent = self;
    struct kvr_region_memory refused = *memory;
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
    } else if ((entry = region_new(agent, engine, region, memory)) == NULL) {
        kvr_engine_port_refuse(agent->port, engine, KVR_NO_MEMORY, "no memory for a region");
    } else if (region->memory_of != 0) {
        if (lodger_add(entry, &error) != KVR_OK) {
            region_notify(entry, KVR_NOTICE_REGION_GONE, error.status, error.detail);
            region_forget(entry);
        }
        return; /* nothing came beside it */
    } else {
        agent_help(&agent->helpers, &entry->job, register_work, register_done);
        return;
    }
    kvr_region_memory_close(&refused);
}

/* Without memory for the set that lacks it, it is held until agent_regions_retry finds some. */
static bool region_leave(struct agent_region *entry)
{
    struct kvr_engines *engines = entry->agent->machine.engines;
    region_state before = entry->state;

    entry->state = REGION_LEAVING;
    if (kvr_engines_region_drop(engines, entry->engine, entry->request.layout.region) == KVR_OK)
        return true; /* the entry may be gone, and others with it */
    entry->state = before;
    return false;
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
        (void)region_leave(entry);
}

/* An engine that takes its registered memory away has no use for it. Of memory that a peer lends it
 * is only said: the peer's own transfers have wrong bytes. */
void agent_regions_broken(struct kvr_agent *agent)
{
    const void *base = kvr_fault_guard_broken();
    const struct agent_region *entry = agent->regions;

    if (base == NULL)
        return;
    while (entry != NULL && (!agent_region_is_whole(entry) || entry->region->base != base))
        entry = entry->next;
    kvr_log_warning("pages of shared memory were gone when they were touched: %s",
                    entry != NULL ? entry->request.name : "a peer's, or a region that was dropped");
    if (entry != NULL && engine_lives(entry))
        kvr_engine_port_refuse(agent->port, entry->engine, KVR_INVALID,
                               "the engine has taken away pages of a region that it registered");
}

/* One at a time: what it takes along need not be after it in the list. It is called every second.
 */
void agent_regions_retry(struct kvr_agent *agent)
{
    for (struct agent_region *entry = agent->regions; entry != NULL; entry = entry->next)
        if (entry->state == REGION_HELD && entry->drop_wanted && engine_lives(entry) &&
            region_leave(entry))
            return;
}
