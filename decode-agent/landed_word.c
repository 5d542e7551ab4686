/* The word of a fetch counts its layers, in memory that the agent shares with its engine: a GPU can
 * wait for it without a call. */
#include "decode-agent/fetch.h"

#include <stdatomic.h>
#include <stdio.h>

#include "decode-agent/deliver.h"
#include "decode-agent/layers.h"

static uint64_t value_of(const struct fetch *fetch)
{
    if (fetch->state != F_ENDED)
        return fetch->word.base + layers_whole(fetch);
    if (fetch->result.status == KVR_OK)
        return fetch->word.base + layers_all(fetch);
    return fetch->word.base +
           KVR_LANDED_FAILED; /* the GPU stops waiting, and can see the failure */
}

/* While a fetch fails, its pages are still lent: no layer is announced. */
void landed_word_update(struct inbound *inbound, const struct fetch *fetch)
{
    struct kvr_shared_page *page = inbound->engines.local[fetch->engine].page;
    uint64_t value;

    if (!fetch->word.watched || fetch->engine_gone || fetch->state == F_FAILING)
        return;
    value = value_of(fetch);
    if (atomic_load_explicit(&page->landed[fetch->word.number], memory_order_relaxed) < value)
        atomic_store(&page->landed[fetch->word.number], value);
}

void fetch_watch(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_watch *watch)
{
    char detail[KVR_DETAIL_BYTES];

    if (watch->word >= KVR_WORDS_MAX || fetch->word.watched) {
        snprintf(detail, sizeof(detail),
                 "word %u for a fetch's layers: a fetch has one, and it is below %d", watch->word,
                 KVR_WORDS_MAX);
        fetch_fail(inbound, fetch, KVR_INVALID, detail);
        return;
    }
    fetch->word.watched = true;
    fetch->word.number = watch->word;
    fetch->word.base = watch->base;
    landed_word_update(inbound, fetch);
}
