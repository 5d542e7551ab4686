/* Goal: the promises of a plan, one case each: merging, gathering, cutting, order, refusals,
 * bounds. test_plan_property.c checks the bytes themselves. Method: two small regions, and pages
 * chosen by hand. */
#include "tests/support/check.h"

#include <stdio.h>

#include "kv/plan.h"

#define PAGE 4096

static _Alignas(64) unsigned char arena[1 << 20];
static struct kvr_buddy memory;

/* Layers of K and V, 64 dense pages of 4096 B each. */
static struct kvr_region_layout region(uint32_t id, uint32_t layer_first, uint32_t layer_count)
{
    return (struct kvr_region_layout){
        .region = id,
        .layer_first = layer_first,
        .layer_count = layer_count,
        .part_count = 2,
        .parts = {KVR_PART_K, KVR_PART_V},
        .head_count = 2,
        .page_tokens = 16,
        .page_count = 64,
        .bytes = (uint64_t)layer_count * 2 * 64 * PAGE,
        .layer_stride = 2 * 64 * PAGE,
        .part_stride = 64 * PAGE,
        .page_stride = PAGE,
        .token_stride = 256,
        .head_stride = 128,
        .head_bytes = 128,
    };
}

static struct kvr_region_layout source, target;

static struct kvr_plan_input input_of(const uint32_t *source_pages, const uint32_t *target_pages,
                                      uint32_t page_count, uint32_t pieces_local,
                                      uint32_t pieces_remote, uint64_t chunk_bytes_max)
{
    return (struct kvr_plan_input){
        .source_layouts = &source,
        .target_layouts = &target,
        .source_layout_count = 1,
        .target_layout_count = 1,
        .source_pages = source_pages,
        .target_pages = target_pages,
        .source_page_count = page_count,
        .target_page_count = page_count,
        .token_end = page_count * 16,
        .limits = {pieces_local, pieces_remote, chunk_bytes_max},
    };
}

static struct kvr_plan *make(const struct kvr_plan_input *input)
{
    struct kvr_error error = {0};
    struct kvr_plan *plan = NULL;

    if (kvr_plan_make(input, &memory, &plan, &error) != KVR_OK)
        fail_msg("refused: %s", error.detail);
    return plan;
}

/* Chunks of the first plane as "source_page>target_page×pages …; …". */
static void expect(const struct kvr_plan *plan, const char *text)
{
    struct kvr_plan_chunk chunk;
    char got[512] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < plan->patterns[0].chunk_count; i++) {
        kvr_plan_chunk(plan, i, &chunk);
        for (uint32_t j = 0; j < chunk.piece_count; j++)
            used += (size_t)snprintf(got + used, sizeof(got) - used, "%s%g>%gx%g",
                                     j > 0   ? " "
                                     : i > 0 ? "; "
                                             : "",
                                     (double)chunk.pieces[j].source_offset / PAGE,
                                     (double)chunk.pieces[j].target_offset / PAGE,
                                     (double)chunk.pieces[j].bytes / PAGE);
    }
    assert_string_equal(got, text);
}

static void expect_chunks(const uint32_t *source_pages, const uint32_t *target_pages,
                          uint32_t page_count, uint32_t pieces_local, uint32_t pieces_remote,
                          uint64_t chunk_bytes_max, const char *text)
{
    struct kvr_plan_input input = input_of(source_pages, target_pages, page_count, pieces_local,
                                           pieces_remote, chunk_bytes_max);
    struct kvr_plan *plan = make(&input);

    expect(plan, text);
    kvr_plan_free(plan, &memory);
    assert_int_equal(memory.used_bytes, 0);
}

static int setup(void **state)
{
    (void)state;
    kvr_buddy_init(&memory, arena, sizeof(arena));
    source = region(1, 0, 4);
    target = region(2, 0, 4);
    return 0;
}

static void plan_joins_adjacent_pages(void **state)
{
    const uint32_t from[] = {3, 4, 5, 9, 10}, to[] = {20, 21, 22, 23, 24};

    (void)state;
    expect_chunks(from, to, 5, 1, 1, 1 << 20, "3>20x3; 9>23x2");
}

static void plan_joins_pages_handed_out_backwards(void **state)
{
    const uint32_t from[] = {12, 11, 10, 9}, to[] = {33, 32, 31, 30};

    (void)state;
    expect_chunks(from, to, 4, 1, 1, 1 << 20, "9>30x4");
}

static void plan_follows_target_addresses(void **state)
{
    const uint32_t from[] = {1, 7, 3}, to[] = {40, 5, 20};

    (void)state;
    expect_chunks(from, to, 3, 1, 1, 1 << 20, "7>5x1; 3>20x1; 1>40x1");
}

static void plan_gathers_up_to_both_limits(void **state)
{
    const uint32_t from[] = {1, 3, 5, 7, 9}, to[] = {2, 4, 6, 8, 10};

    (void)state;
    expect_chunks(from, to, 5, 2, 4, 1 << 20, "1>2x1 3>4x1; 5>6x1 7>8x1; 9>10x1");
    expect_chunks(from, to, 5, 4, 3, 1 << 20, "1>2x1 3>4x1 5>6x1; 7>8x1 9>10x1");
    expect_chunks(from, to, 5, 8, 8, 2 * PAGE, "1>2x1 3>4x1; 5>6x1 7>8x1; 9>10x1");
}

/* Pieces that touch at the target, or at the source, are one run there: verbs reads from several
 * places and writes to one. */
static void plan_joins_pieces_that_touch_at_one_end(void **state)
{
    const uint32_t from[] = {1, 3, 5, 7, 9}, to[] = {20, 21, 22, 23, 40};

    (void)state;
    expect_chunks(from, to, 5, 1, 1, 1 << 20, "1>20x1; 3>21x1; 5>22x1; 7>23x1; 9>40x1");
    expect_chunks(from, to, 5, 3, 1, 1 << 20, "1>20x1 3>21x1 5>22x1; 7>23x1; 9>40x1");
    expect_chunks(to, from, 5, 2, 3, 1 << 20, "20>1x1 21>3x1 22>5x1; 23>7x1 40>9x1");
}

static void plan_cuts_long_runs(void **state)
{
    const uint32_t from[] = {8, 9, 10, 11, 12, 30}, to[] = {0, 1, 2, 3, 4, 6};

    (void)state;
    expect_chunks(from, to, 6, 4, 4, 2 * PAGE, "8>0x2; 10>2x2; 12>4x1 30>6x1");
    expect_chunks(from, to, 6, 4, 4, PAGE + PAGE / 2,
                  "8>0x1.5; 9.5>1.5x1.5; 11>3x1.5; 12.5>4.5x0.5 30>6x1");
    expect_chunks(from, to, 6, 4, 4, 6 * PAGE, "8>0x5 30>6x1");
}

/* Positions in a ring of that many bytes, from `position` on; writes skip the rest of the ring. */
static void expect_positions(const struct kvr_plan *plan, uint64_t ring_bytes, uint64_t position,
                             const uint64_t expected[], uint64_t position_end)
{
    uint64_t positions[16];

    assert_true(plan->chunk_count <= 16);
    assert_true(kvr_plan_positions(plan, ring_bytes, &position, positions));
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        assert_int_equal(positions[i], expected[i]);
    assert_int_equal(position, position_end);
}

static void plan_positions_go_round_a_ring(void **state)
{
    const uint32_t from[] = {8, 9, 30}, to[] = {0, 1, 6};
    struct kvr_plan_input input = input_of(from, to, 3, 4, 4, 2 * PAGE);
    struct kvr_plan *plan = make(&input);
    uint64_t position = 7, positions[64];

    (void)state;
    assert_int_equal(plan->chunk_count, 16); /* for each layer's K and V: two pages, then one */
    expect_positions(plan, 100 * PAGE, 5 * PAGE,
                     (const uint64_t[]){5 * PAGE, 7 * PAGE, 8 * PAGE, 10 * PAGE, 11 * PAGE,
                                        13 * PAGE, 14 * PAGE, 16 * PAGE, 17 * PAGE, 19 * PAGE,
                                        20 * PAGE, 22 * PAGE, 23 * PAGE, 25 * PAGE, 26 * PAGE,
                                        28 * PAGE},
                     29 * PAGE);
    /* No write crosses the end of the ring of 5 pages: two pages do not fit behind four. */
    expect_positions(plan, 5 * PAGE, 0,
                     (const uint64_t[]){0, 2 * PAGE, 3 * PAGE, 5 * PAGE, 6 * PAGE, 8 * PAGE,
                                        10 * PAGE, 12 * PAGE, 13 * PAGE, 15 * PAGE, 16 * PAGE,
                                        18 * PAGE, 20 * PAGE, 22 * PAGE, 23 * PAGE, 25 * PAGE},
                     26 * PAGE);
    assert_false(kvr_plan_positions(plan, 2 * PAGE - 1, &position, positions));
    assert_false(kvr_plan_positions(plan, 0, &position, positions));
    assert_int_equal(position, 7);
    kvr_plan_free(plan, &memory);
}

static void plan_cuts_pages_larger_than_a_chunk(void **state)
{
    const uint32_t from[] = {2, 3}, to[] = {1, 2};

    (void)state;
    source.head_bytes = target.head_bytes = 128 * 3; /* pages of 12 KiB */
    source.head_stride = target.head_stride = 128 * 3;
    source.token_stride = target.token_stride = 256 * 3;
    source.page_stride = target.page_stride = PAGE * 4; /* not dense */
    source.part_stride = target.part_stride = 64 * PAGE * 4;
    source.layer_stride = target.layer_stride = 2 * 64 * PAGE * 4;
    source.bytes = target.bytes = 4 * 2 * 64 * PAGE * 4;
    expect_chunks(from, to, 2, 4, 4, 2 * PAGE, "8>4x2; 10>6x1; 12>8x2; 14>10x1");
    expect_chunks(from, to, 2, 4, 4, 6 * PAGE, "8>4x3 12>8x3");
}

static void plan_does_not_join_padded_pages(void **state)
{
    const uint32_t from[] = {1, 2, 3}, to[] = {5, 6, 7};

    (void)state;
    target.page_stride = PAGE + 256;
    target.part_stride = 64 * (PAGE + 256);
    target.layer_stride = 2 * target.part_stride;
    target.bytes = 4 * target.layer_stride;
    expect_chunks(from, to, 3, 1, 1, 1 << 20, "1>5.3125x1; 2>6.375x1; 3>7.4375x1");
    expect_chunks(from, to, 3, 2, 2, 1 << 20, "1>5.3125x1 2>6.375x1; 3>7.4375x1");
}

static void plan_is_layer_major(void **state)
{
    const uint32_t from[] = {1, 3}, to[] = {2, 9};
    struct kvr_region_layout targets[2] = {region(2, 2, 1), region(3, 0, 1)};
    struct kvr_plan_input input = input_of(from, to, 2, 1, 1, 1 << 20);
    struct kvr_plan_chunk chunk;
    struct kvr_chunk_run chunks;
    struct kvr_plan *plan;

    (void)state;
    input.target_layouts = targets;
    input.target_layout_count = 2;
    plan = make(&input);
    assert_int_equal(plan->layer_count, 2);
    assert_int_equal(plan->plane_count, 4);
    assert_int_equal(plan->pattern_count, 1);
    assert_int_equal(plan->chunk_count, 8);
    assert_int_equal(plan->bytes, 8 * PAGE);
    assert_int_equal(kvr_plan_layer(plan, 0, &chunks), 0);
    assert_int_equal(chunks.chunk_first, 0);
    assert_int_equal(chunks.chunk_count, 4);
    assert_int_equal(kvr_plan_layer(plan, 1, &chunks), 2);
    assert_int_equal(chunks.chunk_first, 4);
    assert_int_equal(chunks.chunk_count, 4);
    for (uint32_t i = 0; i < 8; i++) {
        kvr_plan_chunk(plan, i, &chunk);
        assert_int_equal(kvr_plan_layer_index(plan, i), i / 4);
        assert_int_equal(chunk.layer, i < 4 ? 0 : 2);
        assert_int_equal(chunk.part, i / 2 % 2 ? KVR_PART_V : KVR_PART_K);
        assert_int_equal(chunk.pieces[0].target_layout, i < 4 ? 1 : 0);
        assert_int_equal(chunk.pieces[0].source_offset,
                         (chunk.layer * 2 + i / 2 % 2) * 64 * PAGE + from[i % 2] * PAGE);
    }
    kvr_plan_free(plan, &memory);
}

static void plan_of_no_pages_has_no_chunks(void **state)
{
    struct kvr_plan_input input = input_of(NULL, NULL, 0, 1, 1, PAGE);
    struct kvr_plan *plan;
    struct kvr_chunk_run chunks = {9, 9};

    (void)state;
    plan = make(&input);
    assert_int_equal(plan->chunk_count, 0);
    assert_int_equal(plan->bytes, 0);
    assert_int_equal(plan->layer_count, 4);
    assert_int_equal(kvr_plan_layer(plan, 3, &chunks), 3);
    assert_int_equal(chunks.chunk_count, 0);
    kvr_plan_free(plan, &memory);
    kvr_plan_free(NULL, &memory);
}

static void refused(const struct kvr_plan_input *input, kvr_status status, const char *sentence)
{
    struct kvr_plan *plan = (struct kvr_plan *)&memory;
    struct kvr_error error = {0};

    assert_int_equal(kvr_plan_make(input, &memory, &plan, &error), status);
    assert_string_equal(error.detail, sentence);
    assert_ptr_equal(plan, &memory);
    assert_int_equal(memory.used_bytes, 0);
}

static void plan_refuses_limits_outside_range(void **state)
{
    const uint32_t pages[] = {1};
    struct kvr_plan_input input = input_of(pages, pages, 1, 0, 1, PAGE);

    (void)state;
    refused(&input, KVR_INVALID, "pieces_local is 0, allowed are 1 to 8");
    input.limits = (struct kvr_plan_limits){1, 9, PAGE};
    refused(&input, KVR_INVALID, "pieces_remote is 9, allowed are 1 to 8");
    input.limits = (struct kvr_plan_limits){1, 8, 4095};
    refused(&input, KVR_INVALID, "chunk_bytes_max is 4095, at least 4096 are needed");
}

static void plan_refuses_pages_that_cannot_be(void **state)
{
    const uint32_t good[] = {1, 2}, outside[] = {3, 64}, twice[] = {5, 5};
    struct kvr_plan_input input = input_of(outside, good, 2, 1, 1, PAGE);

    (void)state;
    refused(&input, KVR_INVALID,
            "source page id 64 (page 1 of the segment) is outside region 1, "
            "which has 64 pages");
    input.source_pages = good;
    input.target_pages = outside;
    refused(&input, KVR_INVALID,
            "target page id 64 (page 1 of the segment) is outside region 2, "
            "which has 64 pages");
    input.target_pages = twice;
    refused(&input, KVR_INVALID, "target page id 5 is listed twice in one segment");
    input.source_pages = twice; /* one source page may be read for two target pages */
    input.target_pages = good;
    kvr_plan_free(make(&input), &memory);
}

/* One page a request, of 9,000 B a layer: any tokens move it, once, in three pieces. */
static void plan_moves_the_page_of_a_state(void **state)
{
    const uint32_t from[] = {5}, to[] = {9};
    struct kvr_plan_input input = input_of(from, to, 1, 1, 1, PAGE);
    struct kvr_plan *plan;

    (void)state;
    source.part_count = 1;
    source.parts[0] = KVR_PART_STATE;
    source.page_tokens = 0;
    source.head_count = 1;
    source.token_stride = source.head_stride = 0;
    source.head_bytes = source.page_stride = 9000;
    source.layer_stride = 64 * 9000;
    source.bytes = source.layer_count * source.layer_stride;
    target = source;
    input.token_end = 1234567;
    plan = make(&input);
    assert_int_equal(plan->chunk_count, 3 * source.layer_count);
    assert_int_equal(plan->bytes, 9000 * source.layer_count);
    assert_int_equal(plan->token_end, 1234567);
    assert_int_equal(plan->moved_end, 1234567);
    assert_int_equal(kvr_plan_chunks_max(&input, UINT64_MAX, 1), plan->chunk_count);
    kvr_plan_free(plan, &memory);
    input.token_end = 0;
    plan = make(&input);
    assert_int_equal(plan->chunk_count, 0);
    kvr_plan_free(plan, &memory);
    input.token_end = 1;
    input.target_page_count = 0;
    refused(&input, KVR_INVALID, "no target page is listed of group 0, which is a state");
}

static void plan_refuses_what_does_not_match(void **state)
{
    const uint32_t pages[] = {1};
    struct kvr_plan_input input = input_of(pages, pages, 1, 1, 1, PAGE);

    (void)state;
    target.head_bytes = 64;
    refused(&input, KVR_INCOMPATIBLE,
            "head_bytes: the source has 128, the target has 64 (layer 0 K)");
    target = region(2, 0, 4);
    target.bytes--;
    refused(&input, KVR_INVALID, "region 2: bytes is 2097151, but its pages end at 2097152");
}

static void plan_refuses_too_many_chunks(void **state)
{
    static const uint32_t pages[] = {0};
    struct kvr_plan_input input = input_of(pages, pages, 1, 1, 1, PAGE);

    (void)state;
    input.token_end = source.page_tokens = source.page_count = 1;
    source.layer_count = source.head_count = source.part_count = 1;
    source.head_bytes = source.bytes = (uint64_t)PAGE << 32;
    target = source;
    refused(&input, KVR_TOO_LARGE,
            "1 tokens of 1 heads of 17592186044416 B need more than 2^32 pieces of at most 4096 B");
    source.layer_count = 2;
    source.head_bytes /= 2;
    source.layer_stride = source.head_bytes;
    target = source;
    refused(&input, KVR_TOO_LARGE,
            "1 tokens in 2 layers and parts need 4294967296 writes, more than 2^32");
    input.limits.chunk_bytes_max = UINT64_MAX;
    kvr_plan_free(make(&input), &memory);
}

static void plan_refuses_too_many_patterns(void **state)
{
    struct kvr_region_layout regions[KVR_PLAN_PATTERNS_MAX + 1];
    const uint32_t pages[] = {1};
    struct kvr_plan_input input = input_of(pages, pages, 1, 1, 1, PAGE);

    (void)state;
    for (uint32_t i = 0; i <= KVR_PLAN_PATTERNS_MAX; i++) {
        regions[i] = region(i, i, 1);
        regions[i].page_stride = PAGE + i * 64;
        regions[i].part_stride = 64 * regions[i].page_stride;
        regions[i].bytes = 2 * regions[i].part_stride;
    }
    input.source_layouts = input.target_layouts = regions;
    input.source_layout_count = input.target_layout_count = KVR_PLAN_PATTERNS_MAX;
    kvr_plan_free(make(&input), &memory);
    input.source_layout_count = input.target_layout_count = KVR_PLAN_PATTERNS_MAX + 1;
    refused(&input, KVR_TOO_LARGE, "group 0 has more than 16 different page sizes and strides");
}

static void plan_says_when_memory_is_full(void **state)
{
    static unsigned char little[4096];
    uint32_t pages[64] = {0};
    struct kvr_plan_input input = input_of(pages, pages, 64, 1, 1, PAGE);
    struct kvr_error error;
    struct kvr_plan *plan;
    size_t room = 256;

    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        pages[i] = (i * 37) % 64;
    for (; room <= sizeof(little); room += 64) { /* each of its allocations fails in turn */
        kvr_status status;

        kvr_buddy_init(&memory, little, room);
        status = kvr_plan_make(&input, &memory, &plan, &error);
        if (status == KVR_OK)
            break;
        assert_int_equal(status, KVR_NO_MEMORY);
        assert_int_equal(memory.used_bytes, 0);
    }
    assert_true(room > 256 && room <= sizeof(little));
}

static void plan_bound_is_for_the_worst_pages(void **state)
{
    struct kvr_plan_input input = input_of(NULL, NULL, 0, 1, 1, 1 << 20);

    (void)state;
    assert_int_equal(kvr_plan_chunks_max(&input, 100 * 16, 1), 8 * 100);
    input.limits.pieces_local = 4; /* pages that touch nothing, each larger than half a chunk */
    assert_int_equal(kvr_plan_chunks_max(&input, 100 * 16, 7), 8 * 100);
    input.limits.chunk_bytes_max = PAGE;
    target.head_bytes = source.head_bytes = target.head_stride = source.head_stride = 300;
    target.token_stride = source.token_stride = 600; /* pages of 9600 B */
    target.page_stride = source.page_stride = 9600;
    target.part_stride = source.part_stride = 64 * 9600;
    target.layer_stride = source.layer_stride = 2 * 64 * 9600;
    target.bytes = source.bytes = 4 * 2 * 64 * 9600;
    assert_int_equal(kvr_plan_chunks_max(&input, 100 * 16, 1), 8 * 300);
    input.source_layout_count = 0; /* not known yet */
    assert_int_equal(kvr_plan_chunks_max(&input, 100 * 16, 1), 8 * 300);
    assert_int_equal(kvr_plan_chunks_max(&input, 0, 0), 0);
    input.scope.layer_first = 3;
    input.scope.layer_count = 9;
    assert_int_equal(kvr_plan_chunks_max(&input, 100 * 16, 1), 2 * 300);
    input.group = 1;
    assert_true(kvr_plan_chunks_max(&input, 100 * 16, 1) == UINT64_MAX);
    input.group = 0;
    input.limits.pieces_local = 0;
    assert_true(kvr_plan_chunks_max(&input, 16, 1) == UINT64_MAX);
    input.limits.pieces_local = 1;
    target.bytes = 1;
    assert_true(kvr_plan_chunks_max(&input, 16, 1) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plan_joins_adjacent_pages, setup),
        cmocka_unit_test_setup(plan_joins_pages_handed_out_backwards, setup),
        cmocka_unit_test_setup(plan_follows_target_addresses, setup),
        cmocka_unit_test_setup(plan_gathers_up_to_both_limits, setup),
        cmocka_unit_test_setup(plan_joins_pieces_that_touch_at_one_end, setup),
        cmocka_unit_test_setup(plan_positions_go_round_a_ring, setup),
        cmocka_unit_test_setup(plan_cuts_long_runs, setup),
        cmocka_unit_test_setup(plan_cuts_pages_larger_than_a_chunk, setup),
        cmocka_unit_test_setup(plan_does_not_join_padded_pages, setup),
        cmocka_unit_test_setup(plan_is_layer_major, setup),
        cmocka_unit_test_setup(plan_of_no_pages_has_no_chunks, setup),
        cmocka_unit_test_setup(plan_refuses_limits_outside_range, setup),
        cmocka_unit_test_setup(plan_refuses_pages_that_cannot_be, setup),
        cmocka_unit_test_setup(plan_moves_the_page_of_a_state, setup),
        cmocka_unit_test_setup(plan_refuses_what_does_not_match, setup),
        cmocka_unit_test_setup(plan_refuses_too_many_chunks, setup),
        cmocka_unit_test_setup(plan_refuses_too_many_patterns, setup),
        cmocka_unit_test_setup(plan_says_when_memory_is_full, setup),
        cmocka_unit_test_setup(plan_bound_is_for_the_worst_pages, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
