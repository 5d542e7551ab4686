#include "base/table.h"

#include <assert.h>
#include <string.h>

#include "base/rng.h"

/* At most two thirds full: probes stay short. */
static uint32_t slot_count(uint32_t capacity)
{
    uint32_t count = 4;

    while (count / 3 * 2 < capacity)
        count *= 2;
    return count;
}

size_t kvr_table_bytes(uint32_t capacity)
{
    return (size_t)slot_count(capacity) * sizeof(struct kvr_table_slot);
}

void kvr_table_init(struct kvr_table *table, void *memory, uint32_t capacity)
{
    assert(capacity > 0 && capacity <= 1u << 30);
    table->slots = memory;
    table->mask = slot_count(capacity) - 1;
    table->capacity = capacity;
    table->count = 0;
    memset(memory, 0, kvr_table_bytes(capacity));
}

static uint32_t home_of(const struct kvr_table *table, uint64_t key)
{
    return (uint32_t)kvr_mix64(key) & table->mask;
}

/* The slot that holds the key, or the free one where it would go. */
static uint32_t position_of(const struct kvr_table *table, uint64_t key)
{
    uint32_t i = home_of(table, key);

    while (table->slots[i].used && table->slots[i].key != key)
        i = (i + 1) & table->mask;
    return i;
}

kvr_status kvr_table_insert(struct kvr_table *table, uint64_t key, uint32_t value)
{
    struct kvr_table_slot *slot = &table->slots[position_of(table, key)];

    if (slot->used)
        return KVR_EXISTS;
    if (table->count == table->capacity)
        return KVR_NO_MEMORY;
    *slot = (struct kvr_table_slot){.key = key, .value = value, .used = 1};
    table->count++;
    return KVR_OK;
}

bool kvr_table_find(const struct kvr_table *table, uint64_t key, uint32_t *ret_value)
{
    const struct kvr_table_slot *slot = &table->slots[position_of(table, key)];

    if (!slot->used)
        return false;
    if (ret_value != NULL)
        *ret_value = slot->value;
    return true;
}

bool kvr_table_remove(struct kvr_table *table, uint64_t key)
{
    uint32_t hole = position_of(table, key);
    uint32_t i = hole;

    if (!table->slots[hole].used)
        return false;
    /* What follows in the same run moves into the hole, unless its home lies behind the hole. */
    for (;;) {
        uint32_t home;

        i = (i + 1) & table->mask;
        if (!table->slots[i].used)
            break;
        home = home_of(table, table->slots[i].key);
        if (((i - home) & table->mask) >= ((i - hole) & table->mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole].used = 0;
    table->count--;
    return true;
}
