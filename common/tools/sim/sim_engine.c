/* An engine: its rank, its death, and the notices that it gets. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim_keys.h"
#include "tools/sim/sim_page.h"
#include "tools/sim/sim_region.h"
#include "tools/sim/sim_world.h"

void sim_engine_note(const struct sim_engine *engine, const char *what, int request, uint64_t a,
                     uint64_t b, const char *detail)
{
    sim_history_add(&engine->world->history, &(struct sim_line){.at = engine->world->now,
                                                                .who = "engine",
                                                                .number = (uint8_t)engine->number,
                                                                .what = what,
                                                                .detail = detail,
                                                                .a = a,
                                                                .b = b,
                                                                .request = (int8_t)request});
}

/* ---- a new one ----------------------------------------------------------------------------- */

/* What the rank holds of the model, and how a page of it looks. */
static void share_set(struct sim_engine *engine)
{
    const struct sim_geometry *geometry = &engine->world->geometry;
    const struct sim_side *side = engine->agent->source ? &geometry->source : &geometry->target;
    struct kvr_error error;

    if (kvr_share_of_rank(&engine->rank, 0, geometry->layers, geometry->heads, &engine->share,
                          &error) != KVR_OK)
        sim_fail(engine->world, -1, "engine %u: %s", engine->number, error.detail);
    engine->page_tokens = side->page_tokens;
    engine->heads_outer = side->heads_outer;
}

struct sim_engine *sim_engine_new(struct sim_world *world, struct sim_agent *agent,
                                  const struct kvr_rank *rank)
{
    struct sim_engine *engine = &world->engines[world->engine_count];

    assert(world->engine_count < SIM_ENGINES);
    engine->world = world;
    engine->agent = agent;
    engine->number = world->engine_count++;
    engine->alive = true;
    engine->released = true; /* until it attaches */
    engine->rank = *rank;
    share_set(engine);
    engine->page_count = (uint32_t)kvr_rng_between(&world->rng, SIM_PAGES / 2, SIM_PAGES);
    sim_regions_choose(engine);
    engine->page = calloc(1, sizeof(*engine->page));
    if (engine->page == NULL)
        abort();
    return engine;
}

bool sim_engine_has_group(const struct sim_engine *engine, uint32_t group, uint32_t layers_missing)
{
    uint32_t layer_end = engine->share.layer_first + engine->share.layer_count;

    for (uint32_t layer = engine->share.layer_first; layer < layer_end; layer++)
        if ((layer >= engine->world->geometry.group_split) == group &&
            !(layers_missing >> layer & 1))
            return true;
    return false;
}

/* ---- to and from the agent ----------------------------------------------------------------- */

void sim_engine_attach(struct sim_engine *engine)
{
    struct sim_agent *agent = engine->agent;
    struct kvr_req_attach attach = {.rank = engine->rank};
    struct kvr_engines *engines = sim_engines_of(engine);
    struct kvr_error error;

    snprintf(attach.compat.model, sizeof(attach.compat.model), "sim");
    snprintf(attach.compat.dtype, sizeof(attach.compat.dtype), "u64");
    attach.compat.layers_total = engine->world->geometry.layers;
    attach.compat.kv_heads_total = engine->world->geometry.heads;
    attach.compat.head_dim = 8;
    snprintf(attach.name, sizeof(attach.name), "engine-%u", engine->number);
    sim_hoard_end(agent); /* an engine that is refused would try again */
    while (engines->local[engine->index].used)
        engine->index++;
    if (kvr_engines_up(engines, engine->index, &attach, engine->page, &error) != KVR_OK) {
        sim_fail(engine->world, -1, "engine %u cannot attach: %s", engine->number, error.detail);
        return;
    }
    engine->attached = true;
    engine->released = false;
    engine->region_changes = false;
    engine->layers_missing = 0;
    sim_engine_note(engine, "attached", -1, engine->rank.generation, engine->index, NULL);
    for (uint32_t r = 0; r < engine->region_count; r++)
        sim_region_add(engine, r);
}

void sim_engine_detach(struct sim_engine *engine)
{
    struct sim_agent *agent = engine->agent;

    engine->attached = false;
    sim_engine_note(engine, "detached", -1, engine->rank.generation, 0, NULL);
    agent->machine.engine_down(agent->machine.self, engine->world->now, engine->index);
}

static void users_orphan(struct sim_engine *engine, bool hand_back)
{
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    struct sim_user *user;
    uint32_t owner = 0;

    while ((user = sim_user_next(engine->world, &owner, &publish, &fetch)) != NULL) {
        if (user->engine != engine || !user->open || user->ended)
            continue;
        user->orphan = user->ended = true;
        if (hand_back)
            sim_user_end(user);
    }
}

/* Its process ends. Its pages are not reused: they go when the agent lets go of them. */
void sim_engine_die(struct sim_engine *engine)
{
    sim_engine_note(engine, "dies", -1, engine->rank.generation, 0, NULL);
    engine->alive = false;
    sim_silence_end(engine);
    for (uint32_t r = 0; r < engine->region_lives; r++)
        sim_stage_lose(engine->regions[r]);
    users_orphan(engine, false);
    if (engine->attached)
        sim_engine_detach(engine);
}

struct kvr_revocation_words *sim_engine_words(const struct sim_agent *agent, uint32_t index)
{
    return &agent->world->memory->revocation_words[agent->number * SIM_ENGINES + index];
}

/* What it published and is not at its end may fail. */
void sim_engine_words_write(struct sim_engine *engine)
{
    struct kvr_revocation_words *words = sim_engine_words(engine->agent, engine->index);
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    struct sim_user *user;
    uint32_t owner = 0;

    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX; i++)
        kvr_revocation_word_lend(&words->words[i], UINT64_MAX);
    while ((user = sim_user_next(engine->world, &owner, &publish, &fetch)) != NULL)
        if (user->engine == engine && publish != NULL && user->open && !user->ended)
            user->words_written = publish->disturbed = true;
    sim_engine_note(engine, "writes over its words", -1, 0, 0, NULL);
}

/* The library sees that the agent's process is gone: every page is the engine's again. */
void sim_engine_agent_lost(struct sim_engine *engine)
{
    engine->attached = false;
    engine->released = true;
    sim_silence_end(engine);
    sim_engine_regions_release(engine);
    sim_engine_note(engine, "agent lost", -1, 0, 0, NULL);
    if (engine->agent->source) /* as its client does */
        kvr_revocation_words_revoke(sim_engine_words(engine->agent, engine->index));
    users_orphan(engine, true);
}

static void notice_source(struct sim_publish *publish, const struct kvr_notice *notice)
{
    struct sim_user *user = &publish->user;

    if (notice->kind == KVR_NOTICE_ACCEPTED)
        user->accepted = true;
    if (notice->kind == KVR_NOTICE_LEASE_LOW)
        sim_lease_low(publish);
    if (notice->kind == KVR_NOTICE_LEASE_END)
        sim_check_lease_end(publish);
    if (notice->kind != KVR_NOTICE_SOURCE_FREE)
        return;
    sim_check_time(publish->request, publish, NULL);
    user->terminal = notice->kind;
    user->outcome = notice->status;
    publish->life = user->engine->agent->life;
    sim_user_end(user);
}

/* `said`: by the agent. The scheduler and the source have that end, whatever the library made of
 * it.
 */
static void notice_target(struct sim_fetch *fetch, const struct kvr_notice *notice,
                          const struct kvr_notice *said)
{
    struct sim_user *user = &fetch->user;

    if (!user->engine->library.behind || kvr_notice_terminal(notice->kind))
        sim_check_landed(fetch, notice->kind);
    if (notice->kind == KVR_NOTICE_DONE && fetch->failing_seen)
        sim_fail(fetch->request->world, (int)fetch->request->number, "done after failing");
    switch (notice->kind) {
    case KVR_NOTICE_LAYER_IN:
        sim_check_layer(fetch, notice);
        break;
    case KVR_NOTICE_TAIL_IN:
        sim_check_tail(fetch, notice);
        break;
    case KVR_NOTICE_ACCEPTED:
        user->accepted = true;
        break;
    case KVR_NOTICE_FAILING:
        fetch->failing_seen = true;
        break;
    case KVR_NOTICE_DONE:
    case KVR_NOTICE_FAILED:
    case KVR_NOTICE_CANCELLED:
    case KVR_NOTICE_EXPIRED:
        user->terminal = said->kind;
        user->outcome = said->status;
        user->bytes = notice->bytes;
        sim_check_time(fetch->request, NULL, fetch);
        sim_keys_check(user->engine->agent);
        if (notice->kind == KVR_NOTICE_DONE)
            sim_check_end(fetch, notice->token_end);
        else
            sim_check_salvage(fetch, notice->token_first, notice->token_end);
        if (fetch->after && notice->status == KVR_EXISTS)
            sim_fail(fetch->request->world, (int)fetch->request->number,
                     "its rank has seen the end of the fetch before, and may not fetch again");
        sim_user_end(user);
        if (notice->kind != KVR_NOTICE_DONE)
            sim_fetch_after(fetch);
        break;
    default:
        break;
    }
}

void sim_engine_told(struct sim_user *user, const struct kvr_notice *notice)
{
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    int request;

    if (sim_user_find(user->engine->agent, user->engine->index, notice->handle, &publish, &fetch) !=
            user ||
        fetch == NULL)
        return;
    request = (int)fetch->request->number;
    sim_engine_note(user->engine, kvr_notice_name(notice->kind), request, 0, 0, "by the library");
    notice_target(fetch, notice, notice);
}

void sim_engine_notice(void *self, uint32_t index, const struct kvr_notice *notice)
{
    struct sim_agent *agent = self;
    struct sim_world *world = agent->world;
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    struct sim_user *user = sim_user_find(agent, index, notice->handle, &publish, &fetch);
    struct kvr_notice told = *notice;
    int request;

    if (user == NULL) {
        sim_fail(world, -1, "%s for a handle that no request has", kvr_notice_name(notice->kind));
        return;
    }
    if (sim_engine_holds(user->engine, notice)) {
        user->accepted |= notice->kind == KVR_NOTICE_ACCEPTED;
        user->end_held |= kvr_notice_terminal(notice->kind);
        if (fetch != NULL)
            fetch->failing_held |= notice->kind == KVR_NOTICE_FAILING;
        return;
    }
    request = (int)(publish != NULL ? publish->request : fetch->request)->number;
    sim_engine_note(user->engine, kvr_notice_name(notice->kind), request, notice->layer_first,
                    notice->token_end, kvr_status_name(notice->status));
    if (!user->engine->alive || !user->open || user->ended)
        sim_fail(world, request, "request %d: %s after its end", request,
                 kvr_notice_name(notice->kind));
    else if (publish != NULL)
        notice_source(publish, notice);
    else if (sim_silence_take(fetch, &told))
        notice_target(fetch, &told, notice);
}
