/* kvrail: the interface for an inference engine. common/docs/engines.md explains its use.
 *
 * An engine rank opens one connection to the agent on its own host. It registers the memory of its
 * KV pages and then names requests: a prefill engine publishes (source), a decode engine fetches
 * (target). Bytes never pass through this library. The whole life of a request:
 *
 *   prefill: kvrail_source_open → _pages → _watch → kvrail_ready after each layer → _tail → _end
 *            (kvrail_source_secret: what the decode engine must know besides the request id)
 *            → event SOURCE_FREE: the pages are yours again
 *   decode:  kvrail_target_open → _pages → events LAYER_IN, TAIL_IN
 *            → event DONE: the pages are yours
 *
 * Rules:
 *   1. Every publish and every fetch that was opened with KVRAIL_OK ends in exactly one terminal
 *      event: SOURCE_FREE for a publish; DONE, FAILED, CANCELLED or EXPIRED for a fetch. The event
 *      hands the pages back: no card and no process of kvrail touches them any more. Before it, do
 *      not reuse them, also after a cancel.
 *   2. No call waits, except kvrail_open and kvrail_region_add, which take a timeout.
 *      KVRAIL_AGAIN means that nothing was done: call kvrail_poll, then try again.
 *   3. The agent may refuse a request after the call (an unknown source, other geometry). The
 *      terminal event reports that.
 *   4. One thread at a time may use a connection. Only kvrail_ready and kvrail_landed may be called
 *      from any thread. kvrail_status_*, kvrail_event_name and kvrail_memory_* take no connection.
 *   5. When the agent's process ends, event AGENT_LOST comes at once. The terminal event of each
 *      open handle follows, with that status, as soon as the operating system reports that the
 *      process is gone. From then on every call returns KVRAIL_AGENT_LOST: close the connection,
 *      and open one to the restarted agent.
 *   6. A connection belongs to one process: do not use it after fork.
 *   7. An agent that stands still (event AGENT_SILENT) keeps the pages. Rule 1 holds: the
 *      FAILING that the library itself sends at a deadline hands no page back.
 *
 * Compatibility: zero a struct before you fill it, and set its `size` to its sizeof. Later versions
 * append fields, and 0 in a new field means what was before it. So a program goes on with a newer
 * library, and with an older one as long as the fields that the older one lacks are 0: else the
 * call is UNSUPPORTED. Structs that only the library fills have room, `reserved`, which it sets to
 * 0. Event kinds and failures may be added at any time: ignore unknown events, and treat an unknown
 * status below 0 as a failure.
 *
 * Bytes and tokens are counts from 0; ranges are [first, end). Names and request ids are printable
 * UTF-8 that ends in a NUL, borrowed for the call. */
#ifndef KVRAIL_H
#define KVRAIL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVRAIL_API        __attribute__((visibility("default")))
#define KVRAIL_MUST_CHECK __attribute__((warn_unused_result))

#define KVRAIL_WORDS_MAX          512            /* readiness words of one connection */
#define KVRAIL_GROUPS_MAX         32             /* KV groups of one request */
#define KVRAIL_PARTS_MAX          6              /* parts of one region */
#define KVRAIL_SOURCES_MAX        64             /* source ranks of one fetch */
#define KVRAIL_TAIL_BYTES_MAX     (65536 - 1024) /* of one kvrail_source_tail */
#define KVRAIL_REQUEST_BYTES      128            /* a request id, its NUL included */
#define KVRAIL_NAME_BYTES         64             /* other names, their NUL included */
#define KVRAIL_SECRET_BYTES       65             /* the text of a secret, its NUL included */
#define KVRAIL_HANDLES_MAX        8192           /* publishes and fetches open at once */
#define KVRAIL_PAGES_PER_CALL_MAX (1u << 20)     /* page ids of one call */
#define KVRAIL_DETAIL_BYTES       240

/* One publish or one fetch, unique on its connection for ever. 0 is no handle. */
typedef uint64_t kvrail_handle;

/* One connection of one engine rank to its agent. */
struct kvrail;

/* ---- status --------------------------------------------------------------------------------- */

/* 0 is success, positive is back-pressure, negative is a failure. */
typedef enum kvrail_status {
    KVRAIL_OK = 0,
    KVRAIL_AGAIN = 1,    /* no room at this moment: poll, then try again */
    KVRAIL_INVALID = -1, /* an argument is outside what is allowed */
    KVRAIL_NO_MEMORY = -2,
    KVRAIL_NOT_FOUND = -3, /* nothing is open under that handle or region */
    KVRAIL_EXISTS = -4,
    KVRAIL_TOO_LARGE = -5, /* larger than a limit above */
    KVRAIL_UNSUPPORTED = -6,
    KVRAIL_SYSTEM = -7, /* the operating system refused: see os_errno */
    KVRAIL_TIMED_OUT = -8,
    KVRAIL_MALFORMED = -9, /* agent and library do not understand each other */
    KVRAIL_VERSION_MISMATCH = -10,
    KVRAIL_STALE = -11, /* names an older generation or attempt */
    KVRAIL_CANCELLED = -20,
    KVRAIL_EXPIRED = -21,      /* its lease or deadline ended */
    KVRAIL_NO_SOURCE = -22,    /* no engine published this request in time */
    KVRAIL_INCOMPATIBLE = -23, /* the two engines' caches do not match; detail names the field */
    KVRAIL_PLAN_MISMATCH = -24,
    KVRAIL_DIGEST_MISMATCH = -25,
    KVRAIL_ABORTED = -26, /* the source engine gave up the request */
    KVRAIL_FULL = -27,    /* the agent's pools cannot hold this request */
    KVRAIL_REVOKED = -28,
    KVRAIL_UNKNOWN_TRANSFER = -30,
    KVRAIL_DRAINING = -32,    /* the agent is shutting down */
    KVRAIL_COPY_FAILED = -33, /* between device memory and the agent's staging memory */
    KVRAIL_RAIL_FAILED = -40,
    KVRAIL_EPOCH_ENDED = -41,
    KVRAIL_NO_RAIL = -42,
    KVRAIL_PEER_LOST = -50, /* the other agent died or cannot be reached */
    KVRAIL_PEER_RESTARTED = -51,
    KVRAIL_REFUSED = -52,
    KVRAIL_NOT_AUTHORIZED = -53, /* without the secret of the request, or with another one */
    KVRAIL_ENGINE_LOST = -60,    /* the other engine ended */
    KVRAIL_AGENT_LOST = -61,     /* the agent of this connection ended */
    KVRAIL_INTERNAL = -99
} kvrail_status;

/* "peer_lost": for logs and metrics. "?" for a value that this library does not know. */
KVRAIL_API const char *kvrail_status_name(int status);
/* One sentence. */
KVRAIL_API const char *kvrail_status_text(int status);

/* The reason of a failed call. */
struct kvrail_error {
    kvrail_status status;
    int os_errno;                     /* 0: the operating system was not involved */
    char detail[KVRAIL_DETAIL_BYTES]; /* a sentence for a person: values and remedy */
    uint64_t reserved[4];             /* 0; for later fields */
};

/* The last failure of a call on this connection. Borrowed; the next failing call changes it. */
KVRAIL_API const struct kvrail_error *kvrail_last_error(const struct kvrail *connection);

/* The library's version, "0.1.0". */
KVRAIL_API const char *kvrail_version(void);

/* ---- connection ----------------------------------------------------------------------------- */

/* The engine rank that connects. layers_total, kv_heads_total, head_dim, model and dtype must be
 * equal on both sides of a transfer. Else the transfer is refused with a sentence that names the
 * field. */
struct kvrail_identity {
    uint32_t size;           /* sizeof(struct kvrail_identity) */
    uint32_t layers_total;   /* of the model, all stages */
    uint32_t kv_heads_total; /* of the model, all ranks */
    uint32_t head_dim;
    uint32_t tp, tp_size; /* tensor-parallel rank and size; 0 of 1 without */
    uint32_t pp, pp_size; /* pipeline stage and count; 0 of 1 without */
    const char *model;    /* a tag of your choice: name, revision, draft model */
    const char *dtype;    /* the cache's, e.g. "bfloat16"; at most 15 bytes */
    const char *name;     /* for people, e.g. "decode-3" */
    uint8_t engine[16];   /* the engine group's id: random once, stable over restarts */
    uint64_t generation;  /* above 0, larger after every restart; wall time in ns will do */
};

/* Connects to the agent that listens on socket_path and waits at most timeout_ms for its answer.
 * Within that time it also waits for a place that an ended engine still holds.
 * Errors (error, if not NULL, has the sentence): INVALID, SYSTEM (no agent listens there), REFUSED
 * and any other answer of the agent, TIMED_OUT, NO_MEMORY. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_open(const char *socket_path,
                                                       const struct kvrail_identity *identity,
                                                       uint32_t timeout_ms,
                                                       struct kvrail **ret_connection,
                                                       struct kvrail_error *error);

/* Ends the connection. The agent cancels open handles, and no event says when their pages are free:
 * cancel and poll for the terminal events first. NULL does nothing. The engine's memory is never
 * freed. No other thread may be inside kvrail_ready. */
KVRAIL_API void kvrail_close(struct kvrail *connection);

/* The agent's --name. Lives as long as the connection. */
KVRAIL_API const char *kvrail_agent_name(const struct kvrail *connection);

/* "host:port" where decode-agents reach this prefill-agent: its --advertise, else its --listen. A
 * router passes it on as kvrail_source_address.agent. "" of a decode-agent. Lives as long as the
 * connection. */
KVRAIL_API const char *kvrail_agent_address(const struct kvrail *connection);

/* ---- memory --------------------------------------------------------------------------------- */

/* Host memory that an agent can map: a memfd, mapped shared, that can never shrink. */
struct kvrail_memory {
    int fd;
    void *address;
    uint64_t bytes;       /* rounded up to whole pages of the operating system */
    uint64_t reserved[4]; /* 0; for later fields */
};

/* Makes and maps zeroed memory. `name` is shown in /proc. Errors: INVALID, SYSTEM. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_memory_create(const char *name, uint64_t bytes,
                                                                struct kvrail_memory *ret_memory,
                                                                struct kvrail_error *error);
/* Unmaps and closes. An agent that still has the region keeps its own mapping. */
KVRAIL_API void kvrail_memory_destroy(struct kvrail_memory *memory);

/* Device memory that an agent can open, from another container too, and that cards can reach where
 * the GPU supports that: one VMM allocation, exportable as a POSIX descriptor and made with
 * gpuDirectRDMACapable. */
struct kvrail_device_memory {
    uint64_t address; /* device pointer of this process, for kvrail_region_of_device */
    uint64_t bytes;   /* rounded up to what the GPU allocates */
    int32_t device;   /* CUDA ordinal */
    uint32_t pad;
    uint64_t reserved[4]; /* 0; for later fields */
};

/* Allocates and maps it on a GPU of this process. Its content is not defined. Errors: INVALID;
 * SYSTEM with the driver's words; UNSUPPORTED (no driver, or a library without CUDA). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status
kvrail_device_memory_create(int32_t device, uint64_t bytes, struct kvrail_device_memory *ret_memory,
                            struct kvrail_error *error);
/* Unmaps and frees; no work of the GPU may use it any more. An agent that still has the region
 * keeps the memory. */
KVRAIL_API void kvrail_device_memory_destroy(struct kvrail_device_memory *memory);

typedef enum kvrail_memory_kind {
    KVRAIL_MEMORY_MEMFD = 0, /* host memory; fd has the seal F_SEAL_SHRINK (kvrail_memory_create) */
    KVRAIL_MEMORY_DMABUF,    /* device memory by dmabuf descriptor: for cards alone */
    KVRAIL_MEMORY_CUDA_IPC,  /* device memory by the 64-byte handle in `ipc` */
    KVRAIL_MEMORY_CUDA_VMM   /* device memory by POSIX descriptor of a VMM allocation */
} kvrail_memory_kind;

typedef enum kvrail_part {
    KVRAIL_PART_K = 1,
    KVRAIL_PART_V = 2,
    KVRAIL_PART_KV = 3,   /* K and V fused in one page */
    KVRAIL_PART_MLA = 4,  /* the latent, one per layer */
    KVRAIL_PART_STATE = 5 /* opaque */
} kvrail_part;

/* One of several VMM allocations of a region: `bytes` of the allocation, from its byte 0 on, are
 * mapped before the next one begins. */
struct kvrail_allocation {
    uint32_t size; /* sizeof(struct kvrail_allocation); equal in all of an array */
    int fd;        /* its POSIX descriptor; borrowed for the call */
    uint64_t bytes;
};
#define KVRAIL_ALLOCATIONS_MAX 16384 /* of one region: 320 GiB of 20 MiB each */

/* Registered memory and where pages lie in it. Every layout is one formula:
 *
 *   offset(layer, part, page, token, head) = base + (layer - layer_first) · layer_stride
 *       + index of part in parts · part_stride + page · page_stride + token · token_stride
 *       + (head - head_first) · head_stride
 *
 * with head_bytes contiguous bytes at that offset; offsets count from fd_offset. A stride of a
 * dimension of size one may be 0. Tensors that do not lie side by side are separate regions.
 *
 * With page_tokens 0 a request has one page of the group, whatever its length, and a page has one
 * token of the formula. Only a region with the one part PART_STATE may have that. The page is the
 * state after all tokens that are published: it is final when the layers of the last watch are. A
 * fetch of fewer tokens than were published, or with a skip_tokens of more, fails as INVALID. */
struct kvrail_region {
    uint32_t size; /* sizeof(struct kvrail_region) */
    kvrail_memory_kind memory;
    const char *name;   /* for people; may be NULL */
    int fd;             /* borrowed for the call; -1 with CUDA_IPC, and with allocations */
    int32_t device;     /* CUDA ordinal in this process, which need not be the agent's; -1 for host
                           memory */
    uint64_t fd_offset; /* where the region begins in the memory of the descriptor or of the first
                           allocation; a multiple of 4096, of device memory of 256 */
    uint8_t ipc[64];
    /* CUDA_VMM over several allocations that are mapped side by side, in the order of addresses;
     * the region begins in the first and ends in the last. 0: one allocation. */
    uint32_t allocation_count;
    const struct kvrail_allocation *allocations; /* borrowed for the call; NULL: those that
                                                    are mapped from `address` on in this process */
    uint64_t address; /* device pointer of byte 0 of the region, in this process. With CUDA_IPC and
                         CUDA_VMM kvrail_region_add then gives the agent a dmabuf too, for its
                         cards; 0: the agent tries to make one */
    uint32_t group;   /* KV group: which page table of a request indexes this region */
    uint32_t layer_first, layer_count;
    uint32_t part_count;
    uint8_t parts[KVRAIL_PARTS_MAX]; /* kvrail_part, in the order of part_stride */
    int replicated;                  /* every rank holds the same bytes (MLA, replicated GQA) */
    uint32_t head_first, head_count; /* this rank's heads, numbered over all ranks */
    uint32_t page_tokens;            /* tokens of one page; 0: one page a request (PART_STATE) */
    uint32_t page_count;             /* page ids are below it */
    uint64_t bytes;                  /* nothing outside [0, bytes) is ever touched */
    uint64_t base, layer_stride, part_stride, page_stride, token_stride, head_stride;
    uint64_t head_bytes; /* head_dim × bytes of dtype */
    /* Another region of this connection, or 0. This one then lies in the memory of that one, as
     * layers of several KV groups may share a tensor. The agent registers the memory once. Offsets
     * count from that one's byte 0, and `bytes` is at most that one's. The fields memory, fd,
     * device, fd_offset, ipc, allocations and address are not read. */
    uint64_t memory_of;
};

/* Sets base, strides and bytes for the densest layout, [layer][part][page][token][head], from the
 * counts that are already in *region. */
KVRAIL_API void kvrail_region_dense(struct kvrail_region *region);

/* Describes device memory in *region: sets memory, device, fd or ipc, fd_offset and address, from a
 * CUDA device pointer to byte 0 of the region. region->bytes must be set.
 *
 *   cudaMalloc, cuMemAlloc   a CUDA IPC handle; the region lies within one allocation
 *   one VMM allocation       its descriptor in fd, yours to close after kvrail_region_add
 *   several VMM allocations  fd is -1; allocation_count and address are set. kvrail_region_add
 * opens the descriptor of each, some at a time, and closes it again, in a thread with a current
 * context.
 *
 * PyTorch's expandable segments are of the last kind: one allocation each 20 MiB. VMM allocations
 * must be made with POSIX descriptors allowed. The driver is loaded at run time. Errors: INVALID;
 * SYSTEM with the driver's words; TOO_LARGE (more than KVRAIL_ALLOCATIONS_MAX); UNSUPPORTED (no
 * driver, or a library without CUDA). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_of_device(struct kvrail_region *region,
                                                                   uint64_t address,
                                                                   struct kvrail_error *error);

/* The same by a dmabuf descriptor, yours to close after kvrail_region_add. The agent then needs no
 * context on the GPU. Only cards can use a dmabuf, so memory that a card does not reach is refused,
 * and the sentence says what the card lacks. Of the other kinds the agent makes a dmabuf itself
 * where it can. region->bytes must be set, and address be a multiple of 4096. One dmabuf covers
 * several VMM allocations side by side where the driver gives one. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_dmabuf_of_device(
    struct kvrail_region *region, uint64_t address, struct kvrail_error *error);

/* Registers memory with the agent's cards and waits for it (large memory takes seconds).
 * *ret_region is unique on this connection. Errors:
 *
 *   INVALID, SYSTEM   with the agent's sentence
 *   UNSUPPORTED       the agent or its cards cannot use this memory; the agent is too old for
 *                     memory_of or for page_tokens 0
 *   NOT_FOUND         memory_of is no region that is ready
 *   TOO_LARGE         more than KVRAIL_ALLOCATIONS_MAX allocations
 *   FULL              512 regions; 8 in registration; more descriptors than the agent may open
 *   TIMED_OUT         *ret_region is set, and an event REGION_READY or REGION_GONE follows
 *   AGAIN, AGENT_LOST */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_add(struct kvrail *connection,
                                                             const struct kvrail_region *region,
                                                             uint32_t timeout_ms,
                                                             uint32_t *ret_region);
/* Asks for the region back. Event REGION_GONE, with the region as its handle, comes when no card
 * can touch it any more. Handles that were opened before go on with the region: the event comes
 * after their terminal events, and after the event of each region that lies in its memory. Any
 * number of times. Errors: AGAIN, NOT_FOUND, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_drop(struct kvrail *connection,
                                                              uint32_t region);

/* ---- source: prefill ------------------------------------------------------------------------ */

struct kvrail_source_options {
    uint32_t size;       /* sizeof(struct kvrail_source_options) */
    uint32_t attempt;    /* of this request, from the router; equal on both sides */
    const char *request; /* the id that both engines know; at most 127 bytes */
    uint64_t tokens;     /* upper bound; fewer may be published */
    uint32_t consumers;  /* target ranks that will come; 0: the ranks of the first target's engine
                            that need layers and heads of this rank, by its tp_size and pp_size */
    uint32_t lease_ms;   /* how long to hold the pages for a target that has not come; 0: --lease */
    /* 0 normal, below 0 background; the fetch's priority is added. Transfers of one agent go by the
     * deadline of the fetch first, then by this sum; among equals each has its turn. */
    int32_t priority;
    uint32_t reserved; /* 0 */
    /* Of this request: KVRAIL_SECRET_BYTES - 1 hexadecimal digits in lower case, drawn at random.
     * Only a target that names the same one is given the pages. NULL: the library draws one, and
     * kvrail_source_secret returns it. Where several source ranks hold parts of one request, draw
     * one and give it to all of them. */
    const char *secret;
    const char *tenant; /* only its fetches get the pages; NULL: the first of this engine's */
};

/* Draws the secret of a request: 256 bits of the kernel's random numbers. Any thread. */
KVRAIL_API void kvrail_secret_draw(char ret_secret[KVRAIL_SECRET_BYTES]);

/* Announces a request that this rank computes. Pages are lent from the first kvrail_source_pages to
 * SOURCE_FREE. Errors: AGAIN (also when KVRAIL_HANDLES_MAX are open), INVALID, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status
kvrail_source_open(struct kvrail *connection, const struct kvrail_source_options *options,
                   kvrail_handle *ret_handle);

/* The secret of an open publish, for the target engine: pass it on with the request, over a way
 * that no one else reads, and write it into no log. It ends with the publish. Errors: NOT_FOUND,
 * AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_secret(
    struct kvrail *connection, kvrail_handle source, char ret_secret[KVRAIL_SECRET_BYTES]);

/* Appends physical page ids of one KV group: ids[i] holds the i-th logical page after the pages
 * that were given before. Every group of the engine's regions needs its pages before the watch of
 * their tokens, and a state with page_tokens 0 its one page before the last watch. For tokens that
 * are not kept (before a sliding window) any page id will do, as long as the target skips them.
 * `ids` is borrowed for the call. Errors: AGAIN (nothing was appended), INVALID, NOT_FOUND,
 * TOO_LARGE, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_pages(struct kvrail *connection,
                                                               kvrail_handle source, uint32_t group,
                                                               const uint32_t *ids,
                                                               size_t id_count);

/* Announces a segment: tokens [token_first, token_end), with pages that were given. When `word` has
 * reached base + n, the first n layers of the segment are final. token_first continues the last
 * watch; the first one is 0. Words belong to engine streams, not to requests: choose base as the
 * word's value when the segment's first layer starts. Errors: AGAIN, INVALID, NOT_FOUND,
 * AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_watch(struct kvrail *connection,
                                                               kvrail_handle source, uint32_t word,
                                                               uint64_t base, uint64_t token_first,
                                                               uint64_t token_end);

/* Raises a readiness word: everything that was stored to the pages before this call may be read. A
 * word starts at 0 and only grows. Any thread. The call is a memory store, and a system call only
 * while the agent sleeps. Errors: INVALID (no such word, or smaller than it is), AGENT_LOST. */
KVRAIL_API kvrail_status kvrail_ready(struct kvrail *connection, uint32_t word, uint64_t value);

/* The readiness words on the GPU: word w lies at *ret_address + 8 · w. A kernel, in a CUDA graph
 * too, raises a word after its own stores and a fence of the whole system:
 *
 *   __threadfence_system(); *(volatile uint64_t *)&words[w] += 1;
 *
 * One thread at a time raises a word: not every GPU has atomic additions to host memory.
 * Such a store does not wake the agent. From the first call on, the agent looks by itself while it
 * waits for a word: at least every 50 µs and its wake-up (sooner while it spins, --spin).
 *
 * A context of the kernels' GPU must be current, and no stream be captured. kvrail_close takes the
 * words back: no queued work may store there any more. Errors: UNSUPPORTED (no driver, no GPU, or a
 * build without CUDA), SYSTEM (the driver refuses), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_words_on_device(struct kvrail *connection,
                                                                  uint64_t *ret_address);

typedef enum kvrail_store {
    KVRAIL_STORE_GPU = 1, /* by a memory operation of the stream */
    KVRAIL_STORE_HOST = 2 /* by a host function: this driver has no memory operations, so one of its
                             threads calls kvrail_ready, and the stream waits for that */
} kvrail_store;

/* kvrail_ready in the order of a stream: after all work that was queued there before. `stream` is a
 * CUstream or cudaStream_t of the current context. The values of one word grow in the order in
 * which they are stored. No such store may be queued when kvrail_close is called. *ret_store, if
 * not NULL, is the kind of store. Errors: as kvrail_words_on_device; INVALID (no such word, or
 * smaller than it is); UNSUPPORTED (the stream is captured: a graph would store the same value at
 * every launch. A kernel of the graph can raise the word). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_ready_on_stream(struct kvrail *connection,
                                                                  uint32_t word, uint64_t value,
                                                                  void *stream,
                                                                  kvrail_store *ret_store);

/* Sends bytes of the engine's own to the targets (first token, logprobs …), once for each publish,
 * at most KVRAIL_TAIL_BYTES_MAX. Errors: AGAIN, NOT_FOUND, EXISTS (given before), TOO_LARGE,
 * AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_tail(struct kvrail *connection,
                                                              kvrail_handle source,
                                                              const void *bytes, size_t byte_count);

/* KVRAIL_OK: nothing more will be published (words may still rise). A failure aborts the request
 * with that status. The pages stay lent until SOURCE_FREE. Errors: AGAIN, NOT_FOUND, INVALID
 * (called before), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_end(struct kvrail *connection,
                                                             kvrail_handle source,
                                                             kvrail_status outcome);

/* ---- target: decode ------------------------------------------------------------------------- */

/* One source rank that holds a part of the request; the router passes it to the target. */
struct kvrail_source_address {
    uint32_t size;     /* sizeof(struct kvrail_source_address); equal in all of an array */
    uint32_t tp, pp;   /* kvrail_identity of the source, as are engine and generation */
    const char *agent; /* "host:port" of its prefill-agent; at most 127 bytes */
    uint8_t engine[16];
    uint64_t generation; /* 0: the one that is attached; attempts alone tell repetitions apart */
};

/* Which writes both agents hash before a fetch is DONE. LAYER_IN does not wait for that. */
typedef enum kvrail_digest {
    KVRAIL_DIGEST_DEFAULT = 0, /* the agents' --digest */
    KVRAIL_DIGEST_SAMPLE = 1,  /* at least one write in 16, chosen by chance */
    KVRAIL_DIGEST_FULL = 2     /* every write */
} kvrail_digest;

struct kvrail_target_options {
    uint32_t size; /* sizeof(struct kvrail_target_options) */
    uint32_t attempt;
    /* Bytes that differ from the source's end the fetch as FAILED(DIGEST_MISMATCH), perhaps after
     * their LAYER_IN. The strongest of this value and both agents' --digest counts. */
    kvrail_digest digest;
    const char *request;
    uint64_t tokens;       /* upper bound: the page table covers [0, tokens) */
    uint64_t skip_tokens;  /* [0, skip_tokens) is here; if that is all, the source is freed */
    uint32_t deadline_ms;  /* from now, an hour at most; 0: the agent's default */
    int32_t priority;      /* the publish's is added: kvrail_source_options */
    uint32_t reserved;     /* 0 */
    uint32_t source_count; /* 1 … KVRAIL_SOURCES_MAX */
    /* Every source rank that could hold bytes for this rank, on any number of agents; or all ranks
     * of the engine, if every target rank names all. Where several ranks of one engine hold the
     * same bytes (MLA, fewer heads than ranks), one of them sends, chosen by the request. */
    const struct kvrail_source_address *sources;
    /* The secret of the request, as its source named or drew it. NULL is INVALID, unless the agent
     * runs with --insecure. With another secret the fetch waits as for a request that no engine has
     * published, and fails at its deadline: the source engine gets TARGET_REFUSED at once. */
    const char *secret;
    const char *tenant; /* likewise; another than the publish's is as another secret */
};

/* Asks for the KV of a request. It may come before or after the source's publish. Pages are written
 * from the first kvrail_target_pages until the terminal event. Store nothing in them before DONE: a
 * page that the tokens fill only in part may move whole. Errors: AGAIN (also when
 * KVRAIL_HANDLES_MAX are open), INVALID, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status
kvrail_target_open(struct kvrail *connection, const struct kvrail_target_options *options,
                   kvrail_handle *ret_handle);

/* Sets skip_tokens of one KV group, where it differs from the fetch's: [0, skip_tokens) of the
 * group is here, or not needed. It is whole pages of the group, or all tokens. For a sliding window
 * it is the tokens before the window; for a state over all tokens it is 0. Call it before the first
 * kvrail_target_pages of the fetch, and not for a fetch that skips everything. After
 * kvrail_target_hold the number may only grow. Without a call, the fetch's skip_tokens counts, in
 * whole pages of the group. Where every KV group skips more than that, events count from there. A
 * fetch that skips all tokens of every group takes no pages; an older agent cannot end one so:
 * cancel it. Errors: AGAIN, INVALID, NOT_FOUND, UNSUPPORTED (such an agent), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_skip(struct kvrail *connection,
                                                              kvrail_handle target, uint32_t group,
                                                              uint64_t skip_tokens);

/* For a fetch that has no pages yet, because it waits in the engine's queue: the sources learn of
 * it now instead of with the first page. A publish that it has found is held for it without a
 * lease, until the fetch ends or its deadline passes. What the engine has already may be said
 * later, by kvrail_target_skip before the first page. Where the engine's own agent is older than
 * this, the sources learn of the fetch with its first page: the publish then needs its lease. Any
 * number of times. Errors: AGAIN, NOT_FOUND, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_hold(struct kvrail *connection,
                                                              kvrail_handle target);

/* As kvrail_source_pages; logical page 0 holds token 0, skipped tokens included. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_pages(struct kvrail *connection,
                                                               kvrail_handle target, uint32_t group,
                                                               const uint32_t *ids,
                                                               size_t id_count);

/* Binds the fetch to a landed word, so that a stream can wait for its layers. The agent raises word
 * `word` to base + n when the first n layers of this rank are in place: for all tokens, from every
 * source, and in every KV group. With DONE the word is base + all layers. With any other end it is
 * at least base + KVRAIL_LANDED_FAILED: a wait ends then, the pages hold any bytes, and the word
 * shows the failure. If the agent dies, kvrail_poll raises the word with the terminal event, so
 * call kvrail_poll in another thread than the one that waits. Landed words are not the readiness
 * words. They begin at 0 and only grow, so base is at least the word's value. Once for a fetch.
 * Errors: AGAIN, INVALID, NOT_FOUND, EXISTS, AGENT_LOST. */
#define KVRAIL_LANDED_FAILED (UINT64_C(1) << 20)
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_watch(struct kvrail *connection,
                                                               kvrail_handle target, uint32_t word,
                                                               uint64_t base);

/* The value of a landed word. Any thread. */
KVRAIL_API uint64_t kvrail_landed(const struct kvrail *connection, uint32_t word);

/* The landed words on the GPU: word w lies at *ret_address + 8 · w. A kernel, in a CUDA graph too,
 * may wait there: it reads with ld.acquire.sys (a system-wide atomic load) until the word has
 * reached a value that the kernel finds in memory. A context of the kernels' GPU must be current,
 * and no stream be captured. kvrail_close takes the words back: no queued work may read there any
 * more. Errors: UNSUPPORTED (no driver, no GPU, or a build without CUDA), SYSTEM (the driver
 * refuses), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_landed_on_device(struct kvrail *connection,
                                                                   uint64_t *ret_address);

/* Lets the stream wait, at this place, until the landed word is at least `value`. The GPU waits;
 * where memory operations are off, a host function waits instead (*ret_by, if not NULL, says
 * which). The host function looks every 20 µs and delays the driver's other host functions. After
 * the wait the GPU sees the bytes that cards wrote before the word rose, on GPUs that can flush
 * such writes. Errors: as kvrail_landed_on_device; INVALID; UNSUPPORTED (the stream is captured: a
 * graph would wait for the same value at every launch. A kernel of the graph can wait). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_landed_on_stream(struct kvrail *connection,
                                                                   uint32_t word, uint64_t value,
                                                                   void *stream,
                                                                   kvrail_store *ret_by);

/* ---- both ----------------------------------------------------------------------------------- */

/* Asks to stop. The terminal event follows; it may still be DONE, if the end was on its way. Any
 * number of times, in any state; a handle that has ended is KVRAIL_OK too. `reason` is a failure,
 * usually KVRAIL_CANCELLED. Errors: AGAIN, INVALID, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_cancel(struct kvrail *connection,
                                                         kvrail_handle handle,
                                                         kvrail_status reason);

/* Sets the end of a publish's lease to lease_ms from now. Errors: AGAIN, NOT_FOUND, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_renew(struct kvrail *connection,
                                                        kvrail_handle source, uint32_t lease_ms);

/* Asks what a handle waits for: event WHY brings JSON as payload. Also for a handle that has ended,
 * as long as the agent remembers it. Errors: AGAIN, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_why(struct kvrail *connection,
                                                      kvrail_handle handle);

/* ---- events --------------------------------------------------------------------------------- */

typedef enum kvrail_event_kind {
    KVRAIL_EVENT_REGION_READY = 3, /* handle is the region; only after region_add timed out */
    KVRAIL_EVENT_REGION_GONE = 4,  /* handle is the region: no card can touch it any more */
    KVRAIL_EVENT_ACCEPTED = 5,     /* both sides' page tables are known */
    KVRAIL_EVENT_LAYER_IN = 6,     /* target: these layers, one or several in a row, are in place
                                      for these tokens, from every source rank and in every KV
                                      group that has them. Once a write was lost and posted again,
                                      none comes before the source has posted all that it
                                      published: no source may wait for one */
    KVRAIL_EVENT_TAIL_IN = 7,      /* target: payload is the source's tail */
    KVRAIL_EVENT_DONE = 8,         /* target, terminal: all is in place */
    KVRAIL_EVENT_FAILING = 9,      /* it will fail: recompute elsewhere; the pages are still lent */
    KVRAIL_EVENT_FAILED = 10,      /* target, terminal: tokens before token_first are right */
    KVRAIL_EVENT_CANCELLED = 11,   /* target, terminal */
    KVRAIL_EVENT_EXPIRED = 12,     /* target, terminal */
    KVRAIL_EVENT_SOURCE_FREE = 13, /* source, terminal: status is the outcome */
    KVRAIL_EVENT_WHY = 14,         /* payload is JSON */
    KVRAIL_EVENT_AGENT_LOST = 15,  /* handle 0: no new work; terminal events follow */
    /* Source: a quarter of the lease is left, and not every consumer has come. kvrail_renew, or any
     * other call that names this publish, begins the lease anew; kvrail_ready names a word, not a
     * publish, and does not. Again after each renewal. */
    KVRAIL_EVENT_LEASE_LOW = 17,
    /* Source: the lease is over; consumers that come now find nothing. SOURCE_FREE follows when the
     * consumers that have come are done. */
    KVRAIL_EVENT_LEASE_END = 18,
    /* Handle 0, `name` is the other agent: it cannot be reached any more, or can be reached again.
     * Its transfers fail by themselves; a router may send new requests elsewhere. Only changes are
     * reported, to engines that are attached; one that polls late gets the latest of each. */
    KVRAIL_EVENT_PEER_DOWN = 19,
    KVRAIL_EVENT_PEER_UP = 20,
    /* Handle 0, `name` is the card: no endpoint can be opened on it, or one could again. In
     * between, transfers take the other cards. A card that fails and recovers within a transfer is
     * no event. */
    KVRAIL_EVENT_RAIL_DOWN = 21,
    KVRAIL_EVENT_RAIL_UP = 22,
    /* Source: a target asked for this publish and cannot have it. `name` is its agent; status and
     * detail are the reason ("model: the source has …, the target has …"). The publish waits for
     * others as before. Handle 0: another agent was turned away as a whole, because none of its
     * engines fits any here; `name` is its address. The first few of one publish are reported;
     * kvrail_why counts them all. */
    KVRAIL_EVENT_TARGET_REFUSED = 23,
    /* Handle 0, of a prefill-agent: each usable pair of cards with the decode-agent `name` has
     * carried a write, so no transfer waits for a connection. A pair that has failed does not count
     * until it has carried another write. At least one pair counts: while no pair works, the event
     * does not come, and the agent tries again less and less often, up to every eight minutes. Once
     * after each PEER_UP; never with --warm-up no. Transfers need not wait for this event: one that
     * comes sooner is only slower. */
    KVRAIL_EVENT_PEER_WARM = 24,
    /* Handle 0, while a publish or a fetch is open: the agent's process has given no sign of life
     * for 3 s, since time_ns (stopped, swapped out, without a core). Its cards may go on, so every
     * page stays lent. A fetch with a deadline that passes then gets FAILING, KVRAIL_EXPIRED. Its
     * terminal event, which alone hands the pages back, comes when the agent runs again, or after
     * AGENT_LOST. Restart an agent that stays silent. Time in which this process did not run, or
     * did not call kvrail_poll, does not count. Never with an older agent. */
    KVRAIL_EVENT_AGENT_SILENT = 27,
    KVRAIL_EVENT_AGENT_BACK = 28, /* handle 0: the agent runs again; what it says follows */
    KVRAIL_EVENT_REFUSED = 2      /* handle 0: the agent gave up this connection; detail says why */
} kvrail_event_kind;

struct kvrail_event {
    uint32_t size; /* how many of its bytes this library knows; those after them are 0 */
    kvrail_event_kind kind;
    int terminal;         /* 1: the pages of `handle` are yours again, and the handle has ended */
    kvrail_status status; /* KVRAIL_OK or the reason */
    uint64_t handle;
    const char *status_name; /* a literal */
    uint32_t layer_first, layer_count;
    /* LAYER_IN: the tokens that are in place. DONE: all tokens that are in place.
     * FAILED, CANCELLED, EXPIRED: the tokens that are not known to be right.
     * [skip_tokens, token_first) is in place in every layer, and need not be recomputed. In
     * [token_first, token_end) a page may hold the source's bytes, others, or some of each. In a KV
     * group with pages of n tokens these are the logical pages from token_first / n to
     * (token_end - 1) / n, none where both are equal. A segment counts as a whole; after the first
     * segment that lacks a byte, none counts. */
    uint64_t token_first, token_end;
    uint64_t bytes;         /* DONE, SOURCE_FREE: moved by this fetch or publish */
    uint32_t writes;        /* DONE, SOURCE_FREE: RDMA writes, repetitions included */
    uint32_t retries;       /* DONE, SOURCE_FREE: writes that were posted a second time */
    const uint8_t *payload; /* TAIL_IN, WHY; borrowed until the next call of kvrail_poll */
    uint32_t payload_bytes;
    char name[KVRAIL_NAME_BYTES];     /* PEER_*, RAIL_*, TARGET_REFUSED: of that; else empty */
    uint64_t time_ns;                 /* when the agent sent it, ns of CLOCK_MONOTONIC on this host;
                                         AGENT_SILENT: when the agent was seen to run last */
    char detail[KVRAIL_DETAIL_BYTES]; /* the sentence of a status that is not KVRAIL_OK */
};

/* "layer_in". */
KVRAIL_API const char *kvrail_event_name(int kind);

/* A descriptor that is readable when kvrail_poll has something to do: for epoll, poll, asyncio. The
 * connection owns it; it never changes. While requests are open it is readable once a second
 * also when no event has come: kvrail_poll then looks whether the agent still runs. */
KVRAIL_API int kvrail_event_fd(const struct kvrail *connection);

/* kvrail_poll for other languages: event_bytes is the size of struct kvrail_event as the caller
 * knows it. A size that no version of this header had is KVRAIL_INVALID. */
KVRAIL_API int kvrail_poll_sized(struct kvrail *connection, struct kvrail_event *events,
                                 int event_max, size_t event_bytes);

/* Takes up to event_max events, oldest first, and sends queued requests. Never waits. Returns the
 * number of events; 0: none at this moment; a failure: the connection has ended and there will
 * never be another event (KVRAIL_AGENT_LOST, or the reason of the event REFUSED). Payloads are
 * borrowed until the next call. */
static inline int kvrail_poll(struct kvrail *connection, struct kvrail_event *events, int event_max)
{
    return kvrail_poll_sized(connection, events, event_max, sizeof(struct kvrail_event));
}

#ifdef __cplusplus
}
#endif

#endif
