/* Publishes: what an engine offers, how long it is held, and which WANT it belongs to. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "base/rng.h"
#include "prefill-agent/outbound.h"

/* ---- finding --------------------------------------------------------------------------------- */

struct publish *publish_find(const struct outbound *outbound, uint32_t engine, uint64_t handle)
{
    struct publish *publish;
    uint32_t index;

    if (!kvr_table_find(&outbound->by_handle, kvr_handle_key(engine, handle), &index))
        return NULL;
    publish = kvr_pool_at(&outbound->publishes, index, NULL);
    return publish != NULL && publish->engine == engine && publish->handle == handle ? publish
                                                                                     : NULL;
}

/* One number for what must be equal; whoever finds by it compares the fields. */
uint64_t match_key(const char *request, uint32_t attempt, const struct kvr_uuid *engine,
                   uint64_t generation, uint32_t tp, uint32_t pp)
{
    uint64_t key, word;

    if (KVR_MUTANT(old_generation_accepted))
        generation = 0;
    key = kvr_mix64(generation ^ (uint64_t)attempt << 32);

    for (size_t i = 0; i < sizeof(engine->bytes); i += sizeof(word)) {
        memcpy(&word, engine->bytes + i, sizeof(word));
        key = kvr_mix64(key ^ word);
    }
    key = kvr_mix64(key ^ ((uint64_t)tp << 32 | pp));
    for (const char *c = request; *c != '\0'; c++)
        key = kvr_mix64(key ^ (uint8_t)*c);
    return key;
}

static bool matches(const struct outbound *outbound, const struct publish *publish,
                    const struct offer *offer)
{
    const struct kvr_rank *rank = &outbound->engines.local[publish->engine].rank;

    return publish->attempt == offer->attempt && strcmp(publish->request, offer->request) == 0 &&
           kvr_uuid_equal(&rank->engine, &offer->source_engine) &&
           (rank->generation == offer->source_generation || KVR_MUTANT(old_generation_accepted)) &&
           rank->tp == offer->source_tp && rank->pp == offer->source_pp;
}

struct publish *publish_match(const struct outbound *outbound, const struct offer *offer)
{
    struct publish *publish;
    uint32_t index;

    if (!kvr_table_find(&outbound->by_key, offer->key, &index))
        return NULL;
    publish = kvr_pool_at(&outbound->publishes, index, NULL);
    return publish != NULL && matches(outbound, publish, offer) ? publish : NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void refuse(struct outbound *outbound, uint32_t engine, uint64_t handle, kvr_status status,
                   const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_SOURCE_FREE, .handle = handle, .status = status};

    snprintf(notice.detail, sizeof(notice.detail), "%s", detail);
    kvr_ended_add(&outbound->ended, engine, handle, status, detail);
    outbound->ports->notify(outbound->ports->self, engine, &notice);
}

static kvr_status open_check(const struct outbound *outbound,
                             const struct kvr_req_source_open *open, uint64_t key,
                             struct kvr_error *error)
{
    if (outbound->draining)
        return kvr_error_set(error, KVR_DRAINING, "publish", "this agent is shutting down");
    if (kvr_table_find(&outbound->by_key, key, NULL))
        return kvr_error_set(error, KVR_EXISTS, "publish",
                             "request \"%s\" attempt %u is published already", open->request,
                             open->attempt);
    if (open->consumers > KVR_CONSUMERS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "publish", "%u consumers: at most %u",
                             open->consumers, KVR_CONSUMERS_MAX);
    return KVR_OK;
}

#define TABLES_FULL                                                                                \
    "the agent's tables are full: lower the number of requests in flight, or start it with a "     \
    "larger --table-memory"

static struct publish *publish_new(struct outbound *outbound, uint32_t engine, uint64_t handle,
                                   uint64_t key, uint64_t tokens, struct kvr_error *error)
{
    uint64_t id;
    struct publish *publish = kvr_pool_acquire(&outbound->publishes, &id);

    kvr_error_set(error, KVR_FULL, "publish", TABLES_FULL);
    if (publish == NULL)
        return NULL;
    if (kvr_page_tables_init(&publish->pages, outbound->engines.local[engine].set, tokens,
                             outbound->memory, error) != KVR_OK)
        goto err_release;
    kvr_error_set(error, KVR_FULL, "publish", TABLES_FULL);
    if (kvr_table_insert(&outbound->by_handle, kvr_handle_key(engine, handle),
                         kvr_pool_index(id)) != KVR_OK)
        goto err_table;
    if (kvr_table_insert(&outbound->by_key, key, kvr_pool_index(id)) != KVR_OK)
        goto err_handle;
    publish->id = id;
    publish->handle = handle;
    publish->key = key;
    publish->engine = engine;
    return publish;

err_handle:
    kvr_table_remove(&outbound->by_handle, kvr_handle_key(engine, handle));
err_table:
    kvr_page_tables_done(&publish->pages, outbound->memory);
err_release:
    kvr_pool_release(&outbound->publishes, id);
    return NULL;
}

/* WANTs that came before their publish. */
static void match_parked(struct outbound *outbound, kvr_ns now, struct publish *publish)
{
    for (uint32_t i = 0; i < outbound->offers.reach && outbound->parked > 0; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer != NULL && offer->state == O_PARKED && offer->key == publish->key &&
            matches(outbound, publish, offer))
            offer_match(outbound, now, offer, publish);
    }
}

static void publish_event(struct outbound *outbound, kvr_ns now, const struct publish *publish,
                          kvr_event_kind kind)
{
    const struct kvr_event_sink *sink = &outbound->ports->events;
    struct kvr_event event = {
        .kind = kind,
        .role = KVR_ROLE_SOURCE,
        .at = now,
        .attempt = publish->attempt,
        .source_engine = outbound->engines.local[publish->engine].rank.engine,
        .source_rank = {outbound->engines.local[publish->engine].rank.tp,
                        outbound->engines.local[publish->engine].rank.pp},
        .tokens = publish->tokens,
        .outcome = publish->status,
    };

    if (sink->emit == NULL)
        return;
    memcpy(event.request, publish->request, sizeof(event.request));
    memcpy(event.detail, publish->detail, sizeof(event.detail));
    sink->emit(sink->self, &event);
}

void publish_open(struct outbound *outbound, kvr_ns now, uint32_t engine, uint64_t handle,
                  const struct kvr_req_source_open *open)
{
    const struct kvr_rank *rank = &outbound->engines.local[engine].rank;
    uint64_t key = match_key(open->request, open->attempt, &rank->engine, rank->generation,
                             rank->tp, rank->pp);
    struct publish *publish = NULL;
    struct kvr_error error;

    if (publish_find(outbound, engine, handle) != NULL) {
        kvr_engines_refuse_open(&outbound->engines, engine, handle);
        return;
    }
    if (open_check(outbound, open, key, &error) == KVR_OK)
        publish = publish_new(outbound, engine, handle, key, open->tokens, &error);
    if (publish == NULL) {
        refuse(outbound, engine, handle, error.status, error.detail);
        return;
    }
    memcpy(publish->request, open->request, sizeof(publish->request));
    publish->attempt = open->attempt;
    publish->tokens = open->tokens;
    publish->priority = open->priority;
    publish->consumers = open->consumers;
    publish->consumers_said = open->consumers > 0;
    publish->lease_ns =
        open->lease_ms > 0 ? open->lease_ms * KVR_MS : outbound->options.lease_default_ns;
    publish->lease_end = now + publish->lease_ns;
    publish->set = kvr_engines_set_acquire(&outbound->engines, engine);
    kvr_engines_use(&outbound->engines, engine);
    publish_event(outbound, now, publish, KVR_EVENT_OPENED);
    match_parked(outbound, now, publish);
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Every group has pages for the tokens. */
static kvr_status watch_pages(const struct publish *publish, uint64_t token_end,
                              struct kvr_error *error)
{
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *pages = &publish->pages.groups[group];

        if (pages->page_tokens > 0 && token_end > (uint64_t)pages->count * pages->page_tokens)
            return kvr_error_set(error, KVR_INVALID, "watch",
                                 "tokens up to %" PRIu64
                                 " are watched, but only %u pages of %u tokens "
                                 "were given of KV group %u: give pages first",
                                 token_end, pages->count, pages->page_tokens, group);
    }
    return KVR_OK;
}

static kvr_status watch_add(struct outbound *outbound, struct publish *publish,
                            const struct kvr_req_watch *watch, struct kvr_error *error)
{
    if (watch->word >= KVR_WORDS_MAX || watch->token_first != publish->token_end ||
        watch->token_end <= watch->token_first || watch->token_end > publish->tokens)
        return kvr_error_set(error, KVR_INVALID, "watch",
                             "word %u for tokens %" PRIu64 " to %" PRIu64
                             ": the next segment begins at %" PRIu64 " and ends by %" PRIu64
                             ", and words are below %u",
                             watch->word, watch->token_first, watch->token_end, publish->token_end,
                             publish->tokens, KVR_WORDS_MAX);
    if (watch_pages(publish, watch->token_end, error) != KVR_OK)
        return KVR_INVALID;
    if (publish->watch_count >= KVR_SEGMENTS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "watch", "more than %u segments",
                             KVR_SEGMENTS_MAX);
    if (publish->watch_count == publish->watch_capacity) {
        uint32_t capacity = publish->watch_capacity > 0 ? publish->watch_capacity * 2 : 4;
        struct watch *larger = kvr_buddy_alloc(outbound->memory, capacity * sizeof(*larger));

        if (larger == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "watch", "no memory for a segment");
        if (publish->watch_count > 0)
            memcpy(larger, publish->watches, publish->watch_count * sizeof(*larger));
        kvr_buddy_free(outbound->memory, publish->watches);
        publish->watches = larger;
        publish->watch_capacity = capacity;
    }
    publish->watches[publish->watch_count++] = (struct watch){.word = watch->word,
                                                              .base = watch->base,
                                                              .token_first = watch->token_first,
                                                              .token_end = watch->token_end};
    publish->token_end = watch->token_end;
    return KVR_OK;
}

static kvr_status tail_add(struct outbound *outbound, struct publish *publish,
                           const struct kvr_req_tail *tail, struct kvr_error *error)
{
    if (publish->has_tail || tail->byte_count > KVR_TAIL_BYTES_MAX)
        return kvr_error_set(error, KVR_INVALID, "tail",
                             "a publish has one tail of at most %u bytes", KVR_TAIL_BYTES_MAX);
    publish->tail = kvr_buddy_alloc(outbound->memory, tail->byte_count);
    if (publish->tail == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "tail", "no memory for a tail");
    if (tail->byte_count > 0)
        memcpy(publish->tail, tail->bytes, tail->byte_count);
    publish->tail_bytes = tail->byte_count;
    publish->has_tail = true;
    return KVR_OK;
}

static kvr_status pages_add(struct publish *publish, const struct kvr_req_pages *pages,
                            struct kvr_error *error)
{
    struct kvr_page_table *table =
        kvr_page_tables_of(&publish->pages, pages->group, "source", error);

    return table == NULL ? error->status
                         : kvr_page_table_append(table, pages->page_first, pages->ids,
                                                 pages->id_count, error);
}

static void advance_offers(struct outbound *outbound, kvr_ns now, const struct publish *publish)
{
    uint64_t id = publish->id;

    for (uint32_t i = 0; i < publish->come_count; i++) {
        struct offer *offer = kvr_pool_get(&outbound->offers, publish->come[i].offer);

        if (offer != NULL)
            offer_advance(outbound, now, offer);
        if (kvr_pool_get(&outbound->publishes, id) == NULL)
            return; /* the last offer failed and took it along */
    }
}

void publish_request(struct outbound *outbound, kvr_ns now, struct publish *publish,
                     const struct kvr_request *request)
{
    struct kvr_error error;
    kvr_status status = KVR_OK;

    if (publish->failing)
        return;
    publish_renew(publish, now);
    if (publish->ended && request->kind != KVR_REQ_RENEW)
        status = kvr_error_set(&error, KVR_INVALID, "publish", "the publish was ended before");
    else if (request->kind == KVR_REQ_SOURCE_PAGES)
        status = pages_add(publish, &request->pages, &error);
    else if (request->kind == KVR_REQ_SOURCE_WATCH)
        status = watch_add(outbound, publish, &request->watch, &error);
    else if (request->kind == KVR_REQ_SOURCE_TAIL)
        status = tail_add(outbound, publish, &request->tail, &error);
    else if (request->kind == KVR_REQ_RENEW && request->renew.lease_ms > 0)
        publish->lease_ns = request->renew.lease_ms * KVR_MS, publish_renew(publish, now);
    else if (request->kind == KVR_REQ_SOURCE_END && request->end.status == KVR_OK)
        publish->ended = true;
    else if (request->kind == KVR_REQ_SOURCE_END)
        status = kvr_error_set(&error, KVR_ABORTED, "publish", "the source engine gave up: %s",
                               kvr_status_text(request->end.status));
    if (status != KVR_OK)
        publish_fail(outbound, now, publish, status, error.detail);
    else
        advance_offers(outbound, now, publish);
}

void publish_refuse(struct outbound *outbound, struct publish *publish, uint32_t peer,
                    const struct kvr_error *error)
{
    struct refusal *refusal = &publish->refusal;
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_TARGET_REFUSED, .handle = publish->handle, .status = error->status};

    refusal->count++;
    refusal->status = error->status;
    memcpy(refusal->agent, outbound->peers[peer].agent, sizeof(refusal->agent));
    memcpy(refusal->detail, error->detail, sizeof(refusal->detail));
    memcpy(notice.agent, refusal->agent, sizeof(notice.agent));
    memcpy(notice.detail, refusal->detail, sizeof(notice.detail));
    if (!publish->engine_gone && refusal->count <= PUBLISH_REFUSALS_TOLD)
        outbound->ports->notify(outbound->ports->self, publish->engine, &notice);
}

/* ---- ending ---------------------------------------------------------------------------------- */

void publish_blame(struct publish *publish, kvr_status status, const char *detail)
{
    publish->blamed = NULL;
    if (publish->status != KVR_OK)
        return;
    publish->status = status;
    snprintf(publish->detail, sizeof(publish->detail), "%s", detail);
}

/* Nothing more is published, and whoever consumes it is told why. The pages stay ours until every
 * offer has settled. */
void publish_fail(struct outbound *outbound, kvr_ns now, struct publish *publish, kvr_status status,
                  const char *detail)
{
    uint64_t id = publish->id;

    if (publish->failing)
        return;
    publish->failing = true;
    publish_blame(publish, status, detail);
    for (uint32_t i = 0; i < publish->come_count; i++) {
        struct offer *offer = kvr_pool_get(&outbound->offers, publish->come[i].offer);

        if (offer != NULL)
            offer_fail(outbound, now, offer, status, detail);
        if (kvr_pool_get(&outbound->publishes, id) == NULL)
            return;
    }
    publish_check_free(outbound, now, publish);
}

/* SOURCE_FREE when every consumer has settled, or when none will come. */
void publish_check_free(struct outbound *outbound, kvr_ns now, struct publish *publish)
{
    uint32_t engine = publish->engine;
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_SOURCE_FREE,
        .handle = publish->handle,
        .status = publish->status,
        .bytes = publish->bytes,
        .writes = publish->writes,
        .retries = publish->retries,
    };

    if (publish->ended_count < publish->come_count ||
        (!publish->failing &&
         (publish->consumers == 0 || publish->ended_count < publish->consumers)))
        return;
    memcpy(notice.detail, publish->detail, sizeof(notice.detail));
    if (!publish->engine_gone) {
        kvr_ended_add(&outbound->ended, engine, publish->handle, publish->status, publish->detail);
        outbound->ports->notify(outbound->ports->self, publish->engine, &notice);
    }
    if (publish->come_count == 0)
        publish_event(outbound, now, publish, KVR_EVENT_ENDED);
    kvr_table_remove(&outbound->by_handle, kvr_handle_key(publish->engine, publish->handle));
    kvr_table_remove(&outbound->by_key, publish->key);
    kvr_page_tables_done(&publish->pages, outbound->memory);
    kvr_buddy_free(outbound->memory, publish->watches);
    kvr_buddy_free(outbound->memory, publish->tail);
    kvr_engines_set_release(&outbound->engines, engine, publish->set);
    kvr_pool_release(&outbound->publishes, publish->id);
    kvr_engines_unuse(&outbound->engines, engine);
}
