#include "agent/engine/engine_news.h"

#include <string.h>

bool engine_news_takes(const struct kvr_notice *notice)
{
    switch (notice->kind) {
    case KVR_NOTICE_PEER_UP:
    case KVR_NOTICE_PEER_WARM:
    case KVR_NOTICE_PEER_DOWN:
    case KVR_NOTICE_RAIL_UP:
    case KVR_NOTICE_RAIL_DOWN:
    case KVR_NOTICE_TARGET_REFUSED:
        return notice->handle == 0;
    default:
        return false;
    }
}

static bool is_of_peer(kvr_notice_kind kind)
{
    return kind == KVR_NOTICE_PEER_UP || kind == KVR_NOTICE_PEER_WARM ||
           kind == KVR_NOTICE_PEER_DOWN;
}

static bool is_of_rail(kvr_notice_kind kind)
{
    return kind == KVR_NOTICE_RAIL_UP || kind == KVR_NOTICE_RAIL_DOWN;
}

/* After `later` an engine need not hear `earlier`. An agent that became warm also came up: the
 * engine gets both notices. Of refused agents the last one is enough: any host may dial. */
static bool replaces(const struct kvr_notice *later, const struct kvr_notice *earlier)
{
    if (later->kind == KVR_NOTICE_TARGET_REFUSED || later->kind == KVR_NOTICE_PEER_WARM)
        return earlier->kind == later->kind && (later->kind == KVR_NOTICE_TARGET_REFUSED ||
                                                strcmp(later->agent, earlier->agent) == 0);
    return ((is_of_peer(later->kind) && is_of_peer(earlier->kind)) ||
            (is_of_rail(later->kind) && is_of_rail(earlier->kind))) &&
           strcmp(later->agent, earlier->agent) == 0;
}

static void remove_at(struct engine_news *news, uint32_t at)
{
    news->count--;
    memmove(&news->list[at], &news->list[at + 1], (news->count - at) * sizeof(news->list[0]));
}

uint32_t engine_news_put(struct engine_news *news, const struct kvr_notice *notice)
{
    uint32_t dropped = 0;

    for (uint32_t i = news->count; i-- > 0;)
        if (replaces(notice, &news->list[i]))
            remove_at(news, i);
    if (news->count == ENGINE_NEWS_MAX) {
        remove_at(news, 0);
        dropped = 1;
    }
    news->list[news->count++] = *notice;
    return dropped;
}

const struct kvr_notice *engine_news_first(const struct engine_news *news)
{
    return news->count > 0 ? &news->list[0] : NULL;
}

void engine_news_pop(struct engine_news *news)
{
    if (news->count > 0)
        remove_at(news, 0);
}
