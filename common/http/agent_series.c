#include "http/agent_series.h"

#include <stdio.h>

struct series {
    struct exposition *out;
    const struct agent_series_source *source;
    int number; /* which counter */
};

/* One family of all agents. */
static void write_family(struct series *series, bool gauge, const char *name, const char *help,
                         agent_series_visit *visit)
{
    (gauge ? exposition_gauge : exposition_counter)(series->out, name, help);
    series->source->each(series->source->self, visit, series);
}

static void count(struct series *series, const struct agent_series_view *agent, uint64_t value)
{
    const struct exposition_label labels[] = {{"agent", agent->name}, {NULL, NULL}};

    exposition_count(series->out, labels, value);
}

static const char *program_of(const struct agent_series_view *agent)
{
    return agent->facts->role == KVR_ROLE_SOURCE ? "prefill" : "decode";
}

/* ---- agents ---- */

/* An awaited agent has no value: it could not have reported yet. */
static void write_up(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    const struct exposition_label labels[] = {
        {"agent", agent->name}, {"role", program_of(agent)}, {NULL, NULL}};

    if (!agent->awaited)
        exposition_count(series->out, labels, agent->up);
}

static void write_stopped(void *self, const struct agent_series_view *agent)
{
    count(self, agent, agent->stopped);
}

static void write_insecure(void *self, const struct agent_series_view *agent)
{
    count(self, agent, !agent->facts->secure);
}

/* An agent that no scheduler hears has none. */
static void write_scheduler(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    const struct exposition_label labels[] = {
        {"agent", agent->name}, {"scheduler", agent->facts->scheduler}, {NULL, NULL}};

    if (agent->facts->scheduler[0] != '\0')
        exposition_count(series->out, labels, 1);
}

static void write_live(void *self, const struct agent_series_view *agent)
{
    count(self, agent, agent->facts->transfers_live);
}

static void write_dropped(void *self, const struct agent_series_view *agent)
{
    count(self, agent, agent->dropped);
}

static void write_registered(void *self, const struct agent_series_view *agent)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < agent->facts->engine_count; i++)
        bytes += agent->facts->engines[i].region_bytes;
    count(self, agent, bytes);
}

static void write_counter(void *self, const struct agent_series_view *agent)
{
    count(self, agent, agent->facts->counters[((struct series *)self)->number]);
}

static void write_agents(struct series *series)
{
    char name[96];

    write_family(series, true, "kvrail_agent_up",
                 "1 while the agent is heard, 0 while it is not or it has stopped.", write_up);
    write_family(series, true, "kvrail_agent_stopped",
                 "1 for an agent that announced its end, and is not up for that reason.",
                 write_stopped);
    write_family(series, true, "kvrail_agent_insecure",
                 "1 for an agent that runs with --insecure: its peers prove no identity.",
                 write_insecure);
    write_family(series, true, "kvrail_agent_scheduler",
                 "Constant 1; the label has the scheduler that takes the agent's reports.",
                 write_scheduler);
    write_family(series, true, "kvrail_agent_transfers",
                 "Transfers of an agent that have not ended, as the agent counts them.",
                 write_live);
    write_family(series, false, "kvrail_events_dropped_total",
                 "Events that an agent lost before they came here.", write_dropped);
    write_family(series, true, "kvrail_registered_bytes",
                 "Memory that an agent's engines registered.", write_registered);
    for (series->number = 0; series->number < KVR_COUNTER_END; series->number++) {
        kvr_counter counter = (kvr_counter)series->number;
        bool gauge = kvr_counter_is_gauge(counter);

        snprintf(name, sizeof(name), "kvrail_%s%s", kvr_counter_name(counter),
                 gauge ? "" : "_total");
        write_family(series, gauge, name, kvr_counter_text(counter), write_counter);
    }
}

/* ---- rails ---- */

struct rail_labels {
    char rail[16], group[16];
    struct exposition_label labels[5];
};

/* The group is a label where there are several. */
static const struct exposition_label *label_rail(const struct agent_series_view *agent,
                                                 uint32_t index, struct rail_labels *labels)
{
    const struct kvr_agent_facts *facts = agent->facts;
    struct exposition_label *to = labels->labels;
    bool several = false;

    for (uint32_t i = 1; i < facts->rail_count; i++)
        several |= facts->rails[i].group != facts->rails[0].group;
    snprintf(labels->rail, sizeof(labels->rail), "%u", index);
    snprintf(labels->group, sizeof(labels->group), "%u", facts->rails[index].group);
    *to++ = (struct exposition_label){"agent", agent->name};
    *to++ = (struct exposition_label){"rail", labels->rail};
    if (several)
        *to++ = (struct exposition_label){"group", labels->group};
    *to++ = (struct exposition_label){"provider", facts->rails[index].provider};
    *to = (struct exposition_label){NULL, NULL};
    return labels->labels;
}

typedef enum rail_value { RAIL_VALUE_UP, RAIL_VALUE_BYTES, RAIL_VALUE_WRITES } rail_value;

static void write_rail_values(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    struct rail_labels labels;

    for (uint32_t i = 0; i < agent->facts->rail_count; i++) {
        const struct kvr_rail_snapshot *rail = &agent->facts->rails[i];
        uint64_t value = series->number == RAIL_VALUE_BYTES ? rail->bytes
                         : series->number == RAIL_VALUE_WRITES
                             ? rail->writes
                             : agent->up && rail->state == KVR_RAIL_UP;

        if (series->number != RAIL_VALUE_UP || !agent->awaited)
            exposition_count(series->out, label_rail(agent, i, &labels), value);
    }
}

static void write_rail_info(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    char index[16], group[16];

    for (uint32_t i = 0; i < agent->facts->rail_count; i++) {
        const struct kvr_rail_snapshot *rail = &agent->facts->rails[i];
        const struct exposition_label labels[] = {{"agent", agent->name},
                                                  {"rail", index},
                                                  {"group", group},
                                                  {"card", rail->name},
                                                  {"provider", rail->provider},
                                                  {"plane", rail->traits.plane},
                                                  {"host", agent->facts->host},
                                                  {NULL, NULL}};

        snprintf(index, sizeof(index), "%u", i);
        snprintf(group, sizeof(group), "%u", rail->group);
        exposition_count(series->out, labels, 1);
    }
}

/* A card that does not say its speed has none. */
static void write_rail_speed(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    struct rail_labels labels;

    for (uint32_t i = 0; i < agent->facts->rail_count; i++)
        if (agent->facts->rails[i].speed_bps != 0)
            exposition_count(series->out, label_rail(agent, i, &labels),
                             agent->facts->rails[i].speed_bps / 8);
}

static void write_rail_counter(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    double unit = kvr_rail_counter_facts((kvr_rail_counter)series->number)->unit;
    struct rail_labels labels;

    for (uint32_t i = 0; i < agent->facts->rail_count; i++)
        exposition_value(series->out, label_rail(agent, i, &labels),
                         (double)agent->facts->rails[i].counters[series->number] * unit);
}

/* All rails of a group have one thread: its first rail stands for it. */
static void write_group_counter(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;
    double unit = kvr_rail_counter_facts((kvr_rail_counter)series->number)->unit;
    const struct kvr_agent_facts *facts = agent->facts;
    char group[16];

    for (uint32_t i = 0; i < facts->rail_count; i++) {
        const struct exposition_label labels[] = {
            {"agent", agent->name}, {"group", group}, {NULL, NULL}};
        bool first = true;

        for (uint32_t k = 0; k < i; k++)
            first &= facts->rails[k].group != facts->rails[i].group;
        if (!first)
            continue;
        snprintf(group, sizeof(group), "%u", facts->rails[i].group);
        exposition_value(series->out, labels,
                         (double)facts->rails[i].counters[series->number] * unit);
    }
}

static bool is_of_group(kvr_rail_counter counter)
{
    return counter == KVR_RAIL_SPIN_TIME || counter == KVR_RAIL_SLEEP_TIME ||
           counter == KVR_RAIL_CPU_TIME;
}

/* facts: of series->number. */
static void write_facts(struct series *series, const char *prefix,
                        const struct kvr_rail_counter_facts *facts, agent_series_visit *visit)
{
    char name[96];

    snprintf(name, sizeof(name), "kvrail_%s_%s%s", prefix, facts->name,
             facts->gauge ? "" : "_total");
    write_family(series, facts->gauge, name, facts->text, visit);
}

static void write_pair_states(void *self, const char *agent,
                              const uint64_t counts[KVR_PAIR_STATE_END])
{
    for (int state = 0; state < KVR_PAIR_STATE_END; state++) {
        const struct exposition_label labels[] = {
            {"agent", agent}, {"state", kvr_pair_state_name((kvr_pair_state)state)}, {NULL, NULL}};

        exposition_count(self, labels, counts[state]);
    }
}

static void write_rails(struct series *series)
{
    series->number = RAIL_VALUE_UP;
    write_family(series, true, "kvrail_rail_up",
                 "1 while the rail carries writes and its agent is heard.", write_rail_values);
    write_family(series, true, "kvrail_rail_info",
                 "Constant 1; the labels have the card, its group and its plane.", write_rail_info);
    write_family(series, true, "kvrail_rail_speed_bytes_per_second",
                 "Speed of the card's link, where the card says it.", write_rail_speed);
    series->number = RAIL_VALUE_BYTES;
    write_family(series, false, "kvrail_rail_bytes_total",
                 "Bytes posted (source) or landed (target) on a rail.", write_rail_values);
    series->number = RAIL_VALUE_WRITES;
    write_family(series, false, "kvrail_rail_writes_total",
                 "Writes posted (source) or landed (target) on a rail.", write_rail_values);
    for (series->number = 0; series->number < KVR_RAIL_COUNTER_END; series->number++) {
        bool of_group = is_of_group((kvr_rail_counter)series->number);

        write_facts(series, of_group ? "group" : "rail",
                    kvr_rail_counter_facts((kvr_rail_counter)series->number),
                    of_group ? write_group_counter : write_rail_counter);
    }
    exposition_gauge(series->out, "kvrail_rail_pairs",
                     "Pairs of a source's rails with those of its peers, by state.");
    series->source->each_pairs(series->source->self, write_pair_states, series->out);
}

/* ---- tenants ---- */

static void write_tenant_counter(void *self, const struct agent_series_view *agent)
{
    struct series *series = self;

    for (uint32_t i = 0; i < agent->facts->tenant_count; i++) {
        const struct kvr_tenant_facts *tenant = &agent->facts->tenants[i];
        const struct exposition_label labels[] = {
            {"agent", agent->name}, {"tenant", tenant->name}, {NULL, NULL}};

        exposition_count(series->out, labels, tenant->counters[series->number]);
    }
}

void agent_series_write(const struct agent_series_source *source, struct exposition *out)
{
    struct series series = {.out = out, .source = source};

    write_agents(&series);
    write_rails(&series);
    for (series.number = 0; series.number < KVR_TENANT_COUNTER_END; series.number++)
        write_facts(&series, "tenant", kvr_tenant_counter_facts((kvr_tenant_counter)series.number),
                    write_tenant_counter);
}
