/* Notices of no handle that wait until their engine reads: other agents and cards that come and go.
 * Only the latest word on each is kept, and a bounded number of them, so that no peer can fill an
 * engine's queue. Pure; inside the engine port, loop thread. */
#ifndef KVR_AGENT_ENGINE_NEWS_H
#define KVR_AGENT_ENGINE_NEWS_H

#include "wire/engine_message.h"

#define ENGINE_NEWS_MAX 256 /* subjects; a further one takes the place of the oldest */

struct engine_news {
    struct kvr_notice *list; /* the oldest first; room for ENGINE_NEWS_MAX; the link's */
    uint32_t count;
};

/* PEER_*, RAIL_* and TARGET_REFUSED of no handle. A notice of a handle is never dropped. */
bool engine_news_takes(const struct kvr_notice *notice);

/* Keeps the notice, and drops the earlier ones that it makes untrue. Returns how many notices on
 * other subjects made room: 0 or 1. */
uint32_t engine_news_put(struct engine_news *news, const struct kvr_notice *notice);

/* The oldest, or NULL; borrowed until the next put or pop. */
const struct kvr_notice *engine_news_first(const struct engine_news *news);
void engine_news_pop(struct engine_news *news);

#endif
