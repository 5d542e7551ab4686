/* Landing: the target's half of a rail group. It runs on the group's thread (kvr_group_user) and
 * talks to the loop thread's machine with the messages of land_message.h.
 *
 * A landing is the arrival of one transfer: a bit for each chunk, and counts of writes for each
 * (rail, epoch). Bits say what is here, so any order is right. Counts say whether a write can still
 * arrive (rule 4). An arrival that no landing expects changes nothing but a counter
 * (land_strangers.c). */
#ifndef DECODE_AGENT_LAND_H
#define DECODE_AGENT_LAND_H

#include <stdatomic.h>

#include "agent/core/region_set.h"
#include "base/mutant.h"
#include "base/state.h"
#include "decode-agent/land_message.h"
#include "device/stage.h"
#include "trace/spans.h"
#include "wire/revocation_words.h"

struct land;

/* ---- whether a write can still arrive (land_quiet.c, rule 4) ----------------------------------
 */

enum landing_quiet_state {
    QUIET_VOID,    /* the source is posting: its counts are not known */
    QUIET_CLAIMED, /* its counts are known, and may differ from ours */
    QUIET_PROVEN,  /* reported: no write can still arrive */
    QUIET_STATES
};

enum landing_quiet_event {
    QUIET_ON_CLAIMED,
    QUIET_ON_VOIDED,
    QUIET_ON_EVEN,      /* counts are equal or epochs closed, and no copy writes the pages */
    QUIET_ON_READ_BACK, /* copies will read the pages: report again behind them */
    QUIET_EVENTS
};

struct landing_arrivals {
    enum landing_quiet_state state;
    struct landing_quiet *claim; /* what the source posted; NULL: VOID */
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER];
    uint32_t count_count;
    uint64_t doubted; /* bit i: counts[i] has an arrival too many, and proves nothing */
    uint64_t lost;    /* bit i: the source has given up what it posted there */
    uint64_t *again;  /* bits of chunks: MISSING named them, and they may come over a lost pair, and
                         then once over another; NULL: none */
    uint64_t total;
    uint64_t rails; /* bit r: rail r carried a part */
    struct kvr_rail_span
        *spans; /* of each rail, without writes; the loop's, lent; NULL: not asked for */
};

KVR_STATE_MACHINE(landing_quiet);

/* A write of the landing arrived. doubt: its count proves nothing from here on. */
void land_count_arrival(struct landing *landing, uint32_t rail, uint32_t epoch, bool doubt);
/* The source has given up what it posted there. */
void land_pair_lost(struct landing *landing, uint32_t rail, uint32_t epoch);
/* A chunk arrives, for the first time or not. True: not the first time, but by the second posting
 * that MISSING asked for. */
bool land_is_second_posting(struct landing *landing, uint32_t rail, uint32_t epoch, uint32_t chunk,
                            bool first);
/* Reports quiet where it holds now. */
void land_quiet_check(struct land *land, struct landing *landing);
/* The source's counts; NULL: they are void. */
void land_quiet_replace(struct land *land, struct landing *landing, struct landing_quiet *quiet);
/* Gives the source's counts back. */
void land_quiet_give(struct land *land, const struct landing *landing);
/* Reports each epoch on which a write was lost or hangs. */
void land_quiet_suspects(struct land *land, const struct landing *landing, kvr_ns now,
                         const struct land_suspects *suspects);
/* This and every older epoch of the rail, perhaps another group's, is closed. */
void land_quiet_epoch_closed(struct land *land, uint32_t rail, uint32_t epoch);

/* ---- copies from staging memory into the pages (land_stage.c) ---------------------------------
 */

#define LAND_SCATTER_CHUNKS 64u /* of one copy */

/* The loop sets the first five. */
struct landing_staging {
    struct kvr_stage *stage; /* NULL: writes arrive in the pages */
    uint64_t offset, bytes;  /* of the quota in the stage's memory */
    uint64_t room_step;      /* LAND_ROOM after so many bytes more; 0: the quota holds all */
    uint64_t *taken;         /* a bit for each chunk: given to a copy */
    struct landing *next;    /* of the staged landings */
    uint32_t waiting;        /* chunks that arrived and were not given to a copy */
    uint32_t copying;        /* copies under way */
    uint32_t scan;           /* where to look for waiting chunks: a word of bits */
    uint32_t taken_end;      /* chunks before it were given to copies */
    uint64_t room_reported;
    bool failed; /* a copy or a flush failed, and that was reported */
};

/* What a group's thread keeps of a stage (kvr_stage.user). */
struct land_stage {
    struct kvr_stage *stage;
    uint32_t copying;
    struct land_copy {
        struct landing *landing; /* NULL: free */
        uint32_t chunk_count, chunks[LAND_SCATTER_CHUNKS];
        uint32_t chunk_least; /* of chunks */
        uint32_t read_end;    /* of a copy that reads back; 0: it scatters */
    } copies[KVR_DEVICE_COPIES_MAX];
};

void land_stage_open(struct land *land, struct landing *landing);
void land_stage_close(struct land *land, struct landing *landing);
/* Where a chunk of the segment arrived. */
const uint8_t *land_staged_at(const struct landing *landing, const struct landing_segment *segment,
                              uint32_t chunk);
/* Copies the next chunks that have digests back from the pages into the quota: a digest is of the
 * bytes in the pages. False: the device takes no more now. */
bool land_stage_read(struct land *land, struct landing *landing);
/* Takes the copies that have ended; true: there was one. */
bool land_stage_take(struct land *land);
/* Gives what arrived to the devices; true: they took some. */
bool land_stage_begin(struct land *land);
/* Copies are under way. */
bool land_stage_busy(void *land);
/* Reports room, after a copy has ended or a segment has come. */
void land_stage_room(struct land *land, struct landing *landing);
/* Reports the failure, once. */
void land_copy_failed(struct land *land, struct landing *landing);

/* ---- hashing (land_verify.c) ------------------------------------------------------------------
 */

enum landing_verify_state {
    HASH_IDLE,
    HASH_QUEUED,  /* among the landings that are hashed, a slice at a time */
    HASH_READING, /* the same, and a copy brings bytes back from the pages */
    HASH_STATES
};

enum landing_verify_event {
    HASH_ON_QUEUED,
    HASH_ON_READ,
    HASH_ON_READ_ENDED,
    HASH_ON_REMOVED,
    HASH_EVENTS
};

struct landing_verify {
    enum landing_verify_state state;
    struct landing *next;                          /* in that queue */
    struct landing_digest *digests, *digests_last; /* from the source */
    const struct landing_segment *segment;         /* of the next chunk, as all that follows */
    const struct landing_digest *digest;
    uint32_t chunk, value;
    uint32_t read_end; /* staged: chunks before it were copied back from the pages */
};

KVR_STATE_MACHINE(landing_verify);

void land_verify_add(struct land *land, struct landing *landing);
void land_verify_remove(struct land *land, struct landing *landing);
/* Does a slice of the work, so that the thread reads its rails in between. True: there was any. */
bool land_verify_work(struct land *land);

/* ---- keys of one transfer alone (land_keys.c, rule 14) ----------------------------------------
 */

/* What they open, the same on each rail. The loop makes it, and frees it with the transfer. */
struct landing_spans {
    uint32_t count;
    struct landing_span {
        uint8_t *base;
        uint64_t bytes; /* 0: nothing */
        struct kvr_remote_key key;
    } list[];
};

/* The registrations on the rails of one group. The loop makes it, and opens what it can at once;
 * LAND_KEYS_OPEN hands it over, LAND_KEYS_CLOSED gives it back. In between, the loop reads `error`
 * after LAND_KEYS_OPENED. */
struct landing_keys {
    const struct landing_spans *spans;
    uint32_t group, memory_count;
    uint64_t rails;              /* bits */
    bool open;                   /* the loop has opened them: LAND_KEYS_OPENED does not follow */
    struct kvr_error error;      /* why they could not be opened; status KVR_OK: they are open */
    struct kvr_memory *memory[]; /* spans->count for each of the rails; the rail thread's */
};

typedef kvr_status landing_memory_open(void *self, uint32_t rail,
                                       const struct kvr_memory_span *span,
                                       struct kvr_memory **ret_memory, struct kvr_error *error);

/* Opens those that are not open yet, up to the first that cannot be. */
kvr_status landing_keys_open(struct landing_keys *keys, landing_memory_open *open, void *self,
                             bool at_once);
/* False: the message is of another kind. */
bool land_keys_command(struct land *land, const union land_message *message);
/* Every chunk is here: closes them, unless a chunk was asked for again and may come once more. */
void land_keys_done(struct land *land, struct landing *landing);

/* ---- landings (land.c) ------------------------------------------------------------------------
 */

struct landing {
    /* set by the loop */
    uint32_t index, peer;
    uint64_t transfer;
    const struct kvr_region_set *set; /* the pages of the landing */
    struct kvr_device *flushed; /* the GPU that sees what cards write after a flush; or NULL */
    kvr_digest_mode digest;
    const _Atomic uint64_t *revocation_word; /* rule 11: holds `transfer` while its source lends the
                                                pages; NULL: cards copy */
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint32_t slot_count, tag; /* tag: of each write, on rails that take tags */
    uint64_t *bits;           /* slot_count × KVR_SLOT_CHUNKS bits, zeroed */
    struct landing_staging staging;
    /* the rail thread's */
    struct landing_segment *first, *last;
    uint32_t chunk_count; /* bits set */
    uint32_t in_count;    /* chunks in their pages */
    uint32_t chunk_total; /* UINT32_MAX before LAND_FINAL */
    struct landing_arrivals arrived;
    struct landing_verify verify;
    struct landing_keys *keys; /* on the rails of this group; NULL: closed */
    bool repeated;             /* LAND_FILTERED named a chunk: it may come twice */
    bool all_reported;         /* LAND_ALL was sent */
    bool doom_reported;        /* LAND_BAD or LAND_REVOKED was sent, which nothing mends */
    bool closing;              /* LAND_CLOSE has come; copies may still be under way */
};

#define LAND_ELSEWHERE UINT16_MAX /* in land.slots: another rail group has the landing */

/* ---- arrivals that no landing expects (land_strangers.c, rule 5) ------------------------------
 */

enum land_unexpected {
    UNEXPECTED_IDLE_SLOT, /* no landing has the slot */
    UNEXPECTED_TAG,       /* a landing has it, and its tag is another one */
    UNEXPECTED_CHUNK,     /* the transfer has no such chunk */
    UNEXPECTED_KINDS
};

/* Of one rail, in its present epoch. */
struct land_strangers {
    uint32_t epoch, count; /* count: up to the bound */
};

struct land_slot {
    /* Index + 1 of the landing, and the slot's place in it; 0: idle; LAND_ELSEWHERE and a group. */
    uint16_t landing, place;
    uint32_t tag;
};

struct land {
    struct kvr_group *group;
    uint64_t tagged; /* bits of the group's rails that take tags */
    uint64_t deaf;   /* bits of its rails: nothing that arrives counts before the epoch has ended */
    struct land_stage *stages[KVR_STAGES_MAX]; /* those that a landing had; NULL */
    struct landing *staged_first;              /* landings that have a stage */
    kvr_ns now;                                /* of this step */
    struct landing *landings[KVR_TRANSFERS_MAX];
    uint32_t open_count;
    struct landing *verify_first, *verify_last; /* to be verified, in this order */
    struct land_slot slots[KVR_SLOTS];
    struct land_strangers strangers[KVR_RAILS_MAX];
    kvr_ns arrived_at[KVR_PEERS_MAX][KVR_RAILS_MAX]; /* the last write of this peer on this rail */
    uint32_t epoch_closed[KVR_RAILS_MAX];  /* this and every older epoch of the rail is closed */
    _Atomic uint64_t bytes[KVR_RAILS_MAX]; /* landed, repeats not counted; read by any thread */
    _Atomic uint64_t unexpected[KVR_RAILS_MAX][UNEXPECTED_KINDS]; /* arrivals; by any thread too */
};

/* Of one epoch of a rail: so many arrivals that no landing expects, and the epoch is to end. */
#define KVR_STRANGERS_MAX        16u   /* the slot alone had to be guessed */
#define KVR_STRANGERS_TAGGED_MAX 4096u /* slot and tag */

static inline uint32_t land_slot_of(uint64_t immediate)
{
    return (uint32_t)(immediate >> 16) & (KVR_SLOTS - 1);
}

/* Whether the arrival is one of a landing's, here or elsewhere. */
static inline bool land_expects(const struct land *land, uint32_t rail, uint64_t immediate)
{
    const struct land_slot *slot = &land->slots[land_slot_of(immediate)];
    bool tagged = (land->tagged >> rail & 1) != 0, deaf = (land->deaf >> rail & 1) != 0;

    return slot->landing != 0 && !deaf &&
           (!tagged || slot->tag == (uint32_t)(immediate >> 32) || KVR_MUTANT(tag_not_compared));
}
/* It is not: counts it, unless it is a warm-up write or the rail is deaf. */
void land_unexpected_count(struct land *land, uint32_t rail, uint32_t epoch, uint64_t immediate);
/* Counts it as such; at the bound reports LAND_STRANGERS, once an epoch. */
void land_unexpected(struct land *land, uint32_t rail, uint32_t epoch, enum land_unexpected why);

/* The chunk is in its pages. */
void land_chunk_in(struct land *land, struct landing *landing, uint32_t chunk);
struct landing_segment *land_segment_of(const struct landing *landing, uint32_t chunk);
/* A copy has ended: reports what became complete, and gives back a landing that closes. */
void land_check(struct land *land, struct landing *landing);
/* To the loop, about the landing. */
void land_report(struct land *land, const struct landing *landing, union land_message message);

/* What kvr_group_open needs; land outlives the group. */
struct kvr_group_user land_user(struct land *land);

/* ---- writes that arrive over another rail group (land_forward.c, rules 5 and 7) ---------------
 */

void land_hand_over(struct land *land, uint32_t rail, uint32_t epoch, uint64_t immediate);
/* Sends every other group a marker behind all that was handed over from this epoch. */
void land_epoch_mark(struct land *land, uint32_t rail, uint32_t epoch);
/* False: the message is of another kind. */
bool land_forward_command(struct land *land, const union land_message *message);

#endif
