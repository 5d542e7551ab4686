/* `kvrail replay`: two engines, a router, and figures at the end. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/replay/replay_figures.h"
#include "tools/replay/replay_journal.h"
#include "tools/replay/replay_router.h"
#include "tools/scheduler_get.h"
#include "tools/tool.h"

#define SCHEDULER_TIMEOUT (2 * KVR_S)

/* "KV group 1: 2 layers with a window, 33 pages of 32 tokens". */
static void introduce_groups(const struct replay_setup *setup)
{
    static const char *const kinds[MODEL_KINDS] = {"of full attention", "with a window",
                                                   "with a state"};

    for (uint32_t i = 0; i < setup->group_count; i++) {
        const struct replay_group *group = &setup->groups[i];

        fprintf(stderr, "KV group %u: %u layers %s, %u pages of %u tokens\n", i, group->layer_count,
                kinds[group->kind], group->page_count, group->page_tokens);
    }
}

static void introduce(const struct replay_setup *setup)
{
    fprintf(stderr, "%u requests of %s; %s\n", setup->trace.request_count, setup->trace.name,
            setup->geometry.scaling[0] != '\0' ? setup->geometry.scaling : setup->options.model);
    if (setup->group_count > 1)
        introduce_groups(setup);
    if (setup->corrupt != REPLAY_CORRUPT_NOTHING)
        fprintf(stderr, "a fault is planted in request %u: %s\n", setup->corrupt_request,
                setup->options.corrupt);
}

/* Nothing fails for want of an answer: a scheduler is not needed to move bytes. */
static void ask_scheduler(const struct replay_setup *setup, struct replay_figures *figures)
{
    struct kvr_error error = {0};

    if (setup->options.scheduler.address[0] == '\0')
        return;
    figures->agents = scheduler_get(&setup->options.scheduler, "/api/v1/agents", "agents", &error);
    if (figures->agents == NULL)
        fprintf(stderr, "note: %s\n", error.detail);
}

/* *ret_stream stays NULL where the option is not given. */
static bool open_pid_file(const char *path, FILE **ret_stream)
{
    if (path[0] == '\0' || (*ret_stream = fopen(path, "we")) != NULL)
        return true;
    fprintf(stderr, "kvrail replay: --pid-file is '%s', but that cannot be written: %s\n", path,
            strerror(errno));
    return false;
}

/* Both engines write to it; its descriptor stays open in all three processes. */
static bool open_journal(struct replay_setup *setup)
{
    const char *path = setup->options.journal;

    if (path[0] == '\0' || (setup->journal = replay_journal_open(path)) >= 0)
        return true;
    fprintf(stderr, "kvrail replay: --journal is '%s', but that cannot be written: %s\n", path,
            strerror(errno));
    return false;
}

/* Its options are others, so it has a table of its own. */
static bool is_virtual(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--virtual") == 0)
            return true;
    return false;
}

int tool_replay_main(int argc, char **argv)
{
    static struct replay_figures figures;
    static struct replay_setup setup;
    const char *json = setup.options.json;
    FILE *pid_stream = NULL;
    int exit_status;

    if (is_virtual(argc, argv))
        return tool_replay_virtual_main(argc, argv);
    if (!replay_setup_load(argc, argv, &setup, &exit_status)) {
        replay_setup_done(&setup);
        if (kvr_options_visitor() != NULL) /* a manual or a completion: it has both tables */
            (void)tool_replay_virtual_main(argc, argv);
        return exit_status;
    }
    if (setup.options.in_virtual_time) { /* the table of options was chosen before they were read */
        replay_setup_done(&setup);
        return kvr_options_refuse(&replay_command,
                                  "--virtual must stand on the command line, without a value");
    }
    setup.options.scheduler.timeout = SCHEDULER_TIMEOUT;
    if (setup.options.scheduler.address[0] != '\0' &&
        !scheduler_ready(&replay_command, &setup.options.scheduler)) {
        replay_setup_done(&setup);
        return KVR_EXIT_USAGE;
    }
    if (!json_output_ready(&replay_command, json) ||
        !open_pid_file(setup.options.pid_file, &pid_stream) || !open_journal(&setup)) {
        replay_setup_done(&setup);
        return KVR_EXIT_USAGE;
    }
    introduce(&setup);
    exit_status = replay_route(&setup, &figures, pid_stream);
    if (figures.started_at != 0) {
        ask_scheduler(&setup, &figures);
        if (!json_output_replaces_text(json))
            replay_figures_print(&setup, &figures, stdout);
        if (!json_output_write(replay_figures_json(&setup, &figures), json) ||
            (exit_status == 0 && !replay_figures_good(&setup, &figures)))
            exit_status = 1;
    }
    json_decref(figures.agents);
    replay_setup_done(&setup);
    return exit_status;
}
