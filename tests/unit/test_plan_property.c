/* Goal: a plan moves every byte of the intersection exactly once and touches no other byte. It has
 * the fewest pieces, in the fewest chunks that its limits allow, layer by layer, and keeps its
 * bound. Both sides compute one hash; another input gives another hash. Method: random cases
 * against an oracle (plan_oracle.h). A failure prints its seed; KVRAIL_SEED runs that one alone. */
#include "tests/support/check.h"

#include "tests/support/plan_oracle.h"

#define FIRST_SEED 1000000

static _Alignas(64) unsigned char arena[4 << 20];
static struct kvr_buddy memory;
static struct plan_case now, other;

/* Removes the bytes of this piece from the oracle's list. */
static void check_piece(const struct kvr_plan_piece *piece, const struct oracle_run *run)
{
    uint64_t source, target;

    require(piece->source_layout < now.source.region_count);
    require(piece->target_layout < now.target.region_count);
    require(piece->bytes > 0);
    require(piece->source_offset + piece->bytes <= now.source.regions[piece->source_layout].bytes);
    require(piece->target_offset + piece->bytes <= now.target.regions[piece->target_layout].bytes);
    source = now.source.starts[piece->source_layout] + piece->source_offset;
    target = now.target.starts[piece->target_layout] + piece->target_offset;
    for (uint64_t byte = 0; byte < piece->bytes; byte++) {
        require(oracle.expected[target + byte] == source + byte + 1);
        oracle.expected[target + byte] = 0;
    }
    oracle.expected_bytes -= piece->bytes;
    require(source == run->source && target == run->target && piece->bytes == run->bytes);
}

/* The chunks of one (layer, part), from *chunk_next on. */
static void check_plane(const struct kvr_plan *plan, uint32_t layer, uint32_t part,
                        uint32_t *chunk_next)
{
    uint32_t chunk_first = *chunk_next, run = 0;

    while (run < oracle.run_count) {
        struct kvr_plan_cursor cursor;
        struct kvr_plan_piece piece;
        uint32_t count;
        uint64_t bytes = 0;

        require(*chunk_next < plan->chunk_count);
        kvr_plan_seek(plan, *chunk_next, &cursor);
        count = kvr_plan_cursor_pieces(&cursor);
        require(cursor.plane->layer == layer && cursor.plane->part == part);
        require(count >= 1 && count <= oracle.run_count - run);
        require(oracle_fits(&oracle.runs[run], count));
        for (; count > 0; count--) {
            kvr_plan_next_piece(&cursor, &piece);
            check_piece(&piece, &oracle.runs[run++]);
            bytes += piece.bytes;
        }
        require(kvr_plan_chunk_bytes(plan, (*chunk_next)++) == bytes);
    }
    require(*chunk_next - chunk_first == oracle_fewest_chunks());
}

static void check_chunks(const struct kvr_plan *plan, uint64_t token_first)
{
    uint32_t chunk_next = 0;
    uint64_t bytes = 0, pieces = 0;

    oracle.expected_bytes = 0;
    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        for (uint32_t part = KVR_PART_K; part <= KVR_PART_STATE; part++) {
            oracle_expect(layer, part, token_first);
            bytes += oracle.expected_bytes;
            pieces += oracle.run_count;
            check_plane(plan, layer, part, &chunk_next);
            require(oracle.expected_bytes == 0);
        }
    }
    require(chunk_next == plan->chunk_count);
    require(plan->bytes == bytes);
    require(plan->piece_count == pieces);
}

static void require_equal(const struct kvr_plan_chunk *a, const struct kvr_plan_chunk *b)
{
    require(a->layer == b->layer && a->part == b->part && a->piece_count == b->piece_count);
    for (uint32_t i = 0; i < a->piece_count; i++)
        require(memcmp(&a->pieces[i], &b->pieces[i], sizeof(a->pieces[i])) == 0);
}

/* Walking the chunks from any of them gives the same as searching each. */
static void check_cursor(const struct kvr_plan *plan, uint32_t first, uint32_t end)
{
    struct kvr_plan_cursor cursor;

    kvr_plan_seek(plan, first, &cursor);
    for (uint32_t i = first; i < end; i++) {
        struct kvr_plan_chunk next, chunk;
        struct kvr_plan_cursor start = cursor;

        require(kvr_plan_cursor_chunk(&cursor) == i);
        kvr_plan_chunk(plan, i, &chunk);
        kvr_plan_next(&cursor, &next);
        require_equal(&next, &chunk);
        if (kvr_plan_next_single(&start, &next.pieces[0])) {
            require_equal(&next, &chunk);
            require(kvr_plan_cursor_chunk(&start) == i + 1);
            cursor = start;
        }
    }
}

/* The same for pieces. */
static void check_pieces(const struct kvr_plan *plan)
{
    struct kvr_plan_cursor cursor;

    kvr_plan_seek(plan, 0, &cursor);
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        struct kvr_plan_cursor found;

        kvr_plan_seek(plan, i, &found);
        require(kvr_plan_cursor_chunk(&cursor) == i);
        require(kvr_plan_cursor_pieces(&cursor) == kvr_plan_cursor_pieces(&found));
        for (uint32_t left = kvr_plan_cursor_pieces(&found); left > 0; left--) {
            struct kvr_plan_piece next, piece;

            kvr_plan_next_piece(&cursor, &next);
            kvr_plan_next_piece(&found, &piece);
            require(memcmp(&next, &piece, sizeof(next)) == 0);
        }
    }
}

static void check_layers(const struct kvr_plan *plan)
{
    uint32_t chunk_next = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++) {
        struct kvr_chunk_run run;
        uint32_t layer = kvr_plan_layer(plan, i, &run);

        require(run.chunk_first == chunk_next);
        chunk_next += run.chunk_count;
        for (uint32_t j = run.chunk_first; j < chunk_next; j++) {
            struct kvr_plan_cursor cursor;

            kvr_plan_seek(plan, j, &cursor);
            require(cursor.plane->layer == layer);
            require(kvr_plan_layer_index(plan, j) == i);
        }
    }
    require(chunk_next == plan->chunk_count);
    check_pieces(plan);
    if (kvr_plan_pieces_max(&plan->limits) > KVR_CHUNK_PIECES_MAX)
        return;
    check_cursor(plan, 0, plan->chunk_count);
    check_cursor(plan, plan->chunk_count / 2, (plan->chunk_count + 1) / 2);
}

static struct kvr_plan *make(const struct kvr_plan_input *input)
{
    struct kvr_error error = {0};
    struct kvr_plan *plan = NULL;

    if (kvr_plan_make(input, &memory, &plan, &error) != KVR_OK)
        fail_msg("KVRAIL_SEED=%llu: refused: %s", (unsigned long long)oracle.seed, error.detail);
    return plan;
}

static uint64_t up(uint64_t token, uint32_t page_tokens)
{
    return (token + page_tokens - 1) / page_tokens * page_tokens;
}

/* The end of the page that ends first. */
static uint64_t moved_end(uint64_t end)
{
    uint64_t source = up(end, now.source.page_tokens), target = up(end, now.target.page_tokens);

    return source < target ? source : target;
}

/* The segment [first, end) of the case. */
static struct kvr_plan_input segment_of(uint64_t first, uint64_t end)
{
    const struct kvr_plan_input *whole = &now.input;
    struct kvr_plan_input input = *whole;
    uint32_t source =
        (uint32_t)(first / now.source.page_tokens - whole->token_first / now.source.page_tokens);
    uint32_t target =
        (uint32_t)(first / now.target.page_tokens - whole->token_first / now.target.page_tokens);

    input.token_first = first;
    input.token_end = end;
    input.source_pages += source;
    input.target_pages += target;
    input.source_page_count -= source;
    input.target_page_count -= target;
    return input;
}

/* The request comes in one or several segments. Together they keep the bound if they begin where
 * pages do. */
static void check_segments(void)
{
    uint64_t token = now.input.token_first, last = now.input.token_end, chunks = 0, tokens = 0;
    uint32_t source = now.source.page_tokens, target = now.target.page_tokens, segments = 0;
    bool aligned = token % (source < target ? source : target) == 0;

    do {
        uint64_t end = token < last && kvr_rng_percent(&now.rng, 40)
                           ? moved_end(kvr_rng_between(&now.rng, token + 1, last))
                           : last;
        struct kvr_plan_input input = segment_of(token, end < last ? end : last);
        struct kvr_plan *plan = make(&input);

        oracle.token_end = input.token_end > token ? moved_end(input.token_end) : token;
        check_chunks(plan, token);
        check_layers(plan);
        chunks += plan->chunk_count;
        tokens += oracle.token_end - token;
        token = input.token_end;
        segments++;
        kvr_plan_free(plan, &memory);
    } while (token < last);
    if (aligned)
        require(chunks <= kvr_plan_chunks_max(&now.input, tokens, segments));
    require(memory.used_bytes == 0);
}

static uint64_t hash_of(const struct kvr_plan_input *input)
{
    struct kvr_plan *plan = make(input);
    uint64_t hash = plan->hash;

    kvr_plan_free(plan, &memory);
    return hash;
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t value = *a;

    *a = *b;
    *b = value;
}

static bool swap_pages(struct plan_case_side *side)
{
    if (side->page_count < 2 || side->pages[0] == side->pages[1])
        return false;
    swap(&side->pages[0], &side->pages[1]);
    return true;
}

/* The case's plan has a plane in this region of the target. */
static bool moves(const struct kvr_region_layout *region)
{
    struct kvr_plan *plan = make(&now.input);
    bool found = false;

    for (uint32_t i = 0; i < plan->plane_count; i++)
        found = found || &now.target.regions[plan->planes[i].target_layout] == region;
    kvr_plan_free(plan, &memory);
    return found;
}

/* Changes one thing in `other`; false where this case lacks it. */
static bool change(uint32_t what)
{
    struct kvr_plan_input *input = &other.input;
    struct kvr_region_layout *region = &other.target.regions[0];

    switch (what) {
    case 0:
        return input->token_end-- > input->token_first;
    case 1:
        input->limits.pieces_local = input->limits.pieces_local % KVR_IOV_MAX + 1;
        return true;
    case 2:
        input->limits.chunk_bytes_max++;
        return true;
    case 3:
        region->region += 50;
        return moves(&now.target.regions[0]);
    case 4:
        region->base += 1;
        region->bytes += 1;
        return moves(&now.target.regions[0]);
    case 5: /* the same bytes go the same way, for other tokens */
        return other.source.page_tokens == other.target.page_tokens && swap_pages(&other.source) &&
               swap_pages(&other.target);
    case 6:
        input->scope.layer_first++;
        return true;
    default:
        return swap_pages(&other.source);
    }
}

/* The order in which a side lists its regions has no meaning. */
static void turn_regions(struct plan_case_side *side)
{
    struct kvr_region_layout region = side->regions[0];

    side->regions[0] = side->regions[side->region_count - 1];
    side->regions[side->region_count - 1] = region;
}

static void check_hash(void)
{
    uint64_t hash = hash_of(&now.input);

    plan_case_make(oracle.seed, &other);
    turn_regions(&other.source);
    turn_regions(&other.target);
    require(hash_of(&other.input) == hash);

    plan_case_make(oracle.seed, &other);
    if (change((uint32_t)kvr_rng_below(&now.rng, 8)))
        require(hash_of(&other.input) != hash);
}

static void plan_moves_every_byte_once(void **state)
{
    const char *one = getenv("KVRAIL_SEED"), *sanitize = getenv("KVRAIL_SANITIZE");
    bool slow = sanitize != NULL && sanitize[0] != '\0';
    uint64_t cases = check_cases(slow ? 25000 : 50000, 200000), first = FIRST_SEED;

    (void)state;
    kvr_buddy_init(&memory, arena, sizeof(arena));
    oracle.of = &now;
    if (one != NULL) {
        first = strtoull(one, NULL, 10);
        cases = 1;
    }
    print_message("seeds %llu to %llu\n", (unsigned long long)first,
                  (unsigned long long)(first + cases - 1));
    for (oracle.seed = first; oracle.seed < first + cases; oracle.seed++) {
        plan_case_make(oracle.seed, &now);
        require(now.source.bytes <= PLAN_CASE_BYTES && now.target.bytes <= PLAN_CASE_BYTES);
        check_segments();
        check_hash();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_moves_every_byte_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
