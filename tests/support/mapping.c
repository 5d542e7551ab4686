/* Moves one request between two engines whose layouts differ, for every pair of a table, and looks
 * at every byte of the target: what moved is the source's, the rest is as it was.
 *
 *   mapping SOURCE-SOCKET TARGET-SOCKET HOST:PORT-OF-PREFILL-AGENT
 *
 * Ends with `mapping: N passed`. Both engines are in this process; a pair is a new pair of engines.
 */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvrail.h"
#include "kv/layout_named.h"

#define LAYERS      3
#define HEADS       8 /* of the model */
#define HEAD_DIM    64
#define TOKENS      203
#define HALF        90 /* the first segment ends in the middle of a page */
#define REGIONS_MAX 2
#define PAGES_MAX   256
#define UNTOUCHED   0x11
#define NAMES_END   KVR_LAYOUT_NAMES
#define RANKS_MAX   8

/* One side of a pair: up to two regions, as SGLang has them. Heads are divided among tp ranks,
 * layers among pp; 0 is 1. */
struct side {
    kvr_layout_name names[REGIONS_MAX];
    uint32_t page_tokens, head_first, head_count, tp, pp;
};

static const struct pair {
    const char *text;
    struct side source, target;
    uint64_t skip;
} pairs[] = {
#define NHD                                                                                        \
    {                                                                                              \
        KVR_LAYOUT_VLLM_NHD, NAMES_END                                                             \
    }
#define HND                                                                                        \
    {                                                                                              \
        KVR_LAYOUT_VLLM_HND, NAMES_END                                                             \
    }
#define PAGES_NHD                                                                                  \
    {                                                                                              \
        KVR_LAYOUT_VLLM_PAGES_NHD, NAMES_END                                                       \
    }
#define CROSS_NHD                                                                                  \
    {                                                                                              \
        KVR_LAYOUT_VLLM_CROSS_NHD, NAMES_END                                                       \
    }
#define CROSS_HND                                                                                  \
    {                                                                                              \
        KVR_LAYOUT_VLLM_CROSS_HND, NAMES_END                                                       \
    }
#define SGLANG                                                                                     \
    {                                                                                              \
        KVR_LAYOUT_SGLANG_K, KVR_LAYOUT_SGLANG_V                                                   \
    }
#define FUSED                                                                                      \
    {                                                                                              \
        KVR_LAYOUT_FUSED_NHD, NAMES_END                                                            \
    }
#define MLA                                                                                        \
    {                                                                                              \
        KVR_LAYOUT_MLA, NAMES_END                                                                  \
    }
#define STATE                                                                                      \
    {                                                                                              \
        KVR_LAYOUT_STATE, NAMES_END                                                                \
    }
    {"NHD 16 to NHD 16", {NHD, 16, 0, 8, 1, 1}, {NHD, 16, 0, 8, 1, 1}, 0},
    {"NHD 16 to NHD 64", {NHD, 16, 0, 8, 1, 1}, {NHD, 64, 0, 8, 1, 1}, 64},
    {"NHD 64 to NHD 16", {NHD, 64, 0, 8, 1, 1}, {NHD, 16, 0, 8, 1, 1}, 16},
    {"HND 16 to HND 64", {HND, 16, 0, 8, 1, 1}, {HND, 64, 0, 8, 1, 1}, 0},
    {"HND 64 to HND 16", {HND, 64, 0, 8, 1, 1}, {HND, 16, 0, 8, 1, 1}, 48},
    {"NHD 16 to HND 32", {NHD, 16, 0, 8, 1, 1}, {HND, 32, 0, 8, 1, 1}, 0},
    {"HND 32 to NHD 16", {HND, 32, 0, 8, 1, 1}, {NHD, 16, 0, 8, 1, 1}, 0},
    {"SGLang 1 to NHD 32", {SGLANG, 1, 0, 8, 1, 1}, {NHD, 32, 0, 8, 1, 1}, 32},
    {"NHD 32 to SGLang 1", {NHD, 32, 0, 8, 1, 1}, {SGLANG, 1, 0, 8, 1, 1}, 5},
    {"NHD 24 to NHD 16", {NHD, 24, 0, 8, 1, 1}, {NHD, 16, 0, 8, 1, 1}, 16},
    {"HND, TP 1 to TP 4", {HND, 16, 0, 8, 1, 1}, {HND, 16, 2, 2, 1, 1}, 0},
    {"NHD, TP 1 to TP 2", {NHD, 16, 0, 8, 1, 1}, {NHD, 64, 4, 4, 1, 1}, 0},
    {"blocks across layers, TP 2 to TP 8",
     {CROSS_HND, 16, 4, 4, 1, 1},
     {CROSS_HND, 16, 7, 1, 1, 1},
     16},
    {"blocks across layers to pages", {CROSS_NHD, 16, 0, 8, 1, 1}, {PAGES_NHD, 64, 0, 8, 1, 1}, 0},
    {"blocks across layers, HND to NHD", {CROSS_HND, 64, 0, 8, 1, 1}, {NHD, 16, 0, 8, 1, 1}, 0},
    {"MLA 64 to MLA 1", {MLA, 64, 0, 1, 1, 1}, {MLA, 1, 0, 1, 1, 1}, 0},
    {"fused 16 to fused 32", {FUSED, 16, 0, 8, 1, 1}, {FUSED, 32, 0, 8, 1, 1}, 0},
    {"HND, TP 2 to TP 1", {HND, 16, 0, 8, 2, 1}, {HND, 16, 0, 8, 1, 1}, 0},
    {"HND, TP 8 to TP 4", {HND, 16, 4, 2, 2, 1}, {HND, 32, 4, 2, 1, 1}, 32},
    {"NHD, TP 4 to TP 1", {NHD, 16, 0, 8, 4, 1}, {NHD, 64, 0, 8, 1, 1}, 0},
    {"PP 3 to PP 1", {NHD, 16, 0, 8, 1, 3}, {NHD, 16, 0, 8, 1, 1}, 16},
    {"TP 2 and PP 3 to SGLang", {HND, 64, 0, 8, 2, 3}, {SGLANG, 1, 0, 8, 1, 1}, 0},
    {"state", {STATE, 16, 0, 1, 1, 1}, {STATE, 16, 0, 1, 1, 1}, 0},
};

struct engine {
    struct kvrail *agent;
    uint64_t generation;
    uint32_t region_count;
    struct kvr_region_layout layouts[REGIONS_MAX];
    struct kvrail_memory memories[REGIONS_MAX];
    uint32_t pages[PAGES_MAX], page_count, page_tokens;
};

static const char *pair_text;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "mapping: %s: %s: %s\n", pair_text, what, detail);
    exit(1);
}

static void need(struct engine *engine, kvrail_status status, const char *what)
{
    if (status != KVRAIL_OK)
        fail(what, kvrail_last_error(engine->agent)->detail);
}

/* The byte of the model's KV, the same wherever it lies. */
static uint8_t content(uint32_t layer, uint32_t part, uint64_t token, uint32_t head, uint64_t byte)
{
    uint64_t x = (((layer * 7 + part) * 1000 + token) * 16 + head) * 512 + byte;

    return (uint8_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* Distinct pages, in no order that an address follows. */
static void choose_pages(struct engine *engine, uint32_t region_pages)
{
    uint32_t step = 7;

    while (region_pages % step == 0)
        step += 2;
    engine->page_count = (TOKENS + engine->page_tokens - 1) / engine->page_tokens;
    assert(engine->page_count <= PAGES_MAX && engine->page_count < region_pages);
    for (uint32_t i = 0; i < engine->page_count; i++)
        engine->pages[i] = (i * step + 3) % region_pages;
}

static void make_layouts(const struct side *side, uint32_t tp, uint32_t pp, struct engine *engine)
{
    struct kvr_error error;

    engine->page_tokens = side->page_tokens;
    choose_pages(engine, (TOKENS + side->page_tokens - 1) / side->page_tokens + 6);
    engine->region_count = 0;
    for (uint32_t i = 0; i < REGIONS_MAX && side->names[i] != NAMES_END; i++) {
        struct kvr_layout_shape shape = {
            .layer_first = pp * (LAYERS / side->pp),
            .layer_count = LAYERS / side->pp,
            .head_first = side->head_first + tp * (side->head_count / side->tp),
            .head_count = side->head_count / side->tp,
            .page_tokens = side->page_tokens,
            .page_count = (TOKENS + side->page_tokens - 1) / side->page_tokens + 6,
            .head_dim = side->names[i] == KVR_LAYOUT_STATE ? 4096 : HEAD_DIM,
            .element_bytes = 2,
        };

        if (kvr_layout_make(side->names[i], &shape, &engine->layouts[engine->region_count++],
                            &error) != KVR_OK)
            fail("layout", error.detail);
    }
}

static void add_region(struct engine *engine, uint32_t index)
{
    const struct kvr_region_layout *layout = &engine->layouts[index];
    struct kvrail_memory *memory = &engine->memories[index];
    struct kvrail_region region = {
        .name = "kv",
        .device = -1,
        .layer_first = layout->layer_first,
        .layer_count = layout->layer_count,
        .part_count = layout->part_count,
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
    struct kvrail_error error;
    uint32_t id;

    memcpy(region.parts, layout->parts, sizeof(region.parts));
    if (kvrail_memory_create("kv", layout->bytes, memory, &error) != KVRAIL_OK)
        fail("memory", error.detail);
    region.fd = memory->fd;
    memset(memory->address, UNTOUCHED, layout->bytes);
    need(engine, kvrail_region_add(engine->agent, &region, 10000, &id), "region");
}

static void engine_open(const char *socket, const char *name, uint8_t id, const struct side *side,
                        uint32_t rank, struct engine *engine)
{
    struct kvrail_identity me = {
        .name = name,
        .engine = {id},
        .generation = 1,
        .tp = rank % side->tp,
        .tp_size = side->tp,
        .pp = rank / side->tp,
        .pp_size = side->pp,
        .model = "mapping",
        .dtype = "bfloat16",
        .layers_total = LAYERS,
        .kv_heads_total = HEADS,
        .head_dim = HEAD_DIM,
    };
    struct kvrail_error error;

    memset(engine, 0, sizeof(*engine));
    make_layouts(side, me.tp, me.pp, engine);
    if (kvrail_open(socket, &me, 5000, &engine->agent, &error) != KVRAIL_OK)
        fail("open", error.detail);
    for (uint32_t i = 0; i < engine->region_count; i++)
        add_region(engine, i);
}

static void engine_close(struct engine *engine)
{
    kvrail_close(engine->agent);
    for (uint32_t i = 0; i < engine->region_count; i++)
        kvrail_memory_destroy(&engine->memories[i]);
}

/* Calls visit for each head of each token that lies in this region: with its bytes. */
typedef void visitor(uint8_t *bytes, uint64_t byte_count, uint32_t layer, uint32_t part,
                     uint64_t token, uint32_t head, uint64_t skip);

static void walk(const struct engine *engine, uint32_t index, uint8_t *memory, uint64_t tokens,
                 uint64_t skip, visitor *visit)
{
    const struct kvr_region_layout *layout = &engine->layouts[index];

    for (uint32_t layer = 0; layer < layout->layer_count; layer++)
        for (uint32_t part = 0; part < layout->part_count; part++)
            for (uint64_t token = 0; token < tokens; token++)
                for (uint32_t head = 0; head < layout->head_count; head++)
                    visit(memory + layout->base + layer * layout->layer_stride +
                              part * layout->part_stride +
                              engine->pages[token / layout->page_tokens] * layout->page_stride +
                              token % layout->page_tokens * layout->token_stride +
                              head * layout->head_stride,
                          layout->head_bytes, layout->layer_first + layer, layout->parts[part],
                          token, layout->head_first + head, skip);
}

static void fill(uint8_t *bytes, uint64_t byte_count, uint32_t layer, uint32_t part, uint64_t token,
                 uint32_t head, uint64_t skip)
{
    (void)skip;
    for (uint64_t i = 0; i < byte_count; i++)
        bytes[i] = content(layer, part, token, head, i);
}

/* What is right becomes untouched, so that all else must be. Behind the last token a page may hold
 * anything. */
static void check(uint8_t *bytes, uint64_t byte_count, uint32_t layer, uint32_t part,
                  uint64_t token, uint32_t head, uint64_t skip)
{
    char detail[128];

    for (uint64_t i = 0; i < byte_count; i++) {
        if (token >= skip && token < TOKENS && bytes[i] != content(layer, part, token, head, i)) {
            snprintf(detail, sizeof(detail), "layer %u part %u token %llu head %u byte %llu", layer,
                     part, (unsigned long long)token, head, (unsigned long long)i);
            fail("not the source's", detail);
        }
        if (token >= skip)
            bytes[i] = UNTOUCHED;
    }
}

static void check_target(const struct engine *target, uint64_t skip)
{
    for (uint32_t i = 0; i < target->region_count; i++) {
        uint8_t *memory = target->memories[i].address;

        walk(target, i, memory, (uint64_t)target->page_count * target->page_tokens, skip, check);
        for (uint64_t byte = 0; byte < target->layouts[i].bytes; byte++) {
            if (memory[byte] != UNTOUCHED)
                fail("target", "a byte changed that belongs to no token of the request");
        }
    }
}

static kvrail_handle fetch(struct engine *target, const char *request, const char *agent,
                           uint8_t source_id, uint32_t ranks, const struct pair *pair)
{
    uint32_t tp = pair->source.tp;
    struct kvrail_source_address from[RANKS_MAX];
    struct kvrail_target_options options = {.request = request,
                                            .tokens = TOKENS,
                                            .skip_tokens = pair->skip,
                                            .sources = from,
                                            .source_count = ranks};
    uint32_t first = target->page_count / 3;
    kvrail_handle handle;

    for (uint32_t i = 0; i < ranks; i++)
        from[i] = (struct kvrail_source_address){
            .agent = agent, .engine = {source_id}, .generation = 1, .tp = i % tp, .pp = i / tp};
    need(target, kvrail_target_open(target->agent, &options, &handle), "fetch");
    need(target, kvrail_target_pages(target->agent, handle, 0, target->pages, first), "pages");
    need(target,
         kvrail_target_pages(target->agent, handle, 0, target->pages + first,
                             target->page_count - first),
         "later pages");
    return handle;
}

static kvrail_handle publish(struct engine *source, const char *request)
{
    struct kvrail_source_options options = {.request = request, .tokens = TOKENS, .consumers = 1};
    kvrail_handle handle;

    need(source, kvrail_source_open(source->agent, &options, &handle), "publish");
    need(source, kvrail_source_pages(source->agent, handle, 0, source->pages, source->page_count),
         "pages");
    need(source, kvrail_source_watch(source->agent, handle, 0, 0, 0, HALF), "watch");
    need(source, kvrail_source_watch(source->agent, handle, 0, LAYERS, HALF, TOKENS), "watch");
    for (uint32_t i = 0; i < source->region_count; i++)
        walk(source, i, source->memories[i].address, TOKENS, 0, fill);
    kvrail_ready(source->agent, 0, 2 * LAYERS);
    need(source, kvrail_source_tail(source->agent, handle, "t", 1), "tail");
    need(source, kvrail_source_end(source->agent, handle, KVRAIL_OK), "end");
    return handle;
}

/* Returns how it ended; the sentence goes to ret_detail. */
static kvrail_status wait_for_end(struct engine *engine, kvrail_handle handle,
                                  char ret_detail[KVRAIL_DETAIL_BYTES])
{
    struct kvrail_event event;
    struct pollfd readable = {.fd = kvrail_event_fd(engine->agent), .events = POLLIN};

    for (;;) {
        int got = kvrail_poll(engine->agent, &event, 1);

        if (got < 0)
            fail("agent", "it is gone");
        if (got == 0 && poll(&readable, 1, 60000) == 0)
            fail("end", "nothing was heard for a minute");
        if (got == 0 || !event.terminal || event.handle != handle)
            continue;
        memcpy(ret_detail, event.detail, KVRAIL_DETAIL_BYTES);
        return event.status;
    }
}

static void need_end(struct engine *engine, kvrail_handle handle, const char *side)
{
    char detail[KVRAIL_DETAIL_BYTES];

    if (wait_for_end(engine, handle, detail) != KVRAIL_OK)
        fail(side, detail);
}

/* A fetch that names one of two source ranks: refused with the head that is missing. */
static void name_too_few(char **argv)
{
    static const struct pair pair = {
        "too few ranks", {NHD, 16, 0, 8, 2, 1}, {NHD, 16, 0, 8, 1, 1}, 0};
    static struct engine source, target;
    char detail[KVRAIL_DETAIL_BYTES];
    kvrail_handle from, to;

    pair_text = pair.text;
    engine_open(argv[1], "source", 201, &pair.source, 0, &source);
    engine_open(argv[2], "target", 202, &pair.target, 0, &target);
    to = fetch(&target, "too-few", argv[3], 201, 1, &pair);
    from = publish(&source, "too-few");
    if (wait_for_end(&target, to, detail) != KVRAIL_INCOMPATIBLE ||
        strstr(detail, "head 4: no source has it") == NULL)
        fail("the fetch should have been refused", detail);
    if (wait_for_end(&source, from, detail) == KVRAIL_OK)
        fail("the source", "was told that all was well");
    engine_close(&source);
    engine_close(&target);
}

/* One request from all ranks of the source to one of the target. */
static void move(char **argv, uint32_t number, const struct pair *pair)
{
    static struct engine sources[RANKS_MAX], target;
    uint32_t ranks = pair->source.tp * pair->source.pp;
    uint8_t source_id = (uint8_t)(2 * number + 1);
    kvrail_handle from[RANKS_MAX], to;
    char request[32];

    pair_text = pair->text;
    snprintf(request, sizeof(request), "mapping-%u", number);
    for (uint32_t i = 0; i < ranks; i++)
        engine_open(argv[1], "source", source_id, &pair->source, i, &sources[i]);
    engine_open(argv[2], "target", (uint8_t)(source_id + 1), &pair->target, 0, &target);
    to = fetch(&target, request, argv[3], source_id, ranks, pair);
    for (uint32_t i = 0; i < ranks; i++)
        from[i] = publish(&sources[i], request);
    need_end(&target, to, "target");
    for (uint32_t i = 0; i < ranks; i++)
        need_end(&sources[i], from[i], "source");
    check_target(&target, pair->skip);
    for (uint32_t i = 0; i < ranks; i++)
        engine_close(&sources[i]);
    engine_close(&target);
    printf("ok %s\n", pair_text);
}

int main(int argc, char **argv)
{
    uint32_t count = sizeof(pairs) / sizeof(pairs[0]);

    if (argc != 4) {
        fprintf(stderr, "usage: mapping SOURCE-SOCKET TARGET-SOCKET HOST:PORT\n");
        return 2;
    }
    for (uint32_t i = 0; i < count; i++)
        move(argv, i, &pairs[i]);
    name_too_few(argv);
    printf("mapping: %u passed\n", count + 1);
    return 0;
}
