#include "tools/bench/bench_questions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/histogram.h"
#include "base/rng.h"
#include "scheduler/api_fleet.h"
#include "tools/bench/bench_pace.h"

#define HOUR        (3600 * (int64_t)KVR_S)
#define VALUE_BYTES KVR_REQUEST_BYTES
#define TRIES       4           /* of a question that takes long */
#define REPORT_NS   (2 * KVR_S) /* agents that are silent for longer than 6 s count as lost */

/* The scheduler's reading side. */
struct asker {
    const struct bench_fleet *fleet;
    uint32_t rounds;
    struct store *store;
    struct fleet *agents;
    struct metrics *metrics;
    struct health *health;
    struct api *api;
    struct api_fleet *api_fleet;
    struct kvr_rng rng;
    kvr_ns reported_at;     /* the agents' last reports */
    struct bench_pace pace; /* while a question is asked again */
    struct bench_question_times *times;
    struct kvr_error *error;
};

/* ---- time ---- */

struct question_time {
    kvr_ns cpu, wall;
};
struct question_histograms {
    struct kvr_histogram cpu, wall;
};

static struct question_time now(void)
{
    return (struct question_time){bench_pace_worked(), kvr_clock_now()};
}

static struct question_time since(struct question_time begin)
{
    struct question_time end = now();

    return (struct question_time){end.cpu - begin.cpu, end.wall - begin.wall};
}

static void histograms_init(struct question_histograms *histograms)
{
    kvr_histogram_init(&histograms->cpu);
    kvr_histogram_init(&histograms->wall);
}

static void histograms_record(struct question_histograms *histograms, struct question_time time)
{
    kvr_histogram_record(&histograms->cpu, time.cpu);
    kvr_histogram_record(&histograms->wall, time.wall);
}

static double ms(const struct kvr_histogram *histogram, double percent)
{
    return (double)kvr_histogram_percentile(histogram, percent) / KVR_MS;
}

double bench_question_cost_ms(const struct bench_question_time *time)
{
    return time->p95_ms / time->slower;
}

/* Of two tries of a question the better one is kept: others' work only adds to it. */
static void keep(struct asker *asker, const char *name,
                 const struct question_histograms *histograms, bool answered)
{
    struct bench_question_times *times = asker->times;
    struct bench_question_time *last = &times->list[times->count == 0 ? 0 : times->count - 1];
    struct bench_question_time time = {
        .answered = answered,
        .p50_ms = ms(&histograms->cpu, 50),
        .p95_ms = ms(&histograms->cpu, 95),
        .p95_wall_ms = ms(&histograms->wall, 95),
        .slower = bench_pace_slower(&asker->pace),
    };

    snprintf(time.name, sizeof(time.name), "%s", name);
    if (times->count > 0 && strcmp(last->name, name) == 0)
        *last = bench_question_cost_ms(&time) < bench_question_cost_ms(last) ? time : *last;
    else if (times->count < BENCH_QUESTIONS_MAX)
        times->list[times->count++] = time;
}

/* The last question was answered, but slowly. */
static bool is_slow(const struct bench_question_times *times)
{
    const struct bench_question_time *last = &times->list[times->count - 1];

    return last->answered && bench_question_cost_ms(last) >= BENCH_QUESTION_WORST_MS;
}

/* ---- agents ---- */

/* All agents are up, and each prefill-agent has reported its pairs with all decode-agents. */
static bool report_agents(struct asker *asker)
{
    struct kvr_agent_facts *facts = malloc(sizeof(*facts));
    struct kvr_report_pairs *pairs = malloc(sizeof(*pairs));
    int64_t wall = (int64_t)kvr_clock_wall();
    bool taken = facts != NULL && pairs != NULL;

    asker->reported_at = kvr_clock_now();
    for (uint32_t i = 0; i < bench_fleet_agents(asker->fleet) && taken; i++) {
        struct kvr_report report = {.boot = asker->fleet->boot, .facts = facts};
        uint32_t first = 0;

        bench_fleet_name(asker->fleet, i, report.agent);
        bench_fleet_facts(asker->fleet, i, (kvr_ns)wall, facts);
        do {
            bench_fleet_pairs(asker->fleet, i, first, asker->fleet->pairs - first, pairs);
            report.pairs = bench_fleet_role(asker->fleet, i) == KVR_ROLE_SOURCE ? pairs : NULL;
            taken = fleet_update(asker->agents, &report, kvr_clock_now(), wall);
            first += pairs->peer_count;
        } while (taken && report.pairs != NULL && first < asker->fleet->pairs);
    }
    free(facts);
    free(pairs);
    return taken;
}

/* ---- a question ---- */

struct question {
    char name[BENCH_QUESTION_NAME_BYTES];
    const char *path;
    struct api_query query;
    char values[4][VALUE_BYTES];
    bool any_transfer;       /* the path is below another transfer's each time */
    bool afresh;             /* the API would keep the answer */
    int64_t reasons_back_ns; /* not the API's: the summary's failures of that time; 0: none */
};

static void add_parameter(struct question *question, const char *name, const char *value)
{
    int index = question->query.count++;

    if (value == NULL || value[0] == '\0') {
        question->query.count--;
        return;
    }
    snprintf(question->values[index], VALUE_BYTES, "%s", value);
    question->query.parameters[index].name = name;
    question->query.parameters[index].value = question->values[index];
}

static void skip_reason(void *self, const struct reason_group *group)
{
    (void)self;
    (void)group;
}

/* Failures by reason, without their examples. */
static bool answer_reasons(struct asker *asker, const struct question *question)
{
    int64_t since_ns = (int64_t)kvr_clock_wall() - question->reasons_back_ns;

    store_set_deadline(asker->store, 0);
    return store_group_reasons(asker->store, since_ns, skip_reason, NULL);
}

static bool answer_api(struct asker *asker, const struct question *question, const char *path)
{
    struct api_answer answer = {0};
    unsigned status;

    if (api_fleet_is_path(path))
        api_fleet_get(asker->api_fleet, path, &question->query, &answer);
    else
        api_get(asker->api, path, &question->query, &answer);
    status = answer.status;
    free(answer.body);
    ready_drop(answer.ready);
    /* A publish that waits for its target has no transfer yet. */
    return status == 200 || (status == 404 && question->any_transfer);
}

/* Without answers that an earlier one kept. */
static kvr_status open_api(struct asker *asker)
{
    struct api_fleet_parts parts = {asker->agents, asker->metrics, {.health = asker->health}};

    api_close(asker->api);
    api_fleet_close(asker->api_fleet);
    asker->api = api_open(asker->store, asker->metrics, asker->health);
    asker->api_fleet = api_fleet_open(&parts);
    if (asker->api == NULL || asker->api_fleet == NULL)
        return kvr_error_set(asker->error, KVR_NO_MEMORY, "bench", "no memory for the API");
    return KVR_OK;
}

static kvr_status answer_once(struct asker *asker, const struct question *question,
                              struct question_time *ret_time, bool *ret_answered)
{
    struct question_time begin;
    char any_path[64];

    if (question->any_transfer) {
        uint64_t number = kvr_rng_below(&asker->rng, asker->fleet->transfers);

        snprintf(any_path, sizeof(any_path), "/api/v1/transfers/%016" PRIx64 "%s",
                 bench_fleet_transfer(asker->fleet, number).id,
                 question->path != NULL ? question->path : "");
    }
    if (question->afresh)
        KVR_TRY(open_api(asker));
    if (kvr_clock_now() - asker->reported_at > REPORT_NS && !report_agents(asker))
        return kvr_error_set(asker->error, KVR_NO_MEMORY, "bench", "no memory for the agents");
    begin = now();
    *ret_answered =
        question->reasons_back_ns != 0
            ? answer_reasons(asker, question)
            : answer_api(asker, question, question->any_transfer ? any_path : question->path);
    *ret_time = since(begin);
    if (!*ret_answered)
        ret_time->cpu = ret_time->wall; /* it waited to the end of its patience */
    return KVR_OK;
}

/* One that is not answered is not asked again. */
static kvr_status ask_rounds(struct asker *asker, const struct question *question, bool paced)
{
    struct question_histograms histograms;
    struct question_time time = {0};
    bool answered = false;

    histograms_init(&histograms);
    bench_pace_begin(&asker->pace);
    KVR_TRY(answer_once(asker, question, &time, &answered)); /* into the caches */
    if (!answered)
        histograms_record(&histograms, time);
    for (uint32_t round = 0; answered && round < asker->rounds; round++) {
        KVR_TRY(answer_once(asker, question, &time, &answered));
        histograms_record(&histograms, time);
        if (paced)
            bench_pace_measure(&asker->pace);
    }
    keep(asker, question->name, &histograms, answered);
    return KVR_OK;
}

static kvr_status ask(struct asker *asker, const struct question *question)
{
    KVR_TRY(ask_rounds(asker, question, false));
    for (int again = 1; again < TRIES && is_slow(asker->times); again++)
        KVR_TRY(ask_rounds(asker, question, true));
    return KVR_OK;
}

/* ---- all questions ---- */

/* One list of transfers: each filter with each tenant, from the newest, the middle and the oldest.
 * Absent parts are "". */
static kvr_status ask_list(struct asker *asker, const char *filter, const char *value,
                           const char *tenant, const char *place, const char *after)
{
    struct question question = {.path = "/api/v1/transfers"};

    snprintf(question.name, sizeof(question.name), "transfers%s%s%.16s%s%s%s", filter[0] ? " " : "",
             filter[0] ? filter : "", filter[0] ? value : "", tenant[0] ? " of " : "", tenant,
             place);
    add_parameter(&question, strcmp(filter, "state ") == 0 ? "state" : "request", value);
    add_parameter(&question, "tenant", tenant);
    add_parameter(&question, "after", after);
    return ask(asker, &question);
}

static kvr_status ask_lists(struct asker *asker)
{
    uint64_t transfers = asker->fleet->transfers;
    struct bench_transfer old = bench_fleet_transfer(asker->fleet, transfers / 3);
    char request[KVR_REQUEST_BYTES], start[sizeof(BENCH_FLEET_PREFIX) + 3], middle[24];
    const char *const tenants[] = {"", bench_fleet_tenant(0),
                                   bench_fleet_tenant(BENCH_FLEET_TENANTS - 1)};
    const struct {
        const char *name, *value;
    } filters[] = {
        {"", ""},
        {"state ", "done"},
        {"state ", "lost"},
        {"state ", "live"},
        {"state ", "opened"},
        {"request ", request},
        {"request ", start},
        {"request ", BENCH_FLEET_PREFIX},
    };
    const struct {
        const char *name, *after;
    } places[] = {{"", ""}, {", middle", middle}, {", oldest", "100"}};

    bench_fleet_request(&old, request);
    snprintf(start, sizeof(start), "%.*s", (int)sizeof(start) - 1, request);
    snprintf(middle, sizeof(middle), "%" PRIu64, transfers / 2 + 1);
    for (size_t f = 0; f < sizeof(filters) / sizeof(filters[0]); f++)
        for (size_t t = 0; t < sizeof(tenants) / sizeof(tenants[0]); t++)
            for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
                KVR_TRY(ask_list(asker, filters[f].name, filters[f].value, tenants[t],
                                 places[p].name, places[p].after));
    return KVR_OK;
}

/* ---- searches: each filter alone, and each two ---- */

#define SEARCHES 13

struct search {
    const char *name, *also; /* of its parameters; also: NULL, or the agent that a rail is of */
    char value[VALUE_BYTES];
};

/* Common and rare values, and some that no transfer has. The engine is another agent's. */
static void choose_searches(const struct asker *asker, struct search searches[SEARCHES])
{
    static const struct search fixed[SEARCHES] = {
        {"agent", NULL, "prefill-0000"},
        {"rail", "agent", "3"},
        {"path", NULL, "dmabuf"},
        {"path", NULL, "staged"},
        {"reason", NULL, "cancelled"},
        {"reason", NULL, "engine_lost"},
        {"min_duration", NULL, "0.499"},
        {"min_duration", NULL, "60"},
        {"state", NULL, "done"},
        {"tenant", NULL, ""},
        {"request", NULL, BENCH_FLEET_PREFIX},
        {"engine", NULL, ""},
        {"until", NULL, ""},
    };
    const struct bench_fleet *fleet = asker->fleet;
    struct bench_transfer second = bench_fleet_transfer(fleet, 1),
                          middle = bench_fleet_transfer(fleet, fleet->transfers / 2);
    struct kvr_event event;

    memcpy(searches, fixed, sizeof(fixed));
    bench_fleet_event(fleet, &second, 1, &event);
    kvr_hex_print(event.source_engine.bytes, sizeof(event.source_engine.bytes),
                  searches[SEARCHES - 2].value);
    snprintf(searches[SEARCHES - 4].value, VALUE_BYTES, "%s",
             bench_fleet_tenant(BENCH_FLEET_TENANTS - 1));
    kvr_clock_rfc3339(middle.begin, searches[SEARCHES - 1].value);
}

static void add_search(struct question *question, const struct search *search)
{
    size_t used = strlen(question->name);

    if (search->also != NULL && question->query.count == 0)
        add_parameter(question, search->also, "decode-0000");
    add_parameter(question, search->name, search->value);
    snprintf(question->name + used, sizeof(question->name) - used, " %s=%.12s", search->name,
             search->value);
}

static kvr_status ask_searches(struct asker *asker)
{
    struct search searches[SEARCHES];

    choose_searches(asker, searches);
    for (int one = 0; one < SEARCHES; one++)
        for (int other = one; other < SEARCHES; other++) {
            struct question question = {.name = "search", .path = "/api/v1/transfers"};

            if (other != one && strcmp(searches[one].name, searches[other].name) == 0)
                continue;
            add_search(&question, &searches[one]);
            if (other != one)
                add_search(&question, &searches[other]);
            KVR_TRY(ask(asker, &question));
        }
    return KVR_OK;
}

/* ---- sums over time ---- */

static kvr_status ask_about_time(struct asker *asker, const char *path, const char *by,
                                 const char *agent, kvr_ns back)
{
    struct question question = {.afresh = true};
    kvr_ns until = kvr_clock_wall();
    char from_text[VALUE_BYTES], until_text[VALUE_BYTES];

    question.path = path;
    kvr_clock_rfc3339(until - back, from_text);
    kvr_clock_rfc3339(until, until_text);
    snprintf(question.name, sizeof(question.name), "%s%s%s, %llu h", path + strlen("/api/v1/"),
             by[0] ? " by " : "", by, (unsigned long long)(back / (3600 * KVR_S)));
    add_parameter(&question, "by", by);
    add_parameter(&question, "agent", agent);
    add_parameter(&question, "from", from_text);
    add_parameter(&question, "until", until_text);
    return ask(asker, &question);
}

static kvr_status ask_comparison(struct asker *asker, kvr_ns length)
{
    static const char *const names[] = {"from", "until", "with_from", "with_until"};
    struct question question = {.path = "/api/v1/compare"};
    kvr_ns until = kvr_clock_wall(),
           ends[] = {until - length, until, until - 2 * length, until - length};

    snprintf(question.name, sizeof(question.name), "compare, %llu h",
             (unsigned long long)(length / (3600 * KVR_S)));
    for (int i = 0; i < 4; i++) {
        char text[VALUE_BYTES];

        kvr_clock_rfc3339(ends[i], text);
        add_parameter(&question, names[i], text);
    }
    return ask(asker, &question);
}

static kvr_status ask_times(struct asker *asker)
{
    static const char *const bys[] = {"", "reason", "tenant", "agent", "engine", "rail", "pair"};
    static const kvr_ns backs[] = {3600 * KVR_S, 24 * 3600 * KVR_S, 7 * 24 * 3600 * KVR_S};

    for (size_t b = 0; b < sizeof(backs) / sizeof(backs[0]); b++) {
        for (size_t i = 0; i < sizeof(bys) / sizeof(bys[0]); i++) {
            bool parts = i >= 5;

            KVR_TRY(ask_about_time(asker, "/api/v1/rollups", bys[i], parts ? "prefill-0000" : "",
                                   backs[b]));
            if (!parts)
                KVR_TRY(ask_about_time(asker, "/api/v1/histograms", bys[i], "", backs[b]));
        }
        KVR_TRY(ask_comparison(asker, backs[b]));
    }
    return KVR_OK;
}

static kvr_status ask_others(struct asker *asker)
{
    static const struct question questions[] = {
        {.name = "summary", .path = "/api/v1/summary", .afresh = true},
        {.name = "agents", .path = "/api/v1/agents", .afresh = true},
        {.name = "one transfer", .any_transfer = true},
        {.name = "one timeline", .any_transfer = true, .path = "/timeline"},
        {.name = "errors", .path = "/api/v1/errors"},
        {.name = "audit", .path = "/api/v1/audit"},
        {.name = "marks", .path = "/api/v1/marks"},
        {.name = "matrix", .path = "/api/v1/rails/matrix", .afresh = true},
        {.name = "reasons", .reasons_back_ns = HOUR},
        {.name = "reasons, all in an hour", .reasons_back_ns = INT64_MAX / 2},
    };
    struct question deep = {.name = "audit, oldest", .path = "/api/v1/audit"};
    struct question most = {.name = "transfers, 500", .path = "/api/v1/transfers"};
    struct question row = {
        .name = "matrix of one source", .path = "/api/v1/rails/matrix", .afresh = true};
    struct question trouble = {
        .name = "matrix, trouble", .path = "/api/v1/rails/matrix", .afresh = true};
    struct question pairs = {.name = "pairs", .path = "/api/v1/pairs", .afresh = true};

    add_parameter(&deep, "after", "100");
    add_parameter(&most, "limit", "500");
    add_parameter(&row, "source", "prefill-0000");
    add_parameter(&trouble, "trouble", "yes");
    add_parameter(&pairs, "tokens", "1000");
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        KVR_TRY(ask(asker, &questions[i]));
    KVR_TRY(ask(asker, &deep));
    KVR_TRY(ask(asker, &most));
    KVR_TRY(ask(asker, &row));
    KVR_TRY(ask(asker, &pairs));
    return ask(asker, &trouble);
}

/* ---- the largest fleet ---- */

#define LARGEST_AGENTS 256
#define LARGEST_RAILS  32 /* cards of a host with the most of them */

static kvr_status ask_largest(struct asker *asker)
{
    const struct question questions[] = {
        {.name = "agents, 256 of 32 rails", .path = "/api/v1/agents", .afresh = true},
        {.name = "matrix, 256 of 32 rails", .path = "/api/v1/rails/matrix", .afresh = true},
        {.name = "pairs, 256 of 32 rails",
         .path = "/api/v1/pairs",
         .query = {1, {{"tokens", "1000"}}},
         .afresh = true},
    };
    const struct bench_fleet *fleet = asker->fleet;
    struct fleet *agents = asker->agents;
    struct bench_fleet largest = *fleet;
    kvr_status status = KVR_OK;

    largest.pairs = LARGEST_AGENTS / 2;
    largest.rails = LARGEST_RAILS;
    asker->fleet = &largest;
    asker->agents = fleet_open();
    if (asker->agents == NULL || !report_agents(asker))
        status = kvr_error_set(asker->error, KVR_NO_MEMORY, "bench", "no memory for the agents");
    for (size_t i = 0; status == KVR_OK && i < sizeof(questions) / sizeof(questions[0]); i++)
        status = ask(asker, &questions[i]);
    fleet_close(asker->agents);
    asker->fleet = fleet;
    asker->agents = agents;
    return status == KVR_OK ? open_api(asker) : status;
}

/* ---- opening and closing ---- */

static kvr_status asker_open(struct asker *asker, const char *folder)
{
    uint64_t counts[STATE_END];

    KVR_TRY(bench_pace_open(&asker->pace, asker->error));
    KVR_TRY(
        store_open_reader(&(struct store_place){.folder = folder}, &asker->store, asker->error));
    asker->agents = fleet_open();
    asker->metrics = metrics_open();
    asker->health = health_open(folder);
    if (asker->agents == NULL || asker->metrics == NULL || asker->health == NULL)
        return kvr_error_set(asker->error, KVR_NO_MEMORY, "bench", "no memory for the API");
    KVR_TRY(open_api(asker));
    if (!fleet_load(asker->agents, asker->store) || !store_count_states(asker->store, counts) ||
        !report_agents(asker))
        return kvr_error_set(asker->error, KVR_SYSTEM, "bench", "the database cannot be read: %s",
                             store_problem(asker->store));
    metrics_set_states(asker->metrics, counts);
    return KVR_OK;
}

static void asker_close(struct asker *asker)
{
    api_close(asker->api);
    api_fleet_close(asker->api_fleet);
    health_close(asker->health);
    metrics_close(asker->metrics);
    fleet_close(asker->agents);
    store_close(asker->store);
    bench_pace_close(&asker->pace);
}

kvr_status bench_questions_ask(const struct bench_fleet *fleet, const char *folder, uint32_t rounds,
                               struct bench_question_times *ret_times, struct kvr_error *error)
{
    struct asker asker = {.fleet = fleet, .rounds = rounds, .times = ret_times, .error = error};
    kvr_status status;

    ret_times->count = 0;
    kvr_rng_init(&asker.rng, fleet->seed);
    status = asker_open(&asker, folder);
    if (status == KVR_OK)
        status = ask_others(&asker);
    if (status == KVR_OK)
        status = ask_largest(&asker);
    if (status == KVR_OK)
        status = ask_times(&asker);
    if (status == KVR_OK)
        status = ask_lists(&asker);
    if (status == KVR_OK)
        status = ask_searches(&asker);
    asker_close(&asker);
    return status;
}
