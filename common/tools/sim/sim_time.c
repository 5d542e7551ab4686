/* Whether what ends does so in time. */
#include <inttypes.h>

#include "tools/sim/sim_world.h"

static kvr_ns later(kvr_ns a, kvr_ns b)
{
    return a > b ? a : b;
}

void sim_time_struck(struct sim_world *world, kvr_ns until)
{
    world->writes_then = kvr_sim_net_counts(world->net).writes;
    world->last_injection = later(world->last_injection, until);
}

void sim_time_asked(struct sim_world *world)
{
    world->writes_then = kvr_sim_net_counts(world->net).writes;
    world->asked_at = world->now;
}

uint32_t sim_deadline_ms(uint32_t chosen_ms, kvr_ns hold_ns)
{
    uint32_t least_ms = (uint32_t)((SIM_HURRY_NS + hold_ns + KVR_MS - 1) / KVR_MS);
    kvr_ns given_ms = chosen_ms > 0 ? chosen_ms : SIM_DEADLINE_NS / KVR_MS;

    return given_ms < least_ms ? least_ms : chosen_ms;
}

/* How long anything may still take once no fault strikes and no engine asks for more. It is the sum
 * of the heartbeat bound, quiet_ms, all rails recycled one after the other, a second, and the
 * remaining writes, each waiting for the one before it. */
static kvr_ns grace(const struct sim_world *world)
{
    kvr_ns recycle = SIM_RECYCLE_NS + 16 * (world->message_ns + world->step_ns);
    kvr_ns bytes =
        (kvr_sim_net_counts(world->net).writes - world->writes_then) * 4 * world->latency_ns;

    return SIM_SILENCE_NS + SIM_QUIET_NS + SIM_RAILS * recycle + KVR_S + bytes;
}

static bool gives_to(const struct sim_publish *publish, const struct sim_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->source_count; i++)
        if (fetch->publishes[i] == publish)
            return true;
    return false;
}

/* When the last consumer of a publish is settled, or has not come. */
static kvr_ns consumers_due(const struct sim_publish *publish)
{
    const struct sim_request *request = publish->request;
    kvr_ns due = 0, lease = publish->lease_end;

    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_fetch *fetch = &request->fetches[i];

        if (gives_to(publish, fetch) && (fetch->user.accepted || fetch->held))
            due = later(due, fetch->user.ended_at);
        if (!gives_to(publish, fetch) || !fetch->user.accepted || fetch->source_count > 1)
            due = later(due, lease); /* a fetch may have been accepted by another rank only */
    }
    return due;
}

/* A fetch with one of its sources waits for the other until its deadline, and a fetch that needs
 * its slots waits as long. */
static kvr_ns halves_due(const struct sim_world *world)
{
    kvr_ns due = 0;

    for (uint32_t r = 0; r < world->request_count; r++) {
        for (uint32_t i = 0; i < world->requests[r].fetch_count; i++) {
            const struct sim_fetch *fetch = &world->requests[r].fetches[i];

            if (fetch->source_count > 1 && fetch->user.open)
                due = later(due, fetch->user.ended ? fetch->user.ended_at : fetch->deadline);
        }
    }
    return due;
}

/* Over a way that is not well a write may hang until the deadline. Where no way is left, the fetch
 * ends before. */
static kvr_ns fetch_over_ways_due(const struct sim_fetch *fetch, kvr_ns due)
{
    return sim_ways_cut(fetch) ? sim_ways_due(fetch) : later(due, fetch->deadline);
}

static kvr_ns publish_over_ways_due(const struct sim_publish *publish, kvr_ns due)
{
    for (uint32_t i = 0; i < publish->request->fetch_count; i++)
        if (gives_to(publish, &publish->request->fetches[i]))
            due = later(due, fetch_over_ways_due(&publish->request->fetches[i], due));
    return due;
}

/* Its agent knows how its only publish ended, and says so. */
static bool source_past(const struct sim_fetch *fetch)
{
    const struct sim_publish *publish = fetch->publishes[0];
    const struct sim_agent *agent = publish->user.engine->agent;

    return fetch->source_count == 1 && !fetch->unproven && publish->life != 0 && agent->alive &&
           agent->life == publish->life && !publish->user.orphan;
}

void sim_check_time(const struct sim_request *request, const struct sim_publish *publish,
                    const struct sim_fetch *fetch)
{
    struct sim_world *world = request->world;
    kvr_ns due =
        later(later(world->last_injection, world->asked_at), kvr_sim_net_busy_until(world->net));

    due = later(due, halves_due(world));
    if (fetch != NULL && !fetch->user.accepted) /* of the other side, or of slots */
        due = later(due, source_past(fetch) ? fetch->publishes[0]->user.ended_at : fetch->deadline);
    if (publish != NULL)
        due = later(due, consumers_due(publish));
    if (world->ways.any)
        due = fetch != NULL ? fetch_over_ways_due(fetch, due) : publish_over_ways_due(publish, due);
    due += grace(world);
    if (world->now > due && fetch != NULL && sim_ways_cut(fetch))
        sim_fail(world, (int)request->number,
                 "no way works, and a fetch ends %" PRIu64 " ms later than it may",
                 (world->now - due) / KVR_MS);
    if (world->now > due)
        sim_fail(world, (int)request->number, "a %s ends %" PRIu64 " ms later than it may",
                 publish != NULL ? "publish" : "fetch", (world->now - due) / KVR_MS);
}
