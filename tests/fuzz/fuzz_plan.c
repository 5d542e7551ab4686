/* Goal: no input makes a plan that names a byte outside a region or of an unlisted page, or moves a
 * token's head to another's place. Method: a book of every head of every token that may move, for
 * one (layer, part) at a time. Every piece is divided into such heads, and each is looked up. */
#include <assert.h>
#include <stdlib.h>

#include "kv/plan.h"
#include "tests/support/layout_input.h"

#define PAGES_MAX   64
#define REGIONS_MAX 3
#define CHUNKS_MAX  2000 /* checked from either end of a plan */
#define BOOKED_MAX  4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct request {
    struct kvr_region_layout sources[REGIONS_MAX], targets[REGIONS_MAX];
    uint32_t source_pages[PAGES_MAX], target_pages[PAGES_MAX];
    struct kvr_plan_input input;
};

/* One head of one token, at both ends. */
struct booked {
    uint64_t source, target;
};
struct books {
    uint32_t layer;
    uint8_t part;
    const struct kvr_region_layout *source, *target;
    struct booked booked[BOOKED_MAX];
    uint32_t count;
    bool whole; /* false: there were too many */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The formula of base/types.h. */
static uint64_t place(const struct kvr_region_layout *layout, const struct books *books,
                      uint32_t page, uint64_t token, uint64_t head)
{
    uint32_t index = 0;

    while (layout->parts[index] != books->part)
        index++;
    assert(index < layout->part_count);
    return layout->base + (books->layer - layout->layer_first) * layout->layer_stride +
           index * layout->part_stride + page * layout->page_stride + token * layout->token_stride +
           (head - layout->head_first) * layout->head_stride;
}

static int by_target(const void *a, const void *b)
{
    const struct booked *x = a, *y = b;

    return x->target < y->target ? -1 : x->target > y->target;
}

static void book_token(const struct request *request, uint64_t token, struct books *books)
{
    const struct kvr_plan_input *input = &request->input;
    const struct kvr_region_layout *source = books->source, *target = books->target;
    uint64_t source_tokens = kvr_page_tokens(source), target_tokens = kvr_page_tokens(target);
    uint64_t from = token / source_tokens - input->token_first / source_tokens;
    uint64_t to = token / target_tokens - input->token_first / target_tokens;
    uint64_t head = larger(source->head_first, target->head_first);
    uint64_t end = kvr_min_u64((uint64_t)source->head_first + source->head_count,
                               (uint64_t)target->head_first + target->head_count);

    assert(from < input->source_page_count && to < input->target_page_count);
    if (input->scope.head_count > 0) {
        head = larger(head, input->scope.head_first);
        end = kvr_min_u64(end, (uint64_t)input->scope.head_first + input->scope.head_count);
    }
    for (; head < end; head++) {
        books->whole = books->whole && books->count < BOOKED_MAX;
        if (!books->whole)
            return;
        books->booked[books->count++] = (struct booked){
            place(source, books, request->source_pages[from], token % source_tokens, head),
            place(target, books, request->target_pages[to], token % target_tokens, head),
        };
    }
}

struct chunk {
    uint32_t layer, piece_count;
    uint8_t part;
    struct kvr_plan_piece pieces[KVR_STAGED_PIECES_MAX];
};

static void open_books(const struct request *request, const struct chunk *chunk,
                       struct books *books)
{
    const struct kvr_plan_input *input = &request->input;
    const struct kvr_plan_piece *piece = &chunk->pieces[0];
    uint64_t source_tokens, target_tokens, end;

    assert(piece->source_layout < input->source_layout_count);
    assert(piece->target_layout < input->target_layout_count);
    books->layer = chunk->layer;
    books->part = chunk->part;
    books->source = &request->sources[piece->source_layout];
    books->target = &request->targets[piece->target_layout];
    books->count = 0;
    books->whole = true;
    source_tokens = kvr_page_tokens(books->source);
    target_tokens = kvr_page_tokens(books->target);
    end = kvr_min_u64((input->token_end + source_tokens - 1) / source_tokens * source_tokens,
                      (input->token_end + target_tokens - 1) / target_tokens * target_tokens);
    if (books->source->page_tokens == 0) /* a state: one token, whichever the segment has */
        book_token(request, 0, books);
    for (uint64_t token = input->token_first;
         books->source->page_tokens > 0 && token < end && books->whole; token++)
        book_token(request, token, books);
    qsort(books->booked, books->count, sizeof(books->booked[0]), by_target);
}

/* Each byte of the piece belongs to a booked head, at the same place in it at both ends. */
static void check_piece(const struct books *books, const struct kvr_plan_piece *piece)
{
    uint64_t head_bytes = books->target->head_bytes, step, end;
    uint64_t from = piece->source_offset, to = piece->target_offset;

    assert(piece->bytes > 0);
    assert(!__builtin_add_overflow(from, piece->bytes, &end) && end <= books->source->bytes);
    assert(!__builtin_add_overflow(to, piece->bytes, &end) && end <= books->target->bytes);
    for (uint64_t left = piece->bytes; left > 0 && books->whole; left -= step) {
        const struct booked *booked = books->booked;

        assert(books->count > 0);
        for (uint32_t count = books->count, half; count > 1; count -= half) {
            half = count / 2;
            booked += booked[half].target <= to ? half : 0;
        }
        assert(to >= booked->target && to - booked->target < head_bytes);
        assert(from - booked->source == to - booked->target);
        step = kvr_min_u64(head_bytes - (to - booked->target), left);
        from += step;
        to += step;
    }
}

/* The number of runs of bytes that a card would have to name. */
static void check_vectors(const struct kvr_plan *plan, const struct chunk *chunk)
{
    uint32_t locals = 1, remotes = 1;

    for (uint32_t i = 1; i < chunk->piece_count; i++) {
        const struct kvr_plan_piece *piece = &chunk->pieces[i], *before = piece - 1;

        assert(piece->target_offset >= before->target_offset + before->bytes);
        assert(piece->source_layout == before->source_layout &&
               piece->target_layout == before->target_layout);
        locals += piece->source_offset != before->source_offset + before->bytes;
        remotes += piece->target_offset != before->target_offset + before->bytes;
    }
    assert(locals <= plan->limits.pieces_local && remotes <= plan->limits.pieces_remote);
}

static void read_chunk(const struct kvr_plan *plan, uint32_t index, struct chunk *ret_chunk)
{
    struct kvr_plan_cursor cursor;

    kvr_plan_seek(plan, index, &cursor);
    ret_chunk->layer = cursor.plane->layer;
    ret_chunk->part = cursor.plane->part;
    ret_chunk->piece_count = kvr_plan_cursor_pieces(&cursor);
    assert(ret_chunk->piece_count >= 1 &&
           ret_chunk->piece_count <= kvr_plan_pieces_max(&plan->limits));
    for (uint32_t i = 0; i < ret_chunk->piece_count; i++)
        kvr_plan_next_piece(&cursor, &ret_chunk->pieces[i]);
}

static void check_chunk(const struct request *request, const struct kvr_plan *plan, uint32_t index,
                        struct books *books, uint64_t *moved)
{
    struct chunk chunk;
    uint64_t bytes = 0;

    read_chunk(plan, index, &chunk);
    if (index == 0 || chunk.layer != books->layer || chunk.part != books->part)
        open_books(request, &chunk, books);
    for (uint32_t i = 0; i < chunk.piece_count; i++) {
        check_piece(books, &chunk.pieces[i]);
        assert(!__builtin_add_overflow(bytes, chunk.pieces[i].bytes, &bytes));
    }
    check_vectors(plan, &chunk);
    assert(bytes <= plan->limits.chunk_bytes_max && bytes == kvr_plan_chunk_bytes(plan, index));
    *moved += bytes;
}

static void check_layers(const struct kvr_plan *plan)
{
    uint32_t layer_next = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++) {
        struct kvr_chunk_run chunks;

        (void)kvr_plan_layer(plan, i, &chunks);
        assert(chunks.chunk_first == layer_next);
        layer_next += chunks.chunk_count;
    }
    assert(layer_next == plan->chunk_count);
}

static void check_plan(const struct request *request, const struct kvr_plan *plan)
{
    static struct books books;
    uint64_t moved = 0;

    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        if (i == CHUNKS_MAX && plan->chunk_count > 2 * CHUNKS_MAX)
            i = plan->chunk_count - CHUNKS_MAX;
        check_chunk(request, plan, i, &books, &moved);
        assert(kvr_plan_layer_index(plan, i) < plan->layer_count);
    }
    check_layers(plan);
    assert(moved == plan->bytes || plan->chunk_count > 2 * CHUNKS_MAX);
}

/* Two random layouts rarely match: makes the target equal to the source, or different only in
 * fields that may differ. */
static void liken(struct layout_input *bytes, const struct kvr_region_layout *source,
                  struct kvr_region_layout *target)
{
    uint64_t times = target->head_bytes > 0 ? source->head_bytes / target->head_bytes : 0;
    struct kvr_region_layout own = *target;

    *target = *source;
    if (layout_input_number(bytes, 1) % 2 == 0 || own.head_bytes * times != source->head_bytes)
        return;
    *target = own;
    target->group = source->group;
    target->layer_first = source->layer_first;
    memcpy(target->parts, source->parts, sizeof(target->parts));
    target->head_bytes = source->head_bytes;
    target->head_stride *= times; /* a layout that overflows is refused; any other is valid */
    target->token_stride *= times;
    target->page_stride *= times;
    target->part_stride *= times;
    target->layer_stride *= times;
    target->bytes *= times;
}

/* Also limits that are refused, and staging memory. */
static uint32_t runs_of(uint64_t number)
{
    return number % 10 == 9 ? KVR_PLAN_ONE_RUN : (uint32_t)number % 10;
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
        .token_first = layout_input_number(bytes, 1) % 40,
        .scope = {.layer_first = layout_input_number(bytes, 1) % 4,
                  .layer_count = layout_input_number(bytes, 1) % 4,
                  .head_first = layout_input_number(bytes, 1) % 4,
                  .head_count = layout_input_number(bytes, 1) % 4},
        .limits = {runs_of(layout_input_number(bytes, 1)), runs_of(layout_input_number(bytes, 1)),
                   4095 + layout_input_number(bytes, 2)},
    };
    if (layout_input_number(bytes, 1) % 4 == 1)
        input->limits.chunk_bytes_max <<= layout_input_number(bytes, 1) % 50;
    for (uint32_t i = 0; i < input->source_layout_count; i++)
        layout_input_layout(bytes, &request->sources[i]);
    for (uint32_t i = 0; i < input->target_layout_count; i++) {
        layout_input_layout(bytes, &request->targets[i]);
        if (layout_input_number(bytes, 1) % 4 != 1 && i < input->source_layout_count)
            liken(bytes, &request->sources[i], &request->targets[i]);
    }
    input->token_end = input->token_first + layout_input_number(bytes, 1);
    for (uint32_t i = 0; i < PAGES_MAX && bytes->used + 2 <= bytes->size; i++) {
        request->source_pages[i] = (uint32_t)layout_input_number(bytes, 1);
        request->target_pages[i] = (uint32_t)layout_input_number(bytes, 1);
        input->source_page_count = input->target_page_count = i + 1;
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
