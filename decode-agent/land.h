/* Landing: the target's half of a rail group. Runs on the group's thread (kvr_group_user); the loop
 * thread's machine (inbound) talks to it with the messages below.
 *
 * A landing is the arrival of one transfer: a bit a chunk, and how many writes came in on every
 * (rail, epoch) of ours. Bits say what is here, so any order is right; counts say whether anything
 * can still come (rule 4). A write for a slot that no landing has is counted as stale.
 *
 * A landing and all it points to is made by the loop thread, handed over by LAND_OPEN, LAND_SEGMENT
 * and LAND_QUIET, and given back by LAND_CLOSED (the landing with its segments) and
 * LAND_QUIET_TAKEN. */
#ifndef DECODE_AGENT_LAND_H
#define DECODE_AGENT_LAND_H

#include <stdatomic.h>

#include "agent/region_set.h"
#include "device/stage.h"
#include "fabric/rail_group.h"
#include "kv/plan.h"
#include "wire/loans.h"

enum land_kind {
    /* loop → group; index: the landing's */
    LAND_OPEN = KVR_GROUP_KIND_USER, /* pointer: struct landing; its slots are live from here */
    LAND_SEGMENT,                    /* pointer: struct landing_segment */
    LAND_FINAL,                      /* a: chunks in all */
    LAND_QUIET,  /* pointer: struct landing_quiet: what the source posted; replaces an older one */
    LAND_LOUD,   /* quiet is void until the next LAND_QUIET (a MISSING or ROOM was sent) */
    LAND_FILTER, /* pointer: struct landing_filter: which of these chunks are not here */
    LAND_SUSPECTS, /* answered for every (rail, epoch) that is neither even nor closed: by
                      LAND_SUSPECT, or by one LAND_COMING when the peer's last write there came less
                      than a nanoseconds ago and b is 0. While quiet is void: by nothing */
    LAND_DIGEST,   /* pointer: struct landing_digest: what the bytes of some chunks must hash to */
    LAND_VERIFY,   /* everything is here, and every digest: hash what landed */
    LAND_CLOSE,    /* the slots are dead from here */
    /* loop → another group than the landing's, over whose rails it comes too */
    LAND_GUEST, /* pointer: struct landing, borrowed until GUEST_GONE; a: its group. What comes for
                   its slots is handed over */
    LAND_GUEST_LEAVES, /* the same; no more of it will come */
    /* group → group */
    LAND_HANDED,       /* a: rail, b: epoch, c: immediate that arrived there */
    LAND_EPOCH_CLOSED, /* a: rail, b: epoch; stands behind all that was handed over from it */
    LAND_GUEST_LEFT,   /* behind all that was handed over */
    /* group → loop */
    LAND_FIRST,       /* the first chunk arrived */
    LAND_LAYER,       /* a: segment, b: index of the layer in its plan: all chunks are here */
    LAND_ALL,         /* every chunk of the transfer is here; a: how many */
    LAND_IS_QUIET,    /* a: round of the LAND_QUIET that holds: nothing can still arrive */
    LAND_QUIET_TAKEN, /* pointer: struct landing_quiet, no longer used */
    LAND_FILTERED,    /* pointer: struct landing_filter, runs replaced by what is missing */
    LAND_SUSPECT,     /* a: rail, b: epoch */
    LAND_COMING,      /* writes were arriving a moment ago: ask again later */
    LAND_BAD,         /* chunks arrived that the transfer does not have; told once, like REVOKED */
    LAND_REVOKED,     /* a chunk was copied, perhaps after its source took the pages back */
    LAND_VERIFIED,    /* every chunk that has a digest has the right bytes */
    LAND_CORRUPT,     /* a: a chunk whose bytes are not the source's */
    LAND_GUEST_GONE,  /* nothing of it is on its way from that group */
    LAND_ROOM,        /* a: staged, what ends at this position or before is in its pages */
    LAND_COPY_FAILED, /* what arrived could not be copied to its pages: ALL will not come */
    LAND_CLOSED, /* pointer: struct landing; a: arrivals in all; b: bit r = rail r carried a part */
};

struct landing_segment {
    struct landing_segment *next;      /* land's */
    struct landing_segment *loop_next; /* the loop's own list of the same segments */
    struct kvr_plan *plan;
    uint32_t segment, chunk_first;
    uint32_t *left; /* a layer of the plan each: chunks that are not here yet; land's */
    /* A chunk each: its position in the landing's share of the stage's memory
     * (kvr_plan_positions); NULL where nothing is staged. And behind the last. */
    uint64_t *positions, position_end;
    uint32_t group;     /* the plan's KV group; the loop's, as all that follows */
    bool *held;         /* a layer each: arrived, and not told while tainted */
    bool *in;           /* a layer each: arrived, and nothing can overwrite it */
    uint32_t layers_in; /* how many of them */
};

struct landing_quiet {
    uint32_t round, count;
    bool closed_only; /* the source will not tell: only closed epochs count as quiet */
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER];
};

struct landing_filter {
    uint32_t asked_count; /* runs[capacity …]: what to look at; every chunk below KVR_SLOT_CHUNKS ×
                             slot_count of the landing */
    uint32_t run_count;   /* runs[0 …]: the answer */
    uint32_t capacity;    /* at least the number of chunks asked for */
    struct kvr_chunk_run runs[];
};

/* The digests of chunks [chunk_first, chunk_first + chunk_count) that kvr_digest_covers() names. */
struct landing_digest {
    struct landing_digest *next; /* land's */
    uint32_t chunk_first, chunk_count, value_count;
    uint64_t values[];
};

struct landing {
    uint32_t index, peer;
    uint64_t transfer;
    const struct kvr_region_set *set; /* where it lands: to read what came */
    kvr_digest_mode digest;
    const _Atomic uint64_t *loan; /* holds `transfer` while its source lends; NULL: cards copy */
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint32_t slot_count;
    uint64_t *bits;          /* slot_count × KVR_SLOT_CHUNKS bits, zeroed */
    struct kvr_stage *stage; /* what arrives is copied from there to the pages; NULL: it arrives in
                                them */
    uint64_t share_offset,
        share_bytes;    /* of the stage's memory: the ring of this landing's bytes */
    uint64_t room_step; /* LAND_ROOM after so many bytes more; 0: the share has room for all */
    uint64_t *taken;    /* as bits: given to a copy; NULL without a stage */
    /* land's own */
    struct landing *next_staged;
    uint32_t waiting;   /* chunks that arrived and were not given to a copy */
    uint32_t copying;   /* copies under way */
    uint32_t in_count;  /* chunks in their pages */
    uint32_t scan;      /* where to look for what waits: a word of bits */
    uint32_t taken_end; /* chunks before it were given to copies */
    uint64_t room_told;
    bool copy_failed, closing;
    struct landing_segment *first, *last;
    uint32_t chunk_count; /* bits set */
    uint32_t chunk_total; /* UINT32_MAX before LAND_FINAL */
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER];
    uint32_t count_count;
    uint64_t doubted; /* bit i: counts[i] has an arrival too many, and proves nothing */
    struct landing_quiet *quiet;
    uint64_t arrivals, rails;
    bool all_told, quiet_told, doom_told; /* doom: BAD or REVOKED, which nothing mends */
    struct landing_digest *digest_first, *digest_last;
    struct { /* of LAND_VERIFY, as far as it has come */
        struct landing *next;
        const struct landing_segment *segment;
        const struct landing_digest *digest;
        uint32_t chunk, value;
        uint32_t read_end; /* staged: chunks before it were copied back from their pages */
        bool under_way, reading;
    } verify;
};

#define LAND_ELSEWHERE UINT16_MAX

#define LAND_SCATTER_CHUNKS 64u /* of one copy */

/* What of a stage a group's thread keeps (kvr_stage.user). */
struct land_stage {
    struct kvr_stage *stage;
    uint32_t copying;
    struct land_copy {
        struct landing *landing; /* NULL: free */
        uint32_t chunk_count, chunks[LAND_SCATTER_CHUNKS];
        uint32_t chunk_least; /* of chunks */
        uint32_t read_end;    /* of one that reads back; 0: it scatters */
    } copies[KVR_DEVICE_COPIES_MAX];
};

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
    _Atomic uint64_t bytes[KVR_RAILS_MAX]; /* landed, first postings only; read by any thread */
    _Atomic uint64_t stale;                /* writes for idle slots: an alarm; read by any thread */
};

/* land_guest.c */
void land_hand_over(struct land *land, uint32_t rail, uint32_t epoch, uint32_t immediate);
void land_epoch_mark(struct land *land, uint32_t rail, uint32_t epoch); /* to every other group */
bool land_guest_command(struct land *land, const struct kvr_group_message *message);
/* land_verify.c */
void land_verify_add(struct land *land, struct landing *landing);
void land_verify_remove(struct land *land, const struct landing *landing);
/* A slice of the work, so that the rails are read in between; true when there was any. */
bool land_verify_work(struct land *land);
/* land_stage.c */
void land_stage_open(struct land *land, struct landing *landing);
void land_stage_close(struct land *land, struct landing *landing);
/* Where a chunk of the segment arrived. */
const uint8_t *land_staged_at(const struct landing *landing, const struct landing_segment *segment,
                              uint32_t chunk);
/* Copies what the digests of the landing's next chunks cover back from the pages into its share: a
 * digest is of what lies in the pages. False: the device takes no more now. */
bool land_stage_read(struct land *land, struct landing *landing);
/* Takes what the devices have copied; true when there was any. */
bool land_stage_take(struct land *land);
/* Gives what arrived to the devices; true when there was any that they took. */
bool land_stage_begin(struct land *land);
bool land_stage_busy(const struct land *land); /* copies are under way, or to be begun */
/* Tells how much room there is, after a copy has ended or a segment has come. */
void land_stage_room(struct land *land, struct landing *landing);
void land_copy_failed(struct land *land, struct landing *landing); /* tells it once */
/* land.c */
/* The chunk is in its pages. */
void land_chunk_in(struct land *land, struct landing *landing, uint32_t chunk);
struct landing_segment *land_segment_of(const struct landing *landing, uint32_t chunk);
/* What the end of a copy may be the last of. */
void land_check(struct land *land, struct landing *landing);
void land_tell(struct land *land, const struct landing *landing, uint32_t kind, uint64_t a,
               uint64_t b, void *pointer);

/* What kvr_group_open needs; land outlives the group. */
struct kvr_group_user land_user(struct land *land);

#endif
