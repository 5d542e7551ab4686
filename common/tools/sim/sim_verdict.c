/* The checks when a world is over: every terminal notice is the right one, every page is back, no
 * agent keeps anything, and the scheduler has the outcomes that the engines got. */
#include <inttypes.h>
#include <string.h>

#include "tools/sim/sim_scheduler.h"
#include "tools/sim/sim_world.h"

static bool mendable(const struct sim_world *world)
{
    uint64_t faults = world->faults;

    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) /* any may strike a transfer that fails over */
        faults |= world->injected[i] > 0 ? SIM_FAULT_BIT(i) : 0;
    return (faults & ~sim_faults_mendable()) == 0 && world->sessions_lost == 0 && !world->revocable;
}

/* Where an engine was short of pages, a request waits for its other side until its deadline, and
 * others for the slots that it holds. */
static bool all_opened(struct sim_world *world)
{
    const struct sim_user *user;
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    while ((user = sim_user_next(world, &owner, &publish, &fetch)) != NULL)
        if (!user->open && (fetch == NULL || !fetch->after))
            return false;
    return true;
}

/* A complete target got DONE, and so did each of its sources. */
static bool all_ok(const struct sim_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->source_count; i++) {
        const struct sim_publish *publish = fetch->publishes[i];

        if (publish->user.orphan || publish->disturbed || !publish->user.open ||
            publish->user.outcome != KVR_OK)
            return false;
    }
    return true;
}

static bool consumers_done(const struct sim_request *request, const struct sim_publish *publish)
{
    uint32_t done = 0;

    for (uint32_t i = 0; i < request->fetch_count; i++)
        for (uint32_t k = 0; k < request->fetches[i].source_count; k++)
            done += request->fetches[i].publishes[k] == publish &&
                    request->fetches[i].user.terminal == KVR_NOTICE_DONE;
    return done == publish->consumers;
}

/* An agent refused it for what it is or grew to be, and would again. */
static bool was_refused(const struct sim_user *user)
{
    return user->outcome == KVR_TOO_LARGE || user->outcome == KVR_FULL ||
           user->outcome == KVR_INVALID;
}

/* crowded: one rank came twice; the outcome of its last fetch counts. */
static void check_publish(struct sim_world *world, const struct sim_publish *publish, bool healthy,
                          bool crowded)
{
    const struct sim_user *user = &publish->user;
    int number = (int)publish->request->number;

    if (!user->open || user->outcome == KVR_OK || crowded)
        return;
    if (healthy)
        sim_fail(world, number, "nothing happened that cannot be mended, but a publish failed: %s",
                 kvr_status_name(user->outcome));
    if (!user->orphan && !publish->disturbed && world->sessions_lost == 0 &&
        consumers_done(publish->request, publish))
        sim_fail(world, number, "every target is done, but the source got %s",
                 kvr_status_name(user->outcome));
}

/* Rule 11: an engine that writes over its revocation words disturbs its own requests, no other. */
static bool words_written(const struct sim_request *request)
{
    for (uint32_t i = 0; i < request->publish_count; i++)
        if (request->publishes[i].user.words_written)
            return true;
    return false;
}

/* Then others of the request wait for it in vain. */
static bool any_refused(const struct sim_request *request)
{
    for (uint32_t i = 0; i < request->fetch_count; i++)
        if (was_refused(&request->fetches[i].user))
            return true;
    return false;
}

/* Of each rail of a source at least, in writes. */
static uint64_t least_room(struct sim_world *world)
{
    uint64_t room = UINT64_MAX;

    for (uint32_t i = 0; i < SIM_SOURCES; i++) {
        const struct sim_agent *agent = &world->agents[i];

        for (uint32_t rail = 0; agent->alive && rail < agent->rail_count; rail++)
            room = kvr_min_u64(
                room, kvr_group_counters(sim_group_of(&world->agents[i], rail)->group, rail)
                          .window_writes);
    }
    return room;
}

/* All writes together, where each waits for room: four latencies for each that a rail has room for.
 */
static kvr_ns writes_take(struct sim_world *world)
{
    return kvr_sim_net_counts(world->net).writes * 4 * world->latency_ns / least_room(world);
}

/* Writes that are lost or fail may be mended one after the other, and what is posted again may be
 * lost or fail again. A loss is found by the counts: these stay unequal for quiet_ms after QUIET,
 * or for five times as long while others come (rule 4). A pair that failed is tried anew after a
 * quarter of the heartbeat bound. Each of both waits ends with a tick, and a rail is recycled. */
static kvr_ns mends_take(const struct sim_world *world)
{
    const kvr_ns end = SIM_TICK_NS * 3 / 2 + SIM_RECYCLE_NS;

    return world->injected[SIM_WRITE_LOST] * (5 * SIM_QUIET_NS + end) +
           world->injected[SIM_WRITE_FAILED] * (SIM_SILENCE_NS / 4 + end);
}

/* Over slow ways, and where writes or mending them take so long, a request may miss its deadline.
 * Over ways that are slower still it may get no_rail: sim_ways_check() knows where it must not. It
 * takes its publishes with it. */
static bool may_be_late(struct sim_world *world, const struct sim_request *request)
{
    bool slow =
        world->injected[SIM_WAY_SLOW] > 0 || writes_take(world) + mends_take(world) >= SIM_HURRY_NS;

    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_fetch *fetch = &request->fetches[i];

        if ((slow && fetch->user.outcome == KVR_EXPIRED) ||
            (fetch->user.outcome == KVR_NO_RAIL && sim_ways_crawl(fetch)))
            return true;
    }
    return false;
}

static void check_request(struct sim_world *world, const struct sim_request *request, bool healthy)
{
    int number = (int)request->number;
    bool crowded = false;

    healthy =
        healthy && !words_written(request) && !any_refused(request) && !may_be_late(world, request);
    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_user *user = &request->fetches[i].user;
        bool twice = request->fetches[i].twice;

        crowded = crowded || twice;
        world->totals->transfers += user->open;
        world->totals->done += user->terminal == KVR_NOTICE_DONE;
        if (healthy && !twice && user->open && user->terminal != KVR_NOTICE_DONE)
            sim_fail(world, number,
                     "nothing happened that cannot be mended, but a fetch failed: %s",
                     kvr_status_name(user->outcome));
        sim_ways_check(&request->fetches[i]);
        if (all_ok(&request->fetches[i]) && !twice && !user->orphan &&
            user->terminal != KVR_NOTICE_DONE)
            sim_fail(world, number, "the source got ok, but a target got %s",
                     kvr_notice_name(user->terminal));
    }
    for (uint32_t i = 0; i < request->source_count; i++)
        check_publish(world, &request->publishes[i], healthy, crowded);
}

static const char *state_told(kvr_notice_kind terminal)
{
    return terminal == KVR_NOTICE_DONE        ? "done"
           : terminal == KVR_NOTICE_CANCELLED ? "cancelled"
           : terminal == KVR_NOTICE_EXPIRED   ? "expired"
                                              : "failed";
}

/* What is known of it is all that its agent reported. */
static bool reported(const struct sim_fetch *fetch)
{
    const struct sim_user *user = &fetch->user;

    return user->open && !user->orphan && user->engine->agent->life == 1 &&
           user->engine->agent->alive;
}

static bool told_so(const struct sim_fetch *fetch, const struct sim_row *row)
{
    return strcmp(row->state, state_told(fetch->user.terminal)) == 0 &&
           row->reason == fetch->user.outcome;
}

static bool same_engine(const struct sim_fetch *a, const struct sim_fetch *b)
{
    return kvr_uuid_equal(&a->user.engine->rank.engine, &b->user.engine->rank.engine);
}

/* A row is one pair of ranks: another rank of the engine may have got this outcome, or
 * one of several sources has given all its bytes, and another has failed. */
static bool explained(const struct sim_fetch *fetch, const struct sim_row *row)
{
    const struct sim_request *request = fetch->request;

    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_fetch *other = &request->fetches[i];

        if (same_engine(other, fetch) &&
            (told_so(other, row) || (other->user.open && !reported(other)) ||
             (other->source_count > 1 && strcmp(row->state, "done") == 0)))
            return true;
    }
    return false;
}

/* The bytes in the notices of all ranks of the engine; false: one of them is not done. */
static bool ranks_done(const struct sim_fetch *fetch, uint64_t *ret_bytes, bool *ret_alone)
{
    const struct sim_request *request = fetch->request;
    uint32_t ranks = 0, done = 0;

    *ret_bytes = 0;
    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_fetch *other = &request->fetches[i];

        if (!same_engine(other, fetch))
            continue;
        ranks++;
        done += reported(other) && other->user.terminal == KVR_NOTICE_DONE;
        *ret_bytes += other->user.bytes;
    }
    *ret_alone = ranks == 1;
    return done == ranks;
}

/* The scheduler has the outcome that the target rank got. */
static void check_row(struct sim_world *world, const struct sim_fetch *fetch)
{
    const struct sim_engine *engine = fetch->user.engine;
    uint64_t bytes = 0, told_bytes;
    bool said = false, done = fetch->user.terminal == KVR_NOTICE_DONE, alone, all_done;
    int number = (int)fetch->request->number;
    struct sim_row row = {0};
    uint32_t at = 0;

    all_done = ranks_done(fetch, &told_bytes, &alone);
    while (sim_scheduler_next(world->memory->scheduler, &at, fetch->request->name,
                              &fetch->publishes[0]->user.engine->rank.engine, &engine->rank.engine,
                              &row)) {
        said = said || told_so(fetch, &row);
        bytes += strcmp(row.state, "done") == 0 ? row.bytes : 0;
        if (!explained(fetch, &row))
            sim_fail(world, number, "the scheduler has %s (%s) where the engine got %s (%s)",
                     row.state, kvr_status_name(row.reason), state_told(fetch->user.terminal),
                     kvr_status_name(fetch->user.outcome));
    }
    /* A rank that was refused has no row, though others of its engine may. */
    if (!said && (done || (alone && row.state != NULL)))
        sim_fail(world, number, "the scheduler never heard that a fetch is %s",
                 state_told(fetch->user.terminal));
    if (all_done && bytes != told_bytes)
        sim_fail(world, number, "the scheduler has %" PRIu64 " bytes of %" PRIu64, bytes,
                 told_bytes);
}

static void check_rows(struct sim_world *world)
{
    const char *request;
    struct sim_row row;

    for (uint32_t r = 0; r < world->request_count; r++)
        for (uint32_t i = 0; i < world->requests[r].fetch_count; i++)
            if (reported(&world->requests[r].fetches[i]))
                check_row(world, &world->requests[r].fetches[i]);
    if (sim_scheduler_live(world->memory->scheduler, &request, &row))
        sim_fail(world, -1, "all has ended, and the scheduler says that a transfer of %s is %s",
                 request, row.state);
}

void sim_check_world(struct sim_world *world)
{
    bool healthy = mendable(world) && all_opened(world);

    for (uint32_t r = 0; r < world->request_count; r++)
        check_request(world, &world->requests[r], healthy);
    for (uint32_t i = 0; i < world->engine_count; i++) {
        const struct sim_engine *engine = &world->engines[i];

        if (!engine->released)
            sim_fail(world, -1, "engine %u has gone, and its agent never let go of it",
                     engine->number);
        for (uint32_t page = 0; engine->alive && page < engine->page_count; page++)
            if (engine->owners[page].user != 0)
                sim_fail(world, (int)(engine->owners[page].user - 1) / SIM_USERS,
                         "page %u of engine %u never came back", page, engine->number);
    }
    check_rows(world);
    sim_strangers_check(world);
    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        if (world->agents[i].alive) {
            sim_agent_check_empty(&world->agents[i]);
            sim_planes_check(&world->agents[i]);
        }
}
