/* The nouns that the wire, the plan and the agents share, and the smaller of two numbers. Plain
 * values, no ownership. */
#ifndef KVR_BASE_TYPES_H
#define KVR_BASE_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"

static inline uint64_t kvr_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint32_t kvr_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct kvr_uuid {
    uint8_t bytes[16];
};

/* A GPU, by names that mean the same in every process of a host. An ordinal does not: each process
 * has its own CUDA_VISIBLE_DEVICES. */
struct kvr_gpu {
    struct kvr_uuid uuid; /* all 0: not known */
    char pci[16];         /* "0000:9d:00.0", or "" */
};

/* When writes of cards to a GPU's memory become visible to the GPU's own work: CUDA promises an
 * order only on some GPUs. */
typedef enum kvr_write_order {
    KVR_ORDER_UNKNOWN, /* nothing was asked */
    KVR_ORDER_KEPT,    /* before all that follows from the card's report */
    KVR_ORDER_FLUSHED, /* after a flush that a process asks for */
    KVR_ORDER_NONE,    /* the driver offers no flush: cards may read the memory, but not write */
    KVR_ORDERS
} kvr_write_order;

static inline bool kvr_uuid_equal(const struct kvr_uuid *a, const struct kvr_uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* One engine process's place in its model. `generation` is larger after every restart. */
struct kvr_rank {
    struct kvr_uuid engine; /* the engine group's id, stable over restarts */
    uint64_t generation;
    uint32_t tp, tp_size, pp, pp_size;
};

/* What must be equal on both sides, or the transfer is refused naming the field. */
struct kvr_compat {
    char model[KVR_NAME_BYTES];
    char dtype[16]; /* the cache's, e.g. "bfloat16" */
    uint32_t layers_total, kv_heads_total, head_dim;
};

typedef enum kvr_part {
    KVR_PART_K = 1,
    KVR_PART_V = 2,
    KVR_PART_KV = 3,    /* K and V fused in one page */
    KVR_PART_MLA = 4,   /* the latent, one per layer */
    KVR_PART_STATE = 5, /* opaque: mamba, convolution, ring */
} kvr_part;
#define KVR_PARTS_MAX 6

/* Where the engine's pages lie inside one registered region:
 *
 *   offset(layer, part, page, token, head) = base + (layer - layer_first) · layer_stride
 *       + part_index · part_stride + page · page_stride + token · token_stride + head · head_stride
 *
 * with head_bytes contiguous bytes at that offset. Bytes everywhere; strides of a dimension of
 * size one may be 0. page_bytes (derived) = page_tokens × head_count × head_bytes, what one page of
 * one layer and part holds; of a state with page_tokens 0 it is head_count × head_bytes. */
struct kvr_region_layout {
    uint32_t region; /* id that the agent gave; unique in (engine, generation) */
    uint32_t group;  /* KV group: which page table of a request indexes it */
    uint32_t layer_first, layer_count;
    uint32_t part_count;
    uint8_t parts[KVR_PARTS_MAX]; /* kvr_part, in the order of part_stride */
    bool replicated;              /* MLA, replicated GQA: every rank holds the same bytes */
    uint32_t head_first, head_count;
    uint32_t page_tokens; /* 0: a state, which has one page for each request */
    uint32_t page_count;
    uint64_t bytes; /* of the whole region: nothing outside [0, bytes) is ever touched */
    uint64_t base, layer_stride, part_stride, page_stride, token_stride, head_stride;
    uint64_t head_bytes;
};

/* The tokens of a page as page tables count them. A request's every token lies in the one page of
 * its state. */
#define KVR_PAGE_ENDLESS UINT32_MAX
static inline uint32_t kvr_page_tokens(const struct kvr_region_layout *layout)
{
    return layout->page_tokens > 0 ? layout->page_tokens : KVR_PAGE_ENDLESS;
}

/* Of one layer and part. */
static inline uint64_t kvr_page_bytes(const struct kvr_region_layout *layout)
{
    uint64_t tokens = layout->page_tokens > 0 ? layout->page_tokens : 1;

    return tokens * layout->head_count * layout->head_bytes;
}

/* Neighbouring physical pages: ids page_first … page_first + page_count - 1, in logical order. */
struct kvr_page_run {
    uint32_t page_first, page_count;
};

/* A run of chunk numbers of one transfer. */
struct kvr_chunk_run {
    uint32_t chunk_first, chunk_count;
};

/* How many writes of one transfer went to, or came in on, one epoch of one target rail. */
struct kvr_epoch_count {
    uint32_t rail; /* index at the target agent */
    uint32_t epoch;
    uint64_t count;
};

/* How many of a transfer's chunks are hashed on both sides before it counts as delivered. */
typedef enum kvr_digest_mode {
    KVR_DIGEST_OFF,
    KVR_DIGEST_SAMPLE, /* one in KVR_DIGEST_SAMPLE_OF, chosen by chance */
    KVR_DIGEST_FULL,
} kvr_digest_mode;
#define KVR_DIGEST_SAMPLE_OF 16

/* A fetch holds pages at both ends until its deadline: no one may name a farther one than this. */
static inline uint32_t kvr_deadline_ms(uint32_t wanted)
{
    return wanted < KVR_DEADLINE_MS_MAX ? wanted : KVR_DEADLINE_MS_MAX;
}

/* How a rail reaches a remote region: remote address = base + offset. */
struct kvr_remote_key {
    uint64_t key, base;
};

/* What a rail is connected to: an operator's label, which has no '/', or the text of the rail's IP
 * network, which has one. "": unknown. */
#define KVR_PLANE_BYTES 48

/* A rail as its peer must know it. */
struct kvr_rail_address {
    uint32_t rail, epoch;
    uint32_t group;     /* of its agent's rail groups; below KVR_RAILS_MAX */
    bool same_host;     /* it is written to by agents of its host alone */
    bool needs_senders; /* it takes writes only from endpoints that it knows (rule 12) */
    bool tags;          /* its writes carry a tag above slot and chunk (rule 5) */
    uint32_t bytes;
    uint8_t address[KVR_ADDRESS_BYTES]; /* provider's format, from fi_getname */
    uint32_t scratch_bytes;             /* of the page for warm-up writes; 0: there is none */
    struct kvr_remote_key scratch;
    char plane[KVR_PLANE_BYTES]; /* of an older agent "" */
};

#endif
