#include "tools/sim/sim_silence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim_world.h"

#define BEAT_NS (SIM_SILENCE_NS / 3) /* of a session */

/* A notice that lies in the socket of an engine that is stopped. */
struct sim_held {
    struct sim_held *next;
    struct kvr_notice notice;
    uint8_t payload[SIM_TAIL_BYTES];
};

void sim_silence_sign(struct sim_agent *agent)
{
    agent->alive_at = agent->world->now;
}

/* ---- looks ----------------------------------------------------------------------------------- */

static void look_run(struct sim_world *world, const struct sim_event *event);

static struct sim_user *next_of(struct sim_engine *engine, uint32_t *owner,
                                struct sim_fetch **ret_fetch)
{
    struct sim_publish *publish;
    struct sim_user *user;

    while ((user = sim_user_next(engine->world, owner, &publish, ret_fetch)) != NULL)
        if (user->engine == engine && user->open && !user->ended)
            return user;
    return NULL;
}

static void arm(struct sim_engine *engine)
{
    struct sim_library *library = &engine->library;
    kvr_ns at = library->silence.due_at;
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    while (library->silence.silent && next_of(engine, &owner, &fetch) != NULL)
        if (fetch != NULL && !fetch->told.failing && fetch->deadline > engine->world->now &&
            fetch->deadline < at)
            at = fetch->deadline;
    sim_at(engine->world, at, look_run, engine, ++library->turn, 0);
}

/* The agent may read it late. */
static void give_up_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_fetch *fetch = event->object;
    struct kvr_request request = {.kind = KVR_REQ_CANCEL, .handle = fetch->user.handle};

    if (!sim_user_lives(&fetch->user) ||
        sim_agent_deferred(fetch->user.engine->agent, event, world->now))
        return;
    request.cancel.reason = KVR_EXPIRED;
    sim_ask(fetch->user.engine, &request);
}

static void expire(struct sim_engine *engine, struct sim_fetch *fetch)
{
    struct sim_world *world = engine->world;
    struct kvr_notice notice;

    client_silence_expire(&engine->library.silence, &fetch->told, world->now, fetch->user.handle,
                          &notice);
    if (kvr_notice_terminal(notice.kind)) {
        sim_fail(world, (int)fetch->request->number,
                 "a library hands pages back while their agent is silent");
        return;
    }
    for (uint32_t i = 0; i < fetch->source_count; i++)
        fetch->publishes[i]->disturbed = true;
    sim_engine_told(&fetch->user, &notice);
    if (fetch->watched)
        atomic_store(&engine->page->landed[fetch->word], fetch->landed_base + KVR_LANDED_FAILED);
    sim_at(world, world->now + 1, give_up_run, fetch, 0, 0);
}

static void expire_all(struct sim_engine *engine)
{
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    while (next_of(engine, &owner, &fetch) != NULL)
        if (fetch != NULL && client_silence_expires(&engine->library.silence, &fetch->told,
                                                    fetch->deadline, engine->world->now))
            expire(engine, fetch);
}

/* After a stop that is long enough to be seen, it listens for a beat before it calls its agent
 * silent.
 */
static void check_silent(struct sim_engine *engine)
{
    const struct sim_library *library = &engine->library;

    if (library->stopped_until - library->stopped_at >= 2 * KVR_ENGINE_BEAT_NS &&
        engine->world->now < library->stopped_until + KVR_ENGINE_BEAT_NS)
        sim_fail(engine->world, -1,
                 "engine %u calls its agent silent, and has listened for %" PRIu64 " ms",
                 engine->number, (engine->world->now - library->stopped_until) / KVR_MS);
}

static void look(struct sim_engine *engine)
{
    struct sim_library *library = &engine->library;
    bool excused = library->silence.excused;
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    switch (client_silence_look(&library->silence, engine->world->now, engine->agent->alive_at)) {
    case CLIENT_SILENCE_SILENT:
        sim_engine_note(engine, "agent silent", -1, library->silence.alive_at, 0, NULL);
        if (!excused)
            check_silent(engine);
        break;
    case CLIENT_SILENCE_BACK:
        sim_engine_note(engine, "agent back", -1, 0, 0, NULL);
        break;
    case CLIENT_SILENCE_NONE:
        break;
    }
    if (library->silence.silent)
        expire_all(engine);
    library->on = library->silence.silent || next_of(engine, &owner, &fetch) != NULL;
    if (library->on)
        arm(engine);
}

/* a: the turn. */
static void look_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_engine *engine = event->object;

    (void)world;
    if (engine->library.on && engine->library.turn == event->a &&
        !sim_engine_deferred(engine, event))
        look(engine);
}

void sim_silence_watch(struct sim_engine *engine)
{
    struct sim_library *library = &engine->library;

    if (!library->on)
        client_silence_begin(&library->silence, engine->world->now, engine->agent->alive_at);
    if (!library->on || library->silence.silent)
        arm(engine);
    library->on = true;
}

void sim_silence_end(struct sim_engine *engine)
{
    struct sim_library *library = &engine->library;

    library->on = library->silence.silent = false;
    while (library->held_first != NULL) {
        struct sim_held *next = library->held_first->next;

        free(library->held_first);
        library->held_first = next;
    }
}

bool sim_silence_take(struct sim_fetch *fetch, struct kvr_notice *notice)
{
    return client_told_take(&fetch->told, fetch->tokens, notice);
}

/* ---- an engine that is stopped --------------------------------------------------------------- */

bool sim_engine_stopped(const struct sim_engine *engine)
{
    return engine->world->now < engine->library.stopped_until;
}

bool sim_engine_deferred(struct sim_engine *engine, const struct sim_event *event)
{
    if (!engine->alive || !sim_engine_stopped(engine))
        return false;
    sim_at(engine->world, engine->library.stopped_until, event->run, event->object, event->a,
           event->b);
    return true;
}

bool sim_engine_holds(struct sim_engine *engine, const struct kvr_notice *notice)
{
    struct sim_library *library = &engine->library;
    struct sim_held *held;

    if (!sim_engine_stopped(engine))
        return false;
    held = calloc(1, sizeof(*held));
    if (held == NULL || notice->payload_bytes > sizeof(held->payload))
        abort();
    held->notice = *notice;
    if (notice->payload_bytes > 0)
        memcpy(held->payload, notice->payload, notice->payload_bytes);
    held->notice.payload = held->payload;
    if (library->held_first == NULL)
        library->held_first = held;
    else
        library->held_last->next = held;
    library->held_last = held;
    return true;
}

void sim_engine_resume(struct sim_engine *engine)
{
    struct sim_library *library = &engine->library;

    if (sim_engine_stopped(engine))
        library->stopped_until = engine->world->now;
    while (library->held_first != NULL) {
        struct sim_held *held = library->held_first;

        library->held_first = held->next;
        library->behind = true;
        if (engine->attached)
            sim_engine_notice(engine->agent, engine->index, &held->notice);
        free(held);
    }
    library->behind = false;
}

/* Before anything else that waits for this moment. */
static void resume_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_engine *engine = event->object;

    world->busy--;
    if (engine->alive)
        sim_engine_resume(engine);
}

static void engine_stop(struct sim_engine *engine, kvr_ns until)
{
    struct sim_world *world = engine->world;

    engine->library.stopped_at = world->now;
    engine->library.stopped_until = until;
    world->busy++;
    sim_at(world, until, resume_run, engine, 0, 0);
    sim_engine_note(engine, "stops", -1, until - world->now, 0, NULL);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void agent_stop(struct sim_agent *agent, kvr_ns until)
{
    agent->stopped_before = agent->stopped_until;
    agent->stopped_at = agent->world->now;
    agent->stopped_until = until;
}

/* Alone, or with its whole host: then its agent wakes within a beat of it. */
void sim_engine_stop_awhile(struct sim_world *world)
{
    struct sim_engine *engine = &world->engines[kvr_rng_below(&world->rng, world->engine_count)];
    struct sim_agent *agent = engine->agent;
    kvr_ns until = world->now + KVR_MS + kvr_rng_below(&world->rng, 8 * KVR_S);
    bool host = kvr_rng_percent(&world->rng, 50);

    if (!engine->attached || !engine->alive || sim_engine_stopped(engine) ||
        sim_agent_stopped(agent))
        return;
    sim_disturb_all(world);
    engine_stop(engine, until);
    if (host)
        agent_stop(agent, until + kvr_rng_below(&world->rng, KVR_ENGINE_BEAT_NS * 9 / 10));
    sim_injected_until(world, SIM_ENGINE_STOPPED, host ? agent->stopped_until : until);
}

/* Each fetch of a living engine that expired meanwhile was given up. a: life. */
static void freeze_end_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;
    kvr_ns silent_at = agent->stopped_at + CLIENT_SILENCE_NS + KVR_MS;
    struct sim_publish *publish;
    const struct sim_user *user;
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    if (sim_agent_void(agent, event))
        return;
    while ((user = sim_user_next(world, &owner, &publish, &fetch)) != NULL)
        if (fetch != NULL && user->engine->agent == agent && sim_user_lives(user) &&
            user->engine->library.stopped_until < agent->stopped_at && !fetch->failing_seen &&
            world->now > fetch->deadline && world->now > silent_at)
            sim_fail(
                world, (int)fetch->request->number,
                "its agent stands still, its deadline has passed, and its engine hears nothing");
}

static void agent_freeze(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    if (!agent->alive || sim_agent_stopped(agent))
        return;
    sim_disturb_all(world);
    agent_stop(agent, world->now + kvr_rng_between(&world->rng, 8 * KVR_S, 25 * KVR_S));
    sim_injected_until(world, SIM_AGENT_FROZEN, agent->stopped_until);
    sim_at(world, agent->stopped_until - 1, freeze_end_run, agent, agent->life, 0);
}

/* For longer than most deadlines; sometimes one at each side. */
void sim_agent_freeze(struct sim_world *world)
{
    bool both = kvr_rng_percent(&world->rng, 20);

    agent_freeze(sim_agent_choose(world));
    if (both)
        agent_freeze(sim_agent_choose(world));
}

/* Once after each absence: a session that is not heard in between two is silent. */
void sim_check_blame(struct sim_agent *agent, kvr_status status, const char *detail)
{
    kvr_ns now = agent->world->now;

    if (status == KVR_PEER_LOST && strncmp(detail, "nothing was heard", 17) == 0 &&
        agent->stopped_until - agent->stopped_at > 2 * BEAT_NS && now >= agent->stopped_until &&
        now < agent->stopped_until + BEAT_NS / 2 &&
        agent->stopped_before + 2 * SIM_SILENCE_NS < agent->stopped_at)
        sim_fail(agent->world, -1, "agent %u wakes and calls a peer silent at once", agent->number);
}
