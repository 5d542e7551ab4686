#include "trace/kvtrace_book.h"

#include <inttypes.h>
#include <stdlib.h>

void kvtrace_book_close(struct kvtrace_book *book)
{
    for (int64_t i = 0; i < book->agent_count; i++)
        free(book->agents[i]);
    for (int64_t i = 0; i < book->geometry_count; i++)
        free(book->geometries[i]);
    for (int64_t i = 0; i < book->engine_count; i++)
        free(book->engines[i]);
    free((void *)book->agents);
    free((void *)book->geometries);
    free((void *)book->engines);
    *book = (struct kvtrace_book){0};
}

const struct kvtrace_agent *kvtrace_book_agent(const struct kvtrace_book *book, int64_t number)
{
    return number >= 0 && number < book->agent_count ? book->agents[number] : NULL;
}

/* ---- definitions ----------------------------------------------------------------------------- */

/* One more pointer in the list, to a copy. */
static kvr_status keep(void ***list, int64_t *count, const void *definition, size_t bytes,
                       struct kvr_error *error)
{
    void **larger = *list, *copy;

    if (*count == KVTRACE_DEFINITIONS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "trace",
                             "more than %d agents, geometries or engines", KVTRACE_DEFINITIONS_MAX);
    if ((*count & (*count - 1)) == 0) /* 0, 1, 2, 4 … */
        larger = realloc((void *)*list, (size_t)(*count > 0 ? 2 * *count : 1) * sizeof(void *));
    copy = larger != NULL ? malloc(bytes) : NULL;
    if (larger != NULL)
        *list = larger;
    if (copy == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a trace's definitions");
    memcpy(copy, definition, bytes);
    (*list)[(*count)++] = copy;
    return KVR_OK;
}

static kvr_status check_number(const char *what, int64_t number, int64_t count,
                               struct kvr_error *error)
{
    if (number == count)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "trace",
                         "this %s has number %" PRId64 ", but the next one is %" PRId64, what,
                         number, count);
}

static kvr_status check_named(const char *what, int64_t number, int64_t count,
                              struct kvr_error *error)
{
    if (number >= KVTRACE_NONE && number < count)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "trace",
                         "%s %" PRId64 " was not defined before this line", what, number);
}

static kvr_status take_agent(struct kvtrace_book *book, const struct kvtrace_agent *agent,
                             struct kvr_error *error)
{
    KVR_TRY(check_number("agent", agent->number, book->agent_count, error));
    return keep((void ***)&book->agents, &book->agent_count, agent, sizeof(*agent), error);
}

static kvr_status take_geometry(struct kvtrace_book *book, const struct kvtrace_geometry *geometry,
                                struct kvr_error *error)
{
    KVR_TRY(check_number("geometry", geometry->number, book->geometry_count, error));
    if (geometry->layers < 0 || geometry->layers > KVR_LAYERS_MAX)
        return kvr_error_set(error, KVR_INVALID, "trace", "%" PRId64 " layers: 0 to %d can be",
                             geometry->layers, KVR_LAYERS_MAX);
    for (size_t i = 0; i < geometry->group_count; i++)
        if (geometry->groups[i].page_tokens < 0 || geometry->groups[i].page_bytes < 0 ||
            geometry->groups[i].layers < 0)
            return kvr_error_set(error, KVR_INVALID, "trace",
                                 "a number of KV group %zu is negative", i);
    return keep((void ***)&book->geometries, &book->geometry_count, geometry, sizeof(*geometry),
                error);
}

static kvr_status take_engine(struct kvtrace_book *book, const struct kvtrace_engine *engine,
                              struct kvr_error *error)
{
    KVR_TRY(check_number("engine", engine->number, book->engine_count, error));
    KVR_TRY(check_named("agent", engine->agent, book->agent_count, error));
    KVR_TRY(check_named("geometry", engine->geometry, book->geometry_count, error));
    return keep((void ***)&book->engines, &book->engine_count, engine, sizeof(*engine), error);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static kvr_status check_within(const char *key, int64_t number, int64_t bound,
                               struct kvr_error *error)
{
    if (number >= -bound && number <= bound)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "trace", "%s is %" PRId64 ", beyond all bounds", key,
                         number);
}

/* Sums and differences of what a record may hold fit into 64 bits. */
static kvr_status check_bounded(const char *key, int64_t number, struct kvr_error *error)
{
    return check_within(key, number, KVTRACE_NUMBER_MAX, error);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static kvr_status check_role(const struct kvtrace_book *book, int64_t agent, kvr_role role,
                             struct kvr_error *error)
{
    const struct kvtrace_agent *known = kvtrace_book_agent(book, agent);

    KVR_TRY(check_named("agent", agent, book->agent_count, error));
    if (known == NULL || known->role == role)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "trace", "agent %" PRId64 " is no %s-agent", agent,
                         role == KVR_ROLE_SOURCE ? "prefill" : "decode");
}

static kvr_status check_rails(const struct kvtrace_book *book, const struct kvtrace_side *side,
                              struct kvr_error *error)
{
    const struct kvtrace_agent *agent = kvtrace_book_agent(book, side->agent);

    for (size_t i = 0; i < side->rails.count; i += 4) {
        const int64_t *row = side->rails.numbers + i;

        if (row[0] < 0 || (agent != NULL && row[0] >= (int64_t)agent->rail_count))
            return kvr_error_set(error, KVR_INVALID, "trace",
                                 "agent %" PRId64 " has no rail %" PRId64, side->agent, row[0]);
        if (row[1] < 0 || row[2] < 0 || row[3] < 0)
            return kvr_error_set(error, KVR_INVALID, "trace",
                                 "a number of rail %" PRId64 " is negative", row[0]);
    }
    return KVR_OK;
}

static kvr_status check_layers(const struct kvtrace_side *side, struct kvr_error *error)
{
    int64_t layers = (int64_t)(side->layers_us.count / 2);

    if (side->layer_first < 0 || layers > KVR_LAYERS_MAX ||
        side->layer_first > KVR_LAYERS_MAX - layers)
        return kvr_error_set(error, KVR_INVALID, "trace",
                             "%" PRId64 " layers from layer %" PRId64 ": a model has at most %d",
                             layers, side->layer_first, KVR_LAYERS_MAX);
    for (size_t i = 0; i < side->layers_us.count; i++)
        KVR_TRY(check_within("a time of layers_us", side->layers_us.numbers[i], KVTRACE_TIME_MAX,
                             error));
    return KVR_OK;
}

static kvr_status check_pages(const struct kvtrace_side *side, struct kvr_error *error)
{
    for (size_t i = 0; i < side->pages_count; i++) {
        const struct kvtrace_pages *pages = &side->pages[i];

        if (pages->group < 0 || pages->group >= KVR_GROUPS_MAX)
            return kvr_error_set(error, KVR_INVALID, "trace", "there is no KV group %" PRId64,
                                 pages->group);
        for (size_t k = 0; k < pages->runs.count; k += 2)
            if (pages->runs.numbers[k] < 0 || pages->runs.numbers[k + 1] <= 0)
                return kvr_error_set(error, KVR_INVALID, "trace",
                                     "a run of %" PRId64 " pages from page %" PRId64,
                                     pages->runs.numbers[k + 1], pages->runs.numbers[k]);
    }
    return KVR_OK;
}

static kvr_status check_side(const struct kvtrace_book *book,
                             const struct kvtrace_transfer *transfer, kvr_role role,
                             struct kvr_error *error)
{
    const struct kvtrace_side *side = &transfer->sides[role];

    KVR_TRY(check_role(book, side->agent, role, error));
    KVR_TRY(check_named("engine", side->engine, book->engine_count, error));
    KVR_TRY(check_rails(book, side, error));
    KVR_TRY(check_layers(side, error));
    return check_pages(side, error);
}

static kvr_status check_stages(const struct kvtrace_side *side, struct kvr_error *error)
{
    for (int i = 0; i < KVR_EVENT_KIND_END; i++)
        KVR_TRY(check_bounded("a time of stages_us", side->stages_us[i], error));
    return KVR_OK;
}

static kvr_status check_transfer(const struct kvtrace_book *book,
                                 const struct kvtrace_transfer *transfer, struct kvr_error *error)
{
    const struct {
        const char *key;
        int64_t number;
    } counts[] = {{"tokens", transfer->tokens},  {"skip_tokens", transfer->skip_tokens},
                  {"bytes", transfer->bytes},    {"layers", transfer->layers},
                  {"chunks", transfer->chunks},  {"retries", transfer->retries},
                  {"pieces", transfer->pieces},  {"deadline_us", transfer->deadline_us},
                  {"attempt", transfer->attempt}};
    bool known;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (counts[i].number < 0)
            return kvr_error_set(error, KVR_INVALID, "trace", "%s is %" PRId64, counts[i].key,
                                 counts[i].number);
        KVR_TRY(check_bounded(counts[i].key, counts[i].number, error));
    }
    KVR_TRY(check_bounded("at_us", transfer->at_us, error));
    KVR_TRY(check_within("cancelled_us", transfer->cancelled_us, KVTRACE_TIME_MAX, error));
    KVR_TRY(check_stages(&transfer->sides[KVR_ROLE_SOURCE], error));
    KVR_TRY(check_stages(&transfer->sides[KVR_ROLE_TARGET], error));
    if (transfer->skip_tokens > transfer->tokens)
        return kvr_error_set(error, KVR_INVALID, "trace",
                             "skip_tokens is %" PRId64 ", of %" PRId64 " tokens",
                             transfer->skip_tokens, transfer->tokens);
    if (transfer->reason[0] != '\0') {
        (void)kvr_status_from_name(transfer->reason, &known);
        if (!known)
            return kvr_error_set(error, KVR_INVALID, "trace", "the reason '%s' is no status",
                                 transfer->reason);
    }
    KVR_TRY(check_side(book, transfer, KVR_ROLE_SOURCE, error));
    return check_side(book, transfer, KVR_ROLE_TARGET, error);
}

static kvr_status check_request(const struct kvtrace_book *book,
                                const struct kvtrace_request *request, struct kvr_error *error)
{
    if (request->input_tokens < 0 || request->output_tokens < 0)
        return kvr_error_set(error, KVR_INVALID, "trace",
                             "%" PRId64 " input tokens, %" PRId64 " output tokens",
                             request->input_tokens, request->output_tokens);
    for (size_t i = 0; i < request->blocks.count; i++)
        if (request->blocks.numbers[i] < 0)
            return kvr_error_set(error, KVR_INVALID, "trace", "block %" PRId64 " is negative",
                                 request->blocks.numbers[i]);
    KVR_TRY(check_bounded("at_us", request->at_us, error));
    KVR_TRY(check_role(book, request->source, KVR_ROLE_SOURCE, error));
    return check_role(book, request->target, KVR_ROLE_TARGET, error);
}

static kvr_status check_fault(const struct kvtrace_book *book, const struct kvtrace_fault *fault,
                              struct kvr_error *error)
{
    const struct kvtrace_agent *agent = kvtrace_book_agent(book, fault->agent);

    KVR_TRY(check_bounded("at_us", fault->at_us, error));
    KVR_TRY(check_bounded("for_us", fault->for_us, error));
    KVR_TRY(check_named("agent", fault->agent, book->agent_count, error));
    if (fault->rail != KVTRACE_NONE &&
        (agent == NULL || fault->rail < 0 || fault->rail >= (int64_t)agent->rail_count))
        return kvr_error_set(error, KVR_INVALID, "trace", "agent %" PRId64 " has no rail %" PRId64,
                             fault->agent, fault->rail);
    return KVR_OK;
}

kvr_status kvtrace_book_take(struct kvtrace_book *book, const struct kvtrace_record *record,
                             struct kvr_error *error)
{
    switch (record->kind) {
    case KVTRACE_HEADER:
        return kvr_error_set(error, KVR_INVALID, "trace", "a second header");
    case KVTRACE_AGENT:
        return take_agent(book, &record->agent, error);
    case KVTRACE_GEOMETRY:
        return take_geometry(book, &record->geometry, error);
    case KVTRACE_ENGINE:
        return take_engine(book, &record->engine, error);
    case KVTRACE_REQUEST:
        return check_request(book, &record->request, error);
    case KVTRACE_TRANSFER:
        return check_transfer(book, &record->transfer, error);
    case KVTRACE_FAULT:
        return check_fault(book, &record->fault, error);
    case KVTRACE_MARK:
        KVR_TRY(check_bounded("at_us", record->mark.at_us, error));
        return check_named("agent", record->mark.agent, book->agent_count, error);
    case KVTRACE_DROPPED:
        if (record->dropped.count < 0 || record->dropped.count > KVTRACE_NUMBER_MAX >> 20)
            return kvr_error_set(error, KVR_INVALID, "trace", "%" PRId64 " records were dropped",
                                 record->dropped.count);
        return check_named("agent", record->dropped.agent, book->agent_count, error);
    case KVTRACE_END:
    case KVTRACE_KIND_END:
        break;
    }
    return KVR_OK;
}
