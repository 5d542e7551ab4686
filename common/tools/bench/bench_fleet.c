#include "tools/bench/bench_fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/version.h"

#define REQUEST_FORM  BENCH_FLEET_PREFIX "%016" PRIx64 "-%08" PRIx64
#define ENGINES       8 /* of an agent: the ranks of one engine */
#define LAYERS        94
#define SHORTEST      (50 * KVR_MS)
#define TENANT_SHARES 1000

/* X(role, what happens, after how many thousandths of the transfer's time) */
#define STEP_LIST(X)                                                                               \
    X(KVR_ROLE_SOURCE, KVR_EVENT_OPENED, 0)                                                        \
    X(KVR_ROLE_TARGET, KVR_EVENT_OPENED, 10)                                                       \
    X(KVR_ROLE_SOURCE, KVR_EVENT_MATCHED, 40)                                                      \
    X(KVR_ROLE_TARGET, KVR_EVENT_MATCHED, 50)                                                      \
    X(KVR_ROLE_TARGET, KVR_EVENT_GRANTED, 60)                                                      \
    X(KVR_ROLE_SOURCE, KVR_EVENT_GRANTED, 70)                                                      \
    X(KVR_ROLE_SOURCE, KVR_EVENT_FIRST_READY, 80)                                                  \
    X(KVR_ROLE_SOURCE, KVR_EVENT_FIRST_POST, 90)                                                   \
    X(KVR_ROLE_TARGET, KVR_EVENT_FIRST_LAND, 100)                                                  \
    X(KVR_ROLE_SOURCE, KVR_EVENT_LAST_READY, 900)                                                  \
    X(KVR_ROLE_SOURCE, KVR_EVENT_LAST_POST, 930)                                                   \
    X(KVR_ROLE_TARGET, KVR_EVENT_LAST_LAND, 970)                                                   \
    X(KVR_ROLE_TARGET, KVR_EVENT_ENDED, 980)                                                       \
    X(KVR_ROLE_SOURCE, KVR_EVENT_ENDED, 1000)

static const struct {
    kvr_role role;
    kvr_event_kind kind;
    uint32_t after;
} steps[BENCH_FLEET_EVENTS] = {
#define X(role, kind, after) {role, kind, after},
    STEP_LIST(X)
#undef X
};

/* share: of a thousand requests. */
static const struct {
    const char *name;
    uint32_t share;
} tenants[BENCH_FLEET_TENANTS] = {
    {"default", 500}, {"chat", 200},  {"search", 150}, {"code", 100},
    {"batch", 30},    {"vision", 15}, {"speech", 4},   {"trial", 1},
};

/* share: of a thousand transfers; those that are left end with KVR_OK. */
static const struct {
    kvr_status status;
    uint32_t share;
    const char *detail;
} failures[] = {
    {KVR_CANCELLED, 15, "the decode engine cancelled the fetch"},
    {KVR_EXPIRED, 5, "the deadline of the fetch ended after 30000 ms"},
    {KVR_PEER_LOST, 4, "no message of the peer for 3000 ms"},
    {KVR_TIMED_OUT, 3, "no write landed for 5000 ms"},
    {KVR_RAIL_FAILED, 2, "its writes failed on every rail"},
    {KVR_ENGINE_LOST, 1, "the engine process ended"},
};

/* ---- agents ---- */

uint32_t bench_fleet_agents(const struct bench_fleet *fleet)
{
    return 2 * fleet->pairs;
}

kvr_role bench_fleet_role(const struct bench_fleet *fleet, uint32_t agent)
{
    return agent < fleet->pairs ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
}

void bench_fleet_name(const struct bench_fleet *fleet, uint32_t agent,
                      char ret_name[KVR_NAME_BYTES])
{
    bool source = bench_fleet_role(fleet, agent) == KVR_ROLE_SOURCE;
    uint32_t number = source ? agent : agent - fleet->pairs;
    char *to = stpcpy(ret_name, source ? "prefill-" : "decode-");

    if (number > 9999) {
        sprintf(to, "%u", number);
        return;
    }
    for (int digit = 3; digit >= 0; digit--, number /= 10) /* each event has two names */
        to[digit] = (char)('0' + number % 10);
    to[4] = '\0';
}

static uint32_t rails_of(const struct bench_fleet *fleet)
{
    return fleet->rails != 0 ? fleet->rails : BENCH_FLEET_RAILS;
}

static struct kvr_uuid engine_of(const struct bench_fleet *fleet, uint32_t agent)
{
    uint64_t halves[2] = {kvr_mix64(fleet->seed + 2 * agent),
                          kvr_mix64(fleet->seed + 2 * agent + 1)};
    struct kvr_uuid uuid;

    memcpy(uuid.bytes, halves, sizeof(uuid.bytes));
    return uuid;
}

/* Rails have done differently much: else a list of them would be shorter when it is compressed. */
static void rail_of(uint32_t agent, uint32_t index, uint64_t passed_ms,
                    struct kvr_rail_snapshot *rail)
{
    uint64_t mix = kvr_mix64(agent * (uint64_t)KVR_RAILS_MAX + index);

    snprintf(rail->name, sizeof(rail->name), "rdmap%us0-rdm", 79 + index);
    strcpy(rail->provider, "efa");
    snprintf(rail->address, sizeof(rail->address), "fi_addr_efa://[fe80::%x:%x]:1", agent, index);
    rail->epoch = 1;
    rail->group = index / 4;
    rail->speed_bps = 400000000000;
    rail->bytes = passed_ms * (40000000 + mix % 1000000);
    rail->writes = passed_ms * (600 + mix % 100);
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++)
        rail->counters[i] = passed_ms * (uint64_t)(i + 1) + (kvr_mix64(mix + (uint64_t)i) >> 44);
    rail->traits.reported = true;
    snprintf(rail->traits.plane, sizeof(rail->traits.plane), "plane-%u", index);
}

void bench_fleet_facts(const struct bench_fleet *fleet, uint32_t agent, kvr_ns at,
                       struct kvr_agent_facts *ret_facts)
{
    uint64_t passed_ms = (at - fleet->start) / KVR_MS;

    memset(ret_facts, 0, sizeof(*ret_facts));
    ret_facts->role = bench_fleet_role(fleet, agent);
    strcpy(ret_facts->version, KVRAIL_VERSION);
    snprintf(ret_facts->host, sizeof(ret_facts->host), "node-%04u", agent);
    ret_facts->pid = 1000 + agent;
    strcpy(ret_facts->provider, "efa");
    if (ret_facts->role == KVR_ROLE_SOURCE)
        snprintf(ret_facts->listen, sizeof(ret_facts->listen), "node-%04u:9471", agent);
    ret_facts->peers_up = kvr_min_u32(fleet->pairs, KVR_PEERS_MAX);
    ret_facts->transfers_live = (uint32_t)(passed_ms % 16);
    for (int i = 0; i < KVR_COUNTER_END; i++)
        ret_facts->counters[i] = i == KVR_COUNTER_SKIPPED_BYTES ? passed_ms * 1000000 : 0;
    ret_facts->rail_count = rails_of(fleet);
    for (uint32_t i = 0; i < ret_facts->rail_count; i++)
        rail_of(agent, i, passed_ms, &ret_facts->rails[i]);
    ret_facts->engine_count = ENGINES;
    for (uint32_t i = 0; i < ENGINES; i++) {
        struct kvr_engine_facts *engine = &ret_facts->engines[i];

        snprintf(engine->name, sizeof(engine->name), "vllm-tp%u", i);
        engine->rank = (struct kvr_rank){engine_of(fleet, agent), 1, i, ENGINES, 0, 1};
        strcpy(engine->model, "Qwen3-235B-A22B");
        engine->region_count = LAYERS;
        engine->region_bytes = UINT64_C(40) << 30;
    }
    ret_facts->traits.reported = true;
}

void bench_fleet_pairs(const struct bench_fleet *fleet, uint32_t agent, uint32_t first,
                       uint32_t count, struct kvr_report_pairs *ret_pairs)
{
    uint32_t rails = rails_of(fleet);

    ret_pairs->peer_count = ret_pairs->pair_count = 0;
    for (uint32_t i = 0; i < count && ret_pairs->peer_count < KVR_REPORT_PEERS_MAX &&
                         ret_pairs->pair_count + rails <= KVR_REPORT_PAIRS_MAX;
         i++) {
        struct kvr_peer_pairs *peer = &ret_pairs->peers[ret_pairs->peer_count++];

        bench_fleet_name(fleet, fleet->pairs + (first + i) % fleet->pairs, peer->peer);
        peer->pair_first = ret_pairs->pair_count;
        peer->pair_count = rails;
        for (uint32_t rail = 0; rail < rails; rail++)
            ret_pairs->pairs[ret_pairs->pair_count++] = (struct kvr_pair_facts){
                .rail = rail,
                .target_rail = rail,
                .state = (agent + i + rail) % 97 == 0 ? KVR_PAIR_SLOW : KVR_PAIR_WARM,
                .bytes = UINT64_C(1) << 40,
                .state_ns = KVR_S,
            };
    }
}

/* ---- transfers ---- */

const char *bench_fleet_tenant(uint32_t index)
{
    return tenants[index].name;
}

static const char *tenant_of(uint64_t mix)
{
    uint32_t at = (uint32_t)(mix % TENANT_SHARES), index = 0;

    while (index < BENCH_FLEET_TENANTS - 1 && at >= tenants[index].share)
        at -= tenants[index++].share;
    return tenants[index].name;
}

/* NULL: it ends well. */
static const char *failure_of(uint64_t mix, kvr_status *ret_status)
{
    uint32_t at = (uint32_t)((mix >> 20) % 1000);

    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        *ret_status = failures[i].status;
        if (at < failures[i].share)
            return failures[i].detail;
        at -= failures[i].share;
    }
    *ret_status = KVR_OK;
    return NULL;
}

struct bench_transfer bench_fleet_transfer(const struct bench_fleet *fleet, uint64_t number)
{
    uint64_t mix = kvr_mix64(fleet->seed ^ kvr_mix64(number)), row = number / fleet->pairs;
    uint32_t source = (uint32_t)(number % fleet->pairs);
    struct bench_transfer transfer = {
        .number = number,
        .id = kvr_mix64(mix) | 1, /* 0 is none */
        .source = source,
        .target = fleet->pairs + (uint32_t)((source + row) % fleet->pairs),
        .begin = fleet->start + (kvr_ns)((double)number / fleet->transfers_per_s * (double)KVR_S),
        .length = SHORTEST + mix % (BENCH_FLEET_TRANSFER_MAX - SHORTEST),
        .mix = mix,
    };

    (void)failure_of(mix, &transfer.outcome);
    return transfer;
}

void bench_fleet_request(const struct bench_transfer *transfer, char ret_id[KVR_REQUEST_BYTES])
{
    snprintf(ret_id, KVR_REQUEST_BYTES, REQUEST_FORM, transfer->mix, transfer->number);
}

bool bench_fleet_number(const char *request, uint64_t *ret_number)
{
    const char *last = strrchr(request, '-');
    char *end;

    if (strncmp(request, BENCH_FLEET_PREFIX, sizeof(BENCH_FLEET_PREFIX) - 1) != 0 || last == NULL ||
        last[1] == '\0')
        return false;
    *ret_number = strtoull(last + 1, &end, 16);
    return *end == '\0';
}

kvr_role bench_fleet_step_role(uint32_t step)
{
    return steps[step].role;
}

kvr_ns bench_fleet_step_at(const struct bench_transfer *transfer, uint32_t step)
{
    return transfer->begin + transfer->length * steps[step].after / 1000;
}

/* What is known of a transfer once the agents have found each other. */
static void fill_matched(const struct bench_fleet *fleet, const struct bench_transfer *transfer,
                         struct kvr_event *event)
{
    bool source = event->role == KVR_ROLE_SOURCE;

    event->transfer = transfer->id;
    event->source_engine = engine_of(fleet, transfer->source);
    event->target_engine = engine_of(fleet, transfer->target);
    event->target_rank.tp = event->source_rank.tp;
    event->skip_tokens = event->tokens / 4;
    bench_fleet_name(fleet, source ? transfer->target : transfer->source, event->peer);
}

static void fill_end(const struct bench_transfer *transfer, struct kvr_event *event)
{
    const char *detail = failure_of(transfer->mix, &event->outcome);

    event->bytes = (event->tokens - event->skip_tokens) * LAYERS * 4096;
    event->layers = LAYERS;
    event->chunks = (uint32_t)(event->bytes >> 18) + 1;
    event->rails = (1u << BENCH_FLEET_RAILS) - 1;
    event->path = KVR_PATH_DMABUF;
    if (event->role == KVR_ROLE_SOURCE)
        event->limits = (struct kvr_event_limits){4, 4, 1u << 20, false};
    if (detail != NULL)
        snprintf(event->detail, sizeof(event->detail), "%s", detail);
}

void bench_fleet_event(const struct bench_fleet *fleet, const struct bench_transfer *transfer,
                       uint32_t step, struct kvr_event *ret_event)
{
    kvr_event_kind kind = steps[step].kind;
    bool fails = transfer->outcome != KVR_OK;

    /* One that fails says so in place of its last bytes. */
    if (fails && (kind == KVR_EVENT_LAST_POST || kind == KVR_EVENT_LAST_LAND))
        kind = KVR_EVENT_FAILING;
    memset(ret_event, 0, sizeof(*ret_event));
    ret_event->kind = kind;
    ret_event->role = steps[step].role;
    ret_event->at = bench_fleet_step_at(transfer, step);
    ret_event->attempt = 1;
    ret_event->source_engine = engine_of(fleet, transfer->source);
    ret_event->source_rank.tp = (uint32_t)(transfer->mix >> 40) % ENGINES;
    ret_event->tokens = 256 + (transfer->mix >> 44) % 16384;
    bench_fleet_request(transfer, ret_event->request);
    strcpy(ret_event->tenant, tenant_of(transfer->mix));
    if (step != 0) /* a publish is opened before its transfer has a number */
        fill_matched(fleet, transfer, ret_event);
    if (kind == KVR_EVENT_ENDED || kind == KVR_EVENT_FAILING)
        fill_end(transfer, ret_event);
}

/* Up to `most`, other ones for each layer and place. */
static kvr_ns jitter(const struct bench_transfer *transfer, uint32_t layer, uint32_t place,
                     kvr_ns most)
{
    uint64_t random = (transfer->mix ^ (uint64_t)layer << 8 ^ place) * UINT64_C(0x9e3779b97f4a7c15);

    return (random >> 32) % most;
}

/* Layers are ready one after the other, from 80 to 950 thousandths of the transfer. */
static void fill_layers(const struct bench_transfer *transfer, kvr_role role,
                        struct kvr_span_book *book)
{
    for (uint32_t layer = 0; layer < book->layer_count; layer++) {
        kvr_ns ready = transfer->begin +
                       transfer->length * (80 + 870 * layer / book->layer_count) / 1000 +
                       jitter(transfer, layer, 0, 100 * KVR_US);
        kvr_ns posted = ready + jitter(transfer, layer, 1, 300 * KVR_US);
        kvr_ns landed = posted + 50 * KVR_US + jitter(transfer, layer, 2, 2 * KVR_MS);

        kvr_span_begins(book, layer, role == KVR_ROLE_SOURCE ? ready : landed);
        kvr_span_ends(book, layer,
                      role == KVR_ROLE_SOURCE ? posted
                                              : landed + jitter(transfer, layer, 3, 30 * KVR_US));
    }
}

void bench_fleet_spans(const struct bench_fleet *fleet, const struct bench_transfer *transfer,
                       struct kvr_event *event, uint8_t bytes[KVR_SPANS_BYTES_MAX])
{
    union {
        struct kvr_span_book book;
        uint8_t room[sizeof(struct kvr_span_book) + KVR_LAYERS_MAX * sizeof(struct kvr_layer_span)];
    } notes;

    if (fleet->span_layers == 0 || event->kind != KVR_EVENT_ENDED)
        return;
    kvr_span_book_open(&notes.book, transfer->begin, 0, fleet->span_layers);
    fill_layers(transfer, event->role, &notes.book);
    for (uint32_t rail = 0; rail < BENCH_FLEET_RAILS; rail++)
        notes.book.rails[rail] =
            (struct kvr_rail_span){.bytes = event->bytes / BENCH_FLEET_RAILS +
                                            (rail == 0 ? event->bytes % BENCH_FLEET_RAILS : 0),
                                   .writes = event->chunks / BENCH_FLEET_RAILS + 1};
    event->spans = bytes;
    event->spans_bytes = (uint32_t)kvr_spans_pack(&notes.book, event->role, event->at, bytes);
}

/* ---- the moments of one agent ---- */

static int compare(const void *left, const void *right)
{
    const struct bench_moment *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

static uint64_t row_at(const struct bench_fleet *fleet, kvr_ns at)
{
    double passed = at > fleet->start ? (double)(at - fleet->start) / (double)KVR_S : 0;

    return (uint64_t)(passed * fleet->transfers_per_s / fleet->pairs);
}

/* The agent's transfer of a row. */
static uint64_t number_in(const struct bench_fleet *fleet, uint32_t agent, uint64_t row)
{
    uint32_t turn = (uint32_t)(row % fleet->pairs);

    if (bench_fleet_role(fleet, agent) == KVR_ROLE_SOURCE)
        return row * fleet->pairs + agent;
    return row * fleet->pairs + (agent - turn) % fleet->pairs;
}

size_t bench_fleet_moments(const struct bench_fleet *fleet, uint32_t agent, kvr_ns from, kvr_ns to,
                           struct bench_moment *moments, size_t room)
{
    kvr_role role = bench_fleet_role(fleet, agent);
    kvr_ns earliest = from > BENCH_FLEET_TRANSFER_MAX ? from - BENCH_FLEET_TRANSFER_MAX : 0;
    uint64_t row = row_at(fleet, earliest);
    size_t count = 0;

    for (row -= row > 0; row <= row_at(fleet, to); row++) {
        struct bench_transfer transfer = bench_fleet_transfer(fleet, number_in(fleet, agent, row));

        if (transfer.number >= fleet->transfers)
            continue;
        for (uint32_t step = 0; step < BENCH_FLEET_EVENTS; step++) {
            kvr_ns at = bench_fleet_step_at(&transfer, step);

            if (steps[step].role != role || at < from || at >= to)
                continue;
            if (count < room)
                moments[count] = (struct bench_moment){at, transfer.number, step};
            count++;
        }
    }
    if (count <= room)
        qsort(moments, count, sizeof(moments[0]), compare);
    return count;
}
