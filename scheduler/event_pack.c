#include "scheduler/event_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"

#define KIND_MASK   0x0f
#define ROLE_BIT    0x10
#define PEER_BIT    0x20
#define AMOUNTS_BIT 0x40
#define END_BIT     0x80

/* A byte, numbers: sequence, time, bytes, retries, outcome; texts with their lengths. */
#define RECORD_BYTES_MAX (1 + 5 * KVR_VARINT_BYTES + 1 + KVR_NAME_BYTES + 1 + KVR_DETAIL_BYTES)

_Static_assert(KVR_EVENT_KIND_END <= KIND_MASK + 1, "a kind has four bits");
_Static_assert(KVR_NAME_BYTES <= 256 && KVR_DETAIL_BYTES <= 256, "a length has one byte");

/* ---- write ---- */

/* room: of the text's array. */
static uint8_t *put_text(uint8_t *at, const char *text, size_t room)
{
    size_t length = strnlen(text, room - 1);

    *at++ = (uint8_t)length;
    memcpy(at, text, length);
    return at + length;
}

static uint8_t *put_record(uint8_t *at, struct event_pack_place *place,
                           const struct kvr_event *event, uint64_t sequence, int64_t at_ns)
{
    uint8_t *head = at++;

    *head = (uint8_t)(event->kind | (event->role == KVR_ROLE_TARGET ? ROLE_BIT : 0));
    at = kvr_put_varint(at, kvr_fold(sequence - place->sequence));
    at = kvr_put_varint(at, kvr_fold((uint64_t)at_ns - place->at_ns));
    place->sequence = sequence;
    place->at_ns = (uint64_t)at_ns;
    if (strcmp(event->peer, place->peer) != 0) {
        *head |= PEER_BIT;
        at = put_text(at, event->peer, sizeof(event->peer));
        memcpy(place->peer, event->peer, sizeof(place->peer));
    }
    if (event->bytes != 0 || event->retries != 0) {
        *head |= AMOUNTS_BIT;
        at = kvr_put_varint(kvr_put_varint(at, event->bytes), event->retries);
    }
    if (event->outcome != KVR_OK || event->detail[0] != '\0') {
        *head |= END_BIT;
        at = kvr_put_varint(at, kvr_fold((uint64_t)(int64_t)event->outcome));
        at = put_text(at, event->detail, sizeof(event->detail));
    }
    return at;
}

bool event_pack_add(struct event_pack *pack, const struct kvr_event *event, uint64_t sequence,
                    int64_t at_ns)
{
    size_t room = 2 * pack->room + RECORD_BYTES_MAX;
    uint8_t *bytes;

    if (pack->room - pack->count < RECORD_BYTES_MAX) {
        bytes = realloc(pack->bytes, room);
        if (bytes == NULL)
            return false;
        pack->bytes = bytes;
        pack->room = room;
    }
    pack->count =
        (size_t)(put_record(pack->bytes + pack->count, &pack->place, event, sequence, at_ns) -
                 pack->bytes);
    return true;
}

void event_pack_free(struct event_pack *pack)
{
    free(pack->bytes);
    *pack = (struct event_pack){0};
}

/* ---- read ---- */

static bool take_byte(struct event_unpack *unpack, uint8_t *ret_byte)
{
    if (unpack->count == 0)
        return false;
    *ret_byte = *unpack->bytes++;
    unpack->count--;
    return true;
}

static bool take_number(struct event_unpack *unpack, uint64_t *ret_number)
{
    return kvr_take_varint(&unpack->bytes, &unpack->count, ret_number);
}

static bool take_text(struct event_unpack *unpack, char *ret_text, size_t room)
{
    uint8_t length;

    if (!take_byte(unpack, &length) || length >= room || length > unpack->count ||
        memchr(unpack->bytes, '\0', length) != NULL)
        return false;
    memcpy(ret_text, unpack->bytes, length);
    ret_text[length] = '\0';
    unpack->bytes += length;
    unpack->count -= length;
    return true;
}

static bool take_end(struct event_unpack *unpack, struct event_record *record)
{
    uint64_t number;

    if (!take_number(unpack, &number))
        return false;
    number = kvr_unfold(number);
    if ((int64_t)number < INT32_MIN || (int64_t)number > INT32_MAX)
        return false;
    record->outcome = (kvr_status)(int64_t)number;
    return take_text(unpack, record->detail, sizeof(record->detail));
}

static bool take_record(struct event_unpack *unpack, struct event_record *record)
{
    struct event_pack_place *place = &unpack->place;
    uint64_t sequence, at_ns;
    uint8_t head;

    memset(record, 0, sizeof(*record));
    if (!take_byte(unpack, &head) || (head & KIND_MASK) >= KVR_EVENT_KIND_END ||
        !take_number(unpack, &sequence) || !take_number(unpack, &at_ns))
        return false;
    if ((head & PEER_BIT) != 0 && !take_text(unpack, place->peer, sizeof(place->peer)))
        return false;
    if ((head & AMOUNTS_BIT) != 0 &&
        (!take_number(unpack, &record->bytes) || !take_number(unpack, &record->retries)))
        return false;
    if ((head & END_BIT) != 0 && !take_end(unpack, record))
        return false;
    place->sequence += kvr_unfold(sequence);
    place->at_ns += kvr_unfold(at_ns);
    record->kind = (kvr_event_kind)(head & KIND_MASK);
    record->role = (head & ROLE_BIT) != 0 ? KVR_ROLE_TARGET : KVR_ROLE_SOURCE;
    record->sequence = place->sequence;
    record->at_ns = (int64_t)place->at_ns;
    memcpy(record->peer, place->peer, sizeof(record->peer));
    return true;
}

kvr_status event_unpack_next(struct event_unpack *unpack, struct event_record *ret_record)
{
    if (unpack->count == 0)
        return KVR_NOT_FOUND;
    return take_record(unpack, ret_record) ? KVR_OK : KVR_MALFORMED;
}
