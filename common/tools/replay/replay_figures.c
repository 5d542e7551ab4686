#include "tools/replay/replay_figures.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

void replay_reasons_add(struct replay_reasons *reasons, const char *name)
{
    uint32_t at = 0;

    while (at < reasons->count && strcmp(reasons->items[at].name, name) != 0)
        at++;
    if (at == REPLAY_REASONS_MAX)
        return; /* there are fewer statuses than that */
    if (at == reasons->count)
        reasons->items[reasons->count++].name = name;
    reasons->items[at].count++;
}

bool replay_figures_good(const struct replay_setup *setup, const struct replay_figures *figures)
{
    uint32_t as_recorded = figures->ends[REPLAY_END_CANCELLED] + figures->ends[REPLAY_END_STRUCK];
    bool verified = figures->verified + as_recorded == figures->transfers ||
                    setup->verify == REPLAY_VERIFY_NONE;
    bool counted = figures->bytes == figures->bytes_reported;
    bool looked_at =
        setup->verify != REPLAY_VERIFY_FULL || figures->bytes == figures->bytes_verified;

    return figures->ends[REPLAY_END_FAILED] == 0 && figures->not_started == 0 &&
           figures->bytes_wrong == 0 && figures->late_pages == 0 && figures->transfers > 0 &&
           verified && counted && looked_at;
}

static double seconds(const struct replay_figures *figures)
{
    return (double)(figures->ended_at - figures->started_at) / (double)KVR_S;
}

static double rate(const struct replay_figures *figures)
{
    return seconds(figures) > 0 ? (double)figures->bytes / 1e9 / seconds(figures) : 0;
}

static double per_gb(const struct replay_figures *figures, double cpu_s)
{
    return figures->bytes > 0 ? cpu_s / ((double)figures->bytes / 1e9) : 0;
}

static double writes_per_transfer(const struct replay_figures *figures)
{
    return figures->delivered > 0 ? (double)figures->writes / figures->delivered : 0;
}

/* ---- table ---------------------------------------------------------------------------------- */

static void print_times(FILE *stream, const char *what, const struct kvr_histogram *histogram)
{
    if (histogram->count == 0)
        return;
    fprintf(stream, "  %-22s %10.2f %10.2f %10.2f %10.2f ms\n", what,
            (double)kvr_histogram_percentile(histogram, 50) / 1e6,
            (double)kvr_histogram_percentile(histogram, 95) / 1e6,
            (double)kvr_histogram_percentile(histogram, 99) / 1e6, (double)histogram->max / 1e6);
}

static void print_reasons(FILE *stream, const char *what, const struct replay_reasons *reasons)
{
    if (reasons->count == 0)
        return;
    fprintf(stream, "  %-22s", what);
    for (uint32_t i = 0; i < reasons->count; i++)
        fprintf(stream, " %s %u%s", reasons->items[i].name, reasons->items[i].count,
                i + 1 < reasons->count ? "," : "\n");
}

/* "prefill-0 over 2 tcp rails, decode-0 over 2 tcp rails". */
static void print_agents(FILE *stream, const json_t *agents)
{
    size_t index, count = json_array_size(agents);
    json_t *agent;

    if (count == 0)
        return;
    fprintf(stream, "  %-22s ", "agents");
    json_array_foreach(agents, index, agent)
    {
        const char *name = json_string_value(json_object_get(agent, "name"));
        const char *provider = json_string_value(json_object_get(agent, "provider"));
        size_t rails = json_array_size(json_object_get(agent, "rails"));

        fprintf(stream, "%s over %zu %s rail%s%s", name != NULL ? name : "?", rails,
                provider != NULL ? provider : "unknown", rails == 1 ? "" : "s",
                index + 1 < count ? ", " : "\n");
    }
}

/* A line for each agent where there are several of a role. */
static void print_each(const struct replay_setup *setup, const struct replay_figures *figures,
                       FILE *stream)
{
    uint32_t count = replay_agent_count(&setup->agents);
    char label[REPLAY_AGENT_LABEL_BYTES];

    for (uint32_t i = 0; count > REPLAY_ROLES && i < count; i++) {
        const struct replay_agent_figures *agent = &figures->of_agents[i];

        fprintf(stream, "  %-22s %u transfers, %u failed, %.3f GB; p50 %.2f ms, p99 %.2f ms\n",
                replay_agent_label(&setup->agents, i, label), agent->transfers,
                agent->ends[REPLAY_END_FAILED], (double)agent->bytes / 1e9,
                (double)kvr_histogram_percentile(&agent->transfer_ns, 50) / 1e6,
                (double)kvr_histogram_percentile(&agent->transfer_ns, 99) / 1e6);
    }
}

static void print_odd(const struct replay_setup *setup, const struct replay_figures *figures,
                      FILE *stream)
{
    if (figures->ends[REPLAY_END_FAILED] > 0) {
        print_reasons(stream, "failures", &figures->failures);
        print_reasons(stream, "at the source", &figures->source_outcomes);
        print_reasons(stream, "at the target", &figures->target_outcomes);
    }
    if (figures->ends[REPLAY_END_CANCELLED] > 0)
        fprintf(stream, "  %-22s %u requests, as recorded\n", "cancelled",
                figures->ends[REPLAY_END_CANCELLED]);
    if (figures->ends[REPLAY_END_STRUCK] > 0)
        fprintf(stream, "  %-22s %u requests\n", "ended by played faults",
                figures->ends[REPLAY_END_STRUCK]);
    print_reasons(stream, "faults played", &figures->faults_played);
    print_reasons(stream, "faults not played", &figures->faults_not_played);
    if (figures->tables_otherwise > 0)
        fprintf(stream, "  %-22s %" PRIu64 " of %" PRIu64 " do not lie as recorded\n",
                "page tables", figures->tables_otherwise,
                figures->tables_otherwise + figures->tables_recorded);
    if (figures->not_started > 0)
        fprintf(stream, "  %-22s %u requests\n", "not started", figures->not_started);
    if (figures->lost_at != 0)
        fprintf(stream, "  %-22s %.0f ms after the loss\n", "all settled",
                (double)figures->settle_ns / 1e6);
    if (figures->late_pages > 0)
        fprintf(stream, "  %-22s %" PRIu64 " pages were written after their hand-back\n",
                "LATE WRITES", figures->late_pages);
    if (figures->unannounced > 0)
        fprintf(stream, "  %-22s %" PRIu64 " layers of pages were only covered by DONE\n",
                "without LAYER_IN", figures->unannounced);
    if (figures->bytes != figures->bytes_reported)
        fprintf(stream, "  %-22s agents say %" PRIu64 " bytes, pages hold %" PRIu64 "\n",
                "COUNTS DIFFER", figures->bytes_reported, figures->bytes);
    if (setup->clipped > 0)
        fprintf(stream, "  %-22s %u, cut to the pool's size\n", "clipped requests", setup->clipped);
}

void replay_figures_print(const struct replay_setup *setup, const struct replay_figures *figures,
                          FILE *stream)
{
    static const char *const looked_at[] = {"every byte", "a sample of each page", "nothing"};

    fprintf(stream, "\n  %-22s %u for %u requests; %s that moved was checked\n", "transfers",
            figures->transfers, figures->requests, looked_at[setup->verify]);
    fprintf(stream,
            "  %-22s %.3f GB in %.2f s: %.2f GB/s (%" PRIu64 " tokens of %" PRIu64
            " bytes; %" PRIu64 " tokens skipped)\n",
            "bytes", (double)figures->bytes / 1e9, seconds(figures), rate(figures),
            figures->tokens_moved, setup->geometry.token_bytes, figures->tokens_skipped);
    fprintf(stream, "  %-22s %10s %10s %10s %10s\n", "", "p50", "p95", "p99", "max");
    print_times(stream, "transfer", &figures->transfer_ns);
    print_times(stream, "after the last layer", &figures->exposed_ns);
    print_times(stream, "layer ready to in", &figures->layer_ns);
    fprintf(stream, "  %-22s %.1f a transfer, %" PRIu64 " retries\n", "writes",
            writes_per_transfer(figures), figures->retries);
    if (figures->agents_known)
        fprintf(stream, "  %-22s %.2f s/GB agents (engines, filling and checking: %.2f)\n", "CPU",
                per_gb(figures, figures->agent_cpu_s), per_gb(figures, figures->engine_cpu_s));
    else
        fprintf(stream, "  %-22s agents unknown (engines, filling and checking: %.2f s/GB)\n",
                "CPU", per_gb(figures, figures->engine_cpu_s));
    print_times(stream, "start behind the trace", &figures->late_start_ns);
    print_agents(stream, figures->agents);
    print_each(setup, figures, stream);
    print_odd(setup, figures, stream);
    fprintf(stream, "\n%u transfers, %u verified, %u failed, %" PRIu64 " bytes wrong, %.2f GB/s\n",
            figures->transfers, figures->verified, figures->ends[REPLAY_END_FAILED],
            figures->bytes_wrong, rate(figures));
    fflush(stream);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *times_json(const struct kvr_histogram *histogram)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)histogram->count,
                     "mean", kvr_histogram_mean(histogram) / 1e6, "p50",
                     (double)kvr_histogram_percentile(histogram, 50) / 1e6, "p95",
                     (double)kvr_histogram_percentile(histogram, 95) / 1e6, "p99",
                     (double)kvr_histogram_percentile(histogram, 99) / 1e6, "max",
                     (double)histogram->max / 1e6);
}

static json_t *reasons_json(const struct replay_reasons *reasons)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < reasons->count; i++)
        json_object_set_new(object, reasons->items[i].name, json_integer(reasons->items[i].count));
    return object;
}

static void add_count(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void add_ends(json_t *object, const uint32_t ends[REPLAY_ENDS])
{
    add_count(object, "completed", ends[REPLAY_END_COMPLETED]);
    add_count(object, "failed", ends[REPLAY_END_FAILED]);
    add_count(object, "cancelled", ends[REPLAY_END_CANCELLED]);
    add_count(object, "ended_by_faults", ends[REPLAY_END_STRUCK]);
}

/* By agent, the sources first. */
static json_t *each_json(const struct replay_setup *setup, const struct replay_figures *figures)
{
    json_t *each = json_array();

    for (uint32_t i = 0; i < replay_agent_count(&setup->agents); i++) {
        const struct replay_agent *agent = &setup->agents.items[i];
        const struct replay_agent_figures *of = &figures->of_agents[i];
        json_t *one = json_pack("{s:s, s:s, s:i}", "role",
                                agent->role == KVR_ROLE_SOURCE ? "source" : "target", "socket",
                                agent->socket, "transfers", (int)of->transfers);

        if (agent->name[0] != '\0')
            json_object_set_new(one, "name", json_string(agent->name));
        add_ends(one, of->ends);
        add_count(one, "bytes", of->bytes);
        json_object_set_new(one, "transfer_ms", times_json(&of->transfer_ns));
        json_array_append_new(each, one);
    }
    return each;
}

static void add_counts(json_t *object, const struct replay_setup *setup,
                       const struct replay_figures *figures)
{
    add_count(object, "requests", figures->requests);
    add_count(object, "transfers", figures->transfers);
    add_count(object, "verified", figures->verified);
    add_ends(object, figures->ends);
    add_count(object, "not_started", figures->not_started);
    add_count(object, "clipped", setup->clipped);
    add_count(object, "tokens", figures->tokens);
    add_count(object, "tokens_moved", figures->tokens_moved);
    add_count(object, "tokens_skipped", figures->tokens_skipped);
    add_count(object, "kv_bytes_per_token", setup->geometry.token_bytes);
    add_count(object, "bytes", figures->bytes);
    add_count(object, "bytes_reported", figures->bytes_reported);
    add_count(object, "bytes_verified", figures->bytes_verified);
    add_count(object, "bytes_wrong", figures->bytes_wrong);
    add_count(object, "bytes_rechecked", figures->bytes_rechecked);
    add_count(object, "pages_written_late", figures->late_pages);
    add_count(object, "layers_unannounced", figures->unannounced);
    add_count(object, "writes", figures->writes);
    add_count(object, "retries", figures->retries);
    add_count(object, "never_met", setup->recording.lone_count);
    add_count(object, "page_tables_recorded", figures->tables_recorded);
    add_count(object, "page_tables_otherwise", figures->tables_otherwise);
}

static json_t *groups_json(const struct replay_setup *setup)
{
    static const char *const kinds[MODEL_KINDS] = {"full", "window", "state"};
    json_t *groups = json_array();

    for (uint32_t i = 0; i < setup->group_count; i++) {
        const struct replay_group *group = &setup->groups[i];

        json_array_append_new(groups,
                              json_pack("{s:s, s:i, s:i, s:i, s:I}", "kind", kinds[group->kind],
                                        "layers", (int)group->layer_count, "page_tokens",
                                        (int)group->page_tokens, "pages", (int)group->page_count,
                                        "page_bytes", (json_int_t)group->page_bytes));
    }
    return groups;
}

static json_t *setup_json(const struct replay_setup *setup)
{
    const struct model_geometry *geometry = &setup->geometry;

    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:i, s:I, s:i, s:s, s:s, s:i, s:I, s:s, "
                     "s:o}",
                     "trace", setup->trace.name, "model", geometry->model->name, "layers",
                     (int)geometry->layers, "heads", (int)geometry->heads, "head_bytes",
                     (int)geometry->head_bytes, "dtype", geometry->model->dtype, "scaling",
                     geometry->scaling, "page_tokens", (int)setup->groups[0].page_tokens,
                     "pool_bytes", (json_int_t)setup->options.pool_bytes, "ranks", 1, "pages",
                     setup->options.pages, "speed", setup->options.speed, "concurrency",
                     (int)setup->concurrency, "seed", (json_int_t)setup->options.seed, "verify",
                     setup->options.verify, "groups", groups_json(setup));
}

/* The provider that an agent of this role uses; null when unknown. */
static json_t *provider_json(const struct replay_figures *figures, const char *role)
{
    size_t index;
    json_t *agent;

    json_array_foreach(figures->agents, index, agent)
    {
        const char *agent_role = json_string_value(json_object_get(agent, "role"));

        if (agent_role != NULL && strcmp(agent_role, role) == 0)
            return json_incref(json_object_get(agent, "provider"));
    }
    return json_null();
}

json_t *replay_figures_json(const struct replay_setup *setup, const struct replay_figures *figures)
{
    json_t *object = json_object();

    add_counts(object, setup, figures);
    json_object_set_new(object, "run", json_sprintf("%08x", (uint32_t)setup->run));
    json_object_set_new(object, "gb_s", json_real(rate(figures)));
    json_object_set_new(object, "seconds", json_real(seconds(figures)));
    json_object_set_new(object, "writes_per_transfer", json_real(writes_per_transfer(figures)));
    json_object_set_new(object, "transfer_ms", times_json(&figures->transfer_ns));
    json_object_set_new(object, "exposed_ms", times_json(&figures->exposed_ns));
    json_object_set_new(object, "layer_ms", times_json(&figures->layer_ns));
    json_object_set_new(object, "cpu_s_per_gb",
                        figures->agents_known ? json_real(per_gb(figures, figures->agent_cpu_s))
                                              : json_null());
    json_object_set_new(object, "engine_cpu_s_per_gb",
                        json_real(per_gb(figures, figures->engine_cpu_s)));
    json_object_set_new(object, "settle_ms",
                        figures->lost_at != 0 ? json_real((double)figures->settle_ns / 1e6)
                                              : json_null());
    json_object_set_new(object, "failures", reasons_json(&figures->failures));
    json_object_set_new(object, "source_outcomes", reasons_json(&figures->source_outcomes));
    json_object_set_new(object, "target_outcomes", reasons_json(&figures->target_outcomes));
    json_object_set_new(object, "faults_played", reasons_json(&figures->faults_played));
    json_object_set_new(object, "faults_not_played", reasons_json(&figures->faults_not_played));
    json_object_set_new(object, "start_late_ms", times_json(&figures->late_start_ns));
    json_object_set_new(object, "each_agent", each_json(setup, figures));
    json_object_set_new(object, "provider", provider_json(figures, "prefill"));
    json_object_set_new(object, "setup", setup_json(setup));
    json_object_set(object, "agents", figures->agents != NULL ? figures->agents : json_null());
    return object;
}
