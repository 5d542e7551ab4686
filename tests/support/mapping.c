/* Moves one request between two engines with different layouts, ranks or KV groups, for every row
 * of a table, and looks at every byte of the targets: the moved bytes are the source's, and the
 * rest is as it was.
 *
 *   mapping SOURCE-SOCKET TARGET-SOCKET HOST:PORT-OF-PREFILL-AGENT
 *           [staged | fragments | fragments-refused | strangers-refused | fields-refused |
 *            SOURCE-SOCKET HOST:PORT of a second one, with every other rank]
 *
 * fragments: only rows that need small writes.
 *
 * Every target rank names every source rank. Each layer must be announced once, without a gap.
 * Where several source ranks hold equal data only one copy may move. Prints a line a row and ends
 * with `mapping: N passed`. All ranks are in this process; a row has new engines. */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/mapping.h"
#include "tests/support/test_secret.h"

static const char *row_text;
static struct {
    const char *socket, *address;
} agents[2]; /* of the source: rank i is at agent i % agent_count */
static uint32_t agent_count = 1;
static bool staged;         /* all pages are devices' */
static bool fragments_only; /* of the rows */
static uint64_t generation; /* of all engines: this run's */
static void (*target_differs)(
    struct kvrail_identity *me); /* changes the field that is refused; NULL: no field */

void mapping_fail(const char *what, const char *detail)
{
    fprintf(stderr, "mapping: %s: %s: %s\n", row_text, what, detail);
    exit(1);
}

static void need(struct mapping_engine *engine, kvrail_status status, const char *what)
{
    if (status != KVRAIL_OK)
        mapping_fail(what, kvrail_last_error(engine->agent)->detail);
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- engines --------------------------------------------------------------------------------- */

static void engine_open(const char *socket, bool source, uint8_t id, const struct mapping_row *row,
                        uint32_t rank, struct mapping_engine *engine)
{
    const struct mapping_side *side = source ? &row->source : &row->target;
    struct kvrail_identity me = {
        .size = sizeof(struct kvrail_identity),
        .name = source ? "source" : "target",
        .engine = {id},
        .generation = generation,
        .tp = rank % side->tp,
        .tp_size = side->tp,
        .pp = rank / side->tp,
        .pp_size = side->pp,
        .model = "mapping",
        .dtype = "bfloat16",
        .layers_total = MAPPING_LAYERS,
        .kv_heads_total = row->heads,
        .head_dim = MAPPING_HEAD_DIM,
    };
    struct kvrail_error error;

    if (!source && target_differs != NULL)
        target_differs(&me);
    memset(engine, 0, sizeof(*engine));
    engine->on_device = staged;
    if (kvrail_open(socket, &me, 5000, &engine->agent, &error) != KVRAIL_OK)
        mapping_fail("open", error.detail);
    mapping_layouts(row, side, me.tp, me.pp, engine);
    for (uint32_t i = 0; i < engine->region_count; i++) {
        struct kvrail_region region;
        uint32_t number;

        mapping_region(engine, i, &region);
        need(engine, kvrail_region_add(engine->agent, &region, 10000, &number), "region");
    }
}

static void engine_close(struct mapping_engine *engine)
{
    kvrail_close(engine->agent);
    for (uint32_t i = 0; i < engine->region_count; i++)
        kvrail_memory_destroy(&engine->memories[i]);
}

/* ---- one request ----------------------------------------------------------------------------- */

/* A third of the pages now, and the rest when the source has begun. */
static void target_pages(struct mapping_engine *target, bool later)
{
    for (uint32_t group = 0; group < MAPPING_GROUPS; group++) {
        uint32_t first = target->page_counts[group] / 3, count = target->page_counts[group];

        need(target,
             kvrail_target_pages(target->agent, target->handle, group,
                                 target->pages[group] + (later ? first : 0),
                                 later ? count - first : first),
             "pages of the target");
    }
}

static void fetch(struct mapping_engine *target, const char *request, uint8_t source_id,
                  uint32_t ranks, const struct mapping_row *row)
{
    struct kvrail_source_address from[MAPPING_RANKS];
    struct kvrail_target_options options = {.size = sizeof(struct kvrail_target_options),
                                            .request = request,
                                            .tokens = MAPPING_TOKENS,
                                            .skip_tokens = row->skip,
                                            .sources = from,
                                            .source_count = ranks,
                                            .secret = TEST_SECRET};

    for (uint32_t i = 0; i < ranks; i++)
        from[i] = (struct kvrail_source_address){.size = sizeof(struct kvrail_source_address),
                                                 .agent = agents[i % agent_count].address,
                                                 .engine = {source_id},
                                                 .generation = generation,
                                                 .tp = i % row->source.tp,
                                                 .pp = i / row->source.tp};
    need(target, kvrail_target_open(target->agent, &options, &target->handle), "fetch");
    if (row->hybrid && row->skip < MAPPING_TOKENS)
        need(target,
             kvrail_target_skip(target->agent, target->handle, MAPPING_WINDOW_GROUP,
                                target->skips[MAPPING_WINDOW_GROUP]),
             "skip");
    target_pages(target, false);
}

static void publish(struct mapping_engine *source, const char *request, uint32_t consumers)
{
    struct kvrail_source_options options = {.size = sizeof(struct kvrail_source_options),
                                            .request = request,
                                            .tokens = MAPPING_TOKENS,
                                            .consumers = consumers,
                                            .secret = TEST_SECRET};

    need(source, kvrail_source_open(source->agent, &options, &source->handle), "publish");
    for (uint32_t group = 0; group < MAPPING_GROUPS; group++)
        need(source,
             kvrail_source_pages(source->agent, source->handle, group, source->pages[group],
                                 source->page_counts[group]),
             "pages of the source");
    need(source, kvrail_source_watch(source->agent, source->handle, 0, 0, 0, MAPPING_TOKENS_BEGUN),
         "watch");
    need(source,
         kvrail_source_watch(source->agent, source->handle, 0, MAPPING_LAYERS, MAPPING_TOKENS_BEGUN,
                             MAPPING_TOKENS),
         "watch");
    mapping_fill(source);
    kvrail_ready(source->agent, 0, UINT64_C(2) * MAPPING_LAYERS);
    need(source, kvrail_source_tail(source->agent, source->handle, "t", 1), "tail");
    need(source, kvrail_source_end(source->agent, source->handle, KVRAIL_OK), "end");
}

/* Layers of the target are announced in order, from the end of the skipped tokens on. */
static void layers_in(struct mapping_engine *engine, const struct kvrail_event *event)
{
    for (uint32_t i = 0; i < event->layer_count; i++) {
        uint32_t layer = event->layer_first + i;
        uint64_t *in = &engine->layers_in[layer < MAPPING_LAYERS ? layer : 0];
        char detail[128];

        snprintf(detail, sizeof(detail), "layer %u, tokens %llu to %llu, after %llu", layer,
                 (unsigned long long)event->token_first, (unsigned long long)event->token_end,
                 (unsigned long long)*in);
        if (layer >= MAPPING_LAYERS || event->token_first != *in || event->token_end <= *in)
            mapping_fail("announced out of order", detail);
        *in = event->token_end;
    }
    if (event->layer_count == 0)
        mapping_fail("no layer was announced", "");
}

static void wait_for_end(struct mapping_engine *engine, struct kvrail_event *ret_event)
{
    struct pollfd readable = {.fd = kvrail_event_fd(engine->agent), .events = POLLIN};

    for (;;) {
        int got = kvrail_poll(engine->agent, ret_event, 1);

        if (got < 0)
            mapping_fail("agent", "it is gone");
        if (got == 0 && poll(&readable, 1, 60000) == 0)
            mapping_fail("end", "nothing was heard for a minute");
        if (got > 0 && ret_event->kind == KVRAIL_EVENT_LAYER_IN)
            layers_in(engine, ret_event);
        if (got > 0 && ret_event->terminal && ret_event->handle == engine->handle)
            return;
    }
}

static void need_end(struct mapping_engine *engine, const char *side,
                     struct kvrail_event *ret_event)
{
    wait_for_end(engine, ret_event);
    if (ret_event->status != KVRAIL_OK)
        mapping_fail(side, ret_event->detail);
}

static void check_end(const struct mapping_engine *target, const struct mapping_row *row,
                      const struct kvrail_event *event)
{
    uint64_t bytes = mapping_bytes(row, target);
    char detail[128];

    snprintf(detail, sizeof(detail), "%llu, and each once is %llu",
             (unsigned long long)event->bytes, (unsigned long long)bytes);
    if (event->bytes != bytes)
        mapping_fail("bytes that moved", detail);
    for (uint32_t layer = 0; layer < MAPPING_LAYERS; layer++) {
        snprintf(detail, sizeof(detail), "up to token %llu",
                 (unsigned long long)target->layers_in[layer]);
        if (target->layers_in[layer] < MAPPING_TOKENS)
            mapping_fail("not every layer was announced as a whole", detail);
    }
    mapping_check(target);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Of a row's source engine; the next one is its target's. */
static uint8_t id_of(uint32_t number)
{
    return (uint8_t)(2 * number + (agent_count == 1 ? 1 : 101));
}

static void row_begin(char **argv, uint32_t number, const struct mapping_row *row,
                      struct mapping_engine *sources, struct mapping_engine *targets)
{
    uint8_t id = id_of(number);

    row_text = row->text;
    for (uint32_t i = 0; i < row->source.tp * row->source.pp; i++)
        engine_open(agents[i % agent_count].socket, true, id, row, i, &sources[i]);
    for (uint32_t i = 0; i < row->target.tp * row->target.pp; i++)
        engine_open(argv[2], false, (uint8_t)(id + 1), row, i, &targets[i]);
}

static void row_print(const struct mapping_row *row, uint64_t bytes, uint64_t writes, double ms)
{
    char pages[32], ranks[32];

    snprintf(pages, sizeof(pages), "%u to %u", row->source.page_tokens, row->target.page_tokens);
    snprintf(ranks, sizeof(ranks), "%ux%u to %ux%u", row->source.tp, row->source.pp, row->target.tp,
             row->target.pp);
    printf("%-44s %-9s %-12s %8.1f %6llu %7.1f  ok\n", row->text, pages, ranks,
           (double)bytes / 1024, (unsigned long long)writes, ms);
}

/* One request from all ranks of the source to all of the target. Every second row leaves it to the
 * agents to find how many targets come. */
static void row_move(char **argv, uint32_t number, const struct mapping_row *row)
{
    static struct mapping_engine sources[MAPPING_RANKS], targets[MAPPING_RANKS];
    uint32_t source_count = row->source.tp * row->source.pp;
    uint32_t target_count = row->target.tp * row->target.pp;
    uint64_t bytes = 0, writes = 0;
    struct kvrail_event event;
    char request[32];
    double began;

    snprintf(request, sizeof(request), "mapping-%s%u",
             staged             ? "staged-"
             : fragments_only   ? "fragments-"
             : agent_count == 2 ? "two-"
                                : "",
             number);
    row_begin(argv, number, row, sources, targets);
    began = now_ms();
    for (uint32_t i = 0; i < target_count; i++)
        fetch(&targets[i], request, id_of(number), source_count, row);
    for (uint32_t i = 0; i < source_count; i++)
        publish(&sources[i], request, number % 2 == 0 ? 0 : target_count);
    for (uint32_t i = 0; i < target_count; i++)
        target_pages(&targets[i], true);
    for (uint32_t i = 0; i < target_count; i++) {
        need_end(&targets[i], "target", &event);
        check_end(&targets[i], row, &event);
        bytes += event.bytes;
        writes += event.writes;
    }
    for (uint32_t i = 0; i < source_count; i++)
        need_end(&sources[i], "source", &event);
    row_print(row, bytes, writes, now_ms() - began);
    for (uint32_t i = 0; i < source_count; i++)
        engine_close(&sources[i]);
    for (uint32_t i = 0; i < target_count; i++)
        engine_close(&targets[i]);
}

/* Asked after its end, or while it waits, the agent still says the same; in JSON without the
 * quotes. */
static void check_why(struct mapping_engine *engine, const char *words)
{
    struct pollfd readable = {.fd = kvrail_event_fd(engine->agent), .events = POLLIN};
    size_t length = strcspn(words, "\"");
    struct kvrail_event event;
    char begin[128];

    snprintf(begin, sizeof(begin), "%.*s", (int)length, words);
    need(engine, kvrail_why(engine->agent, engine->handle), "why");
    do {
        event.kind = 0;
        if (kvrail_poll(engine->agent, &event, 1) == 0 && poll(&readable, 1, 60000) == 0)
            mapping_fail("why", "nothing was heard for a minute");
    } while (event.kind != KVRAIL_EVENT_WHY);
    if (strstr((const char *)event.payload, begin) == NULL ||
        strstr((const char *)event.payload, "\"reason\":\"incompatible\"") == NULL)
        mapping_fail("why", (const char *)event.payload);
}

/* The source's engine gets an event too: TARGET_REFUSED, or the end of its publish. */
static void check_source(struct mapping_engine *source, const char *words)
{
    struct pollfd readable = {.fd = kvrail_event_fd(source->agent), .events = POLLIN};
    struct kvrail_event event;

    do {
        event.kind = 0;
        if (kvrail_poll(source->agent, &event, 1) == 0 && poll(&readable, 1, 60000) == 0)
            mapping_fail("source", "it got no event for the refusal in a minute");
    } while (event.kind != KVRAIL_EVENT_TARGET_REFUSED && event.kind != KVRAIL_EVENT_SOURCE_FREE);
    if (event.status != KVRAIL_INCOMPATIBLE || strstr(event.detail, words) == NULL)
        mapping_fail("the event of the source", event.detail);
    if (event.handle != 0) /* else it met no publish */
        check_why(source, words);
}

/* A fetch of what the first source rank has alone: refused with a sentence that has these words. */
static void refused(char **argv, uint32_t number, const struct mapping_row *row,
                    const char *request, const char *words, bool source_hears)
{
    static struct mapping_engine sources[MAPPING_RANKS], target;
    uint32_t source_count = row->source.tp * row->source.pp;
    struct kvrail_event event;

    row_begin(argv, number, row, sources, &target);
    publish(&sources[0], request, 1);
    fetch(&target, request, id_of(number), 1, row);
    target_pages(&target, true);
    wait_for_end(&target, &event);
    if (event.status != KVRAIL_INCOMPATIBLE || strstr(event.detail, words) == NULL)
        mapping_fail("the fetch should have been refused", event.detail);
    check_why(&target, words);
    if (source_hears)
        check_source(&sources[0], words);
    for (uint32_t i = 0; i < source_count; i++)
        engine_close(&sources[i]);
    engine_close(&target);
    printf("%-44s refused: %s\n", row->text, event.detail);
}

static bool is_moved(const struct mapping_row *row)
{
    if (fragments_only)
        return strstr(row->text, "NHD, TP") != NULL || strstr(row->text, "NHD to HND") != NULL;
    return row->source.tp * row->source.pp >= agent_count;
}

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct mapping_row too_few = {
    .text = "too few ranks",
    .heads = 8,
    .source = {{KVR_LAYOUT_VLLM_NHD, KVR_LAYOUT_NAMES}, 16, 2, 1},
    .target = {{KVR_LAYOUT_VLLM_NHD, KVR_LAYOUT_NAMES}, 16, 1, 1}};
static const struct mapping_row fragments = {
    .text = "fragments",
    .heads = 8,
    .source = {{KVR_LAYOUT_VLLM_NHD, KVR_LAYOUT_NAMES}, 16, 1, 1},
    .target = {{KVR_LAYOUT_VLLM_HND, KVR_LAYOUT_NAMES}, 16, 1, 1}};
static const struct mapping_row same = {
    .text = "a field that must be equal",
    .heads = 8,
    .source = {{KVR_LAYOUT_VLLM_NHD, KVR_LAYOUT_NAMES}, 16, 1, 1},
    .target = {{KVR_LAYOUT_VLLM_NHD, KVR_LAYOUT_NAMES}, 16, 1, 1}};

static void other_model(struct kvrail_identity *me)
{
    me->model = "another";
}

static void other_dtype(struct kvrail_identity *me)
{
    me->dtype = "float8_e4m3";
}

static void other_layers(struct kvrail_identity *me)
{
    me->layers_total = 7;
}

static void other_heads(struct kvrail_identity *me)
{
    me->kv_heads_total = 16;
}

static void other_head_dim(struct kvrail_identity *me)
{
    me->head_dim = 64;
}

/* Every field that must be equal. Where the agents have not met before, they do not meet, and their
 * engines hear of it by and by: the first is looked at. */
static void fields_refused(char **argv, bool strangers)
{
    static const struct {
        void (*differs)(struct kvrail_identity *me);
        const char *request, *words;
    } fields[] = {
        {other_model, "refused-model",
         "model: the source has \"mapping\", the target has \"another\""},
        {other_dtype, "refused-dtype",
         "dtype: the source has \"bfloat16\", the target has \"float8_e4m3\""},
        {other_layers, "refused-layers", "num layers: the source has 6, the target has 7"},
        {other_heads, "refused-heads", "num kv heads: the source has 8, the target has 16"},
        {other_head_dim, "refused-dim", "head dim: the source has 32, the target has 64"},
    };

    for (uint32_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        target_differs = fields[i].differs;
        refused(argv, 2 + i, &same, fields[i].request, fields[i].words, !strangers || i == 0);
    }
}

int main(int argc, char **argv)
{
    uint32_t moved = 0;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    generation = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    agents[0].socket = argc > 3 ? argv[1] : NULL;
    agents[0].address = argc > 3 ? argv[3] : NULL;
    if (argc == 5 && strcmp(argv[4] + strcspn(argv[4], "-"), "-refused") == 0) {
        if (strcmp(argv[4], "fragments-refused") == 0)
            refused(argv, 0, &fragments, "refused", "have only 64 B in a row at both ends", true);
        else
            fields_refused(argv, strcmp(argv[4], "strangers-refused") == 0);
        return 0;
    }
    staged = argc == 5 && strcmp(argv[4], "staged") == 0;
    fragments_only = argc == 5 && strcmp(argv[4], "fragments") == 0;
    agent_count = argc == 6 ? 2 : 1;
    if (agent_count == 2) {
        agents[1].socket = argv[4];
        agents[1].address = argv[5];
    }
    if (argc != 4 && agent_count == 1 && !staged && !fragments_only) {
        fprintf(stderr, "usage: mapping SOURCE-SOCKET TARGET-SOCKET HOST:PORT "
                        "[staged|fragments|fragments-refused|strangers-refused|fields-refused|"
                        "SOURCE-SOCKET HOST:PORT]\n");
        return 2;
    }
    printf("%-44s %-9s %-12s %8s %6s %7s\n", "layouts", "pages", "TPxPP", "KiB", "writes", "ms");
    for (uint32_t i = 0; i < mapping_row_count; i++) {
        if (!is_moved(&mapping_rows[i]))
            continue;
        row_move(argv, i, &mapping_rows[i]);
        moved++;
    }
    if (agent_count == 1 && !fragments_only)
        refused(argv, mapping_row_count, &too_few, "refused", "head 4: no source has it", true);
    printf("mapping: %u passed\n", moved + (agent_count == 1 && !fragments_only));
    return 0;
}
