/* Time, and a run from its first to its last moment. */
#include "tools/sim/sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "tools/sim/sim_lodger.h"
#include "tools/sim/sim_region.h"
#include "tools/sim/sim_scheduler.h"

/* ---- events -------------------------------------------------------------------------------- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_at(struct sim_world *world, kvr_ns at,
            void (*run)(struct sim_world *, const struct sim_event *), void *object, uint64_t a,
            uint64_t b)
{
    struct sim_event event = {
        .at = at, .order = world->order++, .run = run, .object = object, .a = a, .b = b};
    uint32_t i = world->event_count++;

    if (world->event_count > world->event_capacity) {
        world->event_capacity = world->event_capacity > 0 ? 2 * world->event_capacity : 1024;
        world->events = realloc(world->events, world->event_capacity * sizeof(event));
        if (world->events == NULL)
            abort();
    }
    for (; i > 0 && before(&event, &world->events[(i - 1) / 2]); i = (i - 1) / 2)
        world->events[i] = world->events[(i - 1) / 2];
    world->events[i] = event;
}

static struct sim_event event_take(struct sim_world *world)
{
    struct sim_event first = world->events[0], last = world->events[--world->event_count];
    uint32_t i = 0;

    for (uint32_t child; (child = 2 * i + 1) < world->event_count; i = child) {
        if (child + 1 < world->event_count &&
            before(&world->events[child + 1], &world->events[child]))
            child++;
        if (!before(&world->events[child], &last))
            break;
        world->events[i] = world->events[child];
    }
    world->events[i] = last;
    return first;
}

kvr_ns sim_some(struct sim_world *world, kvr_ns mean)
{
    kvr_ns wait = kvr_rng_below(&world->rng, mean + 1);

    return kvr_rng_percent(&world->rng, 10) ? wait + kvr_rng_below(&world->rng, 8 * mean + 1)
                                            : wait;
}

void sim_fail(struct sim_world *world, int request, const char *format, ...)
{
    va_list list;

    if (world->failed)
        return;
    world->failed = true;
    world->failed_request = request;
    va_start(list, format);
    vsnprintf(world->what, sizeof(world->what), format, list);
    va_end(list);
}

/* ---- a world ------------------------------------------------------------------------------- */

static void geometry_choose(struct sim_world *world)
{
    struct kvr_rng *rng = &world->rng;
    struct sim_geometry *geometry = &world->geometry;

    geometry->layers = geometry->group_split = (uint32_t)kvr_rng_between(rng, 1, SIM_LAYERS);
    if (geometry->layers > 1 && kvr_rng_percent(rng, 30))
        geometry->group_split = (uint32_t)kvr_rng_between(rng, 1, geometry->layers - 1);
    geometry->states = geometry->group_split < geometry->layers && world->seed % 2 == 0;
    geometry->page_tokens = (uint32_t)1 << kvr_rng_between(rng, 1, 3);
    geometry->heads = (uint32_t)kvr_rng_between(rng, 1, 2);
    geometry->head_bytes = 8 * (uint32_t)kvr_rng_between(rng, 1, 2);
    if (kvr_rng_percent(rng, 70)) /* then a page is about one write, and a transfer many */
        geometry->head_bytes *= 32;
    geometry->part_count = 1;
    switch (kvr_rng_below(rng, 3)) {
    case 0:
        geometry->part_count = 2;
        geometry->parts[0] = KVR_PART_K;
        geometry->parts[1] = KVR_PART_V;
        break;
    case 1:
        geometry->parts[0] = KVR_PART_KV;
        break;
    default:
        geometry->parts[0] = KVR_PART_MLA;
        geometry->heads = 1;
    }
    sim_sides_choose(world);
}

static void net_open(struct sim_world *world)
{
    static const kvr_ns latencies[] = {2 * KVR_US, 20 * KVR_US, 200 * KVR_US, 5 * KVR_MS};
    struct kvr_rng *rng = &world->rng;
    struct kvr_sim_options options = {
        .rng = rng,
        .hooks = sim_check_hooks(world),
        .latency_ns = latencies[kvr_rng_below(rng, 4)],
        .again_chance = kvr_rng_percent(rng, 30) ? 500 : 0,
    };

    if (sim_has(world, SIM_WRITE_LATE)) {
        bool very = kvr_rng_percent(rng, 40);

        options.late_ns = very ? 2 * KVR_S : 20 * KVR_MS;
        options.late_chance = (uint32_t)kvr_rng_between(rng, 10, very ? 60 : 1000);
    }
    if (sim_has(world, SIM_WRITE_FAILED))
        options.fail_chance = (uint32_t)kvr_rng_between(rng, 20, 400);
    if (sim_has(world, SIM_WRITE_LOST))
        options.lost_chance = (uint32_t)kvr_rng_between(rng, 20, 400);
    if (sim_has(world, SIM_WRITE_CORRUPT)) /* then every target asks for every digest */
        options.corrupt_chance = (uint32_t)kvr_rng_between(rng, 20, 200);
    if (sim_has(world, SIM_COPY_FAILED))
        options.unmoved_chance = (uint32_t)kvr_rng_between(rng, 20, 400);
    options.unseen_chance = kvr_rng_percent(rng, 50) ? 2500 : 0;
    if (sim_has(world, SIM_WRITE_TWICE))
        options.twice_chance = (uint32_t)kvr_rng_between(rng, 20, 1000);
    if (world->narrow)
        options.latency_ns = latencies[3];
    world->latency_ns = options.latency_ns;
    world->target_copies = world->seed % 3 == 0;
    world->mixed = world->seed % 6 == 2;
    world->needs_senders = !world->target_copies && world->seed % 4 == 2;
    world->neighbours = (world->target_copies || world->mixed) && kvr_rng_percent(rng, 30);
    world->tagged = world->seed % 5 != 0;
    world->net = kvr_sim_net_open(&options);
}

static void agents_start(struct sim_world *world)
{
    struct kvr_rng *rng = &world->rng;

    world->source_count = kvr_rng_percent(rng, 50) ? 1 : 2;
    world->target_count = kvr_rng_percent(rng, 60) ? 1 : 2;
    if (world->narrow)
        world->source_count = world->target_count = 1;
    for (uint32_t i = 0; i < SIM_AGENTS; i++) {
        struct sim_agent *agent = &world->agents[i];

        agent->world = world;
        agent->number = i;
        agent->source = i < SIM_SOURCES;
        agent->memory = world->memory->tables[i];
        snprintf(agent->address, sizeof(agent->address), "agent%u:7000", i);
        if (i < SIM_SOURCES ? i < world->source_count : i - SIM_SOURCES < world->target_count)
            sim_agent_start(agent);
    }
}

static void world_begin(struct sim_world *world)
{
    static const kvr_ns means[] = {5 * KVR_US, 100 * KVR_US, 2 * KVR_MS};
    struct kvr_rng *rng = &world->rng;

    kvr_rng_init(rng, world->seed);
    world->now = 1000 * KVR_S + kvr_rng_below(rng, KVR_S);
    world->last_injection = world->now;
    world->message_ns = means[kvr_rng_below(rng, 3)];
    world->step_ns = means[kvr_rng_below(rng, 2)] / 2;
    world->compute_ns = means[kvr_rng_below(rng, 3)];
    world->narrow = world->seed % 17 == 7;
    if (world->narrow)
        world->compute_ns = means[0];
    world->lodgers = sim_lodgers_in(world->seed);
    geometry_choose(world);
    sim_fault_begin(world);
    world->many_groups = kvr_rng_percent(rng, sim_has(world, SIM_GROUP_LOST) ? 90 : 30);
    world->many_groups = world->many_groups && !world->narrow;
    world->failover = kvr_rng_percent(rng, 85);
    world->late_promille = (uint32_t)kvr_rng_between(rng, 2, 200);
    net_open(world);
    sim_ways_begin(world);
    agents_start(world);
    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        for (uint64_t n = kvr_rng_between(rng, 1, 2); world->agents[i].alive && n > 0; n--)
            sim_ranks_begin(world, &world->agents[i]);
    sim_script_begin(world);
}

/* Until nothing is left to happen that the condition waits for. False: it took too long. */
static bool run_until(struct sim_world *world, bool (*reached)(struct sim_world *), kvr_ns patience)
{
    while (!world->failed && !reached(world)) {
        if (++world->moments > SIM_MOMENTS_MAX)
            return false;
        kvr_ns moment = kvr_sim_net_next(world->net);
        struct sim_event event;

        if (moment != KVR_NEVER && (world->event_count == 0 || moment <= world->events[0].at)) {
            world->now = moment;
            kvr_sim_net_run(world->net, moment);
        } else if (world->event_count > 0) {
            event = event_take(world);
            world->now = event.at;
            kvr_sim_net_run(world->net, world->now);
            event.run(world, &event);
        } else {
            return false;
        }
        if (world->now > world->last_injection + patience)
            return false;
    }
    return true;
}

static bool over(struct sim_world *world)
{
    const struct sim_user *user;
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    if (world->busy > 0)
        return false;
    while ((user = sim_user_next(world, &owner, &publish, &fetch)) != NULL)
        if (user->open && !user->ended)
            return false;
    return true;
}

static bool idle(struct sim_world *world)
{
    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        if (world->agents[i].alive && !sim_agent_idle(&world->agents[i]))
            return false;
    return kvr_sim_net_next(world->net) == KVR_NEVER;
}

static void all_waiting_tell(struct sim_world *world)
{
    const struct sim_user *user;
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    uint32_t owner = 0;
    char why[1024];

    while ((user = sim_user_next(world, &owner, &publish, &fetch)) != NULL) {
        const struct kvr_machine *machine = &user->engine->agent->machine;
        uint32_t request = (owner - 1) / SIM_USERS;

        if (!user->open || user->ended)
            continue;
        machine->why(machine->self, user->engine->index, user->handle, why, sizeof(why));
        sim_fail(world, (int)request, "request %u: its %s never ends: %.400s", request,
                 publish != NULL ? "publish" : "fetch", why);
    }
    sim_fail(world, -1, "%u scripts never end", world->busy);
}

static void engines_detach(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->engine_count; i++)
        if (world->engines[i].attached)
            sim_engine_detach(&world->engines[i]);
}

static void world_end(struct sim_world *world)
{
    struct kvr_sim_counts counts = kvr_sim_net_counts(world->net);

    world->totals->seeds++;
    world->totals->chunks += counts.writes;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        world->totals->injected[i] += world->injected[i];
        world->totals->mid[i] += world->mid >> i & 1;
    }
    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        if (world->agents[i].alive)
            sim_agent_stop(&world->agents[i]);
    for (uint32_t i = 0; i < world->engine_count; i++)
        sim_engine_regions_release(&world->engines[i]);
    sim_stages_free(world);
    kvr_sim_net_close(world->net);
    sim_connections_free(world);
    sim_reporters_free(world);
    for (uint32_t i = 0; i < world->engine_count; i++) {
        struct sim_engine *engine = &world->engines[i];

        while (engine->tasks_first != NULL) {
            struct sim_task *next = engine->tasks_first->next;

            free(engine->tasks_first);
            engine->tasks_first = next;
        }
        sim_silence_end(engine);
        for (uint32_t r = 0; r < engine->region_count; r++)
            if (engine->lenders[r] == r)
                free(engine->memory[r]);
        free(engine->page);
    }
}

static void world_reset(struct sim_world *world, uint64_t seed)
{
    struct sim_world kept = {
        .seed = seed,
        .memory = world->memory,
        .totals = world->totals,
        .allowed = world->allowed,
        .events = world->events,
        .event_capacity = world->event_capacity,
        .history = world->history,
        .failed_request = -1,
    };

    *world = kept;
    sim_history_reset(&world->history);
    sim_scheduler_reset(world->memory->scheduler);
}

bool sim_world_run(struct sim_world *world, uint64_t seed)
{
    world_reset(world, seed);
    world_begin(world);
    if (!run_until(world, over, SIM_PATIENCE_NS))
        all_waiting_tell(world);
    world->last_injection = world->now;
    world->ending = true;
    if (!run_until(world, idle, SIM_PATIENCE_NS))
        sim_fail(world, -1,
                 "what has ended is not forgotten: transfers, tombstones or writes stay");
    if (!world->failed) {
        for (uint32_t i = 0; i < SIM_AGENTS; i++)
            if (world->agents[i].alive)
                sim_peers_end(&world->agents[i]);
        engines_detach(world);
    }
    world->last_injection = world->now;
    if (!run_until(world, idle, SIM_PATIENCE_NS))
        sim_fail(world, -1, "engines and peers that have gone are not forgotten");
    sim_reporters_settle(world);
    if (!world->failed)
        sim_check_world(world);
    world_end(world);
    return !world->failed;
}
