/* `kvrail why`: one transfer's life, and in a sentence why it is not done or how it ended. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/types.h"
#include "tools/json_output.h"
#include "tools/pairs_print.h"
#include "tools/scheduler_get.h"
#include "tools/tool.h"
#include "tools/why_print.h"

#define PAIRS_SHOWN_MAX 16

struct why_options {
    struct scheduler_call scheduler; /* first */
    uint64_t limit;
    char json[JSON_OUTPUT_PATH_BYTES];
    struct kvr_option_list transfers;
};

static const struct kvr_option options[] = {
    {.name = "limit",
     .section = "why",
     .fallback = "100",
     .min = 1,
     .max = 500,
     KVR_OPTION_COUNT(struct why_options, limit),
     .help = "How many transfers of a request to look at."},
    JSON_OUTPUT_OPTION(struct why_options, "why", "the scheduler's record and the events"),
};

static const struct kvr_exit_code exit_codes[] = {
    {WHY_EXIT_DONE, "the transfer is done"},
    {WHY_EXIT_FAILED, "it failed, expired, was cancelled or is lost"},
    {WHY_EXIT_LIVE, "it is not done yet"},
    {WHY_EXIT_UNKNOWN, "not known: no such transfer, or the scheduler refuses to say"},
    {SCHEDULER_EXIT_AWAY, "the scheduler cannot be reached, or cannot answer"},
    {0, NULL},
};

static const struct kvr_command command = {
    .name = "kvrail why",
    .description =
        "Explains why a transfer is not done, or how it ended: its stages with their times,\n"
        "the waits of each side, what both sides reported, and what to do. TRANSFER is 16\n"
        "hexadecimal digits, or the beginning of a request's id. Of the newest request with\n"
        "that beginning it explains a failed transfer, else one that ended otherwise, else one\n"
        "that is not done, else the newest; it lists the others. Of a transfer that is not done,\n"
        "or failed, it lists the pairs of rails between its agents that carry no writes, or few.\n"
        "The exit status is the outcome of the transfer that it explains.",
    .parts = scheduler_parts,
    KVR_OPTION_ROWS(options),
    .arguments = "TRANSFER",
    .arguments_offset = offsetof(struct why_options, transfers),
    .arguments_min = 1,
    .arguments_max = 1,
    .exit_codes = exit_codes,
    .footer = "Example, until a request is done or has failed:\n"
              "  while kvrail why REQUEST; [ $? -ge 3 ]; do sleep 1; done",
};

static json_t *get_one(const struct why_options *config, const char *id, struct kvr_error *error)
{
    char path[128];

    snprintf(path, sizeof(path), "/api/v1/transfers/%.16s", id);
    return scheduler_get(&config->scheduler, path, NULL, error);
}

static json_t *get_request(const struct why_options *config, const char *request,
                           struct kvr_error *error)
{
    char escaped[3 * KVR_REQUEST_BYTES + 4], path[sizeof(escaped) + 64];

    scheduler_escape(request, escaped, sizeof(escaped));
    snprintf(path, sizeof(path), "/api/v1/transfers?limit=%u&request=%s", (unsigned)config->limit,
             escaped);
    return scheduler_get(&config->scheduler, path, "transfers", error);
}

static bool is_id(const char *text)
{
    return strlen(text) == 16 && strspn(text, "0123456789abcdefABCDEF") == 16;
}

/* How well a transfer answers "why": failures first, then transfers that a time or an engine ended
 * or that no target asked for, then live ones, then those that are done. */
static int interest(const json_t *transfer)
{
    const char *state = json_string_value(json_object_get(transfer, "state"));
    const json_t *target = json_object_get(transfer, "target");

    if (json_is_true(json_object_get(transfer, "live")))
        return 1;
    if (state == NULL || strcmp(state, "done") == 0)
        return 0;
    return strcmp(state, "failed") == 0 && json_is_string(json_object_get(target, "agent")) ? 3 : 2;
}

/* Of the newest one's request; between equals the newest. */
static const json_t *most_interesting(const json_t *transfers)
{
    const json_t *best = json_array_get(transfers, 0);
    const char *request = json_string_value(json_object_get(best, "request"));
    size_t index;
    json_t *transfer;

    json_array_foreach(transfers, index, transfer)
    {
        const char *other = json_string_value(json_object_get(transfer, "request"));

        if (request != NULL && other != NULL && strcmp(request, other) == 0 &&
            interest(transfer) > interest(best))
            best = transfer;
    }
    return best;
}

/* The transfer that is meant, and the others of that request. NULL without a problem in *error:
 * there is none. */
static json_t *find(const struct why_options *config, const char *text, json_t **ret_others,
                    struct kvr_error *error)
{
    json_t *transfer = NULL;
    const char *id;

    if (is_id(text)) {
        transfer = get_one(config, text, error);
        if (transfer != NULL || error->status != KVR_NOT_FOUND)
            return transfer;
    }
    *error = (struct kvr_error){0};
    *ret_others = get_request(config, text, error);
    id = json_string_value(json_object_get(most_interesting(*ret_others), "id"));
    return id != NULL ? get_one(config, id, error) : NULL;
}

/* Pairs of rails between its agents. NULL: one of them, or the scheduler, does not know any. */
static json_t *pairs_between(const struct why_options *config, const json_t *transfer)
{
    const char *source =
        json_string_value(json_object_get(json_object_get(transfer, "source"), "agent"));
    const char *target =
        json_string_value(json_object_get(json_object_get(transfer, "target"), "agent"));
    struct kvr_error error = {0};
    char path[PAIRS_PATH_BYTES];

    if (source == NULL || target == NULL)
        return NULL;
    pairs_path(source, target, path);
    return scheduler_get(&config->scheduler, path, "pairs", &error);
}

/* NULL: an older scheduler, or one that does not answer now. */
static json_t *timeline_of(const struct why_options *config, const char *id)
{
    struct kvr_error error = {0};
    char path[128];

    snprintf(path, sizeof(path), "/api/v1/transfers/%.16s/timeline", id);
    return scheduler_get(&config->scheduler, path, NULL, &error);
}

static void show(const struct why_options *config, const json_t *transfer, const json_t *others)
{
    const char *id = json_string_value(json_object_get(transfer, "id"));
    const char *state = json_string_value(json_object_get(transfer, "state"));
    double now = (double)time(NULL);
    json_t *pairs = pairs_between(config, transfer);
    json_t *timeline = id != NULL ? timeline_of(config, id) : NULL;

    why_print(transfer, pairs, now, stdout);
    why_print_layers(timeline, stdout);
    if (pairs_count_troubled(pairs) > 0 && state != NULL &&
        (strcmp(state, "done") != 0 || why_network(transfer, pairs, now, NULL))) {
        printf("\nPairs of rails that do not carry writes as they should, now:\n");
        pairs_print_troubled(pairs, false, PAIRS_SHOWN_MAX, stdout);
    }
    why_print_others(others, id != NULL ? id : "", stdout);
    json_decref(pairs);
    json_decref(timeline);
}

int tool_why_main(int argc, char **argv)
{
    struct why_options config = {0};
    struct kvr_error error = {0};
    json_t *transfer, *others = NULL;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (!scheduler_ready(&command, &config.scheduler))
        return KVR_EXIT_USAGE;
    transfer = find(&config, config.transfers.items[0], &others, &error);
    if (transfer != NULL) {
        exit_status = why_exit(transfer);
        if (!json_output_replaces_text(config.json))
            show(&config, transfer, others);
        if (!json_output_write(json_incref(transfer), config.json))
            exit_status = 1;
    } else if (error.status == KVR_OK || error.status == KVR_NOT_FOUND) {
        fprintf(stderr,
                "kvrail why: the scheduler at %s knows no transfer '%s' and no request that begins "
                "so: it has not been reported yet, or it is past --retention\n",
                config.scheduler.url, config.transfers.items[0]);
        exit_status = WHY_EXIT_UNKNOWN;
    } else {
        fprintf(stderr, "kvrail why: %s\n", error.detail);
        exit_status = error.status == KVR_REFUSED ? WHY_EXIT_UNKNOWN : SCHEDULER_EXIT_AWAY;
    }
    json_decref(transfer);
    json_decref(others);
    return exit_status;
}
