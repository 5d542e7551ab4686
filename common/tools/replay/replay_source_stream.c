#include "tools/replay/replay_source.h"

#define SLICE_BYTES (512u << 10) /* filled between two looks at events */

static uint32_t word_of(const struct source *source, const struct stream *stream)
{
    return (uint32_t)(stream - source->streams);
}

/* Its layers are ready at recorded times, in one chunk. */
static bool has_times(const struct replay_setup *setup, const struct source_request *request)
{
    return setup->speed > 0 && replay_recorded(setup, request->base.index)->ready.count > 0;
}

/* The page of a layer's group that holds the token. */
static uint32_t page_of(const struct source *source, uint32_t layer, uint32_t token)
{
    return token / replay_group(source->engine.setup, layer)->page_tokens;
}

/* What is filled of the layer in this chunk: [first, end). A state has one page, which every chunk
 * computes anew; of a window only what is kept at the end. */
static uint32_t fill_first(const struct source *source, const struct stream *stream, uint32_t layer)
{
    const struct replay_setup *setup = source->engine.setup;
    uint32_t first = page_of(source, layer, stream->token_first);
    uint32_t kept = stream->request->tables[setup->layer_groups[layer]].first;

    return first > kept ? first : kept;
}

static uint32_t fill_end(const struct source *source, const struct stream *stream, uint32_t layer)
{
    const struct replay_group *group = replay_group(source->engine.setup, layer);

    return group->kind == MODEL_STATE
               ? stream->request->tables[source->engine.setup->layer_groups[layer]].count
               : replay_pages(group, stream->token_end);
}

static void begin_chunk(struct source *source, struct stream *stream, uint32_t token_first)
{
    const struct replay_setup *setup = source->engine.setup;
    uint32_t tokens = replay_request(setup, stream->request->base.index)->input_tokens;

    stream->phase = PHASE_PAGES;
    stream->token_first = token_first;
    stream->token_end =
        tokens - token_first > setup->chunk_tokens && !has_times(setup, stream->request)
            ? token_first + setup->chunk_tokens
            : tokens;
    stream->group = 0;
    stream->layer = 0;
    stream->page_at = fill_first(source, stream, 0);
}

static bool is_faulty(const struct source *source, const struct stream *stream, replay_corrupt kind)
{
    const struct replay_setup *setup = source->engine.setup;

    return setup->corrupt == kind && stream->request->base.index == setup->corrupt_request &&
           stream->layer == setup->geometry.layers / 2;
}

static void fill_page(struct source *source, const struct stream *stream, uint32_t page)
{
    const struct replay_setup *setup = source->engine.setup;
    const struct replay_group *group = replay_group(setup, stream->layer);
    const struct replay_table *table = &stream->request->tables[setup->layer_groups[stream->layer]];
    bool faulty = is_faulty(source, stream, REPLAY_CORRUPT_PAGE) && page == table->count - 1;

    for (uint32_t part = 0; part < group->part_count; part++) {
        struct content content =
            replay_content(setup, stream->request->base.index, stream->token_end, stream->layer,
                           replay_part(setup, stream->layer, part), page);
        uint8_t *memory =
            replay_engine_page(&source->engine, stream->layer, part, table->ids[page]);

        content_fill(&content, memory);
        for (uint64_t i = 0; faulty && i < group->plane_bytes; i++)
            memory[i] ^= 0xff;
    }
}

/* True when the layer of the chunk is filled. */
static bool fill_slice(struct source *source, struct stream *stream)
{
    const struct replay_group *group = replay_group(source->engine.setup, stream->layer);
    uint64_t layer_page_bytes = group->plane_bytes * group->part_count;
    uint32_t end = fill_end(source, stream, stream->layer);

    if (is_faulty(source, stream, REPLAY_CORRUPT_LAYER))
        return true;
    for (; stream->page_at < end && source->filled < SLICE_BYTES;
         source->filled += layer_page_bytes)
        fill_page(source, stream, stream->page_at++);
    return stream->page_at >= end;
}

/* When the model of a prefill has the next layer of the chunk ready. */
static kvr_ns modelled_due(const struct source *source, const struct stream *stream)
{
    const struct replay_setup *setup = source->engine.setup;
    double chunk_s = (double)(stream->token_end - stream->token_first) /
                     (double)setup->options.prefill_tokens_per_s;

    return stream->started_at + (kvr_ns)(chunk_s / setup->speed * (double)KVR_S *
                                         (stream->layer + 1) / setup->geometry.layers);
}

/* Of a model with other layers than the trace's: when the same part of them was ready. */
static kvr_ns recorded_due(const struct source *source, const struct stream *stream)
{
    const struct replay_setup *setup = source->engine.setup;
    const struct replay_numbers *ready =
        &replay_recorded(setup, stream->request->base.index)->ready;
    uint32_t layers = setup->geometry.layers;
    uint32_t at = ((stream->layer + 1) * ready->count + layers - 1) / layers - 1;

    return stream->request->start_at +
           replay_scaled(setup, (kvr_ns)setup->recording.numbers[ready->first + at] * KVR_US);
}

static kvr_ns layer_due(const struct source *source, const struct stream *stream)
{
    if (source->engine.setup->speed == 0)
        return 0;
    return has_times(source->engine.setup, stream->request) ? recorded_due(source, stream)
                                                            : modelled_due(source, stream);
}

static void announce_layer(struct source *source, struct stream *stream)
{
    struct replay_message message = {.kind = REPLAY_READY, .request = stream->request->base.index};

    message.layers.at = kvr_clock_now();
    message.layers.layer_first = stream->layer;
    message.layers.layer_count = 1;
    message.layers.token_first = stream->token_first;
    message.layers.token_end = stream->token_end;
    (void)kvrail_ready(source->engine.connection, word_of(source, stream), ++stream->word);
    (void)replay_send(source->engine.router, &message);
    if (++stream->layer < source->engine.setup->geometry.layers)
        stream->page_at = fill_first(source, stream, stream->layer);
}

/* Fills and announces layers; when the chunk is through, the next one or the end. */
static kvr_ns step_layer(struct source *source, struct stream *stream, kvr_ns now)
{
    const struct replay_setup *setup = source->engine.setup;

    if (!fill_slice(source, stream))
        return 0;
    if (now < layer_due(source, stream))
        return layer_due(source, stream);
    announce_layer(source, stream);
    if (stream->layer < setup->geometry.layers)
        return 0;
    if (stream->token_end < replay_request(setup, stream->request->base.index)->input_tokens)
        begin_chunk(source, stream, stream->token_end);
    else if (replay_recorded(setup, stream->request->base.index)->cancelled != KVR_NEVER)
        stream->request = NULL; /* it never ends well, as recorded */
    else
        stream->phase = PHASE_TAIL;
    return 0;
}

/* Of every group those of the chunk, which ends where pages of all do, or with the request. */
static kvrail_status give_pages(struct source *source, struct stream *stream)
{
    const struct replay_setup *setup = source->engine.setup;
    kvrail_status status = KVRAIL_OK;

    for (; stream->group < setup->group_count; stream->group++) {
        const struct replay_group *group = &setup->groups[stream->group];
        const uint32_t *ids = stream->group == 0 ? stream->request->given
                                                 : stream->request->tables[stream->group].ids;
        uint32_t first = stream->token_first / group->page_tokens;

        status = kvrail_source_pages(source->engine.connection, stream->request->base.handle,
                                     stream->group, ids + first,
                                     replay_pages(group, stream->token_end) - first);
        if (status != KVRAIL_OK)
            return status;
    }
    return status;
}

static kvrail_status give_tail(struct source *source, const struct stream *stream)
{
    const struct source_request *request = stream->request;
    struct content tail = replay_tail_content(source->engine.setup, request->base.index);
    uint64_t words[REPLAY_TAIL_WORDS];

    content_fill(&tail, words);
    return kvrail_source_tail(source->engine.connection, request->base.handle, words,
                              sizeof(words));
}

/* One call of the engine API, or one slice of a layer. */
static kvr_ns step_stream(struct source *source, struct stream *stream, kvr_ns now)
{
    struct kvrail *connection = source->engine.connection;
    struct source_request *request = stream->request;
    kvrail_status status = KVRAIL_OK;

    switch (stream->phase) {
    case PHASE_PAGES:
        status = give_pages(source, stream);
        break;
    case PHASE_WATCH:
        stream->started_at = now;
        status = kvrail_source_watch(connection, request->base.handle, word_of(source, stream),
                                     stream->word, stream->token_first, stream->token_end);
        break;
    case PHASE_LAYER:
        return step_layer(source, stream, now);
    case PHASE_TAIL:
        status = give_tail(source, stream);
        break;
    case PHASE_END:
        status = kvrail_source_end(connection, request->base.handle, KVRAIL_OK);
        break;
    }
    if (!source_succeeded(source, request, status)) {
        if (status == KVRAIL_AGAIN)
            return KVR_NEVER;
        if (stream->request == NULL)
            return 0;              /* settled, and forgotten */
        stream->phase = PHASE_END; /* its terminal event comes: the next one's turn */
    }
    if (stream->phase != PHASE_END) {
        stream->phase++;
        return 0;
    }
    stream->request = NULL;
    return 0;
}

/* Whichever has waited longest: the modelled prefill takes the first stream, and a request with
 * times of its own any other. */
static void find_work(struct source *source, struct stream *stream)
{
    bool modelled = stream == &source->streams[0];

    for (uint32_t i = 0; i < source->engine.live_count; i++) {
        struct source_request *request = source->engine.live[i];

        if (request->base.handle == 0 || request->prefilling ||
            has_times(source->engine.setup, request) == modelled)
            continue;
        request->prefilling = true;
        stream->request = request;
        begin_chunk(source, stream, 0);
        return;
    }
}

kvr_ns source_prefill(struct source *source, kvr_ns now)
{
    uint32_t count = source->engine.setup->recording.items != NULL ? SOURCE_STREAMS : 1;
    kvr_ns wake_at = KVR_NEVER;
    bool searched = false;

    source->filled = 0;
    for (uint32_t i = 0; i < count && source->engine.connection != NULL; i++) {
        struct stream *stream = &source->streams[i];
        kvr_ns next;

        if (stream->request == NULL && !searched) {
            find_work(source, stream);
            searched = stream->request == NULL && i > 0;
        }
        next = stream->request != NULL ? step_stream(source, stream, now) : KVR_NEVER;
        if (next < wake_at)
            wake_at = next;
    }
    return wake_at;
}

void source_leave_stream(struct source *source, const struct source_request *request)
{
    for (uint32_t i = 0; i < SOURCE_STREAMS; i++)
        if (source->streams[i].request == request)
            source->streams[i].request = NULL;
}
