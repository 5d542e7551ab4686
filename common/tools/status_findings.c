#include "tools/status_findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/pairs_print.h"

/* A transfer that lives longer than this is worth a look. */
#define OLD_SECONDS       60.0
#define INSECURE_EACH_MAX 3

/* Worst first; `look`: the agent comes before the busy ones. */
#define KIND_LIST(X)                                                                               \
    X(KIND_AGENT_LOST, "agent_lost", true, true)                                                   \
    X(KIND_NAME_SHARED, "name_shared", true, true)                                                 \
    X(KIND_RAIL_DOWN, "rail_down", true, true)                                                     \
    X(KIND_RAILS_IN_TROUBLE, "rails_in_trouble", true, true)                                       \
    X(KIND_EVENTS_DROPPED, "events_dropped", true, true)                                           \
    X(KIND_SCHEDULER, "scheduler", true, false)                                                    \
    X(KIND_TRANSFER, "transfer", false, true)                                                      \
    X(KIND_RAIL_RECYCLING, "rail_recycling", false, true)                                          \
    X(KIND_AGENT_STOPPED, "agent_stopped", false, true)                                            \
    X(KIND_AGENT_DRAINED, "agent_drained", false, true)                                            \
    X(KIND_COUNTER, "counter", false, true)                                                        \
    X(KIND_INSECURE, "insecure", false, false)

enum kind {
#define X(symbol, name, fails, look) symbol,
    KIND_LIST(X)
#undef X
        KINDS
};

static const struct {
    const char *name;
    bool fails, look;
} kinds[KINDS] = {
#define X(symbol, name, fails, look) {name, fails, look},
    KIND_LIST(X)
#undef X
};

/* Findings of one kind after the other. */
struct findings {
    json_t *of[KINDS];
};

static void add(struct findings *findings, enum kind kind, json_t *agents, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* `agents` is taken. */
static void add(struct findings *findings, enum kind kind, json_t *agents, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    json_array_append_new(findings->of[kind],
                          json_pack("{s:s, s:b, s:o, s:o}", "kind", kinds[kind].name, "fails",
                                    kinds[kind].fails, "agents", agents, "text",
                                    json_vsprintf(format, arguments)));
    va_end(arguments);
}

static json_t *one(const char *agent)
{
    return json_pack("[s]", agent);
}

/* Counters that stay 0 on a healthy fleet, or have a reason worth knowing. */
static void look_at_counters(struct findings *findings, const char *name, const json_t *agent)
{
    static const char *const counters[] = {"stale_writes",       "epochs_ended",     "cq_errors",
                                           "handshake_failures", "peers_lost",       "engines_lost",
                                           "leases_expired",     "digest_mismatches"};

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        double value = json_number_of(json_object_get(agent, "counters"), counters[i]);

        if (value > 0)
            add(findings, KIND_COUNTER, one(name), "%s counts %.0f %s since it started", name,
                value, counters[i]);
    }
}

static void look_at_rails(struct findings *findings, const char *name, const json_t *agent,
                          const json_t *troubles)
{
    const json_t *rails = json_object_get(agent, "rails");
    size_t index, bytes;
    char *text;
    FILE *stream;
    json_t *rail;

    json_array_foreach(rails, index, rail)
    {
        const char *state = json_text_or(rail, "state", "-");

        if (strcmp(state, "up") != 0)
            add(findings, strcmp(state, "recycling") == 0 ? KIND_RAIL_RECYCLING : KIND_RAIL_DOWN,
                one(name), "rail %zu (%s) of %s is %s", index, json_text_or(rail, "name", "-"),
                name, state);
    }
    stream = open_memstream(&text, &bytes);
    if (stream == NULL)
        return;
    (void)pairs_print_rails(troubles, name, json_array_size(rails), stream);
    fclose(stream);
    if (bytes > 0) /* a line behind two spaces */
        add(findings, KIND_RAILS_IN_TROUBLE, one(name), "%.*s", (int)bytes - 3, text + 2);
    free(text);
}

static void look_at_agent(struct findings *findings, const json_t *agent, const json_t *troubles)
{
    const char *name = json_text_or(agent, "name", "-");
    const char *state = json_text_or(agent, "state", "-");
    const char *shared = json_text_or(agent, "name_shared_with", "");
    double dropped = json_number_of(agent, "events_dropped");

    if (strcmp(state, "up") != 0)
        add(findings, strcmp(state, "stopped") == 0 ? KIND_AGENT_STOPPED : KIND_AGENT_LOST,
            one(name), "%s is %s; it was heard %.0f s ago", name, state,
            json_number_of(agent, "silent_seconds"));
    if (json_is_true(json_object_get(agent, "drained")))
        add(findings, KIND_AGENT_DRAINED, one(name),
            "%s was drained: it takes no new requests until `kvrail resume %s`", name, name);
    if (shared[0] != '\0')
        add(findings, KIND_NAME_SHARED, one(name),
            "two agents call themselves %s, on %s and on %s: give each a --name of its own", name,
            json_text_or(agent, "host", "-"), shared);
    look_at_rails(findings, name, agent, troubles);
    if (dropped > 0)
        add(findings, KIND_EVENTS_DROPPED, one(name),
            "%s dropped %.0f events before the scheduler had them", name, dropped);
    look_at_counters(findings, name, agent);
}

/* A sentence for each of few, and one for all of many. */
static void look_for_insecure(struct findings *findings, const json_t *agents)
{
    json_t *names = json_array(), *item;
    size_t index;

    json_array_foreach(agents, index, item)
    {
        if (json_is_true(json_object_get(item, "insecure")))
            json_array_append_new(names, json_string(json_text_or(item, "name", "-")));
    }
    if (json_array_size(names) > INSECURE_EACH_MAX) {
        add(findings, KIND_INSECURE, names,
            "%zu agents run with --insecure: their peers prove no identity",
            json_array_size(names));
        return;
    }
    json_array_foreach(names, index, item)
        add(findings, KIND_INSECURE, one(json_string_value(item)),
            "%s runs with --insecure: its peers prove no identity", json_string_value(item));
    json_decref(names);
}

static json_t *agents_of(const json_t *transfer)
{
    return json_pack("[s, s]", json_text_or(json_object_get(transfer, "source"), "agent", "-"),
                     json_text_or(json_object_get(transfer, "target"), "agent", "-"));
}

static void look_at_transfer(struct findings *findings, const json_t *transfer)
{
    bool live = json_is_true(json_object_get(transfer, "live"));
    double age = json_number_of(transfer, "age_seconds");

    if (live && age > OLD_SECONDS && !status_is_held(transfer))
        add(findings, KIND_TRANSFER, agents_of(transfer), "%s has been %s for %.0f s",
            json_text_or(transfer, "request", "-"), json_text_or(transfer, "state", "-"), age);
    if (!live && !status_is(transfer, "reason", "-"))
        add(findings, KIND_TRANSFER, agents_of(transfer), "%s is %s: %s: %s",
            json_text_or(transfer, "request", "-"), json_text_or(transfer, "state", "-"),
            json_text_or(transfer, "reason_text", "-"), json_text_or(transfer, "detail", "-"));
}

static void look_at_scheduler(struct findings *findings, const json_t *summary)
{
    size_t index;
    json_t *trouble;

    json_array_foreach(json_object_get(summary, "troubles"), index, trouble)
    {
        if (json_is_string(trouble))
            add(findings, KIND_SCHEDULER, json_array(), "the scheduler is in trouble: %s",
                json_string_value(trouble));
    }
    if (json_is_true(json_object_get(summary, "insecure")))
        add(findings, KIND_INSECURE, json_array(),
            "the scheduler runs with --insecure: agents prove no identity to it");
}

json_t *status_findings(const struct status_answers *answers)
{
    json_t *all = json_array(), *item;
    struct findings findings;
    size_t index;

    for (int kind = 0; kind < KINDS; kind++)
        findings.of[kind] = json_array();
    look_at_scheduler(&findings, answers->summary);
    json_array_foreach(answers->agents, index, item)
        look_at_agent(&findings, item, answers->troubles);
    look_for_insecure(&findings, answers->agents);
    json_array_foreach(answers->transfers, index, item) look_at_transfer(&findings, item);
    for (int kind = 0; kind < KINDS; kind++) {
        json_array_extend(all, findings.of[kind]);
        json_decref(findings.of[kind]);
    }
    return all;
}

bool status_is_well(const json_t *findings)
{
    size_t index;
    json_t *finding;

    json_array_foreach(findings, index, finding)
    {
        if (json_is_true(json_object_get(finding, "fails")))
            return false;
    }
    return true;
}

/* ---- the agents ------------------------------------------------------------------------------ */

static int kind_of(const json_t *finding)
{
    int kind = 0;

    while (kind < KINDS && !status_is(finding, "kind", kinds[kind].name))
        kind++;
    return kind;
}

/* For each agent that comes before the busy ones, the kind of its worst finding. */
static json_t *needs_of(const json_t *findings)
{
    json_t *needs = json_object(), *finding, *agent;
    size_t index, agent_index;

    json_array_foreach(findings, index, finding)
    {
        int kind = kind_of(finding);

        if (kind == KINDS || !kinds[kind].look)
            continue;
        json_array_foreach(json_object_get(finding, "agents"), agent_index, agent)
        {
            if (json_object_get(needs, json_string_value(agent)) == NULL)
                json_object_set_new(needs, json_string_value(agent), json_integer(kind));
        }
    }
    return needs;
}

/* KINDS: it only works. */
static int need_of(const json_t *needs, const json_t *agent)
{
    const json_t *need = json_object_get(needs, json_text_or(agent, "name", "-"));

    return need != NULL ? (int)json_integer_value(need) : KINDS;
}

struct place {
    json_t *agent;
    int need;
    double live;
};

static int by_need(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->need != y->need)
        return x->need - y->need;
    if (x->live != y->live)
        return x->live > y->live ? -1 : 1;
    return strcmp(json_text_or(x->agent, "name", "-"), json_text_or(y->agent, "name", "-"));
}

json_t *status_by_need(const json_t *agents, const json_t *findings, size_t *ret_needy)
{
    size_t count = json_array_size(agents), index;
    struct place *places = calloc(count + 1, sizeof(*places));
    json_t *sorted = json_array(), *needs = needs_of(findings), *agent;

    *ret_needy = 0;

    json_array_foreach(agents, index, agent)
    {
        if (places != NULL)
            places[index] = (struct place){agent, need_of(needs, agent),
                                           json_number_of(agent, "transfers_live")};
        *ret_needy += need_of(needs, agent) < KINDS;
    }
    if (places != NULL)
        qsort(places, count, sizeof(*places), by_need);
    for (size_t i = 0; places != NULL && i < count; i++)
        json_array_append(sorted, places[i].agent);
    free(places);
    json_decref(needs);
    return sorted;
}
