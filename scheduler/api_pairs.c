/* /api/v1/pairs: where a router had best send a request, by the state of all agents. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/api_json.h"
#include "scheduler/api_parameters.h"
#include "scheduler/placement.h"

#define PROMPT_MAX    100000000
#define LIMIT_DEFAULT 20u
#define LEFT_OUT_MAX  100u /* more are counted alone */
#define ROW_PAIRS_MAX UINT32_MAX

/* ---- what is asked ---- */

struct wanted {
    struct placement_ask ask;
    const char *source, *target;
    uint32_t limit;
};

static bool parse(const struct api_query *query, struct wanted *wanted, struct api_answer *answer)
{
    const char *tokens = api_parameter(query, "tokens");
    int64_t number = 0;

    if (!api_parse_name(query, "source", "agent", &wanted->source, answer) ||
        !api_parse_name(query, "target", "agent", &wanted->target, answer) ||
        !api_parse_name(query, "model", "model", &wanted->ask.model, answer) ||
        !api_parse_limit(query, &wanted->limit, answer))
        return false;
    if (tokens != NULL && api_number(tokens, 1, PROMPT_MAX, &number)) {
        wanted->ask.tokens = (uint64_t)number;
        return true;
    }
    api_bad_request(answer, "tokens",
                    tokens != NULL
                        ? "tokens=%s is not a number from 1 to 100000000"
                        : "tokens is missing: give the length of the prompt, as in tokens=4096",
                    tokens);
    return false;
}

/* ---- what is known ---- */

struct agents {
    struct placement_agent *list; /* in the order of their names */
    uint32_t count;
};

struct board {
    const struct wanted *wanted;
    struct agents sources, targets;
    struct placement *pairs; /* of each source with each target */
    uint32_t pair_count;     /* ranked ones, after the others have been left out */
    json_t *left_out;
    uint64_t left_out_count;
    struct placement *last; /* the pair of the row before */
};

/* source, target: NULL where the reason is that of an agent. */
static void leave_out(struct board *board, const char *agent, const struct placement *pair,
                      const char *reason)
{
    board->left_out_count++;
    if (json_array_size(board->left_out) >= LEFT_OUT_MAX)
        return;
    if (agent != NULL)
        json_array_append_new(board->left_out,
                              json_pack("{s:s, s:s}", "agent", agent, "reason", reason));
    else
        json_array_append_new(board->left_out,
                              json_pack("{s:s, s:s, s:s}", "source", pair->source->name, "target",
                                        pair->target->name, "reason", reason));
}

static void take_agent(void *self, const struct agent_view *view)
{
    struct board *board = self;
    bool source = view->facts->role == KVR_ROLE_SOURCE;
    const char *only = source ? board->wanted->source : board->wanted->target;
    struct agents *agents = source ? &board->sources : &board->targets;
    char text[PLACEMENT_REASON_BYTES];
    struct placement_agent *agent;
    const char *why;

    if ((only != NULL && strcmp(only, view->row.name) != 0) || agents->count == FLEET_AGENTS_MAX)
        return;
    agent = &agents->list[agents->count];
    placement_agent_from(view, agent);
    why = placement_agent_refused(agent, text);
    if (why == NULL)
        agents->count++;
    else
        leave_out(board, agent->name, NULL, why);
}

static int by_name(const void *name, const void *agent)
{
    return strcmp(name, ((const struct placement_agent *)agent)->name);
}

static struct placement *pair_of(struct board *board, const char *source, const char *target)
{
    const struct placement_agent *from, *to;

    if (board->last != NULL && strcmp(board->last->source->name, source) == 0 &&
        strcmp(board->last->target->name, target) == 0)
        return board->last;
    from = bsearch(source, board->sources.list, board->sources.count, sizeof(*from), by_name);
    to = bsearch(target, board->targets.list, board->targets.count, sizeof(*to), by_name);
    if (from == NULL || to == NULL)
        return NULL;
    board->last = &board->pairs[(size_t)(from - board->sources.list) * board->targets.count +
                                (size_t)(to - board->targets.list)];
    return board->last;
}

static void take_row(void *self, const struct fleet_pair *row)
{
    struct board *board = self;
    struct placement *pair = pair_of(board, row->source, row->row->peer);

    if (pair == NULL)
        return;
    pair->reach.pairs++;
    pair->reach.warm += row->row->state == KVR_PAIR_WARM;
    pair->reach.unreachable += row->row->state == KVR_PAIR_UNREACHABLE;
    pair->reach.troubled += kvr_pair_in_trouble(row->row->state);
}

/* Agents first, then the pairs of those that are fit; false: no memory. */
static bool look(struct board *board, struct fleet *fleet, struct speeds *speeds, kvr_ns now)
{
    struct fleet_pairs_wanted rows = {.source = board->wanted->source,
                                      .target = board->wanted->target,
                                      .count_max = ROW_PAIRS_MAX};
    struct placement *pair;

    board->sources.list = calloc(FLEET_AGENTS_MAX, sizeof(*board->sources.list));
    board->targets.list = calloc(FLEET_AGENTS_MAX, sizeof(*board->targets.list));
    if (board->sources.list == NULL || board->targets.list == NULL)
        return false;
    fleet_each(fleet, now, take_agent, board);
    board->pair_count = board->sources.count * board->targets.count;
    board->pairs = calloc(board->pair_count > 0 ? board->pair_count : 1, sizeof(*board->pairs));
    if (board->pairs == NULL)
        return false;
    for (uint32_t i = 0; i < board->pair_count; i++) {
        pair = &board->pairs[i];
        pair->source = &board->sources.list[i / board->targets.count];
        pair->target = &board->targets.list[i % board->targets.count];
        (void)placement_model(pair->source, pair->target, board->wanted->ask.model, &pair->model);
        (void)speeds_of(speeds, pair->source->name, pair->target->name, &pair->measured);
    }
    (void)fleet_each_pair(fleet, &rows, now, take_row, board);
    return true;
}

static void rank(struct board *board)
{
    struct placement_common common = {0};
    char text[PLACEMENT_REASON_BYTES];
    uint64_t measured = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < board->pair_count; i++)
        placement_common_take(&common, &measured, &board->pairs[i]);
    for (uint32_t i = 0; i < board->pair_count; i++) {
        const char *why = placement_refused(&board->pairs[i], &board->wanted->ask, text);

        if (why != NULL) {
            leave_out(board, NULL, &board->pairs[i], why);
            continue;
        }
        board->pairs[kept] = board->pairs[i];
        placement_estimate(&board->pairs[kept++], &common, &board->wanted->ask);
    }
    board->pair_count = kept;
    qsort(board->pairs, kept, sizeof(*board->pairs), placement_compare);
}

/* ---- the answer ---- */

static json_t *real_or_null(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *why_json(const struct placement *pair, int64_t wall_ns)
{
    char reasons[PLACEMENT_REASONS_MAX][PLACEMENT_REASON_BYTES];
    uint32_t count = placement_reasons(pair, wall_ns, reasons);
    json_t *array = json_array();

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_string(reasons[i]));
    return array;
}

static json_t *measured_json(const struct speeds_figures *measured, int64_t wall_ns)
{
    if (measured->transfers == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "bytes_per_second",
                     real_or_null(measured->bytes_per_second), "transfers",
                     json_count(measured->transfers), "age_seconds",
                     json_seconds(wall_ns - measured->measured_ns));
}

static json_t *pair_json(const struct placement *pair, uint32_t rank, int64_t wall_ns)
{
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:{s:I, s:I}, s:{s:I, s:I, s:I}, s:o}",
        "rank", (json_int_t)rank, "source", pair->source->name, "target", pair->target->name,
        "source_host", pair->source->host, "target_host", pair->target->host, "model", pair->model,
        "bytes", pair->bytes > 0 ? json_count(pair->bytes) : json_null(), "expected_seconds",
        real_or_null(pair->seconds), "measured", measured_json(&pair->measured, wall_ns),
        "in_flight", "source", (json_int_t)pair->source->transfers_live, "target",
        (json_int_t)pair->target->transfers_live, "rail_pairs", "known",
        (json_int_t)pair->reach.pairs, "warm", (json_int_t)pair->reach.warm, "trouble",
        (json_int_t)pair->reach.troubled, "why", why_json(pair, wall_ns));
}

static json_t *board_json(struct board *board)
{
    int64_t wall_ns = (int64_t)kvr_clock_wall();
    json_t *pairs = json_array();

    for (uint32_t i = 0; i < board->pair_count && i < board->wanted->limit; i++)
        json_array_append_new(pairs, pair_json(&board->pairs[i], i + 1, wall_ns));
    return json_pack("{s:o, s:o, s:o, s:O, s:o}", "tokens", json_count(board->wanted->ask.tokens),
                     "pairs", pairs, "pair_count", json_count(board->pair_count), "left_out",
                     board->left_out, "left_out_count", json_count(board->left_out_count));
}

void api_get_pairs(struct fleet *fleet, struct speeds *speeds, const struct api_query *query,
                   struct api_answer *ret_answer)
{
    struct wanted wanted = {.limit = LIMIT_DEFAULT};
    struct board board = {.wanted = &wanted};

    if (!parse(query, &wanted, ret_answer))
        return;
    board.left_out = json_array();
    if (look(&board, fleet, speeds, kvr_clock_now())) {
        rank(&board);
        api_answer_with(ret_answer, 200, board_json(&board));
    } else {
        *ret_answer = (struct api_answer){.status = 500}; /* no body: no memory */
    }
    json_decref(board.left_out);
    free(board.pairs);
    free(board.sources.list);
    free(board.targets.list);
}
