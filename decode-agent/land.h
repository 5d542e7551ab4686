/* Landing: the target's half of a rail group. It runs on the group's thread (kvr_group_user) and
 * talks to the loop thread's machine with the messages of land_message.h.
 *
 * A landing is the arrival of one transfer: a bit for each chunk, and counts of writes for each
 * (rail, epoch). Bits say what is here, so any order is right. Counts say whether a write can still
 * arrive (rule 4). A write for a slot without a landing counts as stale. */
#ifndef DECODE_AGENT_LAND_H
#define DECODE_AGENT_LAND_H

#include <stdatomic.h>

#include "agent/core/region_set.h"
#include "decode-agent/land_message.h"
#include "decode-agent/land_quiet.h"
#include "decode-agent/land_stage.h"
#include "decode-agent/land_verify.h"
#include "wire/revocation_words.h"

struct landing {
    /* set by the loop */
    uint32_t index, peer;
    uint64_t transfer;
    const struct kvr_region_set *set; /* the pages of the landing */
    kvr_digest_mode digest;
    const _Atomic uint64_t *revocation_word; /* rule 11: holds `transfer` while its source lends the
                                                pages; NULL: cards copy */
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint32_t slot_count;
    uint64_t *bits; /* slot_count × KVR_SLOT_CHUNKS bits, zeroed */
    struct landing_staging staging;
    /* the group thread's */
    struct landing_segment *first, *last;
    uint32_t chunk_count; /* bits set */
    uint32_t in_count;    /* chunks in their pages */
    uint32_t chunk_total; /* UINT32_MAX before LAND_FINAL */
    struct landing_arrivals arrived;
    struct landing_verify verify;
    bool all_reported;  /* LAND_ALL was sent */
    bool doom_reported; /* LAND_BAD or LAND_REVOKED was sent, which nothing mends */
    bool closing;       /* LAND_CLOSE has come; copies may still be under way */
};

#define LAND_ELSEWHERE UINT16_MAX /* in land.slots: another rail group has the landing */

struct land {
    struct kvr_group *group;
    struct land_stage *stages[KVR_STAGES_MAX]; /* those that a landing had; NULL */
    struct landing *staged_first;              /* landings that have a stage */
    kvr_ns now;                                /* of this step */
    struct landing *landings[KVR_TRANSFERS_MAX];
    uint32_t open_count;
    struct landing *verify_first, *verify_last; /* to be verified, in this order */
    /* slot → landing index + 1 and the slot's place in it; 0: idle; LAND_ELSEWHERE and a group */
    struct {
        uint16_t landing, place;
    } slots[KVR_SLOTS];
    kvr_ns arrived_at[KVR_PEERS_MAX][KVR_RAILS_MAX]; /* the last write of this peer on this rail */
    uint32_t epoch_closed[KVR_RAILS_MAX];  /* this and every older epoch of the rail is closed */
    _Atomic uint64_t bytes[KVR_RAILS_MAX]; /* landed, repeats not counted; read by any thread */
    _Atomic uint64_t stale;                /* writes for idle slots: an alarm; read by any thread */
};

/* The chunk is in its pages. */
void land_chunk_in(struct land *land, struct landing *landing, uint32_t chunk);
struct landing_segment *land_segment_of(const struct landing *landing, uint32_t chunk);
/* A copy has ended: reports what became complete, and gives back a landing that closes. */
void land_check(struct land *land, struct landing *landing);
/* To the loop, about the landing. */
void land_report(struct land *land, const struct landing *landing, union land_message message);

/* What kvr_group_open needs; land outlives the group. */
struct kvr_group_user land_user(struct land *land);

#endif
