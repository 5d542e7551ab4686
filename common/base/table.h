/* A hash table from 64-bit keys to 32-bit values, of fixed capacity, on memory that the caller
 * gives. Open addressing with linear probing; a removal shifts back what followed, so there are no
 * tombstones and a table never gets slower with age. The same calls give the same layout on every
 * machine. Any key and any value is allowed. One thread. */
#ifndef KVR_BASE_TABLE_H
#define KVR_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kvr_table_slot {
    uint64_t key;
    uint32_t value;
    uint32_t used; /* 0 or 1 */
};

struct kvr_table {
    struct kvr_table_slot *slots;
    uint32_t mask;
    uint32_t capacity; /* entries it was made for */
    uint32_t count;    /* entries in it */
};

/* Memory for a table of `capacity` entries (1 to 2^30). */
size_t kvr_table_bytes(uint32_t capacity);
/* memory: kvr_table_bytes(capacity), aligned to 8, borrowed until the table is forgotten. */
void kvr_table_init(struct kvr_table *table, void *memory, uint32_t capacity);

/* KVR_EXISTS when the key is in it (its value stays), KVR_NO_MEMORY when `capacity` entries are. */
KVR_MUST_CHECK kvr_status kvr_table_insert(struct kvr_table *table, uint64_t key, uint32_t value);
/* ret_value may be NULL. */
bool kvr_table_find(const struct kvr_table *table, uint64_t key, uint32_t *ret_value);
/* False when the key was not in it. */
bool kvr_table_remove(struct kvr_table *table, uint64_t key);

#endif
