/* `kvrail status`: what the scheduler knows, on one screen. */
#include <stdio.h>

#include "tools/json_output.h"
#include "tools/scheduler_get.h"
#include "tools/status_findings.h"
#include "tools/status_print.h"
#include "tools/tool.h"

struct status_options {
    struct scheduler_call scheduler; /* first */
    uint64_t limit;
    bool all, check;
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "limit",
     .section = "status",
     .fallback = "20",
     .min = 1,
     .max = 500,
     KVR_OPTION_COUNT(struct status_options, limit),
     .help = "How many of the latest transfers to look at."},
    {.name = "all",
     KVR_OPTION_BOOL(struct status_options, all),
     .help = "Show every agent, rail, tenant, transfer and oddity, in full, and not a screen."},
    {.name = "check",
     KVR_OPTION_BOOL(struct status_options, check),
     .help = "Show only what needs a person, a sentence each, and end with 1; with 0 where all is "
             "well. That an agent runs with --insecure is a note."},
    JSON_OUTPUT_OPTION(struct status_options, "status", "these facts"),
};

static const struct kvr_exit_code exit_codes[] = {
    {1, "--check has found something odd; without it: the scheduler refuses to say"},
    {SCHEDULER_EXIT_AWAY, "the scheduler cannot be reached, or cannot answer"},
    {0, NULL},
};

static const struct kvr_command command = {
    .name = "kvrail status",
    .description =
        "Shows the agents, their rails, the latest transfers and what is held for a target that\n"
        "has not come, as the scheduler knows them, and says what is odd. The worst comes first:\n"
        "agents that are lost, that share a name, with rails down or in trouble, with failures;\n"
        "then the busiest. What does not fit on 24 lines is counted; --all shows it.\n"
        "\n"
        "--check fails for agents that are lost or share a name, rails that are down or in\n"
        "trouble, events that were dropped, and trouble of the scheduler itself.",
    .parts = scheduler_parts,
    KVR_OPTION_ROWS(options),
    .exit_codes = exit_codes,
};

/* An answer, or its array `member`. NULL after a sentence on stderr, and with an exit status. */
static json_t *fetch(const struct status_options *config, const char *path, const char *member,
                     int *exit_status)
{
    struct kvr_error error = {0};
    json_t *answer = scheduler_get(&config->scheduler, path, member, &error);

    if (answer != NULL)
        return answer;
    fprintf(stderr, "kvrail status: %s\n", error.detail);
    *exit_status = scheduler_exit(&error);
    return NULL;
}

static json_t *facts_json(const struct status_answers *answers, const json_t *findings)
{
    return json_pack("{s:O, s:O, s:O, s:O, s:O?, s:O, s:b}", "summary", answers->summary, "agents",
                     answers->agents, "transfers", answers->transfers, "opened", answers->opened,
                     "pairs_in_trouble", answers->troubles, "findings", findings, "well",
                     status_is_well(findings));
}

/* Returns the exit status. */
static int show(const struct status_options *config, const struct status_answers *answers)
{
    json_t *findings = status_findings(answers);
    bool written, well = status_is_well(findings);

    if (!json_output_replaces_text(config->json)) {
        if (config->check)
            status_print_check(findings, stdout);
        else
            status_print(answers, findings, config->all, stdout);
    }
    written = json_output_write(facts_json(answers, findings), config->json);
    json_decref(findings);
    return written && (well || !config->check) ? 0 : 1;
}

/* An older scheduler cannot say. */
static json_t *fetch_troubles(const struct status_options *config)
{
    struct kvr_error error = {0};

    return scheduler_get(&config->scheduler, "/api/v1/rails/matrix?trouble=yes", "pairs", &error);
}

/* The first one that fails is the last one that is asked for. */
static int fetch_all(const struct status_options *config, struct status_answers *answers)
{
    int exit_status = 0;
    char path[64];

    snprintf(path, sizeof(path), "/api/v1/transfers?limit=%u", (unsigned)config->limit);
    answers->summary = fetch(config, "/api/v1/summary", NULL, &exit_status);
    if (answers->summary != NULL)
        answers->agents = fetch(config, "/api/v1/agents", "agents", &exit_status);
    if (answers->agents != NULL)
        answers->transfers = fetch(config, path, "transfers", &exit_status);
    if (answers->transfers != NULL)
        answers->opened =
            fetch(config, "/api/v1/transfers?state=opened&limit=500", "transfers", &exit_status);
    if (answers->opened != NULL)
        answers->troubles = fetch_troubles(config);
    return exit_status;
}

int tool_status_main(int argc, char **argv)
{
    struct status_options config = {0};
    struct status_answers answers = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (!scheduler_ready(&command, &config.scheduler))
        return KVR_EXIT_USAGE;
    exit_status = fetch_all(&config, &answers);
    if (answers.opened != NULL)
        exit_status = show(&config, &answers);
    json_decref(answers.summary);
    json_decref(answers.agents);
    json_decref(answers.transfers);
    json_decref(answers.opened);
    json_decref(answers.troubles);
    return exit_status;
}
