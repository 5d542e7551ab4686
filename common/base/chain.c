#include "base/chain.h"

static struct kvr_chain_link *link_new(uint32_t capacity, uint32_t message_bytes)
{
    struct kvr_chain_link *link = malloc(sizeof(*link));

    if (link == NULL)
        return NULL;
    if (kvr_ring_init(&link->ring, NULL, capacity, message_bytes) != KVR_OK) {
        free(link);
        return NULL;
    }
    atomic_init(&link->next, NULL);
    return link;
}

static void link_free(struct kvr_chain_link *link)
{
    kvr_ring_done(&link->ring);
    free(link);
}

kvr_status kvr_chain_init(struct kvr_chain *chain, uint32_t capacity, uint32_t message_bytes)
{
    struct kvr_chain_link *link = link_new(capacity, message_bytes);

    chain->first = chain->last = link;
    if (link == NULL)
        return KVR_NO_MEMORY;
    memset(link->ring.slots, 0, kvr_ring_bytes(capacity, message_bytes));
    return KVR_OK;
}

void kvr_chain_done(struct kvr_chain *chain)
{
    while (chain->first != NULL) {
        struct kvr_chain_link *link = chain->first;

        chain->first = atomic_load_explicit(&link->next, memory_order_relaxed);
        link_free(link);
    }
    chain->last = NULL;
}

kvr_status kvr_chain_grow(struct kvr_chain *chain)
{
    const struct kvr_ring *full = &chain->last->ring;
    uint32_t capacity = full->mask < UINT32_MAX / 4 ? 2 * (full->mask + 1) : full->mask + 1;
    struct kvr_chain_link *link = link_new(capacity, full->message_bytes);

    if (link == NULL)
        return KVR_NO_MEMORY;
    atomic_store_explicit(&chain->last->next, link, memory_order_release);
    chain->last = link;
    return KVR_OK;
}

bool kvr_chain_advance(struct kvr_chain *chain)
{
    struct kvr_chain_link *link = chain->first;
    struct kvr_chain_link *next = atomic_load_explicit(&link->next, memory_order_acquire);

    if (next == NULL)
        return false;
    /* The last push into it came before there was a next: only now is it empty for good. */
    if (kvr_ring_count(&link->ring) > 0)
        return true;
    chain->first = next;
    link_free(link);
    return true;
}

uint32_t kvr_chain_count(struct kvr_chain *chain)
{
    uint32_t count = 0;

    for (struct kvr_chain_link *link = chain->first; link != NULL;
         link = atomic_load_explicit(&link->next, memory_order_acquire))
        count += kvr_ring_count(&link->ring);
    return count;
}
