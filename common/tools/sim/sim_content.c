/* The right value of every byte: a function of the request, the engine's generation, the layer, the
 * part and the token. So an old byte, one of another request and one in another place are wrong.
 */
#include <assert.h>

#include "tools/sim/sim_page.h"
#include "tools/sim/sim_world.h"

static uint64_t word_of(uint64_t key, uint32_t layer, uint32_t part, uint64_t token, uint32_t word)
{
    return kvr_mix64(key + ((uint64_t)(layer * 4 + part) << 48) + (token << 8) + word);
}

uint64_t sim_key(const struct sim_request *request, uint64_t generation)
{
    return kvr_mix64(request->world->seed * 1000 + request->number) ^ kvr_mix64(generation);
}

/* A state is a function of all tokens before. */
static void state_fill(const struct sim_publish *publish, uint32_t layer, uint64_t tokens)
{
    const struct sim_engine *engine = publish->user.engine;
    struct sim_place place = {.layer = layer, .page = publish->user.pages[0]};
    uint8_t *bytes = sim_engine_address(engine, &place);

    for (uint32_t offset = 0; offset < sim_page_bytes(engine, layer); offset += 8) {
        uint32_t token, word;
        uint64_t value;

        sim_page_token(engine, layer, offset, &token, &word);
        value = word_of(publish->user.key, layer, 0, tokens, word);
        memcpy(bytes + offset, &value, 8);
    }
}

void sim_content_fill(struct sim_publish *publish, uint32_t layer, uint64_t token_first,
                      uint64_t token_end)
{
    const struct sim_engine *engine = publish->user.engine;
    uint32_t part_count = engine->world->geometry.part_count;
    uint32_t page_bytes = sim_page_bytes(engine, layer);
    struct sim_place place = {.layer = layer};

    if (sim_is_state(engine->world, layer)) {
        state_fill(publish, layer, token_end);
        return;
    }
    for (uint64_t first = token_first / engine->page_tokens * engine->page_tokens;
         first < token_end; first += engine->page_tokens) {
        place.page = publish->user.pages[first / engine->page_tokens];
        for (place.part = 0; place.part < part_count; place.part++) {
            uint8_t *bytes = sim_engine_address(engine, &place);

            for (uint32_t offset = 0; offset < page_bytes; offset += 8) {
                uint32_t token, word;
                uint64_t value;

                sim_page_token(engine, layer, offset, &token, &word);
                if (first + token < token_first || first + token >= token_end)
                    continue;
                value = word_of(publish->user.key, layer, place.part, first + token, word);
                memcpy(bytes + offset, &value, 8);
            }
        }
    }
}

bool sim_content_right(const struct sim_engine *engine, uint64_t key, const struct sim_place *place,
                       uint32_t logical, const uint8_t *bytes, uint32_t byte_count,
                       uint64_t token_first, uint64_t token_end)
{
    bool state = sim_is_state(engine->world, place->layer);
    uint64_t page_first = (uint64_t)logical * engine->page_tokens;

    assert(place->offset % 8 == 0 && byte_count % 8 == 0);
    for (uint32_t at = 0; at < byte_count; at += 8) {
        uint32_t token, word;
        uint64_t value;

        sim_page_token(engine, place->layer, place->offset + at, &token, &word);
        if (!state && (page_first + token < token_first || page_first + token >= token_end))
            continue;
        value =
            word_of(key, place->layer, place->part, state ? token_end : page_first + token, word);
        if (memcmp(bytes + at, &value, 8) != 0)
            return false;
    }
    return true;
}
