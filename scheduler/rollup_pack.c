#include "scheduler/rollup_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"

#define KEY_BYTES     (2 + sizeof(struct rollup_key))
#define AMOUNTS_BYTES (KEY_BYTES + 1 + ROLLUP_AMOUNT_END * KVR_VARINT_BYTES)
#define TIMES_BYTES   (KEY_BYTES + 1 + ROLLUP_TIME_END * (2 + ROLLUP_BUCKETS * 7))

/* ---- write ---- */

static bool make_room(struct rollup_pack *pack, size_t bytes)
{
    size_t room = 2 * pack->room + bytes;
    uint8_t *larger;

    if (pack->room - pack->count >= bytes)
        return true;
    larger = realloc(pack->bytes, room);
    if (larger == NULL)
        return false;
    pack->bytes = larger;
    pack->room = room;
    return true;
}

void rollup_pack_free(struct rollup_pack *pack)
{
    free(pack->bytes);
    *pack = (struct rollup_pack){0};
}

static int by_key(const struct rollup_cell *a, const struct rollup_cell *b)
{
    uint8_t count = a->key.count < b->key.count ? a->key.count : b->key.count;
    int order = memcmp(a->key.bytes, b->key.bytes, count);

    return order != 0 ? order : (int)a->key.count - (int)b->key.count;
}

static void sort(struct rollup_row *row)
{
    if (row->unsorted)
        HASH_SORT(row->cells, by_key);
    row->unsorted = false;
}

static uint8_t *put_key(uint8_t *at, const struct rollup_key *before, const struct rollup_key *key)
{
    uint8_t shared = 0, count;

    while (shared < key->count && shared < before->count &&
           key->bytes[shared] == before->bytes[shared])
        shared++;
    count = (uint8_t)(key->count - shared);
    *at++ = shared;
    *at++ = count;
    memcpy(at, key->bytes + shared, count);
    return at + count;
}

static uint8_t *put_amounts(uint8_t *at, const struct rollup_cell *cell)
{
    uint8_t *head = at++;

    *head = 0;
    for (int i = 0; i < ROLLUP_AMOUNT_END; i++) {
        if (cell->amounts[i] == 0)
            continue;
        *head |= (uint8_t)(1u << i);
        at = kvr_put_varint(at, cell->amounts[i]);
    }
    return at;
}

static uint8_t *put_histogram(uint8_t *at, const uint32_t buckets[ROLLUP_BUCKETS])
{
    uint8_t *count = at++;
    uint32_t next = 0;

    *count = 0;
    for (uint32_t i = 0; i < ROLLUP_BUCKETS; i++) {
        if (buckets[i] == 0)
            continue;
        at = kvr_put_varint(kvr_put_varint(at, i - next), buckets[i]);
        next = i + 1;
        ++*count;
    }
    return at;
}

static uint8_t *put_times(uint8_t *at, const struct rollup_cell *cell)
{
    uint8_t *head = at++;

    *head = 0;
    for (int i = 0; i < ROLLUP_TIME_END; i++) {
        uint8_t *end = put_histogram(at, (*cell->times)[i]);

        if (end == at + 1)
            continue; /* it is empty */
        *head |= (uint8_t)(1u << i);
        at = end;
    }
    return at;
}

static bool has_amounts(const struct rollup_cell *cell)
{
    for (int i = 0; i < ROLLUP_AMOUNT_END; i++)
        if (cell->amounts[i] != 0)
            return true;
    return false;
}

bool rollup_pack_amounts(struct rollup_row *row, struct rollup_pack *pack)
{
    const struct rollup_key none = {0}, *before = &none;

    pack->count = 0;
    sort(row);
    for (struct rollup_cell *cell = row->cells; cell != NULL; cell = cell->hh.next) {
        uint8_t *at;

        if (!has_amounts(cell))
            continue;
        if (!make_room(pack, AMOUNTS_BYTES))
            return false;
        at = put_amounts(put_key(pack->bytes + pack->count, before, &cell->key), cell);
        pack->count = (size_t)(at - pack->bytes);
        before = &cell->key;
    }
    return true;
}

bool rollup_pack_times(struct rollup_row *row, struct rollup_pack *pack)
{
    const struct rollup_key none = {0}, *before = &none;

    pack->count = 0;
    sort(row);
    for (struct rollup_cell *cell = row->cells; cell != NULL; cell = cell->hh.next) {
        uint8_t *at;

        if (cell->times == NULL)
            continue;
        if (!make_room(pack, TIMES_BYTES))
            return false;
        at = put_times(put_key(pack->bytes + pack->count, before, &cell->key), cell);
        pack->count = (size_t)(at - pack->bytes);
        before = &cell->key;
    }
    return true;
}

/* ---- read ---- */

static bool take_byte(struct rollup_unpack *unpack, uint8_t *ret_byte)
{
    if (unpack->count == 0)
        return false;
    *ret_byte = *unpack->bytes++;
    unpack->count--;
    return true;
}

static bool take_number(struct rollup_unpack *unpack, uint64_t *ret_number)
{
    return kvr_take_varint(&unpack->bytes, &unpack->count, ret_number);
}

/* What is behind the key is zero, so that keys compare as bytes. */
static bool take_key(struct rollup_unpack *unpack)
{
    struct rollup_key *key = &unpack->key;
    uint8_t shared, count;

    if (!take_byte(unpack, &shared) || shared > key->count || !take_byte(unpack, &count) ||
        count > unpack->count || (size_t)shared + count > sizeof(key->bytes))
        return false;
    memset(key->bytes + shared, 0, sizeof(key->bytes) - shared);
    memcpy(key->bytes + shared, unpack->bytes, count);
    key->count = (uint8_t)(shared + count);
    unpack->bytes += count;
    unpack->count -= count;
    return true;
}

kvr_status rollup_next_amounts(struct rollup_unpack *unpack,
                               uint64_t ret_amounts[ROLLUP_AMOUNT_END])
{
    uint8_t head;

    if (unpack->count == 0)
        return KVR_NOT_FOUND;
    if (!take_key(unpack) || !take_byte(unpack, &head))
        return KVR_MALFORMED;
    for (int i = 0; i < ROLLUP_AMOUNT_END; i++) {
        ret_amounts[i] = 0;
        if ((head >> i & 1) != 0 && !take_number(unpack, &ret_amounts[i]))
            return KVR_MALFORMED;
    }
    return (head >> ROLLUP_AMOUNT_END & 1) == 0 ? KVR_OK : KVR_MALFORMED;
}

static bool take_histogram(struct rollup_unpack *unpack, uint32_t buckets[ROLLUP_BUCKETS])
{
    uint64_t gap, count, next = 0;
    uint8_t left;

    if (!take_byte(unpack, &left))
        return false;
    for (; left > 0; left--) {
        if (!take_number(unpack, &gap) || !take_number(unpack, &count) || gap >= ROLLUP_BUCKETS ||
            next + gap >= ROLLUP_BUCKETS || count > UINT32_MAX)
            return false;
        next += gap;
        buckets[next] =
            count > UINT32_MAX - buckets[next] ? UINT32_MAX : buckets[next] + (uint32_t)count;
        next++;
    }
    return true;
}

kvr_status rollup_next_times(struct rollup_unpack *unpack, rollup_histograms *times)
{
    uint8_t head;

    if (unpack->count == 0)
        return KVR_NOT_FOUND;
    if (!take_key(unpack) || !take_byte(unpack, &head) || head >> ROLLUP_TIME_END != 0)
        return KVR_MALFORMED;
    for (int i = 0; i < ROLLUP_TIME_END; i++)
        if ((head >> i & 1) != 0 && !take_histogram(unpack, (*times)[i]))
            return KVR_MALFORMED;
    return KVR_OK;
}

static kvr_status add_times(struct rollup_row *row, struct rollup_unpack *times)
{
    while (times->count > 0) {
        struct rollup_unpack ahead = *times;
        struct rollup_cell *cell;

        if (!take_key(&ahead))
            return KVR_MALFORMED;
        cell = rollup_row_cell(row, &ahead.key);
        if (cell != NULL && cell->times == NULL)
            cell->times = calloc(1, sizeof(*cell->times));
        if (cell == NULL || cell->times == NULL)
            return KVR_NO_MEMORY;
        KVR_TRY(rollup_next_times(times, cell->times));
    }
    return KVR_OK;
}

kvr_status rollup_row_add(struct rollup_row *row, struct rollup_unpack amounts,
                          struct rollup_unpack times)
{
    uint64_t more[ROLLUP_AMOUNT_END];
    kvr_status status;

    while ((status = rollup_next_amounts(&amounts, more)) == KVR_OK) {
        struct rollup_cell *cell = rollup_row_cell(row, &amounts.key);

        if (cell == NULL)
            return KVR_NO_MEMORY;
        for (int i = 0; i < ROLLUP_AMOUNT_END; i++)
            cell->amounts[i] += more[i];
    }
    return status == KVR_NOT_FOUND ? add_times(row, &times) : status;
}
