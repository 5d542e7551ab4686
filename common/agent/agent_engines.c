/* Engines and their regions, between the engine port, the machine and the helper threads that map
 * and register memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"
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
    uv_work_t work;
    uint32_t engine;
    uint64_t serial;
    struct kvr_req_region request;
    int fd;
    struct kvr_region *region;
    struct kvr_error error;
    kvr_status status;
};

/* ---- regions --------------------------------------------------------------------------------- */

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

static bool engine_lives(const struct agent_region *entry)
{
    return entry->agent->engines[entry->engine].serial == entry->serial &&
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

    kvr_region_release(&entry->agent->fabric, entry->region);
}

static void release_done(uv_work_t *work, int cancelled)
{
    struct agent_region *entry = work->data;

    (void)cancelled;
    region_notify(entry, KVR_NOTICE_REGION_GONE, KVR_OK, "");
    region_forget(entry);
}

static void region_release(struct agent_region *entry)
{
    entry->state = REGION_LEAVING;
    uv_queue_work(&entry->agent->loop, &entry->work, release_work, release_done);
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
    while (agent->regions != NULL) {
        struct agent_region *entry = agent->regions;

        agent->regions = entry->next;
        kvr_region_release(&agent->fabric, entry->region);
        free(entry);
    }
}

static void register_work(uv_work_t *work)
{
    struct agent_region *entry = work->data;
    struct kvr_agent *agent = entry->agent;

    entry->status = kvr_region_open_memfd(
        &agent->fabric, agent->rails, agent->rail_count, &entry->request.layout, entry->fd,
        entry->request.fd_offset, agent->machine.role == KVR_ROLE_SOURCE,
        agent->machine.role == KVR_ROLE_TARGET, &entry->region, &entry->error);
}

static void register_done(uv_work_t *work, int cancelled)
{
    struct agent_region *entry = work->data;
    struct kvr_agent *agent = entry->agent;

    (void)cancelled;
    if (entry->status == KVR_OK && (entry->drop_wanted || !engine_lives(entry))) {
        region_release(entry);
        return;
    }
    if (entry->status == KVR_OK) {
        entry->status = kvr_engines_region_add(agent->machine.engines, entry->engine, entry->region,
                                               &entry->error);
        if (entry->status != KVR_OK) {
            region_notify(entry, KVR_NOTICE_REGION_GONE, entry->status, entry->error.detail);
            entry->serial = 0; /* it was told already */
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
    if (region->memory != KVR_MEMORY_MEMFD)
        return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                             "device memory is not supported by this build: register host memory "
                             "(memfd)");
    return kvr_layout_check(&region->layout, error);
}

static struct agent_region *region_new(struct kvr_agent *agent, uint32_t engine,
                                       const struct kvr_req_region *region, int fd)
{
    struct agent_region *entry = calloc(1, sizeof(*entry));

    if (entry == NULL)
        return NULL;
    entry->agent = agent;
    entry->work.data = entry;
    entry->engine = engine;
    entry->serial = agent->engines[engine].serial;
    entry->request = *region;
    entry->fd = fd;
    entry->next = agent->regions;
    agent->regions = entry;
    return entry;
}

static void on_region(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                      int fd)
{
    struct kvr_agent *agent = self;
    struct kvr_notice notice = {.kind = KVR_NOTICE_REGION_GONE, .handle = region->layout.region};
    struct agent_region *entry;
    struct kvr_error error;

    (void)now;
    if (region_find(agent, engine, region->layout.region) != NULL) {
        /* What is said of one would be taken for the other. */
        kvr_engine_port_refuse(agent->port, engine, KVR_EXISTS,
                               "two regions of one engine have the same number");
    } else if (region_check(agent, engine, region, &error) != KVR_OK) {
        notice.status = error.status;
        memcpy(notice.detail, error.detail, sizeof(notice.detail));
        kvr_engine_port_notify(agent->port, engine, &notice);
    } else if ((entry = region_new(agent, engine, region, fd)) == NULL) {
        kvr_engine_port_refuse(agent->port, engine, KVR_NO_MEMORY, "no memory for a region");
    } else {
        uv_queue_work(&agent->loop, &entry->work, register_work, register_done);
        return;
    }
    if (fd >= 0)
        close(fd);
}

/* Without memory for the set that lacks it, it stays for now: agent_regions_retry. */
static void region_leave(struct agent_region *entry)
{
    struct kvr_engines *engines = entry->agent->machine.engines;
    region_state before = entry->state;

    entry->state = REGION_LEAVING;
    if (kvr_engines_region_drop(engines, entry->engine, entry->request.layout.region) != KVR_OK)
        entry->state = before;
}

static void region_drop(struct kvr_agent *agent, uint32_t engine, const struct kvr_request *request)
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

/* ---- engines --------------------------------------------------------------------------------- */

static void page_tell(struct kvr_agent *agent, uint32_t engine, struct kvr_shared_page *page)
{
    struct kvr_group_message message = {
        .kind = agent->machine.page_kind, .index = engine, .pointer = page};

    agent_command(agent, &message);
}

static kvr_status on_up(void *self, kvr_ns now, uint32_t engine,
                        const struct kvr_req_attach *attach, struct kvr_error *error)
{
    struct kvr_agent *agent = self;
    struct kvr_shared_page *page = kvr_engine_port_page(agent->port, engine);
    kvr_status status;

    (void)now;
    if (agent->draining)
        return kvr_error_set(error, KVR_DRAINING, "agent", "this agent is shutting down");
    status = kvr_engines_up(agent->machine.engines, engine, attach, page, error);
    if (status != KVR_OK)
        return status;
    agent->engines[engine] = (struct agent_engine){.serial = ++agent->serial_next, .doorbell = -1};
    if (agent->machine.page_kind != 0) {
        int doorbell = kvr_engine_port_doorbell(agent->port, engine);

        if (kvr_group_thread_watch(agent->thread, doorbell) == KVR_OK)
            agent->engines[engine].doorbell = doorbell;
        page_tell(agent, engine, page);
    }
    kvr_log_info(
        "engine %u \"%s\" attached: model %s, tp %u of %u, pp %u of %u, generation %" PRIu64,
        engine, attach->name, attach->compat.model, attach->rank.tp, attach->rank.tp_size,
        attach->rank.pp, attach->rank.pp_size, attach->rank.generation);
    return KVR_OK;
}

static void on_down(void *self, kvr_ns now, uint32_t engine, kvr_status why, const char *detail)
{
    struct kvr_agent *agent = self;

    if (why != KVR_CANCELLED)
        agent->counters[KVR_COUNTER_ENGINES_LOST]++;
    kvr_log_info("engine %u \"%s\" is gone: %s", engine, agent->machine.engines->local[engine].name,
                 detail);
    agent->machine.engine_down(agent->machine.self, now, engine);
}

/* Nothing of ours touches the engine's memory any more; the group thread may still poll its page.
 */
void agent_engine_done(void *self, uint32_t engine)
{
    struct kvr_agent *agent = self;

    agent->engines[engine].serial = 0;
    if (agent->machine.page_kind == 0) {
        kvr_engine_port_release(agent->port, engine);
        return;
    }
    if (agent->engines[engine].doorbell >= 0)
        kvr_group_thread_unwatch(agent->thread, agent->engines[engine].doorbell);
    agent->engines[engine].doorbell = -1;
    page_tell(agent, engine, NULL);
}

void agent_page_set(struct kvr_agent *agent, const struct kvr_group_message *message)
{
    if (message->pointer == NULL)
        kvr_engine_port_release(agent->port, message->index);
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
        region_drop(agent, engine, request);
    else if (agent->machine.serves(request->kind))
        agent->machine.request(agent->machine.self, now, engine, request);
    else
        kvr_engine_port_refuse(agent->port, engine, KVR_UNSUPPORTED,
                               agent->machine.role == KVR_ROLE_SOURCE
                                   ? "this is a prefill-agent: it publishes and does not fetch"
                                   : "this is a decode-agent: it fetches and does not publish");
}

kvr_status agent_engines_open(struct kvr_agent *agent, struct kvr_error *error)
{
    struct kvr_engine_handler handler = {.self = agent,
                                         .loans_fd = agent->loans_fd,
                                         .up = on_up,
                                         .region = on_region,
                                         .request = on_request,
                                         .down = on_down};

    return kvr_engine_port_open(&agent->loop, agent->engine_socket, agent->config->name, &handler,
                                &agent->port, error);
}
