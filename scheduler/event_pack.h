/* Events of one transfer as one row of the table `events` holds them: records of variable length,
 * one after the other, of one start of one agent.
 *
 * A record is a byte (kind in bits 0 to 3, role in bit 4, and what follows in bits 5 to 7), then
 * the differences of number and time to the record before (the first one's: to 0). Where they are
 * not those of the record before, or not 0 or empty, the peer, bytes and retries, outcome and
 * detail follow. Numbers have 7 bits a byte, the lowest first; text follows its length.
 *
 * A file may be damaged: the decoder believes nothing. Pure but for the memory of the writer. */
#ifndef KVR_SCHEDULER_EVENT_PACK_H
#define KVR_SCHEDULER_EVENT_PACK_H

#include <stddef.h>

#include "trace/event.h"

/* What is kept of an event. */
struct event_record {
    kvr_event_kind kind;
    kvr_role role;
    uint64_t sequence;
    int64_t at_ns;
    uint64_t bytes, retries;
    kvr_status outcome;
    char peer[KVR_NAME_BYTES];
    char detail[KVR_DETAIL_BYTES];
};

/* Where the last record ended: both sides begin with zeroes. */
struct event_pack_place {
    uint64_t sequence, at_ns;
    char peer[KVR_NAME_BYTES];
};

struct event_pack {
    struct event_pack_place place;
    uint8_t *bytes; /* owned */
    size_t count, room;
};

/* Adds a record. False: no memory; the pack is unchanged. */
bool event_pack_add(struct event_pack *pack, const struct kvr_event *event, uint64_t sequence,
                    int64_t at_ns);
void event_pack_free(struct event_pack *pack);

struct event_unpack {
    struct event_pack_place place;
    const uint8_t *bytes; /* borrowed: what is left */
    size_t count;
};

/* The next record. KVR_NOT_FOUND: there is none any more; KVR_MALFORMED: these are no records. */
KVR_MUST_CHECK kvr_status event_unpack_next(struct event_unpack *unpack,
                                            struct event_record *ret_record);

#endif
