/* What an operator asks of agents: `kvrail abandon` and `kvrail renew` of a request that no target
 * has come for, `kvrail cancel` of a transfer, `kvrail drain` and `kvrail resume` of an agent. */
#include <stdio.h>

#include "base/limits.h"
#include "tools/scheduler_get.h"
#include "tools/tool.h"

#define ANY_ATTEMPT UINT64_MAX

struct order_options {
    struct scheduler_call scheduler; /* first */
    kvr_ns lease;
    uint64_t attempt;
    struct kvr_option_list objects;
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

/* What the commands have in common. */
#define ORDER                                                                                      \
    .parts = scheduler_parts, .arguments_offset = offsetof(struct order_options, objects),         \
    .arguments_min = 1, .arguments_max = 1, .exit_codes = exit_codes

static const struct kvr_command abandon_command = {
    .name = "kvrail abandon",
    .description =
        "Gives up a published request that no target has fetched or will fetch. Its source\n"
        "gets the pages back as cancelled within about a second, long before the lease ends.\n"
        "A request with a target is left alone.",
    KVR_OPTION_ROWS(abandon_options),
    .arguments = "REQUEST",
    ORDER,
};

static const struct kvr_command renew_command = {
    .name = "kvrail renew",
    .description =
        "Holds a published request for --lease from now on, for a target that comes later than\n"
        "its lease would end. A request with a target has no lease.",
    KVR_OPTION_ROWS(renew_options),
    .arguments = "REQUEST",
    ORDER,
};

static const struct kvr_command cancel_command = {
    .name = "kvrail cancel",
    .description =
        "Ends the fetch that a transfer belongs to, with all of its transfers, as if its engine\n"
        "had cancelled it. TRANSFER has 16 hexadecimal digits, as kvrail why prints them. Of a\n"
        "fetch that waits for its source, all of that request and attempt at that agent end. A\n"
        "request that no target has fetched is abandoned instead: see kvrail abandon.",
    .arguments = "TRANSFER",
    ORDER,
};

static const struct kvr_command drain_command = {
    .name = "kvrail drain",
    .description =
        "Asks an agent to take no new requests from its engines: before maintenance, or to take\n"
        "a host out of use. Requests that it has go on to their ends. It stays drained until\n"
        "kvrail resume, or until it is started again.",
    .arguments = "AGENT",
    ORDER,
};

static const struct kvr_command resume_command = {
    .name = "kvrail resume",
    .description = "Asks an agent that was drained to take new requests again.",
    .arguments = "AGENT",
    ORDER,
};

/* Behind /api/v1/. */
static const char *family_of(const struct kvr_command *command)
{
    if (command == &cancel_command)
        return "transfers";
    return command == &drain_command || command == &resume_command ? "agents" : "requests";
}

static void say_done(const char *verb, const char *object, const json_t *answer)
{
    const json_t *publishes = json_object_get(answer, "publishes");

    if (publishes != NULL)
        printf("%lld source(s) will %s %s within about a second\n",
               (long long)json_integer_value(publishes), verb, object);
    else
        printf("its agent will %s %s within about a second\n", verb, object);
}

static int give(const struct kvr_command *command, const struct order_options *config,
                const char *verb)
{
    char object[3 * KVR_REQUEST_BYTES + 4], path[sizeof(object) + 96];
    struct kvr_error error = {0};
    json_t *answer;
    size_t used;

    scheduler_escape(config->objects.items[0], object, sizeof(object));
    used =
        (size_t)snprintf(path, sizeof(path), "/api/v1/%s/%s/%s?", family_of(command), object, verb);
    if (config->attempt != ANY_ATTEMPT)
        used += (size_t)snprintf(path + used, sizeof(path) - used, "attempt=%llu&",
                                 (unsigned long long)config->attempt);
    if (config->lease != 0)
        used += (size_t)snprintf(path + used, sizeof(path) - used, "lease_ms=%llu&",
                                 (unsigned long long)(config->lease / KVR_MS));
    path[used - 1] = '\0';
    answer = scheduler_post(&config->scheduler, path, &error);
    if (answer == NULL) {
        fprintf(stderr, "kvrail %s: %s: %s\n", verb, config->objects.items[0], error.detail);
        return scheduler_exit(&error);
    }
    say_done(verb, config->objects.items[0], answer);
    json_decref(answer);
    return 0;
}

static int order(const struct kvr_command *command, int argc, char **argv)
{
    struct order_options config = {.attempt = ANY_ATTEMPT};
    int exit_status;

    if (!kvr_options_load(command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!scheduler_ready(command, &config.scheduler))
        return KVR_EXIT_USAGE;
    return give(command, &config, command->name + sizeof("kvrail ") - 1);
}

int tool_abandon_main(int argc, char **argv)
{
    return order(&abandon_command, argc, argv);
}

int tool_renew_main(int argc, char **argv)
{
    return order(&renew_command, argc, argv);
}

int tool_cancel_main(int argc, char **argv)
{
    return order(&cancel_command, argc, argv);
}

int tool_drain_main(int argc, char **argv)
{
    return order(&drain_command, argc, argv);
}

int tool_resume_main(int argc, char **argv)
{
    return order(&resume_command, argc, argv);
}
