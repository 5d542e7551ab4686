/* A plan maps the bytes of the source's pages to the target's pages, and divides them into writes.
 *
 * One plan covers one segment of a transfer: a range of tokens of one KV group, in every (layer,
 * part, head) that both sides have and that lies in the scope. Both sides make the plan from the
 * same input and compare hashes.
 *
 *   piece   bytes contiguous at both ends; neighbours merged
 *   chunk   one write: one piece, or a part of a long one, or several (vectors)
 *
 * Pages may differ in size, in the order of tokens and heads, and in the heads they hold. A *span*
 * is the range of tokens that one source page and one target page share. Where both pages hold the
 * span alike, it moves as one run of bytes. Else it moves as rows of fragments: rows of heads or of
 * tokens, whichever the target has outside.
 *
 * A plan is compact. A *pattern* is a list of runs of pieces, in blocks of equal rows, grouped into
 * chunks. There is one pattern for each way in which regions hold pages. A *plane* is one (layer,
 * part) and names its pattern. Planes are ordered by layer, so a layer's chunks are one range of
 * numbers. Memory grows with runs + planes; no chunk or row has a record of its own. Chunk k is
 * found by binary searches.
 *
 * Inside a plane, pieces follow the target's addresses, not the logical order, so pages that an
 * allocator handed out backwards merge too. A chunk takes pieces in that order while they make at
 * most pieces_local runs of bytes at the source and pieces_remote at the target. Pieces that touch
 * at one end are one run there. At an end in staging memory (KVR_PLAN_ONE_RUN) all pieces of a
 * chunk are one run. A piece longer than chunk_bytes_max is cut at its multiples; no other piece is
 * cut. For that order and these pieces, the number of chunks is the smallest possible.
 *
 * Pure: no clock, no I/O; memory only from the given buddy. A plan is immutable after make, and any
 * thread may read it. */
#ifndef KVR_KV_PLAN_H
#define KVR_KV_PLAN_H

#include "base/buddy.h"
#include "base/status.h"
#include "base/types.h"

#define KVR_PLAN_ONE_RUN UINT32_MAX

struct kvr_plan_limits { /* the minimum of both sides' */
    /* Runs of one write at that end: ≥ 1 and ≤ KVR_IOV_MAX, or KVR_PLAN_ONE_RUN. */
    uint32_t pieces_local, pieces_remote;
    uint64_t chunk_bytes_max; /* ≥ 4096 */
};

/* The part of the target's KV group that this source gives (see ranks.h); counts of 0: all of it.
 */
struct kvr_plan_scope {
    uint32_t layer_first, layer_count;
    uint32_t head_first, head_count;
};

/* Pages are listed from the one that holds token_first, each side in its own page size. The move
 * goes on behind token_end, up to the first end of a page at either side. Between equal pages the
 * last one moves whole. */
struct kvr_plan_input {
    const struct kvr_region_layout *source_layouts, *target_layouts; /* all regions of both ranks */
    uint32_t source_layout_count, target_layout_count;
    uint32_t group;
    const uint32_t *source_pages, *target_pages; /* physical ids */
    uint32_t source_page_count, target_page_count;
    uint64_t token_first, token_end;
    struct kvr_plan_scope scope;
    struct kvr_plan_limits limits;
};

struct kvr_plan_piece {
    uint32_t source_layout, target_layout; /* indexes into the input's arrays */
    uint64_t source_offset, target_offset; /* in those regions */
    uint64_t bytes;
};

/* The most pieces of one chunk. */
static inline uint32_t kvr_plan_pieces_max(const struct kvr_plan_limits *limits)
{
    bool staged =
        limits->pieces_local == KVR_PLAN_ONE_RUN || limits->pieces_remote == KVR_PLAN_ONE_RUN;

    return staged ? KVR_STAGED_PIECES_MAX : KVR_CHUNK_PIECES_MAX;
}

struct kvr_plan_chunk {
    uint32_t layer;
    uint8_t part; /* kvr_part */
    uint32_t piece_count;
    struct kvr_plan_piece pieces[KVR_CHUNK_PIECES_MAX];
};

/* Equal fragments at the pattern's inner strides. Each is one piece, or several where it is longer
 * than a chunk. Offsets are relative to the plane's bases. */
struct kvr_plan_run {
    uint64_t source_offset, target_offset;
    uint64_t fragment_bytes;
    uint32_t fragment_count;
    uint32_t piece_first; /* within its block's row */
};

/* The same runs, row_count times at the pattern's outer strides. The last block of a pattern is a
 * mark: it has no rows and holds the ends of pieces and runs. */
struct kvr_plan_block {
    uint32_t piece_first; /* within the pattern */
    uint32_t run_first;
    uint32_t row_count;
};

/* Consecutive chunks with the same number of pieces. */
struct kvr_plan_batch {
    uint32_t chunk_first; /* within the pattern */
    uint32_t piece_first;
    uint32_t piece_count; /* of each chunk */
};

/* The layout of the moved bytes in the pages of both ends: equal shapes share one pattern. A
 * dimension of size one has stride 0. */
struct kvr_plan_shape {
    uint64_t head_bytes, head_count;
    struct kvr_plan_end {
        uint64_t page_stride, token_stride, head_stride;
    } source, target;
};

struct kvr_plan_pattern {
    struct kvr_plan_shape shape;
    struct kvr_plan_run *runs;
    struct kvr_plan_block *blocks;
    struct kvr_plan_batch *batches;
    uint32_t run_count, block_count, batch_count; /* blocks: without the mark */
    uint32_t piece_count, chunk_count;
};
#define KVR_PLAN_PATTERNS_MAX 16

struct kvr_plan_plane {
    uint32_t layer;
    uint32_t source_layout, target_layout, pattern;
    uint64_t source_base, target_base; /* offset of page 0, first shared head, in its region */
    uint32_t chunk_first;              /* within the plan */
    uint8_t part;
};

struct kvr_plan {
    struct kvr_plan_pattern *patterns;
    struct kvr_plan_plane *planes; /* sorted by (layer, part) */
    uint32_t *layer_planes; /* for each layer, the index of its first plane; then plane_count */
    uint32_t pattern_count, plane_count;
    uint32_t layer_count; /* distinct layers */
    uint32_t chunk_count;
    uint64_t bytes;
    uint64_t piece_count;
    uint64_t token_first, token_end;
    uint64_t moved_end; /* behind the last token that moves, at least token_end */
    uint64_t hash;      /* xxh3 of everything that decides where a byte goes */
    struct kvr_plan_limits limits;
    uint64_t memory_bytes; /* of the plan itself, before the buddy rounds it up */
};

/* KVR_INVALID, with a sentence that names the limit outside the bounds above. */
KVR_MUST_CHECK kvr_status kvr_plan_limits_check(const struct kvr_plan_limits *limits,
                                                struct kvr_error *error);

/* Errors come with a sentence. KVR_INCOMPATIBLE: see kvr_layout_match. KVR_INVALID: impossible
 * limits or regions, tokens without a page, a page id outside its region, a target page listed
 * twice. KVR_TOO_LARGE: chunks or pieces beyond 2^32, or more than KVR_PLAN_PATTERNS_MAX patterns.
 * KVR_NO_MEMORY. A source page may be listed twice: its bytes then go to two target pages. All
 * sizes are checked: no plan names a byte outside a region or of a page not listed. A segment of no
 * tokens, or sides that share nothing, give a plan of no chunks. */
KVR_MUST_CHECK kvr_status kvr_plan_make(const struct kvr_plan_input *input,
                                        struct kvr_buddy *memory, struct kvr_plan **ret_plan,
                                        struct kvr_error *error);
void kvr_plan_free(struct kvr_plan *plan, struct kvr_buddy *memory); /* NULL is fine */

/* A place in a plan: a chunk, and its first piece. Its members are private to the plan. */
struct kvr_plan_cursor {
    const struct kvr_plan *plan;
    const struct kvr_plan_plane *plane;
    const struct kvr_plan_pattern *pattern;
    const struct kvr_plan_batch *batch;
    const struct kvr_plan_block *block;
    const struct kvr_plan_run *run, *row_end;
    uint32_t chunk, chunk_end; /* within the pattern; where the batch ends */
    uint32_t row, fragment, cuts, cut;
    uint32_t piece; /* within the chunk */
    bool single;    /* chunks of one piece; the run has one piece, and its row is not repeated */
};
/* chunk ≤ plan->chunk_count; at chunk_count nothing is left to read. */
void kvr_plan_seek(const struct kvr_plan *plan, uint32_t chunk, struct kvr_plan_cursor *ret_cursor);
static inline uint32_t kvr_plan_cursor_chunk(const struct kvr_plan_cursor *cursor)
{
    return cursor->plane->chunk_first + cursor->chunk;
}
/* Reads piece by piece: the number of pieces of the chunk at the cursor, and the next piece. Behind
 * the last piece the cursor is at the next chunk. */
static inline uint32_t kvr_plan_cursor_pieces(const struct kvr_plan_cursor *cursor)
{
    return cursor->batch->piece_count;
}
void kvr_plan_next_piece(struct kvr_plan_cursor *cursor, struct kvr_plan_piece *ret_piece);
/* The bytes of the chunk. */
uint64_t kvr_plan_chunk_bytes(const struct kvr_plan *plan, uint32_t chunk);

/* Reads the chunk at the cursor and moves the cursor to the next one: much cheaper than a search
 * for each chunk. Only where no end is staging memory: else a chunk may have too many pieces. */
void kvr_plan_next(struct kvr_plan_cursor *cursor, struct kvr_plan_chunk *ret_chunk);

/* A cheap form for a row of scattered pages, with one piece and one run a chunk. False: nothing was
 * done; use kvr_plan_next. */
static inline bool kvr_plan_next_single(struct kvr_plan_cursor *cursor,
                                        struct kvr_plan_piece *ret_piece)
{
    const struct kvr_plan_run *run = cursor->run, *next = run + 1;
    const struct kvr_plan_plane *plane = cursor->plane;

    if (!cursor->single || cursor->chunk + 1 == cursor->chunk_end || next == cursor->row_end ||
        next->fragment_count != 1 || next->fragment_bytes > cursor->plan->limits.chunk_bytes_max)
        return false;
    ret_piece->source_layout = plane->source_layout;
    ret_piece->target_layout = plane->target_layout;
    ret_piece->source_offset = plane->source_base + run->source_offset;
    ret_piece->target_offset = plane->target_base + run->target_offset;
    ret_piece->bytes = run->fragment_bytes;
    cursor->run = next;
    cursor->chunk++;
    return true;
}

/* Searches a chunk < plan->chunk_count. */
void kvr_plan_chunk(const struct kvr_plan *plan, uint32_t chunk, struct kvr_plan_chunk *ret_chunk);
/* Positions of the chunks when all of them pass through a ring of ring_bytes, one behind the other.
 * A position counts the bytes before it, and lies at position % ring_bytes in the ring. A chunk
 * that would wrap around the ring's end starts at the ring's beginning. *position: the end of the
 * plans before; afterwards the end of this plan. ret_positions has room for chunk_count. False: a
 * chunk is longer than the ring. */
KVR_MUST_CHECK bool kvr_plan_positions(const struct kvr_plan *plan, uint64_t ring_bytes,
                                       uint64_t *position, uint64_t *ret_positions);
/* The layer of a chunk, as index among the plan's distinct layers in order. */
uint32_t kvr_plan_layer_index(const struct kvr_plan *plan, uint32_t chunk);
/* The layer's number, and its range of chunks. */
uint32_t kvr_plan_layer(const struct kvr_plan *plan, uint32_t layer_index,
                        struct kvr_chunk_run *ret_chunks);

/* An upper bound of the total of chunks of any plans with these layouts, KV group, scope and
 * chunk_bytes_max. The plans cover `tokens` tokens in at most segment_count segments. The first
 * segment begins with a page of the side with the smaller pages; each other one begins at the end
 * of the one before. Pages and the other members of *input are ignored. Without source layouts, the
 * source's pages are assumed to be shaped like the target's. 64 bits: the bound may exceed the
 * chunk numbers of a transfer. UINT64_MAX for regions or limits that kvr_plan_make would refuse. */
uint64_t kvr_plan_chunks_max(const struct kvr_plan_input *input, uint64_t tokens,
                             uint32_t segment_count);

#endif
