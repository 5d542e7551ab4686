#include "tests/support/mapping.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define UNTOUCHED 0x11

#define ONE(name)                                                                                  \
    {                                                                                              \
        KVR_LAYOUT_##name, KVR_LAYOUT_NAMES                                                        \
    }
#define NHD       ONE(VLLM_NHD)
#define HND       ONE(VLLM_HND)
#define PAGES_NHD ONE(VLLM_PAGES_NHD)
#define PAGES_HND ONE(VLLM_PAGES_HND)
#define CROSS_NHD ONE(VLLM_CROSS_NHD)
#define CROSS_HND ONE(VLLM_CROSS_HND)
#define FUSED_NHD ONE(FUSED_NHD)
#define FUSED_HND ONE(FUSED_HND)
#define MLA       ONE(MLA)
#define STATE     ONE(STATE)
#define SGLANG                                                                                     \
    {                                                                                              \
        KVR_LAYOUT_SGLANG_K, KVR_LAYOUT_SGLANG_V                                                   \
    }

/* Layout, tokens of a page, TP, PP; what the target has already. */
const struct mapping_row mapping_rows[] = {
    {"vLLM NHD", 8, false, {NHD, 16, 1, 1}, {NHD, 16, 1, 1}, 0},
    {"vLLM NHD, with a prefix", 8, false, {NHD, 16, 1, 1}, {NHD, 64, 1, 1}, 64},
    {"vLLM NHD, with a prefix", 8, false, {NHD, 64, 1, 1}, {NHD, 16, 1, 1}, 16},
    {"vLLM NHD", 8, false, {NHD, 1, 1, 1}, {NHD, 64, 1, 1}, 0},
    {"vLLM NHD, pages of no common size", 8, false, {NHD, 24, 1, 1}, {NHD, 16, 1, 1}, 16},
    {"vLLM HND", 8, false, {HND, 16, 1, 1}, {HND, 64, 1, 1}, 0},
    {"vLLM HND, with a prefix", 8, false, {HND, 64, 1, 1}, {HND, 16, 1, 1}, 48},
    {"vLLM NHD to HND", 8, false, {NHD, 16, 1, 1}, {HND, 32, 1, 1}, 0},
    {"vLLM HND to NHD", 8, false, {HND, 32, 1, 1}, {NHD, 16, 1, 1}, 0},
    {"vLLM (FlashInfer) to NHD", 8, false, {PAGES_NHD, 16, 1, 1}, {NHD, 16, 1, 1}, 0},
    {"vLLM (FlashInfer) HND", 8, false, {PAGES_HND, 32, 1, 1}, {PAGES_HND, 16, 1, 1}, 0},
    {"vLLM blocks across layers", 8, false, {CROSS_NHD, 16, 1, 1}, {PAGES_NHD, 64, 1, 1}, 0},
    {"vLLM blocks across layers, HND to NHD", 8, false, {CROSS_HND, 64, 1, 1}, {NHD, 16, 1, 1}, 0},
    {"SGLang to vLLM NHD", 8, false, {SGLANG, 1, 1, 1}, {NHD, 32, 1, 1}, 32},
    {"vLLM NHD to SGLang", 8, false, {NHD, 32, 1, 1}, {SGLANG, 1, 1, 1}, 5},
    {"SGLang", 8, false, {SGLANG, 64, 1, 1}, {SGLANG, 64, 1, 1}, 0},
    {"K and V fused, NHD", 8, false, {FUSED_NHD, 16, 1, 1}, {FUSED_NHD, 32, 1, 1}, 0},
    {"K and V fused, HND", 8, false, {FUSED_HND, 16, 2, 1}, {FUSED_HND, 16, 1, 1}, 0},
    {"MLA", 1, false, {MLA, 64, 1, 1}, {MLA, 1, 1, 1}, 0},
    {"MLA, one of many gives", 1, false, {MLA, 64, 8, 1}, {MLA, 64, 4, 1}, 0},
    {"MLA, one for many", 1, false, {MLA, 16, 1, 1}, {MLA, 32, 4, 1}, 32},
    {"MLA, stages and ranks", 1, false, {MLA, 16, 2, 2}, {MLA, 16, 2, 3}, 0},
    {"vLLM HND, TP 8 to 4", 8, false, {HND, 16, 8, 1}, {HND, 32, 4, 1}, 32},
    {"vLLM HND, TP 4 to 8", 8, false, {HND, 16, 4, 1}, {HND, 16, 8, 1}, 0},
    {"vLLM HND, TP 1 to 2", 8, false, {HND, 16, 1, 1}, {HND, 16, 2, 1}, 0},
    {"vLLM HND, TP 2 to 1", 8, false, {HND, 16, 2, 1}, {HND, 16, 1, 1}, 0},
    {"vLLM NHD, TP 8 to 4", 8, false, {NHD, 16, 8, 1}, {NHD, 16, 4, 1}, 0},
    {"vLLM NHD, TP 4 to 8", 8, false, {NHD, 64, 4, 1}, {NHD, 16, 8, 1}, 0},
    {"vLLM NHD, TP 1 to 2", 8, false, {NHD, 16, 1, 1}, {NHD, 64, 2, 1}, 0},
    {"vLLM NHD, TP 2 to 1", 8, false, {NHD, 16, 2, 1}, {NHD, 64, 1, 1}, 0},
    {"SGLang, TP 2 to 4", 8, false, {SGLANG, 1, 2, 1}, {SGLANG, 16, 4, 1}, 0},
    {"blocks across layers, TP 2 to 8", 8, false, {CROSS_HND, 16, 2, 1}, {CROSS_HND, 16, 8, 1}, 16},
    {"2 heads on 8 ranks to 4 ranks", 2, false, {HND, 16, 8, 1}, {HND, 16, 4, 1}, 0},
    {"4 heads on 2 ranks to 8 ranks", 4, false, {NHD, 16, 2, 1}, {NHD, 16, 8, 1}, 0},
    {"PP 3 to 1", 8, false, {NHD, 16, 1, 3}, {NHD, 16, 1, 1}, 16},
    {"PP 1 to 3", 8, false, {NHD, 16, 1, 1}, {NHD, 16, 1, 3}, 0},
    {"PP 2 to 3", 8, false, {HND, 16, 1, 2}, {HND, 16, 1, 3}, 0},
    {"TP 2 and PP 3 to SGLang", 8, false, {HND, 64, 2, 3}, {SGLANG, 1, 1, 1}, 0},
    {"state", 1, false, {STATE, 16, 1, 1}, {STATE, 16, 1, 1}, 0},
    {"hybrid: full, window, state", 8, true, {NHD, 16, 1, 1}, {NHD, 16, 1, 1}, 0},
    {"hybrid, with a prefix", 8, true, {NHD, 64, 1, 1}, {HND, 16, 1, 1}, 32},
    {"hybrid, with a prefix behind the window", 8, true, {HND, 16, 1, 1}, {HND, 32, 1, 1}, 160},
    {"hybrid, TP 2", 8, true, {HND, 16, 2, 1}, {HND, 32, 2, 1}, 0},
    {"hybrid, PP 2 to 1", 8, true, {NHD, 32, 1, 2}, {NHD, 16, 1, 1}, 0},
    {"hybrid, everything is here", 8, true, {HND, 16, 2, 1}, {HND, 16, 2, 1}, MAPPING_TOKENS},
    {"TP 2 to 2, everything is here", 8, false, {HND, 16, 2, 1}, {HND, 16, 2, 1}, MAPPING_TOKENS},
    {"state of one page", 1, false, {STATE, 0, 1, 1}, {STATE, 0, 1, 1}, 0},
    {"hybrid, one-page state", 8, MAPPING_ONE_PAGE, {NHD, 16, 1, 1}, {HND, 32, 1, 1}, 0},
    {"hybrid, one-page state, prefix", 8, MAPPING_ONE_PAGE, {HND, 64, 2, 1}, {HND, 16, 2, 1}, 160},
    {"hybrid, one-page state, PP 2 to 1", 8, MAPPING_ONE_PAGE, {NHD, 32, 1, 2}, {NHD, 16, 1, 1}, 0},
};
const uint32_t mapping_row_count = sizeof(mapping_rows) / sizeof(mapping_rows[0]);

/* ---- where things lie ------------------------------------------------------------------------ */

static uint32_t group_of(const struct mapping_row *row, uint32_t layer)
{
    return row->hybrid ? layer % MAPPING_GROUPS : 0;
}

/* Of a hybrid model the windows have pages twice as large, and a state has one. */
static uint32_t page_tokens_of(const struct mapping_row *row, const struct mapping_side *side,
                               uint32_t group)
{
    if (group == MAPPING_STATE_GROUP)
        return row->hybrid == MAPPING_ONE_PAGE ? 0 : MAPPING_STATE_TOKENS;
    return group == MAPPING_WINDOW_GROUP ? 2 * side->page_tokens : side->page_tokens;
}

static uint32_t pages_for(uint32_t page_tokens)
{
    return page_tokens > 0 ? (MAPPING_TOKENS + page_tokens - 1) / page_tokens : 1;
}

/* Distinct pages in no order that an address follows. What a window does not keep is page 0. */
static void choose_pages(struct mapping_engine *engine, uint32_t group)
{
    uint32_t count = pages_for(engine->page_tokens[group]), region_pages = count + 6, step = 7;

    while (region_pages % step == 0)
        step += 2;
    engine->page_counts[group] = count;
    assert(count <= MAPPING_PAGES);
    for (uint32_t i = 0, id = 3; i < count; i++, id = (id + step) % region_pages) {
        if (id == 0)
            id = step % region_pages;
        engine->pages[group][i] = (i + 1) * engine->page_tokens[group] > engine->skips[group] ||
                                          engine->page_tokens[group] == 0
                                      ? id
                                      : 0;
    }
}

static void groups_make(const struct mapping_row *row, const struct mapping_side *side,
                        struct mapping_engine *engine)
{
    for (uint32_t group = 0; group < (row->hybrid ? MAPPING_GROUPS : 1); group++) {
        uint32_t page_tokens = page_tokens_of(row, side, group);
        uint64_t skip = side == &row->target ? row->skip : 0; /* a source has all, but windows */

        if (group == MAPPING_WINDOW_GROUP && skip < MAPPING_TOKENS - MAPPING_WINDOW)
            skip = MAPPING_TOKENS - MAPPING_WINDOW;
        engine->page_tokens[group] = page_tokens;
        engine->skips[group] = skip == MAPPING_TOKENS ? skip
                               : page_tokens > 0      ? skip / page_tokens * page_tokens
                                                      : 0;
        choose_pages(engine, group);
    }
}

/* Heads of a tensor rank: equal parts, or each head at as many ranks. A state is cut like heads. */
static void heads_of(kvr_layout_name name, uint32_t heads, uint32_t tp_size, uint32_t tp,
                     struct kvr_layout_shape *shape)
{
    shape->head_count = heads > tp_size ? heads / tp_size : 1;
    shape->head_first = heads >= tp_size ? tp * shape->head_count : tp / (tp_size / heads);
    if (name == KVR_LAYOUT_MLA || name == KVR_LAYOUT_STATE)
        shape->head_first = 0, shape->head_count = 1;
}

static void layout_add(const struct mapping_row *row, const struct mapping_side *side, uint32_t tp,
                       kvr_layout_name name, uint32_t layer_first, uint32_t layer_count,
                       struct mapping_engine *engine)
{
    uint32_t group = group_of(row, layer_first);
    struct kvr_region_layout *layout = &engine->layouts[engine->region_count++];
    struct kvr_layout_shape shape = {
        .group = group,
        .layer_first = layer_first,
        .layer_count = layer_count,
        .page_tokens = engine->page_tokens[group],
        .page_count = engine->page_counts[group] + 6,
        .head_dim = name == KVR_LAYOUT_STATE ? 4096 : MAPPING_HEAD_DIM,
        .element_bytes = 2,
    };
    struct kvr_error error;

    assert(engine->region_count <= MAPPING_REGIONS);
    heads_of(name, row->heads, side->tp, tp, &shape);
    if (kvr_layout_make(name, &shape, layout, &error) != KVR_OK)
        mapping_fail("layout", error.detail);
    if (name == KVR_LAYOUT_STATE)
        layout->head_first = tp; /* this rank's part of it */
    for (uint32_t layer = layer_first; layer < layer_first + layer_count; layer++)
        engine->layers_in[layer] = engine->skips[group];
}

void mapping_layouts(const struct mapping_row *row, const struct mapping_side *side, uint32_t tp,
                     uint32_t pp, struct mapping_engine *engine)
{
    uint32_t layers = MAPPING_LAYERS / side->pp, first = pp * layers;

    groups_make(row, side, engine);
    for (uint32_t layer = 0; layer < MAPPING_LAYERS; layer++)
        engine->layers_in[layer] = MAPPING_TOKENS;
    for (uint32_t i = 0; i < 2 && side->names[i] != KVR_LAYOUT_NAMES; i++) {
        if (!row->hybrid)
            layout_add(row, side, tp, side->names[i], first, layers, engine);
        for (uint32_t layer = first; row->hybrid && layer < first + layers; layer++)
            layout_add(row, side, tp,
                       group_of(row, layer) == MAPPING_STATE_GROUP ? KVR_LAYOUT_STATE
                                                                   : side->names[i],
                       layer, 1, engine);
    }
}

void mapping_region(struct mapping_engine *engine, uint32_t index, struct kvrail_region *ret_region)
{
    const struct kvr_region_layout *layout = &engine->layouts[index];
    struct kvrail_memory *memory = &engine->memories[index];
    struct kvrail_error error;

    *ret_region = (struct kvrail_region){
        .size = sizeof(struct kvrail_region),
        .name = "kv",
        .memory = engine->on_device ? KVRAIL_MEMORY_CUDA_VMM : KVRAIL_MEMORY_MEMFD,
        .device = engine->on_device ? 0 : -1,
        .group = layout->group,
        .layer_first = layout->layer_first,
        .layer_count = layout->layer_count,
        .part_count = layout->part_count,
        .replicated = layout->replicated,
        .head_first = layout->head_first,
        .head_count = layout->head_count,
        .page_tokens = layout->page_tokens,
        .page_count = layout->page_count,
        .bytes = layout->bytes,
        .base = layout->base,
        .layer_stride = layout->layer_stride,
        .part_stride = layout->part_stride,
        .page_stride = layout->page_stride,
        .token_stride = layout->token_stride,
        .head_stride = layout->head_stride,
        .head_bytes = layout->head_bytes,
    };
    memcpy(ret_region->parts, layout->parts, sizeof(ret_region->parts));
    if (kvrail_memory_create("kv", layout->bytes, memory, &error) != KVRAIL_OK)
        mapping_fail("memory", error.detail);
    ret_region->fd = memory->fd;
    memset(memory->address, UNTOUCHED, layout->bytes);
}

/* ---- what is where --------------------------------------------------------------------------- */

/* The byte of the model's KV, the same wherever it lies. */
static uint8_t content(uint32_t layer, uint32_t part, uint64_t token, uint32_t head, uint64_t byte)
{
    uint64_t x = (((layer * 7 + part) * 1000 + token) * 16 + head) * 512 + byte;

    return (uint8_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* Calls visit for each head of each token from `first` on, to the end of its last page. */
typedef void visitor(uint8_t *bytes, uint64_t byte_count, uint32_t layer, uint32_t part,
                     uint64_t token, uint32_t head);

static void walk(const struct mapping_engine *engine, uint32_t index, uint64_t first,
                 visitor *visit)
{
    const struct kvr_region_layout *layout = &engine->layouts[index];
    const uint32_t *pages = engine->pages[layout->group];
    uint32_t page_tokens = layout->page_tokens > 0 ? layout->page_tokens : 1;
    uint64_t tokens = (uint64_t)engine->page_counts[layout->group] * page_tokens;
    uint8_t *memory = (uint8_t *)engine->memories[index].address + layout->base;

    for (uint32_t layer = 0; layer < layout->layer_count; layer++)
        for (uint32_t part = 0; part < layout->part_count; part++)
            for (uint64_t token = first; token < tokens; token++)
                for (uint32_t head = 0; head < layout->head_count; head++)
                    visit(memory + layer * layout->layer_stride + part * layout->part_stride +
                              pages[token / page_tokens] * layout->page_stride +
                              token % page_tokens * layout->token_stride +
                              head * layout->head_stride,
                          layout->head_bytes, layout->layer_first + layer, layout->parts[part],
                          token, layout->head_first + head);
}

static void fill(uint8_t *bytes, uint64_t byte_count, uint32_t layer, uint32_t part, uint64_t token,
                 uint32_t head)
{
    for (uint64_t i = 0; i < byte_count; i++)
        bytes[i] = content(layer, part, token, head, i);
}

void mapping_fill(const struct mapping_engine *source)
{
    for (uint32_t i = 0; i < source->region_count; i++) /* window pages hold only what is kept */
        walk(source, i,
             source->layouts[i].group == MAPPING_WINDOW_GROUP ? source->skips[MAPPING_WINDOW_GROUP]
                                                              : 0,
             fill);
}

/* What is right becomes untouched, so that all else must be. Behind the last token a page may hold
 * anything, except that a state is moved as a whole. */
static void check(uint8_t *bytes, uint64_t byte_count, uint32_t layer, uint32_t part,
                  uint64_t token, uint32_t head)
{
    char detail[128];

    for (uint64_t i = 0; i < byte_count; i++) {
        if ((token < MAPPING_TOKENS || part == KVR_PART_STATE) &&
            bytes[i] != content(layer, part, token, head, i)) {
            snprintf(detail, sizeof(detail), "layer %u part %u token %llu head %u byte %llu", layer,
                     part, (unsigned long long)token, head, (unsigned long long)i);
            mapping_fail("not the source's", detail);
        }
        bytes[i] = UNTOUCHED;
    }
}

void mapping_check(const struct mapping_engine *target)
{
    for (uint32_t i = 0; i < target->region_count; i++) {
        const uint8_t *memory = target->memories[i].address;
        uint64_t skip = target->skips[target->layouts[i].group];

        if (skip < MAPPING_TOKENS)
            walk(target, i, skip, check);
        for (uint64_t byte = 0; byte < target->layouts[i].bytes; byte++)
            if (memory[byte] != UNTOUCHED)
                mapping_fail("target", "a byte changed that belongs to no token of the request");
    }
}

uint64_t mapping_bytes(const struct mapping_row *row, const struct mapping_engine *target)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < target->region_count; i++) {
        const struct kvr_region_layout *layout = &target->layouts[i];
        uint32_t ours = layout->page_tokens;
        uint32_t theirs = page_tokens_of(row, &row->source, layout->group);
        uint64_t end = (uint64_t)pages_for(ours) * ours,
                 other = (uint64_t)pages_for(theirs) * theirs;

        end = other < end ? other : end;
        if (ours == 0) /* a state of one page counts as one token */
            end = 1;
        if (target->skips[layout->group] < MAPPING_TOKENS)
            bytes += (end - target->skips[layout->group]) * layout->layer_count *
                     layout->part_count * layout->head_count * layout->head_bytes;
    }
    return bytes;
}
