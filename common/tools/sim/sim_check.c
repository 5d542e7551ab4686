/* The checks whenever a card touches memory, and whenever an engine gets a notice. */
#include <inttypes.h>
#include <string.h>

#include "tools/sim/sim_page.h"
#include "tools/sim/sim_world.h"

/* ---- whenever a card touches memory -------------------------------------------------------- */

static struct sim_engine *engine_of(struct sim_agent *agent, const uint8_t *address)
{
    struct sim_world *world = agent->world;

    for (uint32_t i = 0; i < world->engine_count; i++) {
        struct sim_engine *engine = &world->engines[i];

        for (uint32_t r = 0; engine->agent == agent && r < engine->region_count; r++)
            if (address >= engine->memory[r] &&
                address < engine->memory[r] + engine->layouts[r].bytes)
                return engine;
    }
    return NULL;
}

/* Lent and not handed back. No other user has the pages of a dead engine. */
static bool lent(const struct sim_user *user)
{
    return user != NULL && user->open &&
           (!user->ended || (user->orphan && !user->engine->alive && !user->engine->released));
}

/* A source's pages are read by a card or a copy; a target's by the copy for digests. */
void sim_check_read(struct sim_world *world, const struct kvr_sim_access *access)
{
    const struct sim_agent *agent = access->host;
    const uint8_t *address = access->address;
    struct sim_engine *engine = engine_of(access->host, address);

    for (uint64_t done = 0; done < access->bytes && !world->failed;) {
        struct sim_publish *publish;
        struct sim_fetch *fetch;
        struct sim_place place;
        uint32_t owner;

        if (engine == NULL || !sim_engine_place(engine, address + done, &place)) {
            sim_fail(world, -1, "a card reads bytes that belong to no page");
            return;
        }
        owner = engine->owners[place.page].user;
        if (!lent(sim_user_of(world, owner, &publish, &fetch)) ||
            (agent->source ? publish == NULL : fetch == NULL)) {
            sim_fail(world, owner > 0 ? (int)(owner - 1) / SIM_USERS : -1,
                     "a card reads page %u of engine %u, which was handed back", place.page,
                     engine->number);
            return;
        }
        done += sim_page_bytes(engine, place.layer) - place.offset;
    }
}

static bool away_for_long(const struct sim_agent *agent)
{
    return agent->stopped_until - agent->stopped_at > SIM_SILENCE_NS / 2;
}

/* Bits, one for geometry.page_tokens tokens: of which these bytes of a page hold some. */
static uint64_t grains_of(const struct sim_engine *engine, const struct sim_place *place,
                          uint32_t logical, uint32_t byte_count)
{
    const struct sim_geometry *geometry = &engine->world->geometry;
    uint64_t grains = 0;

    if (sim_is_state(engine->world, place->layer))
        return UINT64_MAX;
    for (uint32_t at = 0; at < byte_count; at += geometry->head_bytes) {
        uint32_t token, word;

        sim_page_token(engine, place->layer, place->offset + at, &token, &word);
        grains |= UINT64_C(1) << (logical * engine->page_tokens + token) / geometry->page_tokens;
    }
    return grains;
}

/* A state has the first page of its request, and goes as a whole. */
static bool is_skipped(const struct sim_engine *engine, const struct sim_fetch *fetch,
                       uint32_t layer, uint32_t logical)
{
    if (sim_is_state(engine->world, layer))
        return logical > 0 || fetch->skip == fetch->tokens;
    return logical < fetch->skip / engine->page_tokens;
}

/* A page of a write; where access->from is NULL, of the agent's own copy of a landed write. */
static void page_lands(struct sim_engine *engine, const struct kvr_sim_access *access,
                       const struct sim_place *place, const uint8_t *bytes, uint32_t byte_count)
{
    const struct sim_agent *from = access->from;
    struct sim_world *world = engine->world;
    struct sim_owner owner = engine->owners[place->page];
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    int request = owner.user > 0 ? (int)(owner.user - 1) / SIM_USERS : -1;
    uint64_t grains;

    if (!lent(sim_user_of(world, owner.user, &publish, &fetch)) || fetch == NULL) {
        sim_fail(world, request, "a write lands on page %u of engine %u, which was handed back",
                 place->page, engine->number);
        return;
    }
    if (fetch->foreign) {
        sim_fail(world, request, "bytes of a tenant's publish land in another tenant's fetch");
        return;
    }
    if (is_skipped(engine, fetch, place->layer, owner.logical)) {
        sim_fail(world, request, "a write lands on logical page %u, which is skipped",
                 owner.logical);
        return;
    }
    grains = grains_of(engine, place, owner.logical, byte_count);
    if ((fetch->layer_in[place->layer] & grains) != 0) {
        sim_fail(world, request, "a write lands on page %u of layer %u, which LAYER_IN covers",
                 owner.logical, place->layer);
        return;
    }
    if (from != NULL && away_for_long(engine->agent) && world->now < engine->agent->stopped_until) {
        fetch->away[from->number][place->layer] |= grains;
        fetch->away_at[from->number][place->layer] = world->now;
    }
    /* A copy from pages that were taken back is not announced: the checks below see that. */
    if (!access->copied && !fetch->corrupt &&
        !sim_content_right(engine, fetch->user.key, place, owner.logical, bytes, byte_count, 0,
                           sim_publish_end(fetch->publishes[0])))
        sim_fail(world, request, "wrong bytes land on logical page %u of layer %u", owner.logical,
                 place->layer);
}

void sim_check_land(struct sim_world *world, const struct kvr_sim_access *access)
{
    const uint8_t *address = access->address;
    struct sim_engine *engine = engine_of(access->host, address);

    for (uint64_t done = 0; done < access->bytes && !world->failed;) {
        struct sim_place place;
        uint32_t count;

        if (engine == NULL || !sim_engine_place(engine, address + done, &place)) {
            sim_fail(world, -1,
                     "a write lands on bytes that belong to no page: engine %d offset %" PRIu64
                     " of %" PRIu64,
                     engine != NULL ? (int)engine->number : -1, done, access->bytes);
            return;
        }
        count = (uint32_t)kvr_min_u64(sim_page_bytes(engine, place.layer) - place.offset,
                                      access->bytes - done);
        page_lands(engine, access, &place, access->incoming + done, count);
        done += count;
    }
}

/* Slot 0 (rule 5): from an agent's own page to the other agent's own page. */
static bool warms_up(struct sim_world *world, const struct kvr_sim_access *access)
{
    if (access->immediate != KVR_WARM_UP_IMMEDIATE)
        return false;
    if (engine_of(access->host, access->address) != NULL ||
        sim_stage_has(access->host, access->address))
        sim_fail(world, -1, "a warm-up write touches an engine's bytes");
    return true;
}

/* Staging memory is the agent's own: what is copied from and to it is held to the same. */
static void on_read(void *self, const struct kvr_sim_access *access)
{
    if (!warms_up(self, access) && !sim_stage_has(access->host, access->address))
        sim_check_read(self, access);
}

static void on_land(void *self, const struct kvr_sim_access *access)
{
    if (warms_up(self, access))
        return;
    if (sim_stage_has(access->host, access->address))
        sim_stage_check_land(self, access);
    else
        sim_check_land(self, access);
}

/* Rule 8: a source that was away for long hears from the target before it posts to it. */
static void on_posted(void *self, void *host, void *target_host)
{
    const struct sim_agent *source = host, *target = target_host;

    if (away_for_long(source) && source->heard_at[target->number] < source->stopped_until)
        sim_fail(self, -1, "agent %u woke and posts to agent %u before it has heard from it",
                 source->number, target->number);
}

static void on_corrupted(void *self, const struct kvr_sim_access *access)
{
    struct sim_world *world = self;
    const struct sim_engine *engine = engine_of(access->host, access->address);
    struct sim_publish *publish;
    struct sim_fetch *fetch = NULL;
    struct sim_place place;

    sim_injected(world, SIM_WRITE_CORRUPT);
    if (sim_stage_has(access->host, access->address))
        fetch = sim_stage_fetch(access->host, access->address);
    else if (engine != NULL && sim_engine_place(engine, access->address, &place))
        (void)sim_user_of(world, engine->owners[place.page].user, &publish, &fetch);
    if (fetch == NULL) /* on_land has reported it, or no fetch waits for it */
        return;
    fetch->corrupt = true;
    for (uint32_t i = 0; i < fetch->source_count; i++)
        fetch->publishes[i]->disturbed = true;
}

static void on_wake(void *self, void *host)
{
    (void)self;
    sim_agent_wake(host);
}

static void on_fault(void *self, kvr_sim_fault fault, kvr_ns until)
{
    static const sim_fault faults[] = {[KVR_SIM_FAILED] = SIM_WRITE_FAILED,
                                       [KVR_SIM_LOST] = SIM_WRITE_LOST,
                                       [KVR_SIM_LATE] = SIM_WRITE_LATE,
                                       [KVR_SIM_TWICE] = SIM_WRITE_TWICE,
                                       [KVR_SIM_UNMOVED] = SIM_COPY_FAILED};

    if (fault == KVR_SIM_UNMOVED)
        sim_disturb_all(self);
    sim_injected_until(self, faults[fault], until);
}

static void on_misuse(void *self, const char *sentence)
{
    sim_fail(self, -1, "%s", sentence);
}

struct kvr_sim_hooks sim_check_hooks(struct sim_world *world)
{
    return (struct kvr_sim_hooks){.self = world,
                                  .way = sim_ways_find,
                                  .posted = on_posted,
                                  .across = sim_planes_across,
                                  .fault = on_fault,
                                  .read = on_read,
                                  .land = on_land,
                                  .corrupted = on_corrupted,
                                  .wake = on_wake,
                                  .misuse = on_misuse};
}

/* ---- whenever a target engine gets a notice -------------------------------------------------- */

static bool tokens_right(const struct sim_fetch *fetch, uint32_t layer, uint64_t token_first,
                         uint64_t token_end)
{
    const struct sim_engine *engine = fetch->user.engine;
    uint32_t part_count = engine->world->geometry.part_count, page_tokens = engine->page_tokens;
    uint32_t page_bytes = sim_page_bytes(engine, layer);
    struct sim_place place = {.layer = layer, .page = fetch->user.pages[0]};

    if (sim_is_state(engine->world, layer))
        return sim_content_right(engine, fetch->user.key, &place, 0,
                                 sim_engine_address(engine, &place), page_bytes, 0,
                                 sim_publish_end(fetch->publishes[0]));
    for (uint64_t page = token_first / page_tokens; page * page_tokens < token_end; page++) {
        place.page = fetch->user.pages[page];
        for (place.part = 0; place.part < part_count; place.part++)
            if (!sim_content_right(engine, fetch->user.key, &place, (uint32_t)page,
                                   sim_engine_address(engine, &place), page_bytes, token_first,
                                   token_end))
                return false;
    }
    return true;
}

static bool holds(const struct sim_engine *engine, uint32_t layer)
{
    return layer >= engine->share.layer_first &&
           layer - engine->share.layer_first < engine->share.layer_count;
}

/* Rule 11: what landed in an absence may have been copied from pages that their source has taken
 * back. */
static void check_away(const struct sim_fetch *fetch, uint32_t layer, uint64_t grain)
{
    const struct sim_agent *agent = fetch->user.engine->agent;

    for (uint32_t source = 0; source < SIM_SOURCES; source++)
        if ((fetch->away[source][layer] >> grain & 1) != 0 &&
            agent->heard_at[source] < fetch->away_at[source][layer])
            sim_fail(agent->world, (int)fetch->request->number,
                     "layer %u landed in an absence, and is announced before its source answers",
                     layer);
}

void sim_check_layer(struct sim_fetch *fetch, const struct kvr_notice *notice)
{
    struct sim_world *world = fetch->request->world;
    uint32_t grain = world->geometry.page_tokens, layer = notice->layer_first;
    uint64_t skip = sim_is_state(world, layer) ? 0 : fetch->skip;
    int request = (int)fetch->request->number;

    if (!holds(fetch->user.engine, layer) || notice->layer_count != 1 ||
        notice->token_first < skip || notice->token_end > fetch->tokens ||
        notice->token_first >= notice->token_end) {
        sim_fail(world, request,
                 "layer %u of tokens %" PRIu64 " to %" PRIu64 " is announced: there is none", layer,
                 notice->token_first, notice->token_end);
        return;
    }
    if (!fetch->corrupt && !tokens_right(fetch, layer, notice->token_first, notice->token_end))
        sim_fail(world, request,
                 "layer %u is announced for tokens %" PRIu64 " to %" PRIu64 ", but is not in place",
                 layer, notice->token_first, notice->token_end);
    for (uint64_t i = notice->token_first / grain; i * grain < notice->token_end; i++) {
        if (fetch->layer_in[layer] >> i & 1)
            sim_fail(world, request, "layer %u, token %" PRIu64 " is announced twice", layer,
                     i * grain);
        fetch->layer_in[layer] |= UINT64_C(1) << i;
        check_away(fetch, layer, i);
    }
}

/* The publish that has the tail; or NULL. */
static const struct sim_publish *tail_of(const struct sim_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->source_count; i++)
        if (fetch->publishes[i]->has_tail)
            return fetch->publishes[i];
    return NULL;
}

void sim_check_tail(struct sim_fetch *fetch, const struct kvr_notice *notice)
{
    const struct sim_publish *from = tail_of(fetch);

    if (fetch->tail_seen || from == NULL || notice->payload_bytes != from->tail_bytes ||
        (notice->payload_bytes > 0 &&
         memcmp(notice->payload, from->tail, notice->payload_bytes) != 0))
        sim_fail(fetch->request->world, (int)fetch->request->number,
                 "a tail that is not the source's");
    fetch->tail_seen = true;
}

/* Every layer was announced by itself. Where several sources gave heads of it, or one of them was
 * not known yet, only the end announces it. */
static void check_told(const struct sim_fetch *fetch, uint32_t layer, uint64_t token_end)
{
    uint32_t grain = fetch->request->world->geometry.page_tokens;

    if (fetch->failing_seen || fetch->source_count > 1)
        return;
    for (uint64_t i = fetch->skip / grain; i * grain < token_end; i++)
        if (!(fetch->layer_in[layer] >> i & 1))
            sim_fail(fetch->request->world, (int)fetch->request->number,
                     "done, but layer %u was never announced", layer);
}

/* The engine got DONE. */
void sim_check_end(struct sim_fetch *fetch, uint64_t token_end)
{
    struct sim_world *world = fetch->request->world;
    const struct kvr_share *share = &fetch->user.engine->share;
    uint64_t published = sim_publish_end(fetch->publishes[0]);
    int request = (int)fetch->request->number;

    if (fetch->unproven)
        sim_fail(world, request,
                 "done, but a WANT of it did not prove the secret, or named another tenant");
    if (token_end != (published < fetch->tokens ? published : fetch->tokens))
        sim_fail(world, request, "done with %" PRIu64 " tokens instead of %" PRIu64, token_end,
                 published);
    if ((tail_of(fetch) != NULL) != fetch->tail_seen)
        sim_fail(world, request, "done without its tail");
    for (uint32_t layer = share->layer_first;
         layer < share->layer_first + share->layer_count && fetch->skip < token_end; layer++) {
        if (fetch->layers_missing >> layer & 1)
            continue;
        if (!tokens_right(fetch, layer, fetch->skip, token_end))
            sim_fail(world, request, "done, but bytes of layer %u are not the source's", layer);
        check_told(fetch, layer, token_end);
    }
}

void sim_check_landed(const struct sim_fetch *fetch, kvr_notice_kind kind)
{
    const struct sim_engine *engine = fetch->user.engine;
    uint32_t layers = 0;
    uint64_t landed;

    if (!fetch->watched)
        return;
    for (uint32_t layer = 0; layer < SIM_LAYERS; layer++)
        layers += holds(engine, layer) && !(fetch->layers_missing >> layer & 1);
    landed = atomic_load(&engine->page->landed[fetch->word]) - fetch->landed_base;
    if (kind == KVR_NOTICE_DONE     ? landed != layers
        : kvr_notice_terminal(kind) ? landed != KVR_LANDED_FAILED
                                    : landed > layers)
        sim_fail(fetch->request->world, (int)fetch->request->number,
                 "the landed word says %" PRIu64 " of %u layers with %s", landed, layers,
                 kvr_notice_name(kind));
}

/* It ended otherwise: [fetch->skip, token_first) was reported as in place all the same. */
void sim_check_salvage(struct sim_fetch *fetch, uint64_t token_first, uint64_t token_end)
{
    struct sim_world *world = fetch->request->world;
    const struct kvr_share *share = &fetch->user.engine->share;
    int request = (int)fetch->request->number;

    if (token_first < fetch->skip || token_first > token_end || token_end != fetch->tokens) {
        sim_fail(world, request,
                 "it failed, and tokens %" PRIu64 " to %" PRIu64 " of %" PRIu64 " are not right",
                 token_first, token_end, fetch->tokens);
        return;
    }
    for (uint32_t layer = share->layer_first;
         layer < share->layer_first + share->layer_count && token_first > fetch->skip; layer++)
        if (!(fetch->layers_missing >> layer & 1) && !fetch->corrupt &&
            !tokens_right(fetch, layer, fetch->skip, token_first))
            sim_fail(world, request, "it failed, and bytes of layer %u that are right are not",
                     layer);
}
