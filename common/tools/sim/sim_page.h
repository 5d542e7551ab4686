/* Pages of an engine: where their bytes lie in its memory, which request has which of them, and the
 * messages that name them. */
#ifndef KVR_TOOLS_SIM_PAGE_H
#define KVR_TOOLS_SIM_PAGE_H

#include "tools/sim/sim_world.h"

/* The place of an address inside a page; false in a gap or outside of this engine's memory. */
bool sim_engine_place(const struct sim_engine *engine, const uint8_t *address,
                      struct sim_place *ret_place);
uint8_t *sim_engine_address(const struct sim_engine *engine, const struct sim_place *place);
/* The layers of the second KV group may be states, with one page a request. */
bool sim_is_state(const struct sim_world *world, uint32_t layer);
uint32_t sim_part_count(const struct sim_world *world, uint32_t layer);
uint32_t sim_head_bytes(const struct sim_world *world, uint32_t layer);
uint32_t sim_page_bytes(const struct sim_engine *engine, uint32_t layer); /* of one part */
/* Of a page of it: which token of the page and which word of that token's bytes, all heads of the
 * model counted, lies at this offset. A state counts as one token. */
void sim_page_token(const struct sim_engine *engine, uint32_t layer, uint32_t offset,
                    uint32_t *ret_token, uint32_t *ret_word);
/* The id by which a region of this KV group names the page. */
static inline uint32_t sim_page_id(const struct sim_engine *engine, uint32_t group, uint32_t page)
{
    return engine->pooled ? 2 * page + group : page;
}

/* Lends `count` pages in logical order; false when there are not enough. */
bool sim_engine_pages(struct sim_engine *engine, struct sim_user *user, uint32_t owner,
                      uint32_t count);
/* Names its pages up to page_end to the agent. False: there was nothing to tell. */
bool sim_pages_tell(struct sim_user *user, kvr_request_kind kind, uint32_t group,
                    uint32_t page_end);

#endif
