/* kvrail: what an inference engine links.
 *
 * An engine rank opens one connection to the agent on its own host, registers the memory that its
 * KV pages lie in, and then names requests: a prefill engine publishes (source), a decode engine
 * fetches (target). Bytes never pass through this library. The whole life of a request:
 *
 *   prefill: kvrail_source_open → _pages → _watch → kvrail_ready after each layer → _tail → _end
 *            → event SOURCE_FREE: the pages are yours again
 *   decode:  kvrail_target_open → _pages → events LAYER_IN, TAIL_IN
 *            → event DONE: the pages are yours
 *
 * Rules:
 *   1. Every publish and every fetch whose open returned KVRAIL_OK ends in exactly one terminal
 *      event: SOURCE_FREE for a publish; DONE, FAILED, CANCELLED or EXPIRED for a fetch. That
 *      event is the hand-back of the pages: no card and no process of kvrail touches them any
 *      more. Before it, do not reuse them, also after a cancel.
 *   2. No call waits, except kvrail_open and kvrail_region_add, which take a timeout.
 *      KVRAIL_AGAIN means that nothing was done: call kvrail_poll, then try again.
 *   3. What the agent refuses later (an unknown source, other geometry) is told by the terminal
 *      event.
 *   4. One thread at a time may use a connection; only kvrail_ready and kvrail_landed may be called
 *      from any thread, and kvrail_status_*, kvrail_event_name and kvrail_memory_* have no
 *      connection.
 *   5. When the agent's process ends: event AGENT_LOST at once, and the terminal event of each
 *      open handle, with that status, as soon as the operating system says that the process is
 *      gone. From then on every call returns KVRAIL_AGENT_LOST; close, and open a connection to
 *      the restarted agent.
 *
 * Compatibility: zero a struct before you fill it. A struct changes its size only together with the
 * number in libkvrail.so.N; event kinds and failures may be added at any time, so take those that
 * you do not know for none of your concern, and an unknown status below 0 for a failure.
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
#define KVRAIL_GROUPS_MAX         8              /* KV groups of one request */
#define KVRAIL_PARTS_MAX          6              /* parts of one region */
#define KVRAIL_SOURCES_MAX        64             /* source ranks of one fetch */
#define KVRAIL_TAIL_BYTES_MAX     (65536 - 1024) /* of one kvrail_source_tail */
#define KVRAIL_REQUEST_BYTES      128            /* a request id, its NUL included */
#define KVRAIL_NAME_BYTES         64             /* other names, their NUL included */
#define KVRAIL_HANDLES_MAX        8192           /* publishes and fetches open at once */
#define KVRAIL_PAGES_PER_CALL_MAX (1u << 20)     /* page ids of one call */
#define KVRAIL_DETAIL_BYTES       240

/* One publish or one fetch, unique on its connection for ever. 0 names none. */
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
    KVRAIL_NO_SOURCE = -22,    /* nobody published this request in time */
    KVRAIL_INCOMPATIBLE = -23, /* the two engines' caches do not match; detail names the field */
    KVRAIL_PLAN_MISMATCH = -24,
    KVRAIL_DIGEST_MISMATCH = -25,
    KVRAIL_ABORTED = -26, /* the source engine gave up the request */
    KVRAIL_FULL = -27,    /* the agent's pools cannot hold this request */
    KVRAIL_REVOKED = -28,
    KVRAIL_SIBLING = -29, /* another transfer of the same fetch failed */
    KVRAIL_UNKNOWN_TRANSFER = -30,
    KVRAIL_NOT_READY = -31,
    KVRAIL_DRAINING = -32,    /* the agent is shutting down */
    KVRAIL_COPY_FAILED = -33, /* between device memory and the agent's staging memory */
    KVRAIL_RAIL_FAILED = -40,
    KVRAIL_EPOCH_ENDED = -41,
    KVRAIL_NO_RAIL = -42,
    KVRAIL_PEER_LOST = -50, /* the other agent died or cannot be reached */
    KVRAIL_PEER_RESTARTED = -51,
    KVRAIL_REFUSED = -52,
    KVRAIL_ENGINE_LOST = -60, /* the other engine ended */
    KVRAIL_AGENT_LOST = -61,  /* the agent of this connection ended */
    KVRAIL_INTERNAL = -99
} kvrail_status;

/* "peer_lost": for logs and metrics. "?" for a value that this library does not know. */
KVRAIL_API const char *kvrail_status_name(int status);
/* One sentence. */
KVRAIL_API const char *kvrail_status_text(int status);

/* Why a call failed. */
struct kvrail_error {
    kvrail_status status;
    int os_errno;                     /* 0: the operating system was not involved */
    char detail[KVRAIL_DETAIL_BYTES]; /* a sentence for the person who must act */
};

/* The last failure of a call on this connection. Borrowed, changed by the next call that fails. */
KVRAIL_API const struct kvrail_error *kvrail_last_error(const struct kvrail *connection);

/* The library's version, "0.1.0". */
KVRAIL_API const char *kvrail_version(void);

/* ---- connection ----------------------------------------------------------------------------- */

/* Who is calling. `model` … `head_dim` must be equal on both sides of a transfer, or it is refused
 * with a sentence that names the field. */
struct kvrail_identity {
    const char *name;        /* for people, e.g. "decode-3" */
    uint8_t engine[16];      /* the engine group's id: random once, stable over restarts */
    uint64_t generation;     /* larger after every restart; wall time in ns will do */
    uint32_t tp, tp_size;    /* tensor-parallel rank and size; 0 of 1 without */
    uint32_t pp, pp_size;    /* pipeline stage and count; 0 of 1 without */
    const char *model;       /* a tag of what must be equal: name, revision, draft model */
    const char *dtype;       /* the cache's, e.g. "bfloat16"; at most 15 bytes */
    uint32_t layers_total;   /* of the model, all stages */
    uint32_t kv_heads_total; /* of the model, all ranks */
    uint32_t head_dim;
};

/* Connects to the agent that listens on socket_path and waits at most timeout_ms for its answer,
 * also for a place that an engine which has gone still holds.
 * Errors (error, if not NULL, has the sentence): INVALID, SYSTEM (nobody listens there), REFUSED
 * and whatever the agent answers, TIMED_OUT, NO_MEMORY. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_open(const char *socket_path,
                                                       const struct kvrail_identity *identity,
                                                       uint32_t timeout_ms,
                                                       struct kvrail **ret_connection,
                                                       struct kvrail_error *error);

/* Ends the connection. What is still open is cancelled by the agent, and no event will tell when
 * its pages are free: cancel and poll for the terminal events first. NULL does nothing. The
 * engine's memory is never freed. No other thread may be inside kvrail_ready. */
KVRAIL_API void kvrail_close(struct kvrail *connection);

/* The agent's name, as it calls itself. Lives as long as the connection. */
KVRAIL_API const char *kvrail_agent_name(const struct kvrail *connection);

/* ---- memory --------------------------------------------------------------------------------- */

/* Host memory that can be given to an agent: a memfd, mapped shared, that can never shrink. */
struct kvrail_memory {
    int fd;
    void *address;
    uint64_t bytes; /* rounded up to whole pages of the operating system */
};

/* Makes and maps zeroed memory. `name` is shown in /proc. Errors: INVALID, SYSTEM. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_memory_create(const char *name, uint64_t bytes,
                                                                struct kvrail_memory *ret_memory,
                                                                struct kvrail_error *error);
/* Unmaps and closes. An agent that still has the region keeps its own mapping. */
KVRAIL_API void kvrail_memory_destroy(struct kvrail_memory *memory);

typedef enum kvrail_memory_kind {
    KVRAIL_MEMORY_MEMFD = 0, /* host memory; fd carries F_SEAL_SHRINK, as of kvrail_memory_create */
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

/* One of several VMM allocations that a region lies over: from its byte 0 on, `bytes` of it are
 * mapped before the next begins. */
struct kvrail_allocation {
    int fd; /* its POSIX descriptor; borrowed for the call */
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
 * dimension of size one may be 0. Tensors that do not lie side by side are separate regions. */
struct kvrail_region {
    const char *name; /* for people; may be NULL */
    kvrail_memory_kind memory;
    int fd;             /* borrowed for the call; -1 with CUDA_IPC, and with allocations */
    int32_t device;     /* CUDA ordinal; -1 for host memory */
    uint64_t fd_offset; /* where the region begins in the descriptor's, or in the first allocation's
                           memory; multiple of 4096, of device memory of 256 */
    uint8_t ipc[64];
    /* CUDA_VMM over several allocations that are mapped side by side, in the order of addresses;
     * the region begins in the first and ends in the last. 0: it is of one. */
    uint32_t allocation_count;
    const struct kvrail_allocation *allocations; /* borrowed for the call; NULL: they are those that
                                                    are mapped from `address` on in this process */
    uint64_t address;                            /* device pointer of byte 0 of the region */
    uint32_t group; /* KV group: which page table of a request indexes this region */
    uint32_t layer_first, layer_count;
    uint32_t part_count;
    uint8_t parts[KVRAIL_PARTS_MAX]; /* kvrail_part, in the order of part_stride */
    int replicated;                  /* every rank holds the same bytes (MLA, replicated GQA) */
    uint32_t head_first, head_count; /* this rank's heads, numbered over all ranks */
    uint32_t page_tokens;            /* tokens of one page */
    uint32_t page_count;             /* page ids are below it */
    uint64_t bytes;                  /* nothing outside [0, bytes) is ever touched */
    uint64_t base, layer_stride, part_stride, page_stride, token_stride, head_stride;
    uint64_t head_bytes; /* head_dim × bytes of dtype */
};

/* Fills base, strides and bytes for the densest layout, [layer][part][page][token][head], from the
 * counts that are already in *region. */
KVRAIL_API void kvrail_region_dense(struct kvrail_region *region);

/* Says in *region where device memory lies: memory, device, fd or ipc, and fd_offset, from a CUDA
 * device pointer to its byte 0. region->bytes must be known. Of cuMemAlloc and cudaMalloc it is a
 * CUDA IPC handle, and the region within one allocation; of one VMM allocation a descriptor, yours
 * to close after kvrail_region_add. Over several (PyTorch's expandable segments: one each 20 MiB)
 * there is nothing to close (fd is -1): allocation_count and address say where they are, and
 * kvrail_region_add, in a thread where a context is current, opens the descriptor of each, some at
 * a time, and closes it again. They must be made with POSIX descriptors allowed. The driver is
 * loaded at run time. Errors: INVALID, SYSTEM with the driver's words, TOO_LARGE (more than
 * KVRAIL_ALLOCATIONS_MAX), UNSUPPORTED (no driver, or a library without CUDA). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_of_device(struct kvrail_region *region,
                                                                   uint64_t address,
                                                                   struct kvrail_error *error);

/* The same by a dmabuf descriptor, yours to close after kvrail_region_add: the agent then needs no
 * context on the GPU, and memory that a card does not reach is refused with what it lacks, since
 * nothing but a card can do anything with a dmabuf. Of the other kinds the agent makes one itself
 * where it can. region->bytes must be known, address be a multiple of 4096. One dmabuf covers
 * several VMM allocations side by side where the driver gives one. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_dmabuf_of_device(
    struct kvrail_region *region, uint64_t address, struct kvrail_error *error);

/* Registers memory with the agent's cards and waits for it (large memory takes seconds).
 * *ret_region is unique on this connection. Errors: INVALID and SYSTEM with the agent's sentence,
 * UNSUPPORTED, TOO_LARGE (more than KVRAIL_ALLOCATIONS_MAX allocations), FULL (512 regions, or 8
 * that are being registered, or more descriptors than the agent may open), AGAIN, TIMED_OUT
 * (*ret_region is written then: an event REGION_READY or REGION_GONE follows), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_add(struct kvrail *connection,
                                                             const struct kvrail_region *region,
                                                             uint32_t timeout_ms,
                                                             uint32_t *ret_region);
/* Asks for the region back; event REGION_GONE, with the region as its handle, says when no card can
 * touch it any more. Handles that were opened before go on with it: it comes after their terminal
 * events. Any number of times. Errors: AGAIN, NOT_FOUND, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_region_drop(struct kvrail *connection,
                                                              uint32_t region);

/* ---- source: prefill ------------------------------------------------------------------------ */

struct kvrail_source_options {
    const char *request; /* the id that both engines know; at most 127 bytes */
    uint32_t attempt;    /* of this request, from the router; equal on both sides */
    uint64_t tokens;     /* upper bound of what will be published */
    uint32_t consumers;  /* target ranks that will come; 0: those of the first one's engine that
                            have layers and heads of this rank, by its tp_size and pp_size */
    uint32_t lease_ms;   /* how long to hold the pages for a target that has not come; 0: default */
    /* 0 normal, below 0 background; the fetch's is added. Between transfers of one agent the
     * deadline of the fetch counts first, then this; among equals each has its turn. */
    int32_t priority;
    uint32_t tenant; /* for later: no agent looks at it */
};

/* Announces a request whose KV this rank computes. It holds pages from the first
 * kvrail_source_pages to SOURCE_FREE. Errors: AGAIN (also when KVRAIL_HANDLES_MAX are open),
 * INVALID, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status
kvrail_source_open(struct kvrail *connection, const struct kvrail_source_options *options,
                   kvrail_handle *ret_handle);

/* Appends physical page ids of one KV group: ids[i] holds the i-th logical page after those already
 * given. Every group that the engine has regions of needs its pages: of tokens that are not kept
 * (behind a sliding window) any page id will do, as long as the target skips them. `ids` is
 * borrowed for the call. Errors: AGAIN (nothing was appended), INVALID, NOT_FOUND, TOO_LARGE,
 * AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_pages(struct kvrail *connection,
                                                               kvrail_handle source, uint32_t group,
                                                               const uint32_t *ids,
                                                               size_t id_count);

/* Announces a segment, tokens [token_first, token_end), whose pages were given, and how its layers
 * become final: when `word` has reached base + n, the segment's first n layers are. token_first
 * continues the last watch, 0 first. Words belong to engine streams, not to requests: choose base
 * as the word's value when the segment's first layer starts. Errors: AGAIN, INVALID, NOT_FOUND,
 * AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_watch(struct kvrail *connection,
                                                               kvrail_handle source, uint32_t word,
                                                               uint64_t base, uint64_t token_first,
                                                               uint64_t token_end);

/* Raises a readiness word: everything stored to the pages before this call may be read now. A word
 * only grows and starts at 0. Any thread; a memory store, and a system call only when the agent
 * sleeps. Errors: INVALID (no such word, or smaller than it is), AGENT_LOST. */
KVRAIL_API kvrail_status kvrail_ready(struct kvrail *connection, uint32_t word, uint64_t value);

/* The readiness words as the GPU sees them: word w lies at *ret_address + 8 · w. So a kernel, in a
 * CUDA graph too, raises a word by itself, behind its own stores and a fence of the whole system:
 *
 *   __threadfence_system(); *(volatile uint64_t *)&words[w] += 1;
 *
 * One thread at a time raises a word: an atomic addition to host memory is not for every GPU.
 * Nothing rings then: while something waits for a word the agent looks by itself, at least every
 * 50 µs and its wake-up (sooner while it spins, --spin), from the first call on. A context must be
 * current whose GPU runs the kernels, and no stream be captured. kvrail_close takes the words back:
 * nothing that stores there may be queued any more. Errors: UNSUPPORTED (no driver, no GPU, or a
 * build without CUDA), SYSTEM (the driver refuses), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_words_on_device(struct kvrail *connection,
                                                                  uint64_t *ret_address);

typedef enum kvrail_store {
    KVRAIL_STORE_GPU = 1, /* by a memory operation of the stream */
    KVRAIL_STORE_HOST = 2 /* by a host function: this driver has no memory operations, so a thread
                             of it calls kvrail_ready, and the stream waits for it */
} kvrail_store;

/* kvrail_ready in the order of a stream: when all that was queued there before has ended. `stream`
 * is a CUstream or cudaStream_t of the current context. The values of one word grow in the order in
 * which they are stored. Nothing may be queued any more when kvrail_close is called. *ret_store, if
 * not NULL, says who will store. Errors: as kvrail_words_on_device; INVALID (no such word, or
 * smaller than it is), UNSUPPORTED (the stream is captured: a graph would store the same value at
 * every launch; a kernel of it raises the word). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_ready_on_stream(struct kvrail *connection,
                                                                  uint32_t word, uint64_t value,
                                                                  void *stream,
                                                                  kvrail_store *ret_store);

/* The engine's own bytes that go with the request (first token, logprobs …), once per publish, at
 * most KVRAIL_TAIL_BYTES_MAX. Errors: AGAIN, NOT_FOUND, EXISTS (given before), TOO_LARGE,
 * AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_tail(struct kvrail *connection,
                                                              kvrail_handle source,
                                                              const void *bytes, size_t byte_count);

/* KVRAIL_OK: nothing more will be published (words may still be rising). A failure: the request is
 * aborted with it. The pages stay lent until SOURCE_FREE. Errors: AGAIN, NOT_FOUND, INVALID (called
 * before), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_source_end(struct kvrail *connection,
                                                             kvrail_handle source,
                                                             kvrail_status outcome);

/* ---- target: decode ------------------------------------------------------------------------- */

/* One source rank that holds a part of the request; the router passes it along. */
struct kvrail_source_address {
    const char *agent;  /* "host:port" of its prefill-agent; at most 127 bytes */
    uint8_t engine[16]; /* kvrail_identity of the source */
    uint64_t generation;
    uint32_t tp, pp;
};

/* What both agents hash of the source's bytes and of what landed, before a fetch is DONE. */
typedef enum kvrail_digest {
    KVRAIL_DIGEST_DEFAULT = 0, /* what the agents were started with */
    KVRAIL_DIGEST_SAMPLE = 1,  /* at least one write in 16, chosen by chance */
    KVRAIL_DIGEST_FULL = 2     /* every write */
} kvrail_digest;

struct kvrail_target_options {
    const char *request;
    uint32_t attempt;
    uint64_t tokens;      /* upper bound: the page table covers [0, tokens) */
    uint64_t skip_tokens; /* [0, skip_tokens) is here; equal to tokens: frees the source only */
    uint32_t deadline_ms; /* from now; 0: the agent's default */
    int32_t priority;     /* the publish's is added, see there */
    uint32_t tenant;      /* for later, as there */
    /* Every rank that this rank could need bytes from, on however many agents; or all ranks of the
     * engine, if every target rank names all. What several ranks of one engine hold alike (MLA,
     * heads of which there are fewer than ranks) one of them gives, chosen by the request. */
    const struct kvrail_source_address *sources;
    uint32_t source_count; /* 1 … KVRAIL_SOURCES_MAX */
    /* Other bytes than the source's end the fetch as FAILED(DIGEST_MISMATCH). The strongest wish of
     * this fetch and of both agents (--digest) counts. */
    kvrail_digest digest;
};

/* Asks for a request's KV. It may come before or after the source's publish. Pages are written to
 * from the first kvrail_target_pages until the terminal event. Errors: AGAIN (also when
 * KVRAIL_HANDLES_MAX are open), INVALID, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status
kvrail_target_open(struct kvrail *connection, const struct kvrail_target_options *options,
                   kvrail_handle *ret_handle);

/* Of one KV group other tokens than skip_tokens are here, or not needed: [0, skip_tokens) in whole
 * pages of the group, or all. For a sliding window the tokens before it; 0 for a state that is
 * computed over all tokens. Before the first kvrail_target_pages of the fetch, and not of one that
 * skips everything. Without it, skip_tokens of the fetch holds, in whole pages of the group.
 * Errors: AGAIN, INVALID, NOT_FOUND, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_skip(struct kvrail *connection,
                                                              kvrail_handle target, uint32_t group,
                                                              uint64_t skip_tokens);

/* As kvrail_source_pages; logical page 0 is that of token 0, skipped tokens included. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_pages(struct kvrail *connection,
                                                               kvrail_handle target, uint32_t group,
                                                               const uint32_t *ids,
                                                               size_t id_count);

/* Layers by a word, for whoever shall not wait for an event: the agent raises landed word `word` to
 * base + n when the first n layers of this rank are in place, for all tokens, from every source and
 * in every KV group. At the end of the fetch it is base + all layers with DONE, and at least base +
 * KVRAIL_LANDED_FAILED with everything else: whoever waits goes on then, over pages that hold
 * anything, and can tell by the word. If the agent dies it is kvrail_poll that raises it, with the
 * terminal event: call that in another thread than one that waits. Landed words are not the
 * readiness words: they begin at 0 and only grow, so base is what the word is or more. Once for a
 * fetch. Errors: AGAIN, INVALID, NOT_FOUND, EXISTS, AGENT_LOST. */
#define KVRAIL_LANDED_FAILED (UINT64_C(1) << 20)
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_target_watch(struct kvrail *connection,
                                                               kvrail_handle target, uint32_t word,
                                                               uint64_t base);

/* What a landed word is. Any thread. */
KVRAIL_API uint64_t kvrail_landed(const struct kvrail *connection, uint32_t word);

/* The landed words as the GPU sees them: word w lies at *ret_address + 8 · w. A kernel, in a CUDA
 * graph too, may wait there: it reads with ld.acquire.sys (a system-wide atomic load) until the
 * word is large enough, by a value that it finds in memory. A context must be current whose GPU
 * runs the kernels, and no stream be captured. kvrail_close takes the words back: nothing that
 * reads there may be queued any more. Errors: UNSUPPORTED (no driver, no GPU, or a build without
 * CUDA), SYSTEM (the driver refuses), AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_landed_on_device(struct kvrail *connection,
                                                                   uint64_t *ret_address);

/* What is queued in the stream from here on waits until the landed word is at least `value`. It is
 * the GPU that waits, or (*ret_by, if not NULL, says so) a host function, which looks every 20 µs
 * and holds up the driver's other host functions meanwhile, where memory operations are off. Behind
 * the wait the GPU sees what cards wrote before the word rose, where it says that it can flush
 * that. Errors: as kvrail_landed_on_device; INVALID; UNSUPPORTED (the stream is captured: a graph
 * would wait for the same value at every launch; a kernel of it waits). */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_landed_on_stream(struct kvrail *connection,
                                                                   uint32_t word, uint64_t value,
                                                                   void *stream,
                                                                   kvrail_store *ret_by);

/* ---- both ----------------------------------------------------------------------------------- */

/* Asks to stop; the terminal event follows, which may still be DONE if it was on its way. Any
 * number of times, in any state; a handle that has ended is KVRAIL_OK too. `reason` is a failure,
 * usually KVRAIL_CANCELLED. Errors: AGAIN, INVALID, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_cancel(struct kvrail *connection,
                                                         kvrail_handle handle,
                                                         kvrail_status reason);

/* Prolongs a publish's lease to lease_ms from now. Errors: AGAIN, NOT_FOUND, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_renew(struct kvrail *connection,
                                                        kvrail_handle source, uint32_t lease_ms);

/* Asks what a handle waits for; event WHY brings JSON as payload. Also for a handle that has ended,
 * as long as the agent remembers it. Errors: AGAIN, AGENT_LOST. */
KVRAIL_API KVRAIL_MUST_CHECK kvrail_status kvrail_why(struct kvrail *connection,
                                                      kvrail_handle handle);

/* ---- events --------------------------------------------------------------------------------- */

typedef enum kvrail_event_kind {
    KVRAIL_EVENT_REGION_READY = 3, /* handle is the region; only after region_add timed out */
    KVRAIL_EVENT_REGION_GONE = 4,  /* handle is the region: no card can touch it any more */
    KVRAIL_EVENT_ACCEPTED = 5,     /* both sides' page tables are known */
    KVRAIL_EVENT_LAYER_IN = 6,     /* target: these layers, one or several that follow each other,
                                      of these tokens are in place, from every source rank and in
                                      every KV group that has them. Once a write was lost and
                                      posted again, none is told before the source has posted all
                                      that it published: let no source wait for one */
    KVRAIL_EVENT_TAIL_IN = 7,      /* target: payload is the source's tail */
    KVRAIL_EVENT_DONE = 8,         /* target, terminal: all is in place */
    KVRAIL_EVENT_FAILING = 9, /* it will fail: recompute elsewhere, but the pages are still lent */
    KVRAIL_EVENT_FAILED = 10, /* target, terminal: token_first says what is right */
    KVRAIL_EVENT_CANCELLED = 11,   /* target, terminal */
    KVRAIL_EVENT_EXPIRED = 12,     /* target, terminal */
    KVRAIL_EVENT_SOURCE_FREE = 13, /* source, terminal: status is the outcome */
    KVRAIL_EVENT_WHY = 14,         /* payload is JSON */
    KVRAIL_EVENT_AGENT_LOST = 15,  /* handle 0: no new work; terminal events follow */
    /* Source: a quarter of the lease is left, and not every consumer has come. kvrail_renew, or any
     * other call for this publish, prolongs it. Again after each renewal. */
    KVRAIL_EVENT_LEASE_LOW = 17,
    /* Source: the lease is over; consumers that have not come find nothing. SOURCE_FREE follows
     * when those that have come are done. */
    KVRAIL_EVENT_LEASE_END = 18,
    /* Handle 0, `name` is the other agent: it cannot be reached any more, or is there (again). What
     * was on its way fails by itself; a router may send new requests elsewhere. Only changes are
     * told, and only to engines that are attached. */
    KVRAIL_EVENT_PEER_DOWN = 19,
    KVRAIL_EVENT_PEER_UP = 20,
    /* Handle 0, `name` is the card: no endpoint can be opened on it, or one could again. Nothing
     * moves over it in between; transfers take the other cards. A card that fails and recovers
     * within a transfer is no event. */
    KVRAIL_EVENT_RAIL_DOWN = 21,
    KVRAIL_EVENT_RAIL_UP = 22,
    /* Source: a target asked for this publish and cannot have it; `name` is its agent, and status
     * and detail say why ("model: the source has …, the target has …"). The publish waits for
     * others as before. Handle 0: another agent as a whole was turned away, `name` is its address,
     * because none of its engines fits any here. Of one publish the first few are told; kvrail_why
     * counts them all. */
    KVRAIL_EVENT_TARGET_REFUSED = 23,
    /* Handle 0, of a prefill-agent: every pair of cards with the decode-agent `name`, which is up,
     * has carried a few bytes, so that no transfer waits for a connection. Once after each PEER_UP;
     * never with --warm-up no. A transfer that comes sooner is only slower. */
    KVRAIL_EVENT_PEER_WARM = 24,
    KVRAIL_EVENT_REFUSED = 2 /* handle 0: the agent gave up this connection, with its sentence */
} kvrail_event_kind;

struct kvrail_event {
    kvrail_event_kind kind;
    int terminal; /* 1: the pages of `handle` are yours again, and it names nothing now */
    uint64_t handle;
    kvrail_status status;    /* KVRAIL_OK or the reason */
    const char *status_name; /* a literal */
    uint32_t layer_first, layer_count;
    /* LAYER_IN: which tokens. DONE: all that are in place. FAILED, CANCELLED, EXPIRED: which are
     * not known to be right. [skip_tokens, token_first) is in place in every layer, and need not be
     * recomputed; in [token_first, token_end) a page may hold the source's bytes, others, or some
     * of each. Of a KV group with pages of n tokens these are the logical pages from token_first /
     * n to (token_end - 1) / n, none where both are equal. A segment counts as a whole, and after
     * the first one that lacks a byte none counts. */
    uint64_t token_first, token_end;
    uint64_t bytes;         /* DONE, SOURCE_FREE: moved by this fetch or publish */
    uint32_t writes;        /* DONE, SOURCE_FREE: RDMA writes, repetitions included */
    uint32_t retries;       /* of them, posted a second time */
    const uint8_t *payload; /* TAIL_IN, WHY; borrowed until the next call of kvrail_poll */
    uint32_t payload_bytes;
    char name[KVRAIL_NAME_BYTES];     /* PEER_*, RAIL_*, TARGET_REFUSED: whose; else empty */
    uint64_t time_ns;                 /* when it was told, ns of CLOCK_MONOTONIC on this host */
    char detail[KVRAIL_DETAIL_BYTES]; /* the sentence of a status that is not KVRAIL_OK */
};

/* "layer_in". */
KVRAIL_API const char *kvrail_event_name(int kind);

/* A descriptor that is readable when kvrail_poll has something to do: for epoll, poll, asyncio.
 * Stays the connection's. It never changes. */
KVRAIL_API int kvrail_event_fd(const struct kvrail *connection);

/* Takes up to event_max events, oldest first, and sends what waits to be sent. Never waits. Returns
 * how many; 0: none at this moment; a failure: the connection has ended and there will never be
 * another (KVRAIL_AGENT_LOST, or the reason that the event REFUSED gave). Payloads are borrowed
 * until the next call. */
KVRAIL_API int kvrail_poll(struct kvrail *connection, struct kvrail_event *events, int event_max);

#ifdef __cplusplus
}
#endif

#endif
