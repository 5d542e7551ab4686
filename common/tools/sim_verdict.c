/* What must hold when a world is over: every end told is the right one, every page is back, nobody
 * keeps anything, and the scheduler says what the engines were told. */
#include <inttypes.h>
#include <string.h>

#include "tools/sim_scheduler.h"
#include "tools/sim_world.h"

static bool mendable(const struct sim_world *world)
{
    return (world->faults & ~sim_faults_mendable()) == 0 && world->sessions_lost == 0;
}

/* Where an engine was short of pages, a request waits for its other side until its deadline, and
 * others for the slots that it holds. */
static bool all_opened(const struct sim_world *world)
{
    for (uint32_t r = 0; r < world->request_count; r++) {
        const struct sim_request *request = &world->requests[r];

        for (uint32_t i = 0; i < request->publish_count; i++)
            if (!request->publishes[i].user.open)
                return false;
        for (uint32_t i = 0; i < request->fetch_count; i++)
            if (!request->fetches[i].user.open)
                return false;
    }
    return true;
}

static void check_request(struct sim_world *world, const struct sim_request *request, bool healthy)
{
    const struct sim_publish *publish = &request->publishes[0];
    int number = (int)request->number;
    uint32_t done = 0;

    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_user *user = &request->fetches[i].user;

        done += user->terminal == KVR_NOTICE_DONE;
        world->totals->transfers += user->open;
        world->totals->done += user->terminal == KVR_NOTICE_DONE;
        if (healthy && user->open && user->terminal != KVR_NOTICE_DONE)
            sim_fail(world, number,
                     "nothing happened that cannot be mended, but a fetch failed: %s",
                     kvr_status_name(user->outcome));
    }
    if (healthy && publish->user.open && publish->user.outcome != KVR_OK)
        sim_fail(world, number, "nothing happened that cannot be mended, but a publish failed: %s",
                 kvr_status_name(publish->user.outcome));
    if (publish->user.orphan || publish->disturbed)
        return;
    if (done == publish->consumers && publish->user.open && publish->user.outcome != KVR_OK &&
        world->sessions_lost == 0)
        sim_fail(world, number, "every target is done, but the source was told %s",
                 kvr_status_name(publish->user.outcome));
    for (uint32_t i = 0; i < request->fetch_count; i++) {
        const struct sim_user *user = &request->fetches[i].user;

        if (publish->user.open && publish->user.outcome == KVR_OK && !user->orphan &&
            user->terminal != KVR_NOTICE_DONE)
            sim_fail(world, number, "the source was told ok, but a target was told %s",
                     kvr_notice_name(user->terminal));
    }
}

static const char *state_told(kvr_notice_kind terminal)
{
    return terminal == KVR_NOTICE_DONE        ? "done"
           : terminal == KVR_NOTICE_CANCELLED ? "cancelled"
           : terminal == KVR_NOTICE_EXPIRED   ? "expired"
                                              : "failed";
}

/* What the target engine was told is what the scheduler says, unless the agent died with some of
 * its reports. */
static void check_row(struct sim_world *world, const struct sim_fetch *fetch)
{
    const struct sim_user *user = &fetch->user;
    int number = (int)fetch->request->number;
    struct sim_row row;

    if (!user->open || user->orphan || user->engine->agent->life > 1 || !user->engine->agent->alive)
        return;
    if (!sim_scheduler_find(world->memory->scheduler, fetch->request->name,
                            &fetch->source->rank.engine, &user->engine->rank.engine, &row)) {
        if (user->terminal == KVR_NOTICE_DONE)
            sim_fail(world, number, "a fetch is done, and the scheduler never heard of it");
        return;
    }
    if (strcmp(row.state, state_told(user->terminal)) != 0 || row.reason != user->outcome)
        sim_fail(world, number, "the scheduler has %s (%s) where the engine was told %s (%s)",
                 row.state, kvr_status_name(row.reason), state_told(user->terminal),
                 kvr_status_name(user->outcome));
    if (user->terminal == KVR_NOTICE_DONE && row.bytes != user->bytes)
        sim_fail(world, number, "the scheduler has %" PRIu64 " bytes of %" PRIu64, row.bytes,
                 user->bytes);
}

static void check_rows(struct sim_world *world)
{
    const char *request;
    struct sim_row row;

    for (uint32_t r = 0; r < world->request_count; r++)
        for (uint32_t i = 0; i < world->requests[r].fetch_count; i++)
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
    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        if (world->agents[i].alive)
            sim_agent_check_empty(&world->agents[i]);
}
