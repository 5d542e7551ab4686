/* What every byte should be: a function of the request, the engine's generation, the layer, the
 * part and the token, so that a byte that is old, of another request or in another place is a wrong
 * one.
 */
#include <assert.h>

#include "tools/sim_world.h"

static uint64_t word_of(uint64_t key, uint32_t layer, uint32_t part, uint64_t token, uint32_t word)
{
    return kvr_mix64(key + ((uint64_t)(layer * 4 + part) << 48) + (token << 8) + word);
}

uint64_t sim_key(const struct sim_request *request, uint64_t generation)
{
    return kvr_mix64(request->world->seed * 1000 + request->number) ^ kvr_mix64(generation);
}

void sim_content_fill(struct sim_publish *publish, uint32_t layer, uint64_t token_first,
                      uint64_t token_end)
{
    const struct sim_world *world = publish->request->world;
    const struct sim_geometry *geometry = &world->geometry;
    struct sim_place place = {.layer = layer};

    for (uint64_t token = token_first; token < token_end; token++) {
        place.page = publish->user.pages[token / geometry->page_tokens];
        place.offset = (uint32_t)(token % geometry->page_tokens) * geometry->token_bytes;
        for (place.part = 0; place.part < geometry->part_count; place.part++) {
            uint8_t *bytes = sim_engine_address(publish->user.engine, &place);

            for (uint32_t word = 0; word < geometry->token_bytes / 8; word++) {
                uint64_t value = word_of(publish->user.key, layer, place.part, token, word);

                memcpy(bytes + (size_t)word * 8, &value, 8);
            }
        }
    }
}

bool sim_content_right(const struct sim_world *world, uint64_t key, const struct sim_place *place,
                       uint32_t logical, const uint8_t *bytes, uint32_t byte_count,
                       uint64_t token_end)
{
    const struct sim_geometry *geometry = &world->geometry;

    assert(place->offset % 8 == 0 && byte_count % 8 == 0);
    for (uint32_t at = 0; at < byte_count; at += 8) {
        uint32_t offset = place->offset + at;
        uint64_t token = (uint64_t)logical * geometry->page_tokens + offset / geometry->token_bytes;
        uint64_t value =
            word_of(key, place->layer, place->part, token, offset % geometry->token_bytes / 8);

        if (token >= token_end)
            return true;
        if (memcmp(bytes + at, &value, 8) != 0)
            return false;
    }
    return true;
}
