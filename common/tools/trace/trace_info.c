/* `kvrail trace info`: what a trace holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/histogram.h"
#include "tools/json_output.h"
#include "tools/trace/trace_tool.h"
#include "trace/kvtrace_times.h"

#define OPTIONS struct info_options

struct info_options {
    struct kvr_option_list files;
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail trace info",
    .description =
        "Says what a trace holds: agents, models, requests, transfers and their outcomes, bytes,\n"
        "and how long each part of a transfer took.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Exit status 1: a line is wrong, or the file was cut or changed.\n"
              "Example:\n"
              "  kvrail trace info incident.kvtrace.zst",
};

struct info {
    struct kvtrace_header header;
    uint64_t agents[2]; /* by kvr_role */
    uint64_t rails, engines, faults, marks;
    uint64_t outcomes[KVTRACE_OUTCOME_END];
    uint64_t with_pages, with_spans;
    uint64_t bytes, retries, tokens;
    int64_t first_us, last_us; /* at_us of requests and transfers; first > last: none */
    char models[KVTRACE_TEXT_BYTES];
    struct kvr_histogram times[KVTRACE_TIME_END];
    struct kvtrace_ending ending;
    uint64_t wrong;
};

static void add_moment(struct info *info, int64_t at_us)
{
    info->first_us = at_us < info->first_us ? at_us : info->first_us;
    info->last_us = at_us > info->last_us ? at_us : info->last_us;
}

static bool names_model(const char *models, const char *model)
{
    size_t bytes = strlen(model);

    while (*models != '\0' && !(strncmp(models, model, bytes) == 0 &&
                                (models[bytes] == ',' || models[bytes] == '\0'))) {
        models += strcspn(models, ",");
        models += strspn(models, ", ");
    }
    return *models != '\0';
}

/* Each once, in their order. */
static void add_model(struct info *info, const char *model)
{
    size_t used = strlen(info->models);

    if (model[0] != '\0' && !names_model(info->models, model))
        snprintf(info->models + used, sizeof(info->models) - used, "%s%s", used > 0 ? ", " : "",
                 model);
}

static void add_transfer(struct info *info, const struct kvtrace_transfer *transfer)
{
    bool pages = false, spans = false;

    info->outcomes[transfer->outcome]++;
    info->bytes += (uint64_t)transfer->bytes;
    info->retries += (uint64_t)transfer->retries;
    info->tokens += (uint64_t)(transfer->tokens - transfer->skip_tokens);
    for (int role = 0; role < 2; role++) {
        pages |= transfer->sides[role].pages_count > 0;
        spans |= transfer->sides[role].layers_us.count > 0;
    }
    info->with_pages += pages;
    info->with_spans += spans;
    add_moment(info, transfer->at_us);
    for (int time = 0; time < KVTRACE_TIME_END && transfer->outcome == KVTRACE_DONE; time++) {
        int64_t us = kvtrace_time_us(transfer, (kvtrace_time)time);

        if (us != KVTRACE_NEVER)
            kvr_histogram_record(&info->times[time], (uint64_t)us);
    }
}

static void add_record(struct info *info, const struct kvtrace_record *record)
{
    switch (record->kind) {
    case KVTRACE_AGENT:
        info->agents[record->agent.role]++;
        info->rails += record->agent.rail_count;
        break;
    case KVTRACE_GEOMETRY:
        add_model(info, record->geometry.model);
        break;
    case KVTRACE_ENGINE:
        info->engines++;
        break;
    case KVTRACE_REQUEST:
        add_moment(info, record->request.at_us);
        break;
    case KVTRACE_TRANSFER:
        add_transfer(info, &record->transfer);
        break;
    case KVTRACE_FAULT:
        info->faults++;
        break;
    case KVTRACE_MARK:
        info->marks++;
        break;
    default:
        break;
    }
}

static double seconds_of(const struct info *info)
{
    return info->last_us > info->first_us ? (double)(info->last_us - info->first_us) / 1e6 : 0;
}

static json_t *times_json(const struct info *info)
{
    json_t *object = json_object();

    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        const struct kvr_histogram *one = &info->times[time];

        json_object_set_new(object, kvtrace_time_name((kvtrace_time)time),
                            json_pack("{s:I, s:f, s:f, s:f, s:f}", "count", (json_int_t)one->count,
                                      "p50", (double)kvr_histogram_percentile(one, 50) / 1e3, "p95",
                                      (double)kvr_histogram_percentile(one, 95) / 1e3, "p99",
                                      (double)kvr_histogram_percentile(one, 99) / 1e3, "max",
                                      (double)one->max / 1e3));
    }
    return object;
}

static json_t *outcomes_json(const struct info *info)
{
    json_t *object = json_object();

    for (int i = 0; i < KVTRACE_OUTCOME_END; i++)
        json_object_set_new(object, kvtrace_outcome_name((kvtrace_outcome)i),
                            json_integer((json_int_t)info->outcomes[i]));
    return object;
}

static json_t *info_json(const struct info *info)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:b, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "made_by",
        info->header.made_by, "start", info->header.start, "virtual", info->header.virtual_time,
        "complete", info->ending.complete, "problem", info->ending.problem, "requests",
        (json_int_t)info->ending.requests, "transfers", (json_int_t)info->ending.transfers,
        "dropped", (json_int_t)info->ending.dropped, "wrong_lines", (json_int_t)info->wrong,
        "prefill_agents", (json_int_t)info->agents[KVR_ROLE_SOURCE], "decode_agents",
        (json_int_t)info->agents[KVR_ROLE_TARGET], "rails", (json_int_t)info->rails, "engines",
        (json_int_t)info->engines, "faults", (json_int_t)info->faults, "marks",
        (json_int_t)info->marks);

    json_object_set_new(object, "models", json_string(info->models));
    json_object_set_new(object, "bytes", json_integer((json_int_t)info->bytes));
    json_object_set_new(object, "tokens", json_integer((json_int_t)info->tokens));
    json_object_set_new(object, "retries", json_integer((json_int_t)info->retries));
    json_object_set_new(object, "seconds", json_real(seconds_of(info)));
    json_object_set_new(object, "with_pages", json_integer((json_int_t)info->with_pages));
    json_object_set_new(object, "with_spans", json_integer((json_int_t)info->with_spans));
    json_object_set_new(object, "outcomes", outcomes_json(info));
    json_object_set_new(object, "time_ms", times_json(info));
    return object;
}

static void print_times(const struct info *info)
{
    if (info->outcomes[KVTRACE_DONE] == 0)
        return;
    printf("\n  %-14s %9s %10s %10s %10s %10s  ms, of done transfers\n", "", "count", "p50", "p95",
           "p99", "max");
    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        const struct kvr_histogram *one = &info->times[time];

        if (one->count > 0)
            printf("  %-14s %9" PRIu64 " %10.2f %10.2f %10.2f %10.2f  %s\n",
                   kvtrace_time_name((kvtrace_time)time), one->count,
                   (double)kvr_histogram_percentile(one, 50) / 1e3,
                   (double)kvr_histogram_percentile(one, 95) / 1e3,
                   (double)kvr_histogram_percentile(one, 99) / 1e3, (double)one->max / 1e3,
                   kvtrace_time_meaning((kvtrace_time)time));
    }
}

static void print_outcomes(const struct info *info)
{
    printf("  %-14s", "outcomes");
    for (int i = 0; i < KVTRACE_OUTCOME_END; i++)
        if (info->outcomes[i] > 0)
            printf(" %" PRIu64 " %s", info->outcomes[i], kvtrace_outcome_name((kvtrace_outcome)i));
    printf("\n");
}

static void print_info(const struct info *info, const char *path)
{
    printf("%s: %s, made by %s%s\n", path,
           info->header.start[0] != '\0' ? info->header.start : "no start",
           info->header.made_by[0] != '\0' ? info->header.made_by : "an unnamed program",
           info->header.virtual_time ? ", in virtual time" : "");
    if (info->header.note[0] != '\0')
        printf("  %-14s %s\n", "note", info->header.note);
    printf("  %-14s %" PRIu64 " prefill, %" PRIu64 " decode, %" PRIu64 " rails, %" PRIu64
           " engine ranks\n",
           "agents", info->agents[KVR_ROLE_SOURCE], info->agents[KVR_ROLE_TARGET], info->rails,
           info->engines);
    if (info->models[0] != '\0')
        printf("  %-14s %s\n", "models", info->models);
    printf("  %-14s %" PRIu64 " over %.3f s\n", "requests", info->ending.requests,
           seconds_of(info));
    printf("  %-14s %" PRIu64 ", %.3f GB of %" PRIu64 " tokens, %" PRIu64 " retries; %" PRIu64
           " with spans, %" PRIu64 " with page tables\n",
           "transfers", info->ending.transfers, (double)info->bytes / 1e9, info->tokens,
           info->retries, info->with_spans, info->with_pages);
    if (info->ending.transfers > 0)
        print_outcomes(info);
    printf("  %-14s %" PRIu64 " faults, %" PRIu64 " marks, %" PRIu64 " records dropped\n", "events",
           info->faults, info->marks, info->ending.dropped);
    print_times(info);
}

int trace_info_main(int argc, char **argv)
{
    static OPTIONS config;
    static struct info info = {.first_us = INT64_MAX, .last_us = INT64_MIN};
    struct trace_walk walk;
    const struct kvtrace_record *record;
    bool good, valid;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (!trace_walk_open(&walk, command.name, config.files.items[0]))
        return 1;
    info.header = *kvtrace_header(walk.reader);
    while ((record = trace_walk_next(&walk, &good)) != NULL)
        add_record(&info, record);
    valid = trace_walk_close(&walk, &info.ending) && good;
    info.wrong = walk.wrong;
    if (info.ending.problem[0] != '\0')
        fprintf(stderr, "%s: %s: %s\n", command.name, config.files.items[0], info.ending.problem);
    if (!json_output_replaces_text(config.json))
        print_info(&info, config.files.items[0]);
    if (!json_output_write(info_json(&info), config.json))
        return 1;
    return valid ? 0 : 1;
}
