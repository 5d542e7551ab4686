#include "scheduler/placement.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Expected times that differ by less than a fifth show no difference. */
#define GRADES 4 /* for each doubling */

void placement_agent_from(const struct agent_view *view, struct placement_agent *ret_agent)
{
    const struct kvr_agent_facts *facts = view->facts;
    struct placement_agent agent = {.role = facts->role,
                                    .state = view->state,
                                    .drained = facts->drained,
                                    .transfers_live = facts->transfers_live,
                                    .rails = facts->rail_count};

    memcpy(agent.name, view->row.name, sizeof(agent.name));
    memcpy(agent.host, facts->host, sizeof(agent.host));
    for (uint32_t i = 0; i < facts->rail_count; i++) {
        if (facts->rails[i].state != KVR_RAIL_UP)
            continue;
        agent.rails_up++;
        agent.bytes_per_second += (double)facts->rails[i].speed_bps / 8;
    }
    for (uint32_t i = 0; i < facts->engine_count; i++) {
        const char *model = facts->engines[i].model;
        uint32_t at = 0;

        while (at < agent.model_count && strcmp(agent.models[at], model) != 0)
            at++;
        if (at == agent.model_count && at < PLACEMENT_MODELS_MAX)
            memcpy(agent.models[agent.model_count++], model, KVR_NAME_BYTES);
    }
    *ret_agent = agent;
}

static bool has_model(const struct placement_agent *agent, const char *model)
{
    for (uint32_t i = 0; i < agent->model_count; i++)
        if (strcmp(agent->models[i], model) == 0)
            return true;
    return false;
}

bool placement_model(const struct placement_agent *source, const struct placement_agent *target,
                     const char *model, const char **ret_model)
{
    *ret_model = NULL;
    for (uint32_t i = 0; i < source->model_count && *ret_model == NULL; i++)
        if (has_model(target, source->models[i]) &&
            (model == NULL || strcmp(model, source->models[i]) == 0))
            *ret_model = source->models[i];
    return *ret_model != NULL;
}

static const char *refuse(char *text, const char *who, const char *what)
{
    snprintf(text, PLACEMENT_REASON_BYTES, "%s %s", who, what);
    return text;
}

const char *placement_agent_refused(const struct placement_agent *agent, char *text)
{
    if (agent->state == AGENT_LOST)
        return refuse(text, agent->name, "is silent");
    if (agent->state == AGENT_STOPPED)
        return refuse(text, agent->name, "was stopped");
    if (agent->state == AGENT_AWAITED)
        return refuse(text, agent->name, "has not reported since the scheduler started");
    if (agent->drained)
        return refuse(text, agent->name, "was drained by an operator");
    if (agent->rails_up == 0)
        return refuse(text, agent->name, "has no rail that works");
    if (agent->model_count == 0)
        return refuse(text, agent->name, "has no engine");
    return NULL;
}

const char *placement_refused(const struct placement *pair, const struct placement_ask *ask,
                              char *text)
{
    if (pair->model == NULL && ask->model != NULL)
        return refuse(text, ask->model, "is not the model of engines at both agents");
    if (pair->model == NULL)
        return refuse(text, "the engines of the two agents", "have no model in common");
    if (pair->reach.pairs > 0 && pair->reach.unreachable == pair->reach.pairs)
        return refuse(text, "no rail of the prefill-agent", "reaches a rail of the decode-agent");
    return NULL;
}

/* ---- estimates ---- */

/* By their links; 0: not known. */
static double nominal(const struct placement *pair)
{
    double source = pair->source->bytes_per_second, target = pair->target->bytes_per_second;

    return source < target ? source : target;
}

void placement_common_take(struct placement_common *common, uint64_t *count,
                           const struct placement *pair)
{
    const struct speeds_figures *measured = &pair->measured;
    double weight;

    if (measured->bytes_per_second == 0)
        return;
    weight = 1.0 / (double)++*count;
    common->bytes_per_token += weight * (measured->bytes_per_token - common->bytes_per_token);
    common->bytes_per_second += weight * (measured->bytes_per_second - common->bytes_per_second);
    if (nominal(pair) > 0)
        common->share += weight * (measured->bytes_per_second / nominal(pair) - common->share);
}

static double expected_speed(const struct placement *pair, const struct placement_common *common)
{
    if (pair->measured.bytes_per_second > 0)
        return pair->measured.bytes_per_second;
    if (nominal(pair) > 0)
        return nominal(pair) * (common->share > 0 ? common->share : 1);
    return common->bytes_per_second;
}

/* The agent of the two that is busier shares its rails. */
static uint32_t in_flight(const struct placement *pair)
{
    uint32_t source = pair->source->transfers_live, target = pair->target->transfers_live;

    return source > target ? source : target;
}

void placement_estimate(struct placement *pair, const struct placement_common *common,
                        const struct placement_ask *ask)
{
    double bytes_per_token = pair->measured.bytes_per_token > 0 ? pair->measured.bytes_per_token
                                                                : common->bytes_per_token;

    pair->bytes = (uint64_t)(bytes_per_token * (double)ask->tokens);
    pair->bytes_per_second = expected_speed(pair, common);
    pair->seconds = 0;
    if (pair->bytes > 0 && pair->bytes_per_second > 0)
        pair->seconds = (double)pair->bytes / pair->bytes_per_second * (1 + in_flight(pair));
    pair->grade = pair->seconds > 0 ? (int)floor(GRADES * log2(pair->seconds)) : 0;
}

/* ---- the order ---- */

static int compare(double a, double b)
{
    return a < b ? -1 : a > b;
}

/* Of its pairs of rails; one that has reported none has never been used. */
static double warmth(const struct placement *pair)
{
    return pair->reach.pairs > 0 ? (double)pair->reach.warm / pair->reach.pairs : 0;
}

static double trouble(const struct placement *pair)
{
    return pair->reach.pairs > 0 ? (double)pair->reach.troubled / pair->reach.pairs : 0;
}

static bool same_host(const struct placement *pair)
{
    return strcmp(pair->source->host, pair->target->host) == 0;
}

int placement_compare(const void *a, const void *b)
{
    const struct placement *x = a, *y = b;
    int order = (x->seconds == 0) - (y->seconds == 0); /* not known: behind those that are */

    if (order == 0)
        order = x->grade - y->grade;
    if (order == 0)
        order = compare(in_flight(x), in_flight(y));
    if (order == 0)
        order = compare(trouble(x), trouble(y));
    if (order == 0)
        order = compare(warmth(y), warmth(x));
    if (order == 0)
        order = same_host(y) - same_host(x);
    if (order == 0)
        order = compare(x->seconds, y->seconds);
    if (order == 0)
        order = strcmp(x->source->name, y->source->name);
    return order != 0 ? order : strcmp(x->target->name, y->target->name);
}

/* ---- why ---- */

uint32_t placement_reasons(const struct placement *pair, int64_t wall_ns,
                           char reasons[PLACEMENT_REASONS_MAX][PLACEMENT_REASON_BYTES])
{
    const struct speeds_figures *measured = &pair->measured;
    uint32_t count = 0;

    if (measured->bytes_per_second > 0)
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES,
                 "measured: %.3g GB/s, in %llu transfers, the last one %.0f s ago",
                 measured->bytes_per_second / 1e9, (unsigned long long)measured->transfers,
                 (double)(wall_ns - measured->measured_ns) / 1e9);
    else if (nominal(pair) > 0)
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES,
                 "not measured yet: its links carry %.3g GB/s", nominal(pair) / 1e9);
    else
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES,
                 "not measured yet, and the speed of its links is not known");
    snprintf(reasons[count++], PLACEMENT_REASON_BYTES,
             "in flight: %u at the prefill-agent, %u at the decode-agent",
             pair->source->transfers_live, pair->target->transfers_live);
    if (pair->reach.pairs == 0)
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES, "the two agents have not met yet");
    else
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES, "%u of %u pairs of rails are warm",
                 pair->reach.warm, pair->reach.pairs);
    if (pair->reach.troubled > 0)
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES, "%u pairs of rails are in trouble",
                 pair->reach.troubled);
    if (same_host(pair))
        snprintf(reasons[count++], PLACEMENT_REASON_BYTES, "both are on host %s",
                 pair->source->host);
    return count;
}
