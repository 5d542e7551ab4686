#include "tools/sim/sim_page.h"

#include <stdlib.h>
#include <string.h>

#define STATE_TOKENS 8 /* a state is as large as so many tokens */

bool sim_is_state(const struct sim_world *world, uint32_t layer)
{
    return world->geometry.states && layer >= world->geometry.group_split;
}

uint32_t sim_part_count(const struct sim_world *world, uint32_t layer)
{
    return sim_is_state(world, layer) ? 1 : world->geometry.part_count;
}

uint32_t sim_head_bytes(const struct sim_world *world, uint32_t layer)
{
    return world->geometry.head_bytes * (sim_is_state(world, layer) ? STATE_TOKENS : 1);
}

uint32_t sim_page_bytes(const struct sim_engine *engine, uint32_t layer)
{
    return engine->share.head_count * sim_head_bytes(engine->world, layer) *
           (sim_is_state(engine->world, layer) ? 1 : engine->page_tokens);
}

void sim_page_token(const struct sim_engine *engine, uint32_t layer, uint32_t offset,
                    uint32_t *ret_token, uint32_t *ret_word)
{
    uint32_t head_bytes = sim_head_bytes(engine->world, layer), token_bytes, head;

    if (engine->heads_outer && !sim_is_state(engine->world, layer)) {
        head = offset / head_bytes / engine->page_tokens;
        *ret_token = offset / head_bytes % engine->page_tokens;
        offset = head * head_bytes + offset % head_bytes;
    } else {
        token_bytes = engine->share.head_count * head_bytes;
        *ret_token = offset / token_bytes;
        offset %= token_bytes;
    }
    *ret_word = (engine->share.head_first * head_bytes + offset) / 8;
}

/* In this region; false: in a gap of it, or outside. */
static bool place_in(const struct sim_engine *engine, uint32_t region, const uint8_t *address,
                     struct sim_place *ret_place)
{
    const struct kvr_region_layout *layout = &engine->layouts[region];
    uint64_t offset = (uint64_t)(address - engine->memory[region]);
    uint32_t id;

    if (address < engine->memory[region] || offset >= layout->bytes || offset < layout->base)
        return false;
    offset -= layout->base;
    if (layout->page_stride >= layout->layer_stride) {
        id = (uint32_t)(offset / layout->page_stride);
        offset %= layout->page_stride;
        ret_place->layer = (uint32_t)(offset / layout->layer_stride);
        offset %= layout->layer_stride;
        ret_place->part = (uint32_t)(offset / layout->part_stride);
        offset %= layout->part_stride;
    } else {
        ret_place->layer = (uint32_t)(offset / layout->layer_stride);
        offset %= layout->layer_stride;
        ret_place->part = (uint32_t)(offset / layout->part_stride);
        offset %= layout->part_stride;
        id = (uint32_t)(offset / layout->page_stride);
        offset %= layout->page_stride;
    }
    ret_place->page = engine->pooled ? id / 2 : id;
    ret_place->layer += layout->layer_first;
    ret_place->offset = (uint32_t)offset;
    return offset < sim_page_bytes(engine, layout->layer_first) && id < layout->page_count &&
           id == sim_page_id(engine, layout->group, ret_place->page) &&
           ret_place->layer < layout->layer_first + layout->layer_count;
}

/* No two regions have pages in the same bytes. */
bool sim_engine_place(const struct sim_engine *engine, const uint8_t *address,
                      struct sim_place *ret_place)
{
    for (uint32_t r = 0; r < engine->region_count; r++)
        if (place_in(engine, r, address, ret_place))
            return true;
    return false;
}

uint8_t *sim_engine_address(const struct sim_engine *engine, const struct sim_place *place)
{
    for (uint32_t r = 0; r < engine->region_count; r++) {
        const struct kvr_region_layout *layout = &engine->layouts[r];

        if (place->layer >= layout->layer_first &&
            place->layer < layout->layer_first + layout->layer_count)
            return engine->memory[r] + layout->base +
                   (place->layer - layout->layer_first) * layout->layer_stride +
                   place->part * layout->part_stride +
                   sim_page_id(engine, layout->group, place->page) * layout->page_stride +
                   place->offset;
    }
    abort();
}

/* ---- pages --------------------------------------------------------------------------------- */

uint32_t sim_publish_owner(const struct sim_publish *publish)
{
    return 1 + publish->request->number * SIM_USERS +
           (uint32_t)(publish - publish->request->publishes) * 2;
}

uint32_t sim_fetch_owner(const struct sim_fetch *fetch)
{
    return 1 + fetch->request->number * SIM_USERS +
           (uint32_t)(fetch - fetch->request->fetches) * 2 + 1;
}

struct sim_user *sim_user_of(struct sim_world *world, uint32_t owner,
                             struct sim_publish **ret_publish, struct sim_fetch **ret_fetch)
{
    struct sim_request *request;
    uint32_t part = (owner - 1) % SIM_USERS;

    *ret_publish = NULL;
    *ret_fetch = NULL;
    if (owner == 0)
        return NULL;
    request = &world->requests[(owner - 1) / SIM_USERS];
    if (part % 2 == 0)
        return &(*ret_publish = &request->publishes[part / 2])->user;
    return &(*ret_fetch = &request->fetches[part / 2])->user;
}

struct sim_user *sim_user_next(struct sim_world *world, uint32_t *owner,
                               struct sim_publish **ret_publish, struct sim_fetch **ret_fetch)
{
    while (++*owner <= world->request_count * SIM_USERS) {
        const struct sim_request *request = &world->requests[(*owner - 1) / SIM_USERS];
        uint32_t part = (*owner - 1) % SIM_USERS;

        if (part / 2 < (part % 2 ? request->fetch_count : request->publish_count))
            return sim_user_of(world, *owner, ret_publish, ret_fetch);
    }
    return NULL;
}

struct sim_user *sim_user_find(struct sim_agent *agent, uint32_t index, uint64_t handle,
                               struct sim_publish **ret_publish, struct sim_fetch **ret_fetch)
{
    struct sim_user *user;
    uint32_t owner = 0;

    while ((user = sim_user_next(agent->world, &owner, ret_publish, ret_fetch)) != NULL)
        if (user->engine->agent == agent && user->engine->index == index &&
            !user->engine->released && user->handle == handle)
            return user;
    *ret_publish = NULL;
    *ret_fetch = NULL;
    return NULL;
}

static uint32_t page_take(struct sim_engine *engine, bool next)
{
    uint32_t page =
        next ? engine->rotor : (uint32_t)kvr_rng_below(&engine->world->rng, engine->page_count);

    for (uint32_t i = 0; i < engine->page_count; i++) {
        uint32_t at = (page + i) % engine->page_count;

        if (engine->owners[at].user != 0)
            continue;
        engine->rotor = (at + 1) % engine->page_count;
        return at;
    }
    return UINT32_MAX;
}

bool sim_engine_pages(struct sim_engine *engine, struct sim_user *user, uint32_t owner,
                      uint32_t count)
{
    bool next = kvr_rng_percent(&engine->world->rng, 50);
    uint32_t left = 0;

    for (uint32_t i = 0; i < engine->page_count; i++)
        left += engine->owners[i].user == 0;
    if (left < count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t page = page_take(engine, next || kvr_rng_percent(&engine->world->rng, 70));

        engine->owners[page] = (struct sim_owner){.user = owner, .logical = i};
        user->pages[i] = page;
    }
    user->page_count = count;
    return true;
}

/* It asks for what it does not have: the agent must refuse, and no card touch it. */
static void pages_spoil(struct sim_user *user, struct kvr_request *request)
{
    static uint32_t wrong[SIM_PAGES];
    struct sim_world *world = user->engine->world;
    uint32_t count = request->pages.id_count;

    memcpy(wrong, request->pages.ids, count * sizeof(wrong[0]));
    wrong[kvr_rng_below(&world->rng, count)] =
        sim_page_id(user->engine, request->pages.group, user->engine->page_count) +
        (uint32_t)kvr_rng_below(&world->rng, 4);
    request->pages.ids = wrong;
    sim_injected(world, SIM_WRONG_PAGE);
    sim_disturb_all(world);
}

bool sim_pages_tell(struct sim_user *user, kvr_request_kind kind, uint32_t group, uint32_t page_end)
{
    struct sim_world *world = user->engine->world;
    struct kvr_request request = {.kind = kind, .handle = user->handle};
    uint32_t *told = &user->pages_told[group], ids[SIM_PAGES];

    for (uint32_t i = *told; i < page_end; i++)
        ids[i] = sim_page_id(user->engine, group, user->pages[i]);
    request.pages.group = group;
    request.pages.page_first = *told;
    request.pages.ids = ids + *told;
    request.pages.id_count = page_end - *told;
    if (page_end <= *told)
        return false;
    *told = page_end;
    if (sim_has(world, SIM_WRONG_PAGE) && kvr_rng_percent(&world->rng, 5))
        pages_spoil(user, &request);
    sim_ask(user->engine, &request);
    return true;
}

/* The next user of the pages finds garbage. */
static void pages_return(struct sim_user *user)
{
    struct sim_engine *engine = user->engine;
    const struct kvr_share *share = &engine->share;
    struct sim_place place = {0};

    for (uint32_t i = 0; i < user->page_count; i++) {
        place.page = user->pages[i];
        engine->owners[place.page].user = 0;
        for (place.layer = share->layer_first;
             place.layer < share->layer_first + share->layer_count; place.layer++)
            for (place.part = 0; place.part < sim_part_count(engine->world, place.layer);
                 place.part++)
                memset(sim_engine_address(engine, &place), 0xdd,
                       sim_page_bytes(engine, place.layer));
    }
}

void sim_user_end(struct sim_user *user)
{
    user->ended = true;
    user->ended_at = user->engine->world->now;
    pages_return(user);
}
