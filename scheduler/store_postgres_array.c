#include "scheduler/store_postgres_array.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/store_postgres.h"

/* Dimensions, whether a value is NULL, the type of values; length and first number of the only
 * dimension. Behind it each value with its length, -1 for NULL. */
#define HEAD_BYTES  20
#define VALUE_BYTES (4 + 8) /* of a number */

static void put(uint8_t *at, uint32_t number)
{
    number = htobe32(number);
    memcpy(at, &number, sizeof(number));
}

static bool make_room(struct store_array *array, size_t bytes)
{
    size_t room = array->room;
    uint8_t *larger;

    if (array->used + bytes <= room)
        return true;
    while (array->used + bytes > room)
        room = 2 * room + 1024;
    larger = realloc(array->bytes, room);
    if (larger == NULL)
        return false;
    array->bytes = larger;
    array->room = room;
    return true;
}

static bool add(struct store_array *array, const void *at, size_t bytes)
{
    if (!make_room(array, 4 + bytes))
        return false;
    put(array->bytes + array->used, (uint32_t)bytes);
    memcpy(array->bytes + array->used + 4, at, bytes);
    array->used += 4 + bytes;
    return true;
}

static bool add_null(struct store_array *array)
{
    array->has_null = true;
    if (!make_room(array, 4))
        return false;
    put(array->bytes + array->used, UINT32_MAX);
    array->used += 4;
    return true;
}

bool store_array_add(struct store_array *array, const struct store_parameter *value)
{
    char shown[STORE_TEXT_BYTES];
    uint64_t number = htobe64((uint64_t)value->number);
    const char *text;
    bool added;

    if (array->count == 0) {
        array->used = HEAD_BYTES;
        array->type = value->type;
        array->has_null = false;
        if (!make_room(array, 0))
            return false;
    }
    if (value->null) {
        added = add_null(array);
    } else if (value->type == STORE_IS_NUMBER) {
        added = add(array, &number, sizeof(number));
    } else if (value->type == STORE_IS_TEXT) {
        text = store_postgres_text(value->at, shown, sizeof(shown));
        added = add(array, text, strlen(text));
    } else {
        added = add(array, value->at, value->bytes);
    }
    array->count += added;
    return added;
}

bool store_array_has_number(const struct store_array *array, uint32_t place, int64_t number)
{
    uint64_t there;

    memcpy(&there, array->bytes + HEAD_BYTES + (size_t)place * VALUE_BYTES + 4, sizeof(there));
    return (int64_t)be64toh(there) == number;
}

struct store_parameter store_array_parameter(struct store_array *array)
{
    static const store_type types[] = {[STORE_IS_NUMBER] = STORE_IS_NUMBERS,
                                       [STORE_IS_TEXT] = STORE_IS_TEXTS,
                                       [STORE_IS_BYTES] = STORE_IS_MANY_BYTES};

    put(array->bytes, 1);
    put(array->bytes + 4, array->has_null);
    put(array->bytes + 8, store_postgres_oid(array->type));
    put(array->bytes + 12, array->count);
    put(array->bytes + 16, 1);
    return (struct store_parameter){
        .type = types[array->type], .at = array->bytes, .bytes = array->used};
}

void store_array_clear(struct store_array *array)
{
    array->count = 0;
    array->used = 0;
}

void store_array_free(struct store_array *array)
{
    free(array->bytes);
    *array = (struct store_array){0};
}
