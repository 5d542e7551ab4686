/* The metrics of agents: how many there are, and those that they report (agent_series.h). */
#include "http/agent_series.h"
#include "scheduler/metrics.h"

/* ---- how many ---- */

struct counts {
    uint64_t up[2], known[2]; /* agents by role */
};

static void count_agent(void *self, const struct agent_view *agent)
{
    struct counts *counts = self;

    counts->known[agent->facts->role]++;
    counts->up[agent->facts->role] += agent->state == AGENT_UP;
}

static void write_counts(struct fleet *fleet, kvr_ns now, struct exposition *out)
{
    struct counts counts = {0};

    fleet_each(fleet, now, count_agent, &counts);
    exposition_gauge(out, "kvrail_agents_up", "Agents that were heard within 6 s.");
    for (int role = 0; role < 2; role++)
        exposition_count(out,
                         (const struct exposition_label[]){
                             {"role", transfer_role_name((kvr_role)role)}, {NULL, NULL}},
                         counts.up[role]);
    exposition_gauge(out, "kvrail_agents_known",
                     "Agents that were ever heard and are not forgotten.");
    for (int role = 0; role < 2; role++)
        exposition_count(out,
                         (const struct exposition_label[]){
                             {"role", transfer_role_name((kvr_role)role)}, {NULL, NULL}},
                         counts.known[role]);
}

/* ---- each ---- */

struct source {
    struct fleet *fleet;
    kvr_ns now;
    agent_series_visit *visit;
    void *visitor;
};

static void show(void *self, const struct agent_view *agent)
{
    const struct source *source = self;

    source->visit(source->visitor, &(struct agent_series_view){
                                       .name = agent->row.name,
                                       .facts = agent->facts,
                                       .dropped = agent->row.dropped,
                                       .up = agent->state == AGENT_UP,
                                       .stopped = agent->state == AGENT_STOPPED,
                                       .awaited = agent->state == AGENT_AWAITED,
                                   });
}

static void each(void *self, agent_series_visit *visit, void *visitor)
{
    struct source *source = self;

    source->visit = visit;
    source->visitor = visitor;
    fleet_each(source->fleet, source->now, show, source);
}

static void each_pairs(void *self, agent_series_visit_pairs *visit, void *visitor)
{
    const struct source *source = self;

    fleet_each_pair_states(source->fleet, source->now, visit, visitor);
}

void metrics_write_fleet(struct fleet *fleet, kvr_ns now, struct exposition *out)
{
    struct source source = {.fleet = fleet, .now = now};

    write_counts(fleet, now, out);
    agent_series_write(&(const struct agent_series_source){&source, each, each_pairs}, out);
}
