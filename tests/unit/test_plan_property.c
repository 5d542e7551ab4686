/* Goal: a plan moves every byte of the intersection exactly once and touches nothing else, in as
 * few pieces and chunks as its limits allow, within its bound, layer by layer; both sides get one
 * hash, and another input another. Method: random cases against an oracle that goes byte by byte
 * through the formula of a layout. A failure prints its seed; KVRAIL_SEED runs that one alone. */
#include "tests/support/check.h"

#include "tests/support/plan_case.h"

#define FIRST_SEED 1000000
#define BYTES_MAX  PLAN_CASE_BYTES

static _Alignas(64) unsigned char arena[1 << 20];
static struct kvr_buddy memory;
static struct plan_case now, other;
static uint64_t seed;

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("KVRAIL_SEED=%llu: not so: %s", (unsigned long long)seed, #condition);        \
    } while (0)

/* For each byte of the target's memory, 1 + the source's byte that must come there; 0: untouched.
 */
static uint32_t expected[BYTES_MAX];
static uint64_t expected_bytes;

static uint64_t address(const struct kvr_region_layout *region, uint32_t layer, uint32_t part_index,
                        uint32_t page, uint32_t token, uint32_t head)
{
    return region->base + (layer - region->layer_first) * region->layer_stride +
           part_index * region->part_stride + page * region->page_stride +
           token * region->token_stride + head * region->head_stride;
}

/* In which region, and where among its parts, a side has this (layer, part). */
static bool find(const struct plan_case_side *side, uint32_t group, uint32_t layer, uint32_t part,
                 uint32_t *ret_region, uint32_t *ret_part_index)
{
    for (uint32_t i = 0; i < side->region_count; i++) {
        const struct kvr_region_layout *region = &side->regions[i];

        if (region->group != group || layer < region->layer_first ||
            layer - region->layer_first >= region->layer_count)
            continue;
        for (uint32_t j = 0; j < region->part_count; j++) {
            if (region->parts[j] != part)
                continue;
            *ret_region = i;
            *ret_part_index = j;
            return true;
        }
    }
    return false;
}

static void expect_page(const struct kvr_region_layout *from, uint32_t from_part,
                        uint64_t from_start, const struct kvr_region_layout *to, uint32_t to_part,
                        uint64_t to_start, uint32_t layer, uint32_t index)
{
    uint32_t source_page = now.source.pages[index], target_page = now.target.pages[index];

    for (uint32_t token = 0; token < to->page_tokens; token++) {
        for (uint32_t head = 0; head < to->head_count; head++) {
            uint64_t source =
                from_start + address(from, layer, from_part, source_page, token, head);
            uint64_t target = to_start + address(to, layer, to_part, target_page, token, head);

            for (uint64_t byte = 0; byte < to->head_bytes; byte++) {
                require(expected[target + byte] == 0);
                expected[target + byte] = (uint32_t)(source + byte + 1);
            }
            expected_bytes += to->head_bytes;
        }
    }
}

static void ask_oracle(uint32_t page_first, uint32_t page_end)
{
    memset(expected, 0, now.target.bytes * sizeof(*expected));
    expected_bytes = 0;
    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        for (uint32_t part = KVR_PART_K; part <= KVR_PART_STATE; part++) {
            uint32_t from = 0, from_part = 0, to = 0, to_part = 0;

            if (!find(&now.target, now.input.group, layer, part, &to, &to_part))
                continue;
            require(find(&now.source, now.input.group, layer, part, &from, &from_part));
            for (uint32_t page = page_first; page < page_end; page++)
                expect_page(&now.source.regions[from], from_part, now.source.starts[from],
                            &now.target.regions[to], to_part, now.target.starts[to], layer, page);
        }
    }
}

/* Takes what this piece moves off the oracle's list. */
static void check_piece(const struct kvr_plan_piece *piece)
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
        require(expected[target + byte] == source + byte + 1);
        expected[target + byte] = 0;
    }
    expected_bytes -= piece->bytes;
}

static bool touch(const struct kvr_plan_piece *a, const struct kvr_plan_piece *b)
{
    return a->source_offset + a->bytes == b->source_offset &&
           a->target_offset + a->bytes == b->target_offset;
}

static uint64_t bytes_of(const struct kvr_plan_chunk *chunk)
{
    uint64_t bytes = chunk->pieces[0].bytes;

    for (uint32_t i = 1; i < chunk->piece_count; i++) {
        const struct kvr_plan_piece *piece = &chunk->pieces[i];

        require(piece->target_offset >= piece[-1].target_offset + piece[-1].bytes);
        require(!touch(piece - 1, piece));
        bytes += piece->bytes;
    }
    return bytes;
}

/* Two chunks of one (layer, part): in the target's order, and the second's first piece could not
 * have come into the first, unless that is the rest of a long run, which stays alone. Returns
 * whether the second is such a cut of the same run. */
static bool check_neighbours(const struct kvr_plan_chunk *before,
                             const struct kvr_plan_chunk *after, bool before_is_cut)
{
    const struct kvr_plan_limits *limits = &now.input.limits;
    const struct kvr_plan_piece *last = &before->pieces[before->piece_count - 1];
    const struct kvr_plan_piece *next = &after->pieces[0];

    require(last->target_offset + last->bytes <= next->target_offset);
    if (touch(last, next)) {
        require(before->piece_count == 1 && after->piece_count == 1);
        require(last->bytes == limits->chunk_bytes_max);
        return true;
    }
    require(before_is_cut || before->piece_count == limits->pieces_local ||
            before->piece_count == limits->pieces_remote ||
            bytes_of(before) + next->bytes > limits->chunk_bytes_max);
    return false;
}

static void check_chunks(const struct kvr_plan *plan)
{
    struct kvr_plan_chunk chunks[2];
    bool cut = false;

    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        struct kvr_plan_chunk *chunk = &chunks[i % 2], *before = &chunks[1 - i % 2];

        kvr_plan_chunk(plan, i, chunk);
        require(chunk->piece_count >= 1);
        require(chunk->piece_count <= plan->limits.pieces_local);
        require(chunk->piece_count <= plan->limits.pieces_remote);
        require(bytes_of(chunk) <= plan->limits.chunk_bytes_max);
        for (uint32_t j = 0; j < chunk->piece_count; j++)
            check_piece(&chunk->pieces[j]);
        if (i == 0)
            continue;
        require(chunk->layer >= before->layer);
        require(chunk->layer > before->layer || chunk->part >= before->part);
        cut = chunk->layer == before->layer && chunk->part == before->part &&
              check_neighbours(before, chunk, cut);
    }
    require(expected_bytes == 0);
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
            struct kvr_plan_chunk chunk;

            kvr_plan_chunk(plan, j, &chunk);
            require(chunk.layer == layer);
            require(kvr_plan_layer_index(plan, j) == i);
        }
    }
    require(chunk_next == plan->chunk_count);
}

static struct kvr_plan *make(const struct kvr_plan_input *input)
{
    struct kvr_error error = {0};
    struct kvr_plan *plan = NULL;

    if (kvr_plan_make(input, &memory, &plan, &error) != KVR_OK)
        fail_msg("KVRAIL_SEED=%llu: refused: %s", (unsigned long long)seed, error.detail);
    return plan;
}

/* The request comes in one or several segments; together they stay within the bound. */
static void check_segments(void)
{
    uint32_t page_count = now.input.page_count, page = 0, segments = 0;
    uint64_t chunks = 0;

    while (page < page_count || segments == 0) {
        struct kvr_plan_input input = now.input;
        struct kvr_plan *plan;

        input.page_count = kvr_rng_percent(&now.rng, 60)
                               ? page_count - page
                               : (uint32_t)kvr_rng_below(&now.rng, page_count - page + 1);
        input.source_pages += page;
        input.target_pages += page;
        plan = make(&input);
        ask_oracle(page, page + input.page_count);
        require(plan->bytes == expected_bytes);
        check_chunks(plan);
        check_layers(plan);
        chunks += plan->chunk_count;
        page += input.page_count;
        segments++;
        kvr_plan_free(plan, &memory);
    }
    require(chunks <= kvr_plan_chunks_max(now.target.regions, now.target.region_count,
                                          now.input.group, page_count, segments,
                                          &now.input.limits));
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

static bool swap_pages(uint32_t *pages)
{
    if (other.input.page_count < 2 || pages[0] == pages[1])
        return false;
    swap(&pages[0], &pages[1]);
    return true;
}

/* Changes one thing in `other`; false when this case has no such thing. */
static bool change(uint32_t what)
{
    struct kvr_plan_input *input = &other.input;
    struct kvr_region_layout *region = &other.target.regions[0];

    switch (what) {
    case 0:
        input->token_first++;
        return true;
    case 1:
        input->limits.pieces_local = input->limits.pieces_local % KVR_IOV_MAX + 1;
        return true;
    case 2:
        input->limits.chunk_bytes_max++;
        return true;
    case 3:
        region->region += 50;
        return true;
    case 4:
        region->base += 1;
        region->bytes += 1;
        return true;
    case 5:
        return input->page_count-- > 0;
    case 6: /* the same bytes go the same ways, for other tokens */
        return swap_pages(other.source.pages) && swap_pages(other.target.pages);
    default:
        return swap_pages(other.source.pages);
    }
}

/* The order in which a side lists its regions means nothing. */
static void turn_regions(struct plan_case_side *side)
{
    struct kvr_region_layout region = side->regions[0];

    side->regions[0] = side->regions[side->region_count - 1];
    side->regions[side->region_count - 1] = region;
}

static void check_hash(void)
{
    uint64_t hash = hash_of(&now.input);

    plan_case_make(seed, &other);
    turn_regions(&other.source);
    turn_regions(&other.target);
    require(hash_of(&other.input) == hash);

    plan_case_make(seed, &other);
    if (change((uint32_t)kvr_rng_below(&now.rng, 8)))
        require(hash_of(&other.input) != hash);
}

static void plan_moves_every_byte_once(void **state)
{
    uint64_t cases = check_cases(20000, 200000), first = FIRST_SEED;
    const char *one = getenv("KVRAIL_SEED");

    (void)state;
    kvr_buddy_init(&memory, arena, sizeof(arena));
    if (one != NULL) {
        first = strtoull(one, NULL, 10);
        cases = 1;
    }
    print_message("seeds %llu to %llu\n", (unsigned long long)first,
                  (unsigned long long)(first + cases - 1));
    for (seed = first; seed < first + cases; seed++) {
        plan_case_make(seed, &now);
        require(now.source.bytes <= BYTES_MAX && now.target.bytes <= BYTES_MAX);
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
