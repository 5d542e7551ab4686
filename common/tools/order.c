/* `kvrail abandon` and `kvrail renew`: what an operator asks of a request that no target has come
 * for. */
#include <stdio.h>

#include "base/limits.h"
#include "tools/scheduler_get.h"
#include "tools/tool.h"

#define ANY_ATTEMPT UINT64_MAX

struct order_options {
    struct scheduler_call scheduler; /* first */
    kvr_ns lease;
    uint64_t attempt;
    struct kvr_option_list requests;
};

#define ATTEMPT                                                                                    \
    {                                                                                              \
        .name = "attempt", .section = "request", .max = UINT32_MAX,                                \
        KVR_OPTION_COUNT(struct order_options, attempt),                                           \
        .help = "Only this attempt of the request; without it every one that is held."             \
    }

static const struct kvr_option abandon_options[] = {ATTEMPT};
static const struct kvr_option renew_options[] = {
    ATTEMPT,
    {.name = "lease",
     .fallback = "30s",
     .min = KVR_MS,
     .max = 3600 * KVR_S,
     KVR_OPTION_DURATION(struct order_options, lease),
     .help = "How long it is held from now on."},
};

static const struct kvr_exit_code exit_codes[] = {
    {SCHEDULER_EXIT_AWAY, "the scheduler cannot be reached, or cannot write"},
    {0, NULL},
};

/* What the two commands have in common. */
#define ORDER                                                                                      \
    .parts = scheduler_parts, .arguments = "REQUEST",                                              \
    .arguments_offset = offsetof(struct order_options, requests), .arguments_min = 1,              \
    .arguments_max = 1, .exit_codes = exit_codes

static const struct kvr_command abandon_command = {
    .name = "kvrail abandon",
    .description =
        "Gives up a published request that no target has fetched or will fetch. Its source\n"
        "gets the pages back as cancelled within about a second, long before the lease ends.\n"
        "A request with a target is left alone.",
    KVR_OPTION_ROWS(abandon_options),
    ORDER,
};

static const struct kvr_command renew_command = {
    .name = "kvrail renew",
    .description =
        "Holds a published request for --lease from now on, for a target that comes later than\n"
        "its lease would end. A request with a target has no lease.",
    KVR_OPTION_ROWS(renew_options),
    ORDER,
};

static int give(const struct order_options *config, const char *verb)
{
    char request[3 * KVR_REQUEST_BYTES + 4], path[sizeof(request) + 96];
    struct kvr_error error = {0};
    json_t *answer;
    size_t used;

    scheduler_escape(config->requests.items[0], request, sizeof(request));
    used = (size_t)snprintf(path, sizeof(path), "/api/v1/requests/%s/%s?", request, verb);
    if (config->attempt != ANY_ATTEMPT)
        used += (size_t)snprintf(path + used, sizeof(path) - used, "attempt=%llu&",
                                 (unsigned long long)config->attempt);
    if (config->lease != 0)
        used += (size_t)snprintf(path + used, sizeof(path) - used, "lease_ms=%llu&",
                                 (unsigned long long)(config->lease / KVR_MS));
    path[used - 1] = '\0';
    answer = scheduler_post(&config->scheduler, path, &error);
    if (answer == NULL) {
        fprintf(stderr, "kvrail %s: %s: %s\n", verb, config->requests.items[0], error.detail);
        return scheduler_exit(&error);
    }
    printf("%lld source(s) will %s %s within about a second\n",
           (long long)json_integer_value(json_object_get(answer, "publishes")), verb,
           config->requests.items[0]);
    json_decref(answer);
    return 0;
}

static int order(const struct kvr_command *command, const char *verb, int argc, char **argv)
{
    struct order_options config = {.attempt = ANY_ATTEMPT};
    int exit_status;

    if (!kvr_options_load(command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!scheduler_ready(command, &config.scheduler))
        return KVR_EXIT_USAGE;
    return give(&config, verb);
}

int tool_abandon_main(int argc, char **argv)
{
    return order(&abandon_command, "abandon", argc, argv);
}

int tool_renew_main(int argc, char **argv)
{
    return order(&renew_command, "renew", argc, argv);
}
