#include "prefill-agent/past.h"

#include <assert.h>
#include <string.h>

kvr_status past_init(struct past *past, struct kvr_buddy *memory)
{
    void *table = kvr_buddy_alloc(memory, kvr_table_bytes(PAST_MAX));

    past->publishes = kvr_buddy_alloc(memory, PAST_MAX * sizeof(*past->publishes));
    if (table == NULL || past->publishes == NULL)
        return KVR_NO_MEMORY;
    memset(past->publishes, 0, PAST_MAX * sizeof(*past->publishes));
    past->next = 0;
    kvr_table_init(&past->by_key, table, PAST_MAX);
    return KVR_OK;
}

void past_forget(struct past *past, uint64_t key)
{
    uint32_t index;

    if (!kvr_table_find(&past->by_key, key, &index))
        return;
    kvr_table_remove(&past->by_key, key);
    kvr_secret_wipe(&past->publishes[index], sizeof(past->publishes[index]));
}

void past_add(struct past *past, const struct past_publish *ended)
{
    struct past_publish *place = &past->publishes[past->next];
    kvr_status status;

    past_forget(past, ended->key);
    if (place->key != 0)
        past_forget(past, place->key);
    *place = *ended;
    status = kvr_table_insert(&past->by_key, ended->key, past->next);
    assert(status == KVR_OK); /* it has room for all places, and each has one key */
    past->next = (past->next + 1) % PAST_MAX;
}

const struct past_publish *past_find(const struct past *past, uint64_t key, kvr_ns now)
{
    uint32_t index;

    if (!kvr_table_find(&past->by_key, key, &index) || now >= past->publishes[index].at + PAST_TIME)
        return NULL;
    return &past->publishes[index];
}
