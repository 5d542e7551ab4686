/* Goal: no input makes a plan that names a byte outside a region, or of a page that is not listed,
 * or moves a page to another's place. Method: books of the listed pages; every piece is taken apart
 * into pages and looked up. */
#include <assert.h>

#include "kv/layout.h"
#include "kv/plan.h"
#include "tests/support/layout_input.h"

#define PAGES_MAX   64
#define REGIONS_MAX 3
#define CHUNKS_MAX  2000 /* looked at from either end of a plan */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct request {
    struct kvr_region_layout sources[REGIONS_MAX], targets[REGIONS_MAX];
    uint32_t source_pages[PAGES_MAX], target_pages[PAGES_MAX];
    struct kvr_plan_input input;
};

static bool listed(const struct request *request, uint64_t source_page, uint64_t target_page)
{
    for (uint32_t i = 0; i < request->input.page_count; i++) {
        if (request->source_pages[i] == source_page && request->target_pages[i] == target_page)
            return true;
    }
    return false;
}

/* Of page 0, by the formula of base/types.h. */
static uint64_t base_of(const struct kvr_region_layout *layout, uint32_t layer, uint8_t part)
{
    uint32_t index = 0;

    assert(layer >= layout->layer_first && layer - layout->layer_first < layout->layer_count);
    while (layout->parts[index] != part)
        index++;
    assert(index < layout->part_count);
    return layout->base + (layer - layout->layer_first) * layout->layer_stride +
           index * layout->part_stride;
}

/* Which page an offset lies in, and where in it. A region of one page may have any stride. */
static uint64_t split(const struct kvr_region_layout *layout, uint64_t offset, uint64_t *ret_inside)
{
    if (layout->page_count == 1) {
        *ret_inside = offset;
        return 0;
    }
    *ret_inside = offset % layout->page_stride;
    return offset / layout->page_stride;
}

/* Each byte of the piece lies in a listed page at both ends. */
static void check_piece(const struct request *request, const struct kvr_plan_chunk *chunk,
                        const struct kvr_plan_piece *piece)
{
    const struct kvr_region_layout *source = &request->sources[piece->source_layout];
    const struct kvr_region_layout *target = &request->targets[piece->target_layout];
    uint64_t page_bytes = kvr_layout_page_bytes(target), step;
    uint64_t from = piece->source_offset, to = piece->target_offset, end;

    assert(piece->source_layout < request->input.source_layout_count);
    assert(piece->target_layout < request->input.target_layout_count);
    assert(piece->bytes > 0);
    assert(!__builtin_add_overflow(from, piece->bytes, &end) && end <= source->bytes);
    assert(!__builtin_add_overflow(to, piece->bytes, &end) && end <= target->bytes);
    assert(from >= base_of(source, chunk->layer, chunk->part));
    assert(to >= base_of(target, chunk->layer, chunk->part));
    from -= base_of(source, chunk->layer, chunk->part);
    to -= base_of(target, chunk->layer, chunk->part);
    for (uint64_t left = piece->bytes; left > 0; left -= step) {
        uint64_t inside_source, inside_target;
        uint64_t source_page = split(source, from, &inside_source);
        uint64_t target_page = split(target, to, &inside_target);

        assert(inside_source == inside_target && inside_target < page_bytes);
        assert(listed(request, source_page, target_page));
        step = page_bytes - inside_target < left ? page_bytes - inside_target : left;
        from += step;
        to += step;
    }
}

static void check_chunk(const struct request *request, const struct kvr_plan *plan, uint32_t index,
                        uint64_t *moved)
{
    struct kvr_plan_chunk chunk;
    uint64_t bytes = 0;

    kvr_plan_chunk(plan, index, &chunk);
    assert(chunk.piece_count >= 1 && chunk.piece_count <= plan->limits.pieces_local &&
           chunk.piece_count <= plan->limits.pieces_remote);
    for (uint32_t i = 0; i < chunk.piece_count; i++) {
        check_piece(request, &chunk, &chunk.pieces[i]);
        assert(!__builtin_add_overflow(bytes, chunk.pieces[i].bytes, &bytes));
        assert(i == 0 || chunk.pieces[i].target_offset >=
                             chunk.pieces[i - 1].target_offset + chunk.pieces[i - 1].bytes);
    }
    assert(bytes <= plan->limits.chunk_bytes_max);
    *moved += bytes;
}

static void check_plan(const struct request *request, const struct kvr_plan *plan)
{
    const struct kvr_plan_input *input = &request->input;
    uint32_t layer_next = 0;
    uint64_t moved = 0;

    assert(plan->chunk_count <= kvr_plan_chunks_max(input->target_layouts,
                                                    input->target_layout_count, input->group,
                                                    input->page_count, 1, &input->limits));
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        if (i == CHUNKS_MAX && plan->chunk_count > 2 * CHUNKS_MAX)
            i = plan->chunk_count - CHUNKS_MAX;
        check_chunk(request, plan, i, &moved);
        assert(kvr_plan_layer_index(plan, i) < plan->layer_count);
    }
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        struct kvr_chunk_run chunks;

        (void)kvr_plan_layer(plan, i, &chunks);
        assert(chunks.chunk_first == layer_next);
        layer_next += chunks.chunk_count;
    }
    assert(layer_next == plan->chunk_count);
    assert(moved == plan->bytes || plan->chunk_count > 2 * CHUNKS_MAX);
}

static void read_request(struct layout_input *bytes, struct request *request)
{
    struct kvr_plan_input *input = &request->input;

    *input = (struct kvr_plan_input){
        .source_layouts = request->sources,
        .target_layouts = request->targets,
        .source_layout_count = layout_input_number(bytes, 1) % (REGIONS_MAX + 1),
        .target_layout_count = layout_input_number(bytes, 1) % (REGIONS_MAX + 1),
        .source_pages = request->source_pages,
        .target_pages = request->target_pages,
        .limits = {(uint32_t)layout_input_number(bytes, 1) % 10,
                   (uint32_t)layout_input_number(bytes, 1) % 10,
                   4095 + layout_input_number(bytes, 2)},
    };
    if (layout_input_number(bytes, 1) % 4 == 1)
        input->limits.chunk_bytes_max <<= layout_input_number(bytes, 1) % 50;
    for (uint32_t i = 0; i < input->source_layout_count; i++)
        layout_input_layout(bytes, &request->sources[i]);
    for (uint32_t i = 0; i < input->target_layout_count; i++) {
        layout_input_layout(bytes, &request->targets[i]);
        if (layout_input_number(bytes, 1) % 4 != 1 && i < input->source_layout_count)
            request->targets[i] = request->sources[i]; /* else the two rarely match */
    }
    for (; input->page_count < PAGES_MAX && bytes->used + 2 <= bytes->size; input->page_count++) {
        request->source_pages[input->page_count] = (uint32_t)layout_input_number(bytes, 1);
        request->target_pages[input->page_count] = (uint32_t)layout_input_number(bytes, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(64) unsigned char arena[1 << 16];
    struct layout_input bytes = {.data = data, .size = size};
    struct kvr_buddy memory;
    struct request request;
    struct kvr_plan *plan, *again;
    struct kvr_error error;

    read_request(&bytes, &request);
    kvr_buddy_init(&memory, arena, sizeof(arena));
    if (kvr_plan_make(&request.input, &memory, &plan, &error) == KVR_OK) {
        check_plan(&request, plan);
        assert(kvr_plan_make(&request.input, &memory, &again, &error) == KVR_OK);
        assert(again->hash == plan->hash);
        kvr_plan_free(again, &memory);
        kvr_plan_free(plan, &memory);
    }
    assert(memory.used_bytes == 0);
    return 0;
}
