/* clang-format off */
/* The control protocol between two agents, as plain values.
 *
 * A frame on the connection is a 4-byte big-endian length (≤ KVR_FRAME_BYTES_MAX) and one protobuf
 * `Frame` of kvrail.proto; message.c turns frames into `struct kvr_message` and back, and is the
 * only file that knows protobuf. Whatever decides sees only these structs, so the simulator can
 * make them.
 *
 * The messages in their order (T = target, decode-agent, which dials; S = source, prefill-agent):
 *
 *   T→S  HELLO        its name, versions, rails, limits, compat of its engines; resumes a session or not
 *   S→T  WELCOME      chosen version, session number, my rails and limits; or REFUSED with a sentence
 *   both RESUME       the last sequence number seen of this session: what follows it is sent again
 *   both REGIONS      the regions of one engine (T adds its rails' keys); before they are first named
 *   T→S  WANT         one transfer: identity, skip, deadline; the page tables follow
 *   T→S  SKIP         what the target has already, of a WANT that was sent before that was known
 *   T→S  PAGES        more runs of a WANT's page table
 *   S→T  PLAN         one segment: token range, the source's page runs, chunk numbers, the plan's hash
 *   T→S  GRANT        slots for the chunks, and the epochs of the rails to write to
 *   S→T  FINAL        no more segments; how many chunks and tail bytes in all
 *   S→T  TAIL         the engine's own small bytes
 *   S→T  DIGEST       before QUIET, where WANT asks for it: hashes of the bytes of these chunks
 *   S→T  QUIET        I will post no more (of this round); what I posted, by (rail, epoch)
 *   T→S  ROOM         what is staged may be posted up to here; opens a new round
 *   T→S  MISSING      post these chunks a second time (rule 3); opens a new round
 *   S→T  RAIL_LOST    writes posted on this (rail, epoch) may not have come; these chunks
 *   S→T  NO_RAIL      the rails that GRANT named cannot be reached: answered by another GRANT, which
 *                     names others, if the target has others to name
 *   T→S  EPOCH_ENDED  this rail of mine has a new endpoint; answered by RAIL_LOST for each transfer
 *   S→T  SENDER       this endpoint of mine will write to you; where a rail of T's needs to know that
 *   T→S  SENDER_KNOWN every endpoint of mine knows that one
 *   T→S  LANDED       terminal at the target: with KVR_OK everything arrived, else the reason
 *   both CANCEL       stop this transfer; the reason. Idempotent
 *   S→T  FAIL         terminal at the source, before QUIET: the reason and a sentence
 *   both PROBE        I was away for a while: ALIVE, with the same token, says that the session holds
 *   both UNKNOWN      I hold nothing under that transfer and will post nothing
 *   both BEAT         I live; the last sequence number that I have seen
 *
 * `transfer` is the 64-bit nonce of one (fetch, source rank) pair, made by the target, unique over
 * all its boots; 0 in messages about no transfer. `sequence` numbers every message of a session but
 * HELLO, WELCOME, REFUSED, RESUME and BEAT, from 1 in each direction.
 *
 * Pointers in a decoded message point into the decoder's memory and are borrowed for the call that
 * delivers it. Array lengths have been checked against limits.h; every id, offset and count has
 * not: that is the receiver's duty (rule 9). */
/* clang-format on */
#ifndef KVR_WIRE_MESSAGE_H
#define KVR_WIRE_MESSAGE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "wire/proof.h"

/* Raised when a message gains what its receiver must know of, and the least when an older one
 * cannot be understood any more. 2: rail groups, siblings and skips in WANT, PLANs that give
 * nothing, staging memory. 3: targets that move pages of devices themselves. 4: ROOM, a share of
 * staging memory is a ring. 5: SKIP, and states with one page a request. 6: SENDER. 7: the tag in
 * GRANT, the proof and the tenant in WANT. */
#define KVR_PROTOCOL_MIN 7
#define KVR_PROTOCOL_MAX 7

typedef enum kvr_message_kind {
    KVR_MSG_HELLO = 1,
    KVR_MSG_WELCOME,
    KVR_MSG_REFUSED,
    KVR_MSG_RESUME,
    KVR_MSG_BEAT,
    KVR_MSG_REGIONS,
    KVR_MSG_WANT,
    KVR_MSG_PAGES,
    KVR_MSG_PLAN,
    KVR_MSG_GRANT,
    KVR_MSG_FINAL,
    KVR_MSG_TAIL,
    KVR_MSG_QUIET,
    KVR_MSG_MISSING,
    KVR_MSG_RAIL_LOST,
    KVR_MSG_EPOCH_ENDED,
    KVR_MSG_LANDED,
    KVR_MSG_CANCEL,
    KVR_MSG_FAIL,
    KVR_MSG_UNKNOWN,
    KVR_MSG_DIGEST,
    KVR_MSG_PROBE,
    KVR_MSG_ALIVE,
    KVR_MSG_NO_RAIL,
    KVR_MSG_ROOM,
    KVR_MSG_SKIP,
    KVR_MSG_SENDER,
    KVR_MSG_SENDER_KNOWN,
    KVR_MSG_KIND_END,
} kvr_message_kind;

/* What an agent's rails can do, and the plan's limits that follow. A transfer uses the minimum. */
struct kvr_write_limits {
    uint32_t pieces_local;    /* local pieces of one write with an immediate, ≥ 1 */
    uint32_t pieces_remote;   /* remote pieces of one write with an immediate, ≥ 1 */
    uint64_t chunk_bytes_max; /* largest write */
    bool calibrated;          /* the provider takes more: measured here, more gains nothing */
};

/* The limits of one transfer. Only the source gathers, so only its pieces_local counts. */
static inline struct kvr_write_limits kvr_write_limits_agreed(const struct kvr_write_limits *source,
                                                              const struct kvr_write_limits *target)
{
    return (struct kvr_write_limits){
        .pieces_local = source->pieces_local,
        .pieces_remote = kvr_min_u32(source->pieces_remote, target->pieces_remote),
        .chunk_bytes_max = kvr_min_u64(source->chunk_bytes_max, target->chunk_bytes_max),
        .calibrated = source->calibrated || target->calibrated,
    };
}

struct kvr_msg_hello {                 /* and WELCOME */
    uint32_t version_min, version_max; /* WELCOME: both are the version chosen */
    uint64_t boot;                     /* random per start of the agent */
    uint64_t session; /* HELLO: the one to resume, or 0; WELCOME: the one in force, and so in every
                         HELLO that begins a session, when its machine gets it */
    char agent[KVR_NAME_BYTES];
    char provider[16];
    char host[KVR_NAME_BYTES];
    uint32_t beat_ms; /* I send a BEAT this often; silence of 3 means dead */
    struct kvr_write_limits limits;
    const struct kvr_rail_address *rails;
    uint32_t rail_count;
    const struct kvr_compat *compats; /* of the engines attached at this moment */
    uint32_t compat_count;
    kvr_digest_mode digest; /* what this agent asks to be hashed */
};

struct kvr_msg_seen { /* RESUME and BEAT */
    uint64_t session;
    uint64_t seen; /* last sequence number received */
};

struct kvr_msg_regions {
    struct kvr_rank rank; /* engine and generation */
    struct kvr_compat compat;
    const struct kvr_region_layout *layouts;
    uint32_t layout_count;
    /* T→S only: keys[i × rail_count + r] reaches layouts[i].region over target rail r. */
    const struct kvr_remote_key *keys;
    uint32_t rail_count;
    /* S→T only: of the engine's revocation words (revocation_offer.h); 0: it has none. */
    uint64_t revocation_words;
};

struct kvr_msg_want {
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    struct kvr_uuid source_engine;
    uint64_t source_generation;    /* 0: any */
    uint32_t source_tp, source_pp; /* which rank of the source engine */
    struct kvr_rank target;
    uint64_t tokens;      /* of the request; the page tables that follow cover [0, tokens) */
    uint64_t skip_tokens; /* the target has [0, skip) already */
    uint32_t deadline_ms; /* from now; at least 1 */
    int32_t priority;
    kvr_digest_mode digest; /* what the source is to hash */
    /* Of groups 0, 1 …: the target needs nothing of [0, skip). Of others: skip_tokens, in whole
     * pages. */
    const uint64_t *group_skips;
    uint32_t group_skip_count;
    /* pp × 65536 + tp, ascending: the ranks of this engine that the target asks, this one among
     * them; what several of them hold alike, one gives. None named: it is alone. */
    const uint32_t *siblings;
    uint32_t sibling_count;
    bool staged; /* it lands in staging memory: the pieces of a write follow each other there */
    /* Else it can, if limits.pieces_remote of every PLAN is KVR_PLAN_ONE_RUN and there are no more
     * bytes than this; 0: it cannot. */
    uint64_t stage_bytes;
    /* Where `staged`: the target moves pages of devices to its own itself, if limits.pieces_remote
     * of every PLAN is less than that. */
    bool direct_copy;
    bool skips_follow;      /* SKIP brings them: the source plans nothing before it */
    struct kvr_proof proof; /* of the request's secret, for this session and transfer; or none */
    char tenant[KVR_NAME_BYTES]; /* a plain name; "": KVR_TENANT_DEFAULT */
};

struct kvr_msg_skip { /* as those of WANT, and in their place */
    uint64_t skip_tokens;
    const uint64_t *group_skips;
    uint32_t group_skip_count;
};

struct kvr_msg_pages {
    uint32_t group;
    uint32_t page_first; /* logical number of the first page named here */
    const struct kvr_page_run *runs;
    uint32_t run_count;
    bool more;
};

struct kvr_msg_plan {
    uint32_t segment; /* 0, 1, 2 … in this order */
    uint64_t token_first, token_end;
    uint32_t chunk_first, chunk_count; /* numbers within the transfer */
    uint64_t hash;                     /* of the plan that the source computed */
    struct kvr_rank source;
    struct kvr_write_limits limits; /* what the plan was made with: the minimum of both sides */
    uint32_t group;
    uint32_t page_first;             /* logical number of the first page of the segment */
    const struct kvr_page_run *runs; /* the source's pages of the segment */
    uint32_t run_count;
    /* A page list too long for one frame: PLANs of the same segment repeat its header, add to its
     * runs, and the last has more = false. */
    bool more;
    uint32_t
        revocation_word; /* the transfer's is word revocation_word - 1 of its engine's; 0: none */
    bool none; /* this source gives nothing of the group up to token_end: no chunks, no pages */
};

struct kvr_msg_grant {
    const uint16_t *slots; /* slots[chunk >> 16] names the slot of a chunk */
    uint32_t slot_count;
    uint32_t tag; /* of each write to a rail that takes tags (rule 5); never 0 */
    const struct kvr_rail_address *rails; /* rails that may be written to, with their epochs now */
    uint32_t rail_count;
    /* Of the target's staging memory; 0 bytes: the pages are written. Chunks lie there one behind
     * the other, in the order of their numbers. */
    uint64_t quota_offset, quota_bytes;
    /* That memory's, one for each rail of the target. */
    const struct kvr_remote_key *quota_keys;
    uint32_t quota_key_count;
    /* Of this transfer alone, the same on each granted rail: one for each layout of REGIONS, or one
     * of the quota. None: those of REGIONS or quota_keys hold. */
    const struct kvr_remote_key *keys;
    uint32_t key_count;
};

struct kvr_msg_final {
    uint32_t segment_count;
    uint32_t chunk_count;
    uint64_t token_end; /* tokens [skip, token_end) were planned */
    uint32_t tail_bytes;
    bool has_tail;
};

struct kvr_msg_tail {
    const uint8_t *bytes;
    uint32_t byte_count;
};

struct kvr_msg_quiet {
    uint32_t round;                       /* 0, then that of the last ROOM or MISSING seen */
    const struct kvr_epoch_count *counts; /* accepted posts, cumulative */
    uint32_t count_count;
};

#define KVR_DIGESTS_PER_MESSAGE 32768

struct kvr_msg_digest {
    uint32_t chunk_first, chunk_count;
    const uint64_t *values; /* of those that kvr_digest_covers() names, in order */
    uint32_t value_count;
};

struct kvr_msg_probe { /* PROBE and ALIVE */
    uint64_t token;
};

struct kvr_msg_room {
    uint32_t round;        /* counted together with those of MISSING: 1, 2, … */
    uint64_t position_end; /* end of the bytes that may be posted; with a GRANT alone it is
                              quota_bytes */
};

struct kvr_msg_missing {
    uint32_t round; /* 1, 2, … */
    const struct kvr_chunk_run *runs;
    uint32_t run_count;
};

struct kvr_msg_rail_lost {
    uint32_t rail, epoch;             /* of the target */
    const struct kvr_chunk_run *runs; /* what this transfer posted there */
    uint32_t run_count;
};

struct kvr_msg_epoch_ended {
    uint32_t rail, epoch;              /* the one that ended */
    struct kvr_rail_address successor; /* its rail field is the same */
};

struct kvr_msg_sender {
    struct kvr_rail_address endpoint; /* of a rail of the source */
};

struct kvr_msg_sender_known {
    uint32_t rail, epoch; /* of the source */
};

struct kvr_msg_reason { /* REFUSED, LANDED, CANCEL, FAIL, UNKNOWN, NO_RAIL */
    kvr_status status;
    char detail[KVR_DETAIL_BYTES];
};

struct kvr_message {
    kvr_message_kind kind;
    uint64_t transfer;
    uint64_t sequence; /* set by the session layer */
    union {
        struct kvr_msg_hello hello; /* HELLO, WELCOME */
        struct kvr_msg_seen seen;   /* RESUME, BEAT */
        struct kvr_msg_regions regions;
        struct kvr_msg_want want;
        struct kvr_msg_skip skip;
        struct kvr_msg_pages pages;
        struct kvr_msg_plan plan;
        struct kvr_msg_grant grant;
        struct kvr_msg_final final;
        struct kvr_msg_tail tail;
        struct kvr_msg_quiet quiet;
        struct kvr_msg_room room;
        struct kvr_msg_missing missing;
        struct kvr_msg_rail_lost rail_lost;
        struct kvr_msg_epoch_ended epoch_ended;
        struct kvr_msg_sender sender;
        struct kvr_msg_sender_known sender_known;
        struct kvr_msg_digest digest;
        struct kvr_msg_probe probe;   /* PROBE, ALIVE */
        struct kvr_msg_reason reason; /* REFUSED, LANDED, CANCEL, FAIL, UNKNOWN, NO_RAIL */
    };
};

const char *kvr_message_name(kvr_message_kind kind); /* "WANT" */

/* All but HELLO, WELCOME, REFUSED, RESUME and BEAT. */
bool kvr_message_numbered(kvr_message_kind kind);

/* Its sender waits while the queue has no room; a message of another kind without room ends the
 * session. */
bool kvr_message_patient(kvr_message_kind kind);

/* Encodes into buffer, without the 4-byte length. KVR_TOO_LARGE when bytes would exceed capacity.
 */
KVR_MUST_CHECK kvr_status kvr_message_encode(const struct kvr_message *message, uint8_t *buffer,
                                             size_t capacity, size_t *ret_bytes);
/* Sets the sequence number of an encoded frame; the old number was not 0. */
void kvr_message_renumber(uint8_t *frame, uint64_t sequence);

/* Memory that holds one decoded message; reused from message to message. */
struct kvr_message_decoder;
struct kvr_message_decoder *kvr_message_decoder_open(void);
void kvr_message_decoder_close(struct kvr_message_decoder *decoder); /* NULL is fine */
/* Decodes one frame. KVR_MALFORMED with a sentence in *error. *ret_message is valid until the next
 * decode with the same decoder. */
KVR_MUST_CHECK kvr_status kvr_message_decode(struct kvr_message_decoder *decoder,
                                             const uint8_t *frame, size_t bytes,
                                             struct kvr_message *ret_message,
                                             struct kvr_error *error);

/* How many page runs fit into one message beside everything else. */
#define KVR_RUNS_PER_MESSAGE 32768

#endif
