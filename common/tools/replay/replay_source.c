/* The replayed prefill engine. It takes pages for each request in the order of arrival and
 * publishes it. It prefills one request after the other on one stream, as a GPU does: chunk by
 * chunk, layer by layer. Each layer is filled first, then announced by the stream's readiness word.
 * Pages are free at SOURCE_FREE, not before. */
#include <stdlib.h>
#include <string.h>

#include "tools/replay/replay_engine.h"
#include "tools/replay/replay_journal.h"

#define STREAM_WORD 0u
#define SLICE_BYTES (512u << 10) /* filled between two looks at events */

struct source_request {
    struct replay_engine_request base;       /* first */
    struct replay_table tables[MODEL_KINDS]; /* where contents are written; before pages were taken
                                                without ids */
    uint32_t *given; /* the ids of group 0 for the agent: the same, unless a fault is planted */
    kvr_ns opened_at;
    bool ended; /* everything was announced */
};

typedef enum stream_phase {
    PHASE_PAGES,
    PHASE_WATCH,
    PHASE_LAYER,
    PHASE_TAIL,
    PHASE_END
} stream_phase;

/* The one prefill that runs. */
struct stream {
    struct source_request *request; /* NULL: idle */
    stream_phase phase;
    uint32_t token_first, token_end; /* the chunk */
    uint32_t group;                  /* the next to give pages of */
    uint32_t layer, page_at;         /* what is filled next */
    kvr_ns started_at;               /* of the chunk */
    uint64_t word;                   /* value of the readiness word */
};

struct source {
    struct replay_engine engine;
    struct stream stream;
};

/* Reports to the router and hands the pages back. */
static void settle(struct source *source, struct source_request *request, int status,
                   const struct kvrail_event *event)
{
    struct replay_message message = {
        .kind = REPLAY_ENDED, .request = request->base.index, .status = status};

    message.ended.opened_at = request->opened_at;
    message.ended.ended_at = kvr_clock_now();
    if (event != NULL) {
        message.ended.bytes_reported = event->bytes;
        message.ended.writes = event->writes;
        message.ended.retries = event->retries;
    }
    if (request->tables[0].ids != NULL)
        replay_tables_release(&source->engine, request->tables);
    (void)replay_send(source->engine.router, &message);
    if (source->stream.request == request)
        source->stream.request = NULL;
    replay_tables_free(request->tables);
    free(request->given);
    replay_engine_forget(&source->engine, request);
}

static void source_give_up(void *self, void *request, kvrail_status status)
{
    settle(self, request, status, NULL);
}

static void source_event(void *self, void *request, const struct kvrail_event *event)
{
    if (event->terminal)
        settle(self, request, event->status, event);
}

static void source_lost(void *self, void *request)
{
    settle(self, request, KVRAIL_AGENT_LOST, NULL);
}

/* Back-pressure is no failure: the loop tries again. Whatever else a call says cancels the request.
 */
static bool succeeded(struct source *source, struct source_request *request, kvrail_status status)
{
    if (status == KVRAIL_OK)
        return true;
    if (status == KVRAIL_AGAIN) {
        source->engine.blocked = true;
        return false;
    }
    if (status == KVRAIL_AGENT_LOST || status == KVRAIL_NOT_FOUND)
        return false; /* its terminal event is on its way */
    replay_say(source->engine.router, REPLAY_NOTE, status, "request %u at the source: %s",
               request->base.index, kvrail_last_error(source->engine.connection)->detail);
    if (request->base.handle != 0)
        replay_engine_cancel(&source->engine, request->base.handle, status);
    return false;
}

/* ---- admission ------------------------------------------------------------------------------ */

/* False: there is no room, or no memory, which was said. */
static bool take_pages(struct source *source, struct source_request *request)
{
    const struct replay_setup *setup = source->engine.setup;
    uint32_t tokens = replay_request(setup, request->base.index)->input_tokens;
    struct replay_table tables[MODEL_KINDS] = {0};
    const struct replay_table *full = &tables[0];
    uint32_t last = replay_pages(&setup->groups[0], tokens) - 1;

    if (source->engine.pages[0].free_count <= last)
        return false;
    if (!replay_tables_make(setup, tokens, tables) ||
        (request->given = malloc(full->count * sizeof(full->ids[0]))) == NULL) {
        replay_tables_free(tables);
        replay_say(source->engine.router, REPLAY_FATAL, 1, "no memory for page ids");
        return false;
    }
    if (!replay_tables_acquire(&source->engine, tables)) {
        replay_tables_free(tables);
        free(request->given);
        request->given = NULL;
        return false;
    }
    memcpy(request->tables, tables, sizeof(tables));
    memcpy(request->given, full->ids, full->count * sizeof(full->ids[0]));
    if (setup->corrupt == REPLAY_CORRUPT_SWAP && setup->corrupt_request == request->base.index) {
        request->given[last] = full->ids[last - 1];
        request->given[last - 1] = full->ids[last];
    }
    return true;
}

static void publish(struct source *source, struct source_request *request)
{
    const struct replay_setup *setup = source->engine.setup;
    char name[REPLAY_REQUEST_BYTES];
    struct kvrail_source_options options = {
        .size = sizeof(struct kvrail_source_options),
        .request = replay_request_name(setup, request->base.index, name),
        .attempt = REPLAY_ATTEMPT,
        .tokens = replay_request(setup, request->base.index)->input_tokens,
        .lease_ms = (uint32_t)(setup->options.deadline / KVR_MS),
        .secret = request->base.secret,
    };

    kvrail_status status;

    request->opened_at = kvr_clock_now();
    status = kvrail_source_open(source->engine.connection, &options, &request->base.handle);
    if (status == KVRAIL_OK)
        replay_journal_opened(&source->engine, &request->base, request->tables);
    if (!succeeded(source, request, status) && status != KVRAIL_AGAIN &&
        status != KVRAIL_AGENT_LOST)
        settle(source, request, status, NULL); /* no event will */
}

/* First come, first served: a request that has no room keeps those behind it waiting, or a large
 * one would wait for ever. True when there is more to admit. */
static bool admit(struct source *source)
{
    for (uint32_t i = 0; i < source->engine.live_count; i++) {
        struct source_request *request = source->engine.live[i];

        if (request->base.handle != 0)
            continue;
        if (request->given == NULL && !take_pages(source, request))
            return false;
        publish(source, request);
        return !source->engine
                    .blocked; /* the list may have changed: the next one in the next step */
    }
    return false;
}

/* ---- prefill -------------------------------------------------------------------------------- */

/* The page of a layer's group that holds the token. */
static uint32_t page_of(const struct source *source, uint32_t layer, uint32_t token)
{
    return token / replay_group(source->engine.setup, layer)->page_tokens;
}

/* What is filled of the layer in this chunk: [first, end). A state has one page, which every chunk
 * computes anew; of a window only what is kept at the end. */
static uint32_t fill_first(const struct source *source, uint32_t layer)
{
    const struct replay_setup *setup = source->engine.setup;
    const struct stream *stream = &source->stream;
    uint32_t first = page_of(source, layer, stream->token_first);
    uint32_t kept = stream->request->tables[setup->layer_groups[layer]].first;

    return first > kept ? first : kept;
}

static uint32_t fill_end(const struct source *source, uint32_t layer)
{
    const struct replay_group *group = replay_group(source->engine.setup, layer);

    return group->kind == MODEL_STATE
               ? source->stream.request->tables[source->engine.setup->layer_groups[layer]].count
               : replay_pages(group, source->stream.token_end);
}

static void begin_chunk(struct source *source, uint32_t token_first)
{
    const struct replay_setup *setup = source->engine.setup;
    struct stream *stream = &source->stream;
    uint32_t tokens = replay_request(setup, stream->request->base.index)->input_tokens;

    stream->phase = PHASE_PAGES;
    stream->token_first = token_first;
    stream->token_end =
        tokens - token_first > setup->chunk_tokens ? token_first + setup->chunk_tokens : tokens;
    stream->group = 0;
    stream->layer = 0;
    stream->page_at = fill_first(source, 0);
}

static bool is_faulty(const struct source *source, replay_corrupt kind)
{
    const struct replay_setup *setup = source->engine.setup;

    return setup->corrupt == kind && source->stream.request->base.index == setup->corrupt_request &&
           source->stream.layer == setup->geometry.layers / 2;
}

static void fill_page(struct source *source, uint32_t page)
{
    const struct replay_setup *setup = source->engine.setup;
    const struct stream *stream = &source->stream;
    const struct replay_group *group = replay_group(setup, stream->layer);
    const struct replay_table *table = &stream->request->tables[setup->layer_groups[stream->layer]];
    bool faulty = is_faulty(source, REPLAY_CORRUPT_PAGE) && page == table->count - 1;

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
static bool fill_slice(struct source *source)
{
    struct stream *stream = &source->stream;
    const struct replay_group *group = replay_group(source->engine.setup, stream->layer);
    uint64_t layer_page_bytes = group->plane_bytes * group->part_count, bytes = 0;
    uint32_t end = fill_end(source, stream->layer);

    if (is_faulty(source, REPLAY_CORRUPT_LAYER))
        return true;
    for (; stream->page_at < end && bytes < SLICE_BYTES; bytes += layer_page_bytes)
        fill_page(source, stream->page_at++);
    return stream->page_at >= end;
}

/* When the model of a prefill has the next layer of the chunk ready. */
static kvr_ns layer_due(const struct source *source)
{
    const struct replay_setup *setup = source->engine.setup;
    const struct stream *stream = &source->stream;
    double chunk_s = (double)(stream->token_end - stream->token_first) /
                     (double)setup->options.prefill_tokens_per_s;

    if (setup->speed == 0)
        return 0;
    return stream->started_at + (kvr_ns)(chunk_s / setup->speed * (double)KVR_S *
                                         (stream->layer + 1) / setup->geometry.layers);
}

static void announce_layer(struct source *source)
{
    struct stream *stream = &source->stream;
    struct replay_message message = {.kind = REPLAY_READY, .request = stream->request->base.index};

    message.layers.at = kvr_clock_now();
    message.layers.layer_first = stream->layer;
    message.layers.layer_count = 1;
    message.layers.token_first = stream->token_first;
    message.layers.token_end = stream->token_end;
    (void)kvrail_ready(source->engine.connection, STREAM_WORD, ++stream->word);
    (void)replay_send(source->engine.router, &message);
    if (++stream->layer < source->engine.setup->geometry.layers)
        stream->page_at = fill_first(source, stream->layer);
}

/* Fills and announces layers; when the chunk is through, the next one or the end. */
static kvr_ns step_layer(struct source *source, kvr_ns now)
{
    const struct replay_setup *setup = source->engine.setup;
    struct stream *stream = &source->stream;

    if (!fill_slice(source))
        return 0;
    if (now < layer_due(source))
        return layer_due(source);
    announce_layer(source);
    if (stream->layer < setup->geometry.layers)
        return 0;
    if (stream->token_end < replay_request(setup, stream->request->base.index)->input_tokens)
        begin_chunk(source, stream->token_end);
    else
        stream->phase = PHASE_TAIL;
    return 0;
}

/* Of every group those of the chunk, which ends where pages of all do, or with the request. */
static kvrail_status give_pages(struct source *source)
{
    const struct replay_setup *setup = source->engine.setup;
    struct stream *stream = &source->stream;
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

static kvrail_status give_tail(struct source *source)
{
    const struct source_request *request = source->stream.request;
    struct content tail = replay_tail_content(source->engine.setup, request->base.index);
    uint64_t words[REPLAY_TAIL_WORDS];

    content_fill(&tail, words);
    return kvrail_source_tail(source->engine.connection, request->base.handle, words,
                              sizeof(words));
}

/* One call of the engine API, or one slice of a layer. */
static kvr_ns step_stream(struct source *source, kvr_ns now)
{
    struct kvrail *connection = source->engine.connection;
    struct stream *stream = &source->stream;
    struct source_request *request = stream->request;
    kvrail_status status = KVRAIL_OK;

    switch (stream->phase) {
    case PHASE_PAGES:
        status = give_pages(source);
        break;
    case PHASE_WATCH:
        stream->started_at = now;
        status = kvrail_source_watch(connection, request->base.handle, STREAM_WORD, stream->word,
                                     stream->token_first, stream->token_end);
        break;
    case PHASE_LAYER:
        return step_layer(source, now);
    case PHASE_TAIL:
        status = give_tail(source);
        break;
    case PHASE_END:
        status = kvrail_source_end(connection, request->base.handle, KVRAIL_OK);
        break;
    }
    if (!succeeded(source, request, status)) {
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
    request->ended = true;
    stream->request = NULL;
    return 0;
}

static kvr_ns source_step(void *self, kvr_ns now)
{
    struct source *source = self;
    struct stream *stream = &source->stream;
    kvr_ns wake_at;
    bool more;

    if (source->engine.connection == NULL || source->engine.down_said)
        return KVR_NEVER;
    more = admit(source);
    for (uint32_t i = 0; stream->request == NULL && i < source->engine.live_count; i++) {
        struct source_request *request = source->engine.live[i];

        if (request->base.handle == 0 || request->ended)
            continue;
        stream->request = request;
        begin_chunk(source, 0);
    }
    wake_at = stream->request != NULL ? step_stream(source, now) : KVR_NEVER;
    return more ? 0 : wake_at;
}

static const struct replay_engine_ops source_ops = {
    .request_bytes = sizeof(struct source_request),
    .give_up = source_give_up,
    .event = source_event,
    .lost = source_lost,
    .step = source_step,
};

int replay_source_run(const struct replay_setup *setup, int router)
{
    static struct source source;

    source.engine = (struct replay_engine){
        .setup = setup,
        .ops = &source_ops,
        .self = &source,
        .role = "source",
        .socket_path = setup->options.source_socket,
        .router = router,
    };
    return replay_engine_main(&source.engine);
}
