/* Inside the store: an array of PostgreSQL as its binary protocol has it, made value by value: of
 * numbers, of texts or of bytes. Zeroed, it is empty. */
#ifndef KVR_SCHEDULER_STORE_POSTGRES_ARRAY_H
#define KVR_SCHEDULER_STORE_POSTGRES_ARRAY_H

#include "scheduler/store_rows.h"

struct store_array {
    uint8_t *bytes;
    size_t used, room;
    uint32_t count;
    bool has_null;
    store_type type; /* of its values, by the first one */
};

/* False: no memory. A text that is no UTF-8 is made one. */
bool store_array_add(struct store_array *array, const struct store_parameter *value);
/* The whole array, borrowed until it changes. */
struct store_parameter store_array_parameter(struct store_array *array);
/* The same number in that place, which holds one. */
bool store_array_has_number(const struct store_array *array, uint32_t place, int64_t number);
void store_array_clear(struct store_array *array); /* it keeps its memory */
void store_array_free(struct store_array *array);

#endif
