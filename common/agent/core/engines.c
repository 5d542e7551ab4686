#include "agent/core/engines.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "kv/layout.h"

void kvr_engines_init(struct kvr_engines *engines, struct kvr_buddy *memory,
                      const struct kvr_ports *ports, bool target)
{
    memset(engines, 0, sizeof(*engines));
    engines->memory = memory;
    engines->ports = ports;
    engines->target = target;
    kvr_tenants_init(&engines->tenants);
}

static bool same_rank(const struct kvr_rank *a, const struct kvr_rank *b)
{
    return kvr_uuid_equal(&a->engine, &b->engine) && a->tp == b->tp && a->pp == b->pp;
}

int kvr_engines_find(const struct kvr_engines *engines, const struct kvr_uuid *engine, uint32_t tp,
                     uint32_t pp)
{
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++) {
        const struct kvr_engine *local = &engines->local[i];

        if (local->attached && kvr_uuid_equal(&local->rank.engine, engine) &&
            local->rank.tp == tp && local->rank.pp == pp)
            return (int)i;
    }
    return -1;
}

/* Peers take what they know of an ended generation for the end of this one. */
static kvr_status generation_grows(const struct kvr_engines *engines, const struct kvr_rank *rank,
                                   struct kvr_error *error)
{
    uint64_t last = kvr_engines_last_generation(engines, rank);

    if (last == 0 || rank->generation > last)
        return KVR_OK;
    return kvr_error_set(error, KVR_STALE, "engine",
                         "generation %" PRIu64 " of rank tp %u pp %u of this engine has ended, and "
                         "this attach names generation %" PRIu64
                         ": each start of an engine needs a larger one, as its time of start in "
                         "nanoseconds",
                         last, rank->tp, rank->pp, rank->generation);
}

kvr_status kvr_engines_up(struct kvr_engines *engines, uint32_t index,
                          const struct kvr_req_attach *attach, struct kvr_shared_page *page,
                          struct kvr_error *error)
{
    struct kvr_engine *engine = &engines->local[index];
    int other = kvr_engines_find(engines, &attach->rank.engine, attach->rank.tp, attach->rank.pp);

    if (other >= 0)
        return kvr_error_set(error, KVR_EXISTS, "engine",
                             "rank tp %u pp %u of this engine is attached already (as \"%s\", "
                             "generation %" PRIu64 "): close that one first",
                             attach->rank.tp, attach->rank.pp, engines->local[other].name,
                             engines->local[other].rank.generation);
    KVR_TRY(generation_grows(engines, &attach->rank, error));
    assert(!engine->used);
    memset(engine, 0, sizeof(*engine));
    engine->used = engine->attached = true;
    engine->rank = attach->rank;
    engine->compat = attach->compat;
    memcpy(engine->name, attach->name, sizeof(engine->name));
    engine->page = page;
    engine->tenants = KVR_TENANTS_ALL;
    return KVR_OK;
}

/* Remembers a region that the present set no longer has. Its place was reserved by region_add. */
static void drop_later(struct kvr_engine *engine, uint32_t at)
{
    assert(engine->dropped_count < engine->dropped_capacity);
    engine->dropped[engine->dropped_count++] =
        (struct kvr_dropped_region){engine->set->locals[at], engine->set->layouts[at].region};
}

static void release_dropped(struct kvr_engines *engines, struct kvr_engine *engine)
{
    uint32_t alive_wanted = engine->set != NULL ? 1 : 0;

    if (engine->set_count > alive_wanted)
        return;
    for (uint32_t i = 0; i < engine->dropped_count; i++)
        engines->ports->region_done(engines->ports->self, engine->dropped[i].region,
                                    engine->dropped[i].number);
    engine->dropped_count = 0;
}

static void set_release(struct kvr_engines *engines, struct kvr_engine *engine,
                        struct kvr_region_set *set)
{
    if (kvr_region_set_release(set, engines->memory))
        engine->set_count--;
    release_dropped(engines, engine);
}

/* Puts `set` in place of the present one. */
static void set_replace(struct kvr_engines *engines, struct kvr_engine *engine,
                        struct kvr_region_set *set)
{
    struct kvr_region_set *old = engine->set;

    engine->set = set;
    if (set != NULL) {
        set->version = ++engine->version;
        engine->set_count++;
    }
    if (old != NULL)
        set_release(engines, engine, old);
    else
        release_dropped(engines, engine);
}

static kvr_status engine_quota_check(struct kvr_engines *engines, uint32_t index, const char *what,
                                     struct kvr_error *error)
{
    if (engines->quota == 0 || engines->local[index].users < engines->quota)
        return KVR_OK;
    engines->quota_refused++;
    return kvr_error_set(error, KVR_FULL, "engine",
                         "this engine has %" PRIu32
                         " requests that have not ended, as many as --engine-%s of this agent lets "
                         "it: wait for one, or raise that",
                         engines->local[index].users, what);
}

kvr_status kvr_engines_quota_take(struct kvr_engines *engines, uint32_t index, const char *tenant,
                                  const char *what, uint32_t *ret_tenant, struct kvr_error *error)
{
    struct kvr_tenant *chosen;
    char option[32], things[64];
    uint32_t number;
    kvr_status status = kvr_tenants_choose(&engines->tenants, engines->local[index].tenants, tenant,
                                           &number, error);

    *ret_tenant = KVR_TENANT_NONE;
    if (status != KVR_OK) {
        engines->tenants_refused++;
        return status;
    }
    *ret_tenant = number;
    KVR_TRY(engine_quota_check(engines, index, what, error));
    chosen = &engines->tenants.list[number];
    snprintf(option, sizeof(option), "--tenant-%s", what);
    snprintf(things, sizeof(things), "%s that have not ended", what);
    return kvr_tenant_take(chosen, &chosen->requests, 1, things, option, error);
}

void kvr_engines_tenant_give(struct kvr_engines *engines, uint32_t tenant)
{
    kvr_tenant_give(&engines->tenants.list[tenant].requests, 1);
}

bool kvr_engines_peer_serves(const struct kvr_engines *engines, uint32_t peer, uint32_t tenant)
{
    const struct kvr_ports *ports = engines->ports;

    if (tenant == KVR_TENANT_NONE)
        return false;
    return ports->peer_tenants == NULL ||
           (ports->peer_tenants(ports->self, peer) >> tenant & 1) != 0;
}

void kvr_engines_refuse_open(struct kvr_engines *engines, uint32_t index, uint64_t handle)
{
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_OPEN_REFUSED, .handle = handle, .status = KVR_EXISTS};

    snprintf(notice.detail, sizeof(notice.detail),
             "handle %" PRIu64 " is that of a request that has not ended: that one goes on, and "
             "nothing was opened; take another handle",
             handle);
    engines->ports->notify(engines->ports->self, index, &notice);
}

static kvr_status reserve_dropped(struct kvr_engines *engines, struct kvr_engine *engine,
                                  uint32_t wanted)
{
    uint32_t capacity = engine->dropped_capacity > 0 ? engine->dropped_capacity : 8;
    struct kvr_dropped_region *larger;

    if (wanted <= engine->dropped_capacity)
        return KVR_OK;
    while (capacity < wanted)
        capacity *= 2;
    larger = kvr_buddy_alloc(engines->memory, capacity * sizeof(*larger));
    if (larger == NULL)
        return KVR_NO_MEMORY;
    if (engine->dropped_count > 0)
        memcpy(larger, engine->dropped, engine->dropped_count * sizeof(*larger));
    kvr_buddy_free(engines->memory, engine->dropped);
    engine->dropped = larger;
    engine->dropped_capacity = capacity;
    return KVR_OK;
}

static const struct kvr_stage *only_stage(const struct kvr_region *region)
{
    return kvr_region_is_staged(region) ? region->stage : NULL;
}

kvr_status kvr_engines_region_add(struct kvr_engines *engines, uint32_t index,
                                  const struct kvr_region_layout *layout, struct kvr_region *region,
                                  struct kvr_error *error)
{
    struct kvr_engine *engine = &engines->local[index];
    uint32_t count = engine->set != NULL ? engine->set->count : 0;
    struct kvr_region_set *set;

    for (uint32_t i = 0; i < count; i++)
        if (engine->set->layouts[i].region == layout->region)
            return kvr_error_set(error, KVR_EXISTS, "engine",
                                 "region %u is registered already: drop it first or take another "
                                 "number",
                                 layout->region);
    if (count > 0 && only_stage(engine->set->locals[0]) != only_stage(region))
        return kvr_error_set(error, KVR_INVALID, "engine",
                             "the regions of an engine rank lie either all in host memory or all "
                             "on one GPU, and are either all staged or none");
    if (count >= KVR_REGIONS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "engine",
                             "an engine rank may have %u regions: register several layers in one "
                             "region",
                             KVR_REGIONS_MAX);
    if (engine->dropped_count >= KVR_REGIONS_MAX)
        return kvr_error_set(error, KVR_FULL, "engine",
                             "%u regions that were dropped are still used by requests: let those "
                             "end first",
                             engine->dropped_count);
    if (reserve_dropped(engines, engine, engine->dropped_count + count + 1) != KVR_OK ||
        (set = kvr_region_set_new(engines->memory, count + 1, true)) == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "engine",
                             "the agent's memory for tables is used up: start it with a larger "
                             "--table-memory");
    for (uint32_t i = 0; i < count; i++) {
        set->layouts[i] = engine->set->layouts[i];
        set->locals[i] = engine->set->locals[i];
    }
    set->layouts[count] = *layout;
    set->locals[count] = region;
    set_replace(engines, engine, set);
    return KVR_OK;
}

kvr_status kvr_engines_region_drop(struct kvr_engines *engines, uint32_t index, uint32_t region)
{
    struct kvr_engine *engine = &engines->local[index];
    uint32_t count = engine->set != NULL ? engine->set->count : 0, at = 0, kept = 0;
    struct kvr_region_set *set = NULL;

    while (at < count && engine->set->layouts[at].region != region)
        at++;
    if (at == count)
        return KVR_NOT_FOUND;
    if (count > 1 && (set = kvr_region_set_new(engines->memory, count - 1, true)) == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        if (i == at)
            continue;
        set->layouts[kept] = engine->set->layouts[i];
        set->locals[kept++] = engine->set->locals[i];
    }
    drop_later(engine, at);
    set_replace(engines, engine, set);
    return KVR_OK;
}

static void engine_finish(struct kvr_engines *engines, struct kvr_engine *engine)
{
    if (engine->attached || !engine->used || engine->users > 0)
        return;
    kvr_engines_gone_tell(engines, engine);
    for (uint32_t i = 0; engine->set != NULL && i < engine->set->count; i++)
        drop_later(engine, i);
    set_replace(engines, engine, NULL);
    assert(engine->dropped_count == 0);
    kvr_buddy_free(engines->memory, engine->dropped);
    engine->dropped = NULL;
    engine->used = false;
    engines->ports->engine_done(engines->ports->self, (uint32_t)(engine - engines->local));
}

void kvr_engines_down(struct kvr_engines *engines, uint32_t index)
{
    kvr_engines_gone_add(engines, &engines->local[index]);
    engines->local[index].attached = false;
    engine_finish(engines, &engines->local[index]);
}

void kvr_engines_unuse(struct kvr_engines *engines, uint32_t index)
{
    assert(engines->local[index].users > 0);
    engines->local[index].users--;
    engine_finish(engines, &engines->local[index]);
}

struct kvr_region_set *kvr_engines_set_acquire(struct kvr_engines *engines, uint32_t index)
{
    struct kvr_region_set *set = engines->local[index].set;

    return set != NULL ? kvr_region_set_acquire(set) : NULL;
}

void kvr_engines_set_release(struct kvr_engines *engines, uint32_t index,
                             struct kvr_region_set *set)
{
    if (set != NULL)
        set_release(engines, &engines->local[index], set);
}

/* Before the peer hears of the engine: then the offer is there when REGIONS comes (rule 11). */
static void words_offer(struct kvr_engines *engines, uint32_t index, uint32_t peer)
{
    const struct kvr_ports *ports = engines->ports;
    struct kvr_engine *engine = &engines->local[index];

    if (ports->revocation_words_offer != NULL && engine->told[peer] == 0)
        engine->words = ports->revocation_words_offer(ports->self, kvr_engines_lender(index), peer);
}

kvr_status kvr_engines_tell(struct kvr_engines *engines, uint32_t index,
                            const struct kvr_region_set *set, uint32_t peer)
{
    struct kvr_engine *engine = &engines->local[index];
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};
    struct kvr_remote_key *keys = NULL;
    uint32_t rails = 0;
    kvr_status status;

    if (engine->told[peer] == set->version)
        return KVR_OK;
    words_offer(engines, index, peer);
    for (uint32_t i = 0; engines->target && i < set->count; i++)
        rails = set->locals[i]->rail_count > rails ? set->locals[i]->rail_count : rails;
    message.regions = (struct kvr_msg_regions){
        .rank = engine->rank,
        .compat = engine->compat,
        .layouts = set->layouts,
        .layout_count = set->count,
        .rail_count = rails,
        .revocation_words = engine->words,
    };
    if (rails > 0) {
        keys = kvr_buddy_alloc(engines->memory, sizeof(*keys) * set->count * rails);
        if (keys == NULL)
            return KVR_NO_MEMORY;
        for (uint32_t i = 0; i < set->count; i++)
            memcpy(&keys[i * rails], set->locals[i]->keys, sizeof(*keys) * rails);
    }
    message.regions.keys = keys;
    status = engines->ports->send(engines->ports->self, peer, &message);
    kvr_buddy_free(engines->memory, keys);
    if (status == KVR_OK) {
        engine->told[peer] = set->version;
        kvr_engines_gone_forget(engines, &engine->rank, peer);
    }
    return status;
}

void kvr_engines_changed(struct kvr_engines *engines, uint32_t index, struct kvr_region_set *set)
{
    set->version = ++engines->local[index].version;
}

struct kvr_remote_engine *kvr_engines_remote(struct kvr_engines *engines, uint32_t peer,
                                             const struct kvr_rank *rank)
{
    for (uint32_t i = 0; i < engines->remote_end; i++) {
        struct kvr_remote_engine *remote = &engines->remote[i];

        if (remote->used && remote->peer == peer && same_rank(&remote->rank, rank))
            return remote;
    }
    return NULL;
}

/* No peer may take the places of the others. */
static struct kvr_remote_engine *remote_new(struct kvr_engines *engines, uint32_t peer)
{
    uint32_t of_peer = 0;

    for (uint32_t i = 0; i < engines->remote_end; i++)
        of_peer += engines->remote[i].used && engines->remote[i].peer == peer;
    if (of_peer >= KVR_ENGINES_MAX)
        return NULL;
    for (uint32_t i = 0; i < KVR_REMOTE_ENGINES_MAX; i++) {
        if (engines->remote[i].used)
            continue;
        if (i >= engines->remote_end)
            engines->remote_end = i + 1;
        return &engines->remote[i];
    }
    return NULL;
}

static struct kvr_region_set *remote_set(struct kvr_engines *engines,
                                         const struct kvr_msg_regions *regions)
{
    struct kvr_region_set *set = kvr_region_set_new(engines->memory, regions->layout_count, false);

    for (uint32_t i = 0; set != NULL && i < regions->layout_count; i++) {
        struct kvr_remote_region *remote = &set->remotes[i];

        set->layouts[i] = regions->layouts[i];
        memset(remote, 0, sizeof(*remote));
        remote->layout = regions->layouts[i];
        remote->rail_count = regions->rail_count;
        if (regions->rail_count > 0)
            memcpy(remote->keys, &regions->keys[i * regions->rail_count],
                   sizeof(remote->keys[0]) * regions->rail_count);
    }
    return set;
}

static void words_forget(struct kvr_engines *engines, const struct kvr_remote_engine *remote)
{
    const struct kvr_ports *ports = engines->ports;

    if (remote->words != 0 && ports->revocation_words_forget != NULL)
        ports->revocation_words_forget(ports->self, remote->peer, remote->words);
}

static void remote_forget(struct kvr_engines *engines, struct kvr_remote_engine *remote)
{
    words_forget(engines, remote);
    kvr_region_set_release(remote->set, engines->memory);
    remote->used = false;
}

kvr_status kvr_engines_learn(struct kvr_engines *engines, uint32_t peer,
                             const struct kvr_msg_regions *regions, struct kvr_error *error)
{
    struct kvr_remote_engine *remote = kvr_engines_remote(engines, peer, &regions->rank);
    struct kvr_region_set *set;

    if (regions->rail_count > KVR_RAILS_MAX || regions->layout_count > KVR_REGIONS_MAX)
        return kvr_error_set(error, KVR_MALFORMED, "regions",
                             "%u regions over %u rails is too many", regions->layout_count,
                             regions->rail_count);
    for (uint32_t i = 0; i < regions->layout_count; i++)
        if (kvr_layout_check(&regions->layouts[i], error) != KVR_OK)
            return KVR_MALFORMED;
    if (regions->layout_count == 0) { /* it is gone; a later generation may be there already */
        if (remote != NULL && remote->rank.generation == regions->rank.generation)
            remote_forget(engines, remote);
        return KVR_OK;
    }
    if (remote != NULL && remote->rank.generation > regions->rank.generation)
        return kvr_error_set(error, KVR_MALFORMED, "regions",
                             "regions of generation %" PRIu64 " after those of %" PRIu64,
                             regions->rank.generation, remote->rank.generation);
    if (remote == NULL && (remote = remote_new(engines, peer)) == NULL)
        return kvr_error_set(error, KVR_TOO_LARGE, "regions",
                             "more than %u engine ranks at this peer, or %u at all",
                             KVR_ENGINES_MAX, KVR_REMOTE_ENGINES_MAX);
    set = remote_set(engines, regions);
    if (set == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "regions", "no memory for a peer's %u regions",
                             regions->layout_count);
    if (remote->used && remote->words != regions->revocation_words)
        words_forget(engines, remote);
    if (remote->used)
        kvr_region_set_release(remote->set, engines->memory);
    *remote = (struct kvr_remote_engine){.used = true,
                                         .peer = peer,
                                         .rank = regions->rank,
                                         .compat = regions->compat,
                                         .set = set,
                                         .words = regions->revocation_words};
    return KVR_OK;
}

void kvr_engines_peer_lost(struct kvr_engines *engines, uint32_t peer)
{
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        engines->local[i].told[peer] = 0;
    kvr_engines_gone_forget(engines, NULL, peer);
    for (uint32_t i = 0; i < engines->remote_end; i++) {
        struct kvr_remote_engine *remote = &engines->remote[i];

        if (remote->used && remote->peer == peer)
            remote_forget(engines, remote);
    }
}
