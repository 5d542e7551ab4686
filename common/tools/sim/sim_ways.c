/* Which ways are not well, from when on, and what follows for a transfer. */
#include "tools/sim/sim_ways.h"

#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"
#include "rail_group/rail_pairs.h"
#include "tools/sim/sim_world.h"

#define SHARE_PERCENT 40 /* of the worlds where cards write */
#define CUT_PERCENT   40 /* of these, where pairs are warmed up */
#define STRIKE_WAITS  10
#define SLOW_MOST     100 /* times slower: a warm-up still comes through in a heartbeat bound */
/* Rails of a target: a rail of the source tries them one after the other, before and after its
 * endpoint is replaced. */
#define TRIED_IN_TIME 3

/* ---- which --------------------------------------------------------------------------------- */

/* Bits of the faults of ways that this world has. */
static uint64_t faults_choose(struct sim_world *world, struct kvr_rng *rng)
{
    uint64_t faults = 0;

    for (uint32_t i = SIM_WAY_LOST; i <= SIM_WAY_MUTE; i++)
        if (kvr_rng_percent(rng, i == SIM_WAY_LOST ? 60 : 55))
            faults |= SIM_FAULT_BIT(i);
    return faults & world->allowed;
}

static kvr_ns until_choose(struct kvr_rng *rng, sim_fault fault, kvr_ns from)
{
    if (fault == SIM_WAY_LOST || (fault != SIM_WAY_FLAPS && kvr_rng_percent(rng, 50)))
        return KVR_NEVER;
    return from + kvr_rng_between(rng, KVR_S / 4, 8 * KVR_S);
}

static kvr_ns turn_choose(struct kvr_rng *rng)
{
    return kvr_rng_between(rng, KVR_MS, KVR_MS << kvr_rng_below(rng, 13));
}

static void way_choose(struct kvr_rng *rng, uint64_t faults, struct sim_way *way)
{
    uint32_t skip = (uint32_t)kvr_rng_below(rng, SIM_WAY_MUTE - SIM_WAY_LOST + 1);

    *way = (struct sim_way){
        .late = kvr_rng_percent(rng, 50), .away_ns = turn_choose(rng), .well_ns = turn_choose(rng)};
    way->way.hangs = kvr_rng_percent(rng, 50);
    for (uint32_t i = 0; i <= SIM_WAY_MUTE - SIM_WAY_LOST; i++) {
        way->fault =
            (sim_fault)(SIM_WAY_LOST + (skip + i) % (uint32_t)(SIM_WAY_MUTE - SIM_WAY_LOST + 1));
        if ((faults >> way->fault & 1) != 0)
            return;
    }
}

/* Few or most of the ways from one agent to another; all of them where these are cut off. */
static void pair_choose(struct sim_world *world, uint32_t source, uint32_t target, uint64_t faults)
{
    struct sim_ways *ways = &world->ways;
    uint32_t percent = (uint32_t)kvr_rng_between(&ways->rng, 10, 80);
    bool cut = ways->cut[source][target], late = kvr_rng_percent(&ways->rng, 50);
    bool hangs = kvr_rng_percent(&ways->rng, 70);

    for (uint32_t i = 0; i < SIM_RAILS * SIM_RAILS; i++) {
        struct sim_way *way = &ways->ways[source][target][i / SIM_RAILS][i % SIM_RAILS];

        if (!cut && !kvr_rng_percent(&ways->rng, percent))
            continue;
        way_choose(&ways->rng, faults, way);
        if (cut)
            *way = (struct sim_way){.fault = SIM_WAY_LOST, .late = late, .way.hangs = hangs};
    }
}

static void strike(struct sim_world *world, struct sim_way *way)
{
    struct kvr_rng *rng = &world->ways.rng;

    way->from = world->now;
    way->until = until_choose(rng, way->fault, way->from);
    way->way.times_slower = way->fault == SIM_WAY_SLOW ? (uint32_t)kvr_rng_between(rng, 20, 100) *
                                                             (kvr_rng_percent(rng, 20) ? 10 : 1)
                                                       : 0;
    way->one_in = (uint32_t)kvr_rng_between(rng, 2, 50);
    sim_time_struck(world, way->until != KVR_NEVER ? way->until : world->now);
}

static void strike_all(struct sim_world *world, bool late)
{
    struct sim_way *ways = &world->ways.ways[0][0][0][0];

    for (uint32_t i = 0; i < sizeof(world->ways.ways) / sizeof(*ways); i++)
        if (ways[i].fault != SIM_FAULT_COUNT && ways[i].late == late)
            strike(world, &ways[i]);
}

void sim_ways_begin(struct sim_world *world)
{
    struct sim_ways *ways = &world->ways;
    struct sim_way *first = &ways->ways[0][0][0][0];
    uint64_t faults;

    for (uint32_t i = 0; i < sizeof(ways->ways) / sizeof(*first); i++)
        first[i] = (struct sim_way){.fault = SIM_FAULT_COUNT};
    kvr_rng_init(&ways->rng, kvr_mix64(world->seed ^ UINT64_C(0x77617973)));
    if (world->target_copies || !kvr_rng_percent(&ways->rng, SHARE_PERCENT))
        return;
    faults = faults_choose(world, &ways->rng);
    ways->any = faults != 0;
    if (ways->any) /* both together would leave few transfers for the ways */
        world->faults &= ~(SIM_FAULT_BIT(SIM_AGENT_FROZEN) | SIM_FAULT_BIT(SIM_ENGINE_STOPPED));
    if (sim_warms_up(world) && kvr_rng_percent(&ways->rng, CUT_PERCENT))
        for (uint32_t i = 0; i < SIM_SOURCES * SIM_TARGETS; i++)
            ways->cut[i / SIM_TARGETS][i % SIM_TARGETS] =
                (faults >> SIM_WAY_LOST & 1) != 0 && kvr_rng_percent(&ways->rng, 70);
    world->faults |= faults;
    for (uint32_t i = 0; ways->any && i < SIM_SOURCES * SIM_TARGETS; i++)
        pair_choose(world, i / SIM_TARGETS, i % SIM_TARGETS, faults);
    strike_all(world, false);
}

/* b: how often it may wait for a transfer to be under way. */
static void strike_run(struct sim_world *world, const struct sim_event *event)
{
    if (world->ending)
        return;
    if (event->b > 0 && !sim_mid_transfer(world))
        sim_at(world, world->now + kvr_rng_between(&world->ways.rng, KVR_US, 10 * KVR_MS),
               strike_run, NULL, 0, event->b - 1);
    else
        strike_all(world, true);
}

void sim_ways_schedule(struct sim_world *world)
{
    if (world->ways.any)
        sim_at(world, world->now + kvr_rng_below(&world->ways.rng, 20 * KVR_MS), strike_run, NULL,
               0, STRIKE_WAITS);
}

/* ---- writes -------------------------------------------------------------------------------- */

/* SIM_RAILS: it is of a life that has ended. */
static uint32_t place_of(const struct sim_agent *agent, const struct kvr_rail *rail)
{
    for (uint32_t i = 0; i < agent->rail_count; i++)
        if (agent->rails[i] == rail)
            return i;
    return SIM_RAILS;
}

static bool is_away(const struct sim_way *way, struct kvr_rng *rng, kvr_ns now)
{
    return way->fault == SIM_WAY_LOST ||
           (way->fault == SIM_WAY_LOSSY && kvr_rng_below(rng, way->one_in) == 0) ||
           (way->fault == SIM_WAY_FLAPS &&
            (now - way->from) % (way->away_ns + way->well_ns) < way->away_ns);
}

/* Once a world is being cleared away, every way is well. */
struct kvr_sim_way *sim_ways_find(void *self, void *host, const struct kvr_rail *rail,
                                  void *target_host, const struct kvr_rail *target_rail)
{
    struct sim_world *world = self;
    const struct sim_agent *source = host, *target = target_host;
    uint32_t i = place_of(source, rail), k = place_of(target, target_rail);
    struct sim_way *way;

    if (!world->ways.any || world->ending)
        return NULL;
    if (i == SIM_RAILS || k == SIM_RAILS)
        return NULL;
    way = &world->ways.ways[source->number][target->number - SIM_SOURCES][i][k];
    if (way->fault == SIM_FAULT_COUNT) {
        way->carried_at = world->now;
        if (way->carried_first_at == 0)
            way->carried_first_at = world->now;
    }
    if (way->fault == SIM_FAULT_COUNT || way->from == 0 || world->now >= way->until)
        return NULL;
    way->way.lost = is_away(way, &world->ways.rng, world->now);
    way->way.mute = way->fault == SIM_WAY_MUTE;
    if (!way->met)
        sim_fault_note(world, way->fault, way->until != KVR_NEVER ? way->until : world->now);
    way->met = true;
    return &way->way;
}

/* ---- what follows --------------------------------------------------------------------------- */

static kvr_ns later(kvr_ns a, kvr_ns b)
{
    return a > b ? a : b;
}

static const struct sim_agent *target_of(const struct sim_fetch *fetch)
{
    return fetch->user.engine->agent;
}

static const struct sim_agent *source_of(const struct sim_fetch *fetch, uint32_t i)
{
    return fetch->publishes[i]->user.engine->agent;
}

static const struct transfer *transfer_of(const struct sim_agent *agent, uint64_t nonce)
{
    uint32_t index;

    return kvr_table_find(&agent->inbound->by_nonce, nonce, &index)
               ? kvr_pool_at(&agent->inbound->transfers, index, NULL)
               : NULL;
}

void sim_ways_heard(struct sim_agent *agent, const struct kvr_event *event)
{
    const struct transfer *transfer;
    const struct fetch *asked = NULL;
    struct sim_publish *publish;
    struct sim_fetch *fetch = NULL;

    if (agent->source || event->kind != KVR_EVENT_GRANTED)
        return;
    transfer = transfer_of(agent, event->transfer);
    if (transfer != NULL)
        asked = kvr_pool_get(&agent->inbound->fetches, transfer->fetch);
    if (asked == NULL ||
        sim_user_find(agent, asked->engine, asked->handle, &publish, &fetch) == NULL)
        return;
    fetch->granted++;
    fetch->granted_at = agent->world->now;
}

bool sim_ways_cut(const struct sim_fetch *fetch)
{
    const struct sim_ways *ways = &fetch->request->world->ways;
    uint32_t target = target_of(fetch)->number - SIM_SOURCES;

    for (uint32_t i = 0; fetch->granted >= fetch->source_count && i < fetch->source_count; i++) {
        uint32_t source = source_of(fetch, i)->number;

        if (ways->cut[source][target] && ways->ways[source][target][0][0].from != 0)
            return true;
    }
    return false;
}

static bool crawls(const struct sim_way *way)
{
    return way->fault == SIM_WAY_SLOW && way->way.times_slower > SLOW_MOST;
}

bool sim_ways_crawl(const struct sim_fetch *fetch)
{
    const struct sim_ways *ways = &fetch->request->world->ways;
    uint32_t target = target_of(fetch)->number - SIM_SOURCES;

    for (uint32_t i = 0; ways->any && i < fetch->source_count; i++) {
        const struct sim_way *way = &ways->ways[source_of(fetch, i)->number][target][0][0];

        for (uint32_t k = 0; k < SIM_RAILS * SIM_RAILS; k++)
            if (way[k].met && crawls(&way[k]))
                return true;
    }
    return false;
}

/* Of all of its rails, in writes. */
static uint32_t room_of(const struct sim_agent *source)
{
    uint64_t room = SIM_RAILS;

    for (uint32_t i = 0; source->alive && i < source->rail_count; i++)
        room = kvr_min_u64(room,
                           kvr_group_counters(sim_group_of((struct sim_agent *)source, i)->group, i)
                               .window_writes);
    return (uint32_t)room;
}

/* Some rail of it has no room to try all pairs at once: writes that hang hold its window. */
static bool is_narrow(const struct sim_agent *source)
{
    return room_of(source) < SIM_RAILS;
}

static bool is_any_struck(const struct sim_way ways[SIM_RAILS][SIM_RAILS])
{
    for (uint32_t i = 0; i < SIM_RAILS * SIM_RAILS; i++)
        if (ways[i / SIM_RAILS][i % SIM_RAILS].fault != SIM_FAULT_COUNT)
            return true;
    return false;
}

/* Trials that hang hold the room of a narrow rail until its endpoint is replaced, after a bound.
 * Then others have their turn: those of every rail of every target with a way that is not well. */
static kvr_ns narrow_ns(const struct sim_agent *source)
{
    const struct sim_world *world = source->world;
    uint32_t pairs = 0, room = room_of(source);

    for (uint32_t i = 0; i < SIM_TARGETS; i++)
        if (is_any_struck(world->ways.ways[source->number][i]))
            pairs += world->agents[SIM_SOURCES + i].rail_count;
    return is_narrow(source) ? (pairs + room - 1) / room * SIM_SILENCE_NS : 0;
}

/* The trials of all pairs run side by side, unless a rail is narrow. Whether one was is not known
 * of a source that is gone. */
static kvr_ns turns_ns(const struct sim_agent *source, const struct sim_agent *target)
{
    uint32_t pairs =
        source->rail_count > target->rail_count ? source->rail_count : target->rail_count;

    return later((source->alive ? 1 : pairs) * kvr_group_soon(SIM_SILENCE_NS), narrow_ns(source));
}

/* Where pages are gathered, writes to the other target that hang hold the source's staging ring:
 * for a bound, and for the trial of a fresh endpoint. Meanwhile this target's silence rests, and
 * begins anew after that. */
static kvr_ns ring_ns(const struct sim_agent *source, const struct sim_agent *target)
{
    const struct sim_ways *ways = &source->world->ways;

    for (uint32_t i = 0; (source->staged || source->stages) && i < SIM_TARGETS; i++)
        if (i != target->number - SIM_SOURCES && is_any_struck(ways->ways[source->number][i]))
            return SIM_SILENCE_NS + kvr_group_soon(SIM_SILENCE_NS);
    return 0;
}

/* The first bound, in which its own writes hang, is in the grace. Hanging writes of transfers
 * before it may hold its rails for another one. Then the fresh endpoints have a trial. Pairs that
 * fail by errors are waited for until a quarter of the bound after it. Each further group of either
 * side is asked for once, and writes hang there, too. Each wait ends with a tick. */
static kvr_ns give_up_ns(const struct sim_fetch *fetch)
{
    uint32_t ours = 1, asks;
    kvr_ns turns = 0;

    for (uint32_t i = 0; i < fetch->source_count; i++) {
        const struct sim_agent *source = source_of(fetch, i);

        turns =
            later(turns, turns_ns(source, target_of(fetch)) + ring_ns(source, target_of(fetch)));
        ours = source->groups.count > ours ? source->groups.count : ours;
    }
    asks = ours - 1 + target_of(fetch)->groups.count - 1;
    return SIM_SILENCE_NS * 5 / 4 + turns + asks * (SIM_SILENCE_NS * 3 / 2) +
           (asks + 1) * SIM_TICK_NS * 3 / 2;
}

kvr_ns sim_ways_due(const struct sim_fetch *fetch)
{
    const struct sim_world *world = fetch->request->world;
    kvr_ns due = later(later(world->last_injection, world->asked_at), fetch->granted_at);

    return due + give_up_ns(fetch);
}

bool sim_ways_calm(const struct sim_world *world)
{
    static const uint64_t rough = SIM_FAULT_BIT(SIM_AGENT_DEATH) |
                                  SIM_FAULT_BIT(SIM_AGENT_STOPPED) |
                                  SIM_FAULT_BIT(SIM_AGENT_FROZEN) | SIM_FAULT_BIT(SIM_NO_MEMORY) |
                                  SIM_FAULT_BIT(SIM_RAIL_LOST) | SIM_FAULT_BIT(SIM_GROUP_LOST) |
                                  SIM_FAULT_BIT(SIM_RAIL_SILENCE) | SIM_FAULT_BIT(SIM_RAIL_SLOW) |
                                  SIM_FAULT_BIT(SIM_WRITE_FAILED) | SIM_FAULT_BIT(SIM_WRITE_LOST) |
                                  SIM_FAULT_BIT(SIM_WRITE_LATE) | SIM_FAULT_BIT(SIM_STRANGER);

    return (world->faults & rough) == 0 && world->sessions_lost == 0;
}

static uint32_t planes_of(const struct sim_agent *agent, const char *ret_planes[SIM_RAILS])
{
    for (uint32_t i = 0; i < agent->rail_count; i++)
        ret_planes[i] = agent->fabric.ops->rail_facts(agent->rails[i])->network;
    return agent->rail_count;
}

/* Between the source's rail and the target's. */
static bool is_struck(const struct sim_agent *source, uint32_t rail, const struct sim_agent *target,
                      uint32_t target_rail)
{
    const struct sim_way *way =
        &source->world->ways.ways[source->number][target->number - SIM_SOURCES][rail][target_rail];

    return way->fault != SIM_FAULT_COUNT && (way->fault != SIM_WAY_SLOW || crawls(way));
}

/* A trial over another pair of the rail may hang, and hold all the room that the rail has. */
static bool may_be_held(const struct sim_agent *source, uint32_t rail,
                        const struct sim_agent *target)
{
    for (uint32_t i = 0; is_narrow(source) && i < target->rail_count; i++)
        if (is_struck(source, rail, target, i))
            return true;
    return false;
}

/* One of the pairs that the source begins with was never struck. Where pairs are warmed up, any way
 * within a plane will do: a rail that is not narrow tries the others of the target before its
 * transfers give up. */
static bool has_pair(const struct sim_agent *source, const struct sim_agent *target)
{
    const char *ours[SIM_RAILS], *theirs[SIM_RAILS];
    uint32_t our_count = planes_of(source, ours), their_count = planes_of(target, theirs);
    struct kvr_rail_pair pairs[KVR_RAIL_PAIRS_MAX];
    uint32_t count = kvr_rail_pairs(ours, our_count, theirs, their_count, pairs);

    for (uint32_t i = 0; i < count; i++)
        if (!pairs[i].far && !is_struck(source, pairs[i].ours, target, pairs[i].theirs) &&
            !may_be_held(source, pairs[i].ours, target))
            return true;
    for (uint32_t i = 0; sim_warms_up(source->world) && i < our_count * their_count; i++)
        if (their_count <= TRIED_IN_TIME && !is_narrow(source) &&
            kvr_rail_planes_near(ours[i / their_count], theirs[i % their_count]) &&
            !is_struck(source, i / their_count, target, i % their_count))
            return true;
    return false;
}

/* Its rails are of one group, and those that it had when the fetch ended: an agent that drained may
 * have come back with others. */
static bool is_plain(const struct sim_agent *agent)
{
    return agent->groups.count == 1 && agent->life == 1;
}

void sim_ways_check(const struct sim_fetch *fetch)
{
    struct sim_world *world = fetch->request->world;
    const struct sim_agent *target = target_of(fetch);

    if (!world->ways.any || fetch->user.outcome != KVR_NO_RAIL || !sim_ways_calm(world) ||
        world->mixed || !is_plain(target))
        return;
    for (uint32_t i = 0; i < fetch->source_count; i++)
        if (!is_plain(source_of(fetch, i)) || !has_pair(source_of(fetch, i), target))
            return;
    sim_fail(world, (int)fetch->request->number, "a fetch got no_rail, and a pair works");
}
