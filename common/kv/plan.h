/* A plan: which bytes of the source's pages go where in the target's, in which writes.
 *
 * One plan covers one segment of a transfer: the logical pages [page_first, page_first +
 * page_count) of one KV group, in every (layer, part) that the target has. Both sides make it from
 * the same input and compare hashes.
 *
 *   piece   bytes contiguous at both ends; neighbouring pages merged
 *   chunk   one write: one piece, or a part of a long one, or several short ones (vectors)
 *
 * A plan is compact. The pages make *patterns* (merged runs, grouped into chunks), one for each way
 * in which regions hold pages; a *plane* is one (layer, part) and names the pattern it uses. Planes
 * are ordered layer-major, so a layer's chunks are one range of numbers. Memory: runs + planes,
 * never a record a chunk. Chunk k is found by two binary searches.
 *
 * Inside a plane, chunks follow the target's addresses, not the logical order, so that pages which
 * an allocator handed out backwards merge too. A chunk has at most min(pieces_local, pieces_remote)
 * pieces: pieces that touch at one end only count as two there as well.
 *
 * Pure: no clock, no I/O, no allocation but from the buddy given. A plan is immutable after make
 * and may be read from any thread. */
#ifndef KVR_KV_PLAN_H
#define KVR_KV_PLAN_H

#include "base/buddy.h"
#include "base/status.h"
#include "base/types.h"

struct kvr_plan_limits {                  /* the minimum of both sides' */
    uint32_t pieces_local, pieces_remote; /* of one write; ≥ 1, ≤ KVR_IOV_MAX */
    uint64_t chunk_bytes_max;             /* ≥ 4096 */
};

struct kvr_plan_input {
    const struct kvr_region_layout *source_layouts, *target_layouts; /* all regions of both ranks */
    uint32_t source_layout_count, target_layout_count;
    uint32_t group;
    const uint32_t *source_pages, *target_pages; /* physical ids of the segment's logical pages */
    uint32_t page_count;
    uint64_t token_first, token_end; /* for the record; pages are moved whole */
    struct kvr_plan_limits limits;
};

struct kvr_plan_piece {
    uint32_t source_layout, target_layout; /* indexes into the input's arrays */
    uint64_t source_offset, target_offset; /* in those regions */
    uint64_t bytes;
};

struct kvr_plan_chunk {
    uint32_t layer;
    uint8_t part; /* kvr_part */
    uint32_t piece_count;
    struct kvr_plan_piece pieces[KVR_IOV_MAX];
};

/* Neighbours at both ends. */
struct kvr_plan_run {
    uint32_t source_page, target_page, page_count;
};

/* Consecutive runs that become chunks together: one run cut into several chunks, or several short
 * runs gathered into one. */
struct kvr_plan_batch {
    uint32_t run_first, run_count;
    uint32_t chunk_first; /* within the pattern */
};

struct kvr_plan_pattern {
    struct kvr_plan_run *runs;
    struct kvr_plan_batch *batches;
    uint32_t run_count, batch_count, chunk_count;
    uint64_t page_bytes;                             /* moved of each page: one run of bytes */
    uint64_t source_page_stride, target_page_stride; /* equal to page_bytes: neighbours touch */
};
#define KVR_PLAN_PATTERNS_MAX 16

struct kvr_plan_plane {
    uint32_t layer;
    uint32_t source_layout, target_layout, pattern;
    uint64_t source_base, target_base; /* offset of page 0 of this (layer, part) in its region */
    uint32_t chunk_first;              /* within the plan */
    uint8_t part;
};

struct kvr_plan {
    struct kvr_plan_pattern *patterns;
    struct kvr_plan_plane *planes; /* sorted by (layer, part) */
    uint32_t *layer_planes; /* of each layer, the index of its first plane; then plane_count */
    uint32_t pattern_count, plane_count;
    uint32_t layer_count; /* distinct layers */
    uint32_t chunk_count;
    uint64_t bytes;
    uint64_t token_first, token_end;
    uint64_t hash; /* xxh3 of everything that decides where a byte goes */
    struct kvr_plan_limits limits;
    uint64_t memory_bytes; /* of the plan itself, before the buddy rounds it up */
};

/* KVR_INVALID with a sentence naming the limit that is outside what is said above. */
KVR_MUST_CHECK kvr_status kvr_plan_limits_check(const struct kvr_plan_limits *limits,
                                                struct kvr_error *error);

/* KVR_INCOMPATIBLE with a sentence (see kvr_layout_match), KVR_INVALID (limits or a region that
 * cannot be, a page id outside its region, a target page listed twice), KVR_TOO_LARGE (chunks
 * beyond 2^32, more than KVR_PLAN_PATTERNS_MAX patterns), KVR_NO_MEMORY. A source page may be
 * listed twice: its bytes then go to two target pages. All sizes are checked: no input makes a plan
 * that names a byte outside a region or of a page not listed. page_count 0 gives a plan of no
 * chunks. */
KVR_MUST_CHECK kvr_status kvr_plan_make(const struct kvr_plan_input *input,
                                        struct kvr_buddy *memory, struct kvr_plan **ret_plan,
                                        struct kvr_error *error);
void kvr_plan_free(struct kvr_plan *plan, struct kvr_buddy *memory); /* NULL is fine */

/* chunk < plan->chunk_count. */
void kvr_plan_chunk(const struct kvr_plan *plan, uint32_t chunk, struct kvr_plan_chunk *ret_chunk);
/* The layer that a chunk belongs to, as index among the plan's distinct layers in order. */
uint32_t kvr_plan_layer_index(const struct kvr_plan *plan, uint32_t chunk);
/* The layer's number, and its range of chunks. */
uint32_t kvr_plan_layer(const struct kvr_plan *plan, uint32_t layer_index,
                        struct kvr_chunk_run *ret_chunks);

/* An upper bound of the chunks that any plans of page_count pages of this group in total, in at
 * most segment_count segments, can have with any source that matches. 64 bits: may exceed what a
 * transfer can name. UINT64_MAX for regions or limits that kvr_plan_make would refuse. */
uint64_t kvr_plan_chunks_max(const struct kvr_region_layout *target_layouts,
                             uint32_t target_layout_count, uint32_t group, uint32_t page_count,
                             uint32_t segment_count, const struct kvr_plan_limits *limits);

#endif
