/* What an engine and the agent on its own host say to each other, as plain values.
 *
 * One AF_UNIX SOCK_SEQPACKET connection an engine rank; one protobuf `EnginePacket` of engine.proto
 * a packet, at most KVR_PACKET_BYTES_MAX; descriptors travel beside the packet that names them
 * (SCM_RIGHTS). Only the codecs (engine_message.c, engine_request.c) know protobuf; whatever
 * decides sees these structs.
 *
 * The engine makes the handles: any number that is not live on its connection. A call never waits
 * for the agent: the terminal notice of its handle reports a refusal.
 *
 * Readiness does not travel here. ATTACHED brings a descriptor of shared memory that the agent made
 * and sealed (`struct kvr_shared_page` below) and an eventfd.
 *
 * After REFUSED no request is taken any more. To an engine that was attached notices still come,
 * the last of them DETACHED, which hands back every page that had no terminal notice of its own. */
#ifndef KVR_WIRE_ENGINE_MESSAGE_H
#define KVR_WIRE_ENGINE_MESSAGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/names.h"
#include "base/status.h"
#include "base/types.h"
#include "wire/secret.h"

/* ATTACH carries it; another one is refused. 3: the secret of a request. */
#define KVR_ENGINE_PROTOCOL 3

/* Shared between one engine rank and its agent. Words are stored by the engine and read by the
 * agent's rail thread; a word only grows and is never reset within a generation. Protocol:
 *   engine: store word (release); fence (seq_cst); if asleep, write 1 to the eventfd
 *   agent:  set its bit in asleep; fence (seq_cst); read every watched word again; then sleep;
 *           clear the bit. Each thread of the agent that waits for a word has one. */
struct kvr_shared_page {
    _Atomic uint32_t asleep;
    uint32_t word_count;       /* KVR_WORDS_MAX */
    _Atomic uint32_t streamed; /* set by the engine, once: a GPU stores words, and rings nothing */
    /* Stored by the agent before ATTACHED: of a fetch that names no deadline. 0: an older agent. */
    _Atomic uint32_t deadline_ms;
    /* Stored by the agent's loop at every beat and with every notice: its CLOCK_MONOTONIC. While it
     * does not change, the agent is silent. 0: an older agent, which gives no sign. */
    _Atomic uint64_t alive_at;
    uint8_t pad[40];
    _Atomic uint64_t words[KVR_WORDS_MAX];
    /* Stored by a target's agent, for threads and GPUs that wait. Of a fetch that WATCH bound to
     * the word, word − base counts its first layers that are in place for all tokens. base +
     * KVR_LANDED_FAILED or more: it has failed. A word only grows. */
    _Atomic uint64_t landed[KVR_WORDS_MAX];
};
#define KVR_LANDED_FAILED (UINT64_C(1) << 20) /* more than there are layers */

/* How often `alive_at` changes at least, and how many beats may stay out. */
#define KVR_ENGINE_BEAT_NS   KVR_S
#define KVR_ENGINE_BEATS_MAX 3

typedef enum kvr_request_kind {
    KVR_REQ_ATTACH = 1, /* engine → agent, first packet */
    KVR_REQ_REGION_ADD, /* with one descriptor, or after its extents, or with an IPC handle; then
                           with a dmabuf, if it says so */
    KVR_REQ_REGION_DROP,
    KVR_REQ_SOURCE_OPEN, /* prefill-agent only */
    KVR_REQ_SOURCE_PAGES,
    KVR_REQ_WATCH, /* of a publish: announces a segment, and the word that says which of its layers
                      are final; of a fetch: the word to say which layers are in place */
    KVR_REQ_SOURCE_TAIL,
    KVR_REQ_SOURCE_END,
    KVR_REQ_TARGET_OPEN, /* decode-agent only */
    KVR_REQ_TARGET_PAGES,
    KVR_REQ_CANCEL,
    KVR_REQ_RENEW,
    KVR_REQ_WHY,
    KVR_REQ_DETACH,
    KVR_REQ_REGION_EXTENTS = 16, /* before REGION_ADD: descriptors of its memory, some at a time;
                                    the schema has the number between for notices */
    KVR_REQ_TARGET_SKIP, /* of a KV group [0, skip_tokens) is not needed; before its pages. In
                            the schema it is a body of TARGET_PAGES with `skips` */
    KVR_REQ_TARGET_HOLD, /* WANT goes out before the first page. In the schema it is a body of
                            TARGET_PAGES with `hold`: an older agent takes it for no pages */
    KVR_REQ_PAIRS, /* in the place of ATTACH: how the rails of a prefill-agent reach those of its
                      peers. It answers PAIRS, any number of them, then DETACHED. An older agent
                      answers REFUSED, as malformed */
    KVR_REQ_KIND_END,
} kvr_request_kind;

typedef enum kvr_memory_kind {
    KVR_MEMORY_MEMFD = 0, /* host memory; the descriptor must carry F_SEAL_SHRINK */
    KVR_MEMORY_DMABUF,    /* device memory; the agent needs no CUDA context */
    KVR_MEMORY_CUDA_IPC,  /* 64-byte handle in `ipc` */
    KVR_MEMORY_CUDA_VMM,  /* POSIX descriptor of a VMM allocation */
} kvr_memory_kind;

struct kvr_req_attach {
    struct kvr_rank rank;
    struct kvr_compat compat;
    char name[KVR_NAME_BYTES]; /* for people */
};

struct kvr_req_region { /* region is the engine's own number, unique on its connection */
    char name[KVR_NAME_BYTES];
    kvr_memory_kind memory;
    int32_t device;     /* CUDA ordinal in the engine's process, -1 for host */
    struct kvr_gpu gpu; /* of device memory. An older library leaves it empty: the agent then takes
                           `device` for an ordinal of its own */
    uint64_t fd_offset; /* where the region starts in the descriptor's memory; page aligned */
    uint8_t ipc[64];
    struct kvr_region_layout layout; /* layout.region names it */
    uint32_t extent_count; /* CUDA_VMM: of the allocations that it lies over, which came before;
                              fd_offset is in the first. 0: it has one, beside this packet */
    uint32_t memory_of;    /* another region of this engine: the memory is that one's, and nothing
                              comes    beside this packet. 0: it brings its own */
    bool dmabuf; /* CUDA_IPC and CUDA_VMM: one of the same memory came too, for cards. The owner of
                    memory can export it where the agent may not */
    uint64_t dmabuf_offset; /* where the region starts in it */
    kvr_write_order order;  /* of the GPU, as the engine's driver says */
};

/* One descriptor beside the packet for each entry of `bytes`, in the memory's order. If they do
 * not continue those before, REGION_GONE of the REGION_ADD that follows says so. Without a
 * REGION_ADD they are kept until others begin anew; a packet of none forgets them. */
struct kvr_req_extents {
    uint32_t region, first, total;
    const uint64_t *bytes;
    uint32_t count; /* at most KVR_PACKET_FDS_MAX */
};

struct kvr_req_source_open {
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    uint64_t tokens;    /* upper bound of the published tokens */
    uint32_t consumers; /* target ranks that will want it; 0: as many as the first WANT implies */
    uint32_t lease_ms;  /* how long to hold unclaimed; 0: the agent's default */
    int32_t priority;
    char tenant[KVR_NAME_BYTES]; /* a plain name; "": the first that the engine may act for */
    struct kvr_secret secret;    /* what a target must know too; or none */
};

struct kvr_req_pages { /* SOURCE_PAGES and TARGET_PAGES: appends, in logical order */
    uint32_t group;
    uint32_t page_first; /* logical number of ids[0]; must be how many were given before */
    const uint32_t *ids; /* physical page ids */
    uint32_t id_count;   /* at most KVR_PAGES_PER_PACKET */
};
#define KVR_PAGES_PER_PACKET 8192

struct kvr_req_skip {
    uint32_t group;
    uint64_t skip_tokens; /* whole pages, or all tokens of the fetch */
};

struct kvr_req_watch { /* word − base = layers final of tokens [token_first, token_end); of a fetch
                          word and base alone */
    uint32_t word;
    uint64_t base;
    uint64_t token_first, token_end; /* token_first continues the last watch; pages were given */
};

struct kvr_req_tail {
    const uint8_t *bytes;
    uint32_t byte_count; /* one SOURCE_TAIL at most; ≤ KVR_TAIL_BYTES_MAX - 1024 */
};

struct kvr_req_end {
    kvr_status status; /* KVR_OK: nothing more will be published; else the request is aborted */
};

struct kvr_source_address {              /* one source rank that holds a part of the request */
    char agent[KVR_AGENT_ADDRESS_BYTES]; /* "host:port" of the prefill-agent */
    struct kvr_uuid engine;
    uint64_t generation; /* 0: any */
    uint32_t tp, pp;
};

struct kvr_req_target_open {
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    uint64_t tokens; /* upper bound: the page table covers [0, tokens) */
    uint64_t
        skip_tokens; /* already here; tokens == skip_tokens: a full hit, frees the source only */
    uint32_t deadline_ms; /* 0: the agent's default */
    int32_t priority;
    char tenant[KVR_NAME_BYTES]; /* as in SOURCE_OPEN */
    const struct kvr_source_address *sources;
    uint32_t source_count;
    kvr_digest_mode digest;   /* what is hashed at least; either agent may ask for more */
    struct kvr_secret secret; /* that of the publish; or none */
};

struct kvr_req_cancel {
    kvr_status reason; /* usually KVR_CANCELLED */
};

struct kvr_req_renew {
    uint32_t lease_ms;
};

struct kvr_request {
    kvr_request_kind kind;
    uint64_t handle; /* of the publish or fetch; 0 in ATTACH, REGION_*, DETACH, PAIRS */
    union {
        struct kvr_req_attach attach;
        struct kvr_req_region region; /* REGION_ADD; REGION_DROP uses layout.region only */
        struct kvr_req_extents extents;
        struct kvr_req_source_open source_open;
        struct kvr_req_pages pages;
        struct kvr_req_skip skip;
        struct kvr_req_watch watch;
        struct kvr_req_tail tail;
        struct kvr_req_end end;
        struct kvr_req_target_open target_open;
        struct kvr_req_cancel cancel;
        struct kvr_req_renew renew;
    };
};

/* agent → engine. X(symbol, name, terminal for its handle) */
#define KVR_NOTICE_LIST(X)                                                                         \
    X(KVR_NOTICE_ATTACHED, "attached", false) /* with KVR_ATTACHED_FDS descriptors */              \
    X(KVR_NOTICE_REFUSED, "refused", false)   /* the connection is closed after it */              \
    X(KVR_NOTICE_REGION_READY, "region_ready", false)                                              \
    X(KVR_NOTICE_REGION_GONE, "region_gone", false) /* dropped or refused: status says which */    \
    X(KVR_NOTICE_ACCEPTED, "accepted", false)       /* matched; both page tables are known */      \
    X(KVR_NOTICE_LAYER_IN, "layer_in", false)  /* target: these layers × tokens are in place */   \
    X(KVR_NOTICE_TAIL_IN, "tail_in", false)    /* target: the source's tail bytes */               \
    X(KVR_NOTICE_DONE, "done", true)           /* target: all in place, nothing in flight */       \
    X(KVR_NOTICE_FAILING, "failing", false)    /* recompute elsewhere; pages are not yours yet */  \
    X(KVR_NOTICE_FAILED, "failed", true)       /* target: pages are yours */                       \
    X(KVR_NOTICE_CANCELLED, "cancelled", true) /* target: pages are yours */                       \
    X(KVR_NOTICE_EXPIRED, "expired", true)     /* target: pages are yours */                       \
    X(KVR_NOTICE_SOURCE_FREE, "source_free", true) /* source: pages are yours, with the outcome */ \
    X(KVR_NOTICE_WHY, "why", false)                /* answer to WHY: JSON in `detail` bytes */     \
    X(KVR_NOTICE_AGENT_LOST, "agent_lost", false)  /* made by the client library itself */         \
    X(KVR_NOTICE_DETACHED, "detached", false)      /* last: the agent has let go of every page */  \
    X(KVR_NOTICE_LEASE_LOW, "lease_low", false) /* source: a quarter is left; renew or lose it */  \
    X(KVR_NOTICE_LEASE_END, "lease_end", false) /* source: a target that comes later fails */      \
    X(KVR_NOTICE_PEER_DOWN, "peer_down", false) /* of no handle: another agent is lost */          \
    X(KVR_NOTICE_PEER_UP, "peer_up", false)     /* of no handle */                                 \
    X(KVR_NOTICE_RAIL_DOWN, "rail_down", false) /* of no handle: a card has no endpoint */         \
    X(KVR_NOTICE_RAIL_UP, "rail_up", false)     /* of no handle: it has one again */               \
    X(KVR_NOTICE_TARGET_REFUSED, "target_refused",                                                 \
      false)                                    /* source: the two cannot work together */         \
    X(KVR_NOTICE_PEER_WARM, "peer_warm", false) /* of no handle: pairs of cards carry bytes */     \
    X(KVR_NOTICE_OPEN_REFUSED, "open_refused", false) /* its handle is live: that one goes on */   \
    X(KVR_NOTICE_PAIRS, "pairs", false)               /* part of the answer to PAIRS: JSON */      \
    X(KVR_NOTICE_AGENT_SILENT, "agent_silent", false) /* made by the client library itself */      \
    X(KVR_NOTICE_AGENT_BACK, "agent_back", false)     /* likewise */

/* Beside ATTACH: the engine's own pidfd, if it could open one. An agent uses it only where the
 * kernel shows it none: before Linux 6.5, of an engine in another pid namespace. An older agent
 * closes it. */

/* Beside ATTACHED: the shared page (memfd), the doorbell (eventfd), and the agent's own pidfd,
 * which shows the agent's end to the library, also from another pid namespace. */
#define KVR_ATTACHED_FDS 3

typedef enum kvr_notice_kind {
    KVR_NOTICE_NONE,
    KVR_NOTICE_LIST(KVR_SYMBOL) KVR_NOTICE_KIND_END
} kvr_notice_kind;

#define KVR_ABILITY_MEMORY_OF      1u  /* regions in the memory of others */
#define KVR_ABILITY_STATES         2u  /* states with one page a request */
#define KVR_ABILITY_SKIP_LATER     4u  /* a skip after a hold, and of every KV group */
#define KVR_ABILITY_DMABUF         8u  /* a dmabuf beside a region's own descriptor */
#define KVR_ABILITY_WITHOUT_SECRET 16u /* --insecure: requests need no secret. Not one of all: */
#define KVR_ABILITIES                                                                              \
    (KVR_ABILITY_MEMORY_OF | KVR_ABILITY_STATES | KVR_ABILITY_SKIP_LATER | KVR_ABILITY_DMABUF)

struct kvr_notice {
    kvr_notice_kind kind;
    uint64_t handle; /* of the publish or fetch; REGION_*: the engine's region number */
    kvr_ns at;       /* when it was sent: the engine port's own time */
    kvr_status status;
    uint32_t layer_first, layer_count;
    uint64_t token_first, token_end;
    uint64_t bytes;     /* DONE, SOURCE_FREE: moved by this fetch or publish */
    uint32_t writes;    /* DONE, SOURCE_FREE: how many writes it took, repetitions included */
    uint32_t retries;   /* of them, posted a second time */
    uint32_t abilities; /* ATTACHED: of the agent, which an older one may lack */
    char agent[KVR_NAME_BYTES]; /* ATTACHED: the agent's name; PEER_*, TARGET_REFUSED: the other's;
                                   RAIL_*: the card's */
    const uint8_t *payload; /* TAIL_IN: the tail; WHY, PAIRS: JSON; ATTACHED: where targets dial the
                               agent, "host:port" without a NUL; borrowed */
    uint32_t payload_bytes;
    char detail[KVR_DETAIL_BYTES]; /* the sentence that goes with a status that is not KVR_OK */
};

const char *kvr_request_name(kvr_request_kind kind);
const char *kvr_notice_name(kvr_notice_kind kind);
bool kvr_notice_terminal(kvr_notice_kind kind);
/* True: *next is of the same fetch and tokens as *notice and of the layers that follow; both are
 * LAYER_IN, and *notice now says what both said. */
bool kvr_notice_join(struct kvr_notice *notice, const struct kvr_notice *next);

struct kvr_engine_decoder; /* memory of one decoded packet, reused from packet to packet */
struct kvr_engine_decoder *kvr_engine_decoder_open(void);
void kvr_engine_decoder_close(struct kvr_engine_decoder *decoder);
/* Forgets the last packet for good: it had a secret. What was decoded from it is no longer valid.
 */
void kvr_engine_decoder_wipe(struct kvr_engine_decoder *decoder);

KVR_MUST_CHECK kvr_status kvr_request_encode(const struct kvr_request *request, uint8_t *buffer,
                                             size_t capacity, size_t *ret_bytes);
KVR_MUST_CHECK kvr_status kvr_request_decode(struct kvr_engine_decoder *decoder,
                                             const uint8_t *packet, size_t bytes,
                                             struct kvr_request *ret_request,
                                             struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvr_notice_encode(const struct kvr_notice *notice, uint8_t *buffer,
                                            size_t capacity, size_t *ret_bytes);
KVR_MUST_CHECK kvr_status kvr_notice_decode(struct kvr_engine_decoder *decoder,
                                            const uint8_t *packet, size_t bytes,
                                            struct kvr_notice *ret_notice, struct kvr_error *error);

#endif
