/* The word of a fetch: in memory that the agent shares with its engine, so that a GPU can wait for
 * layers without anybody being asked. */
#include <stdio.h>

#include "decode-agent/inbound.h"

static uint64_t value_of(const struct fetch *fetch)
{
    if (!fetch->ended)
        return fetch->landed_base + layers_whole(fetch);
    if (fetch->status == KVR_OK)
        return fetch->landed_base + layers_all(fetch);
    return fetch->landed_base + KVR_LANDED_FAILED; /* whoever waits goes on, and can see it */
}

/* While it fails its pages are lent, and what has come is not told. */
void landed_tell(struct inbound *inbound, const struct fetch *fetch)
{
    struct kvr_shared_page *page = inbound->engines.local[fetch->engine].page;
    uint64_t value;

    if (!fetch->watched || fetch->engine_gone || (fetch->failing_told && !fetch->ended))
        return;
    value = value_of(fetch);
    if (atomic_load_explicit(&page->landed[fetch->landed_word], memory_order_relaxed) < value)
        atomic_store(&page->landed[fetch->landed_word], value);
}

void fetch_watch(struct inbound *inbound, kvr_ns now, struct fetch *fetch,
                 const struct kvr_req_watch *watch)
{
    char detail[KVR_DETAIL_BYTES];

    if (watch->word >= KVR_WORDS_MAX || fetch->watched) {
        snprintf(detail, sizeof(detail),
                 "word %u for a fetch's layers: a fetch has one, and it is below %d", watch->word,
                 KVR_WORDS_MAX);
        fetch_fail(inbound, now, fetch, KVR_INVALID, detail);
        return;
    }
    fetch->watched = true;
    fetch->landed_word = watch->word;
    fetch->landed_base = watch->base;
    landed_tell(inbound, fetch);
}
