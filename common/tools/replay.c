/* `kvrail replay`: two engines, a router, and figures at the end. */
#include <stdio.h>
#include <string.h>

#include "tools/replay_figures.h"
#include "tools/replay_router.h"
#include "tools/scheduler_get.h"
#include "tools/tool.h"

#define SCHEDULER_TIMEOUT (2 * KVR_S)

static void introduce(const struct replay_setup *setup)
{
    fprintf(stderr, "%u requests of %s%s%s\n", setup->trace.request_count, setup->trace.name,
            setup->geometry.scaling[0] != '\0' ? "; " : "", setup->geometry.scaling);
    if (setup->corrupt != REPLAY_CORRUPT_NOTHING)
        fprintf(stderr, "a fault is planted in request %u: %s\n", setup->corrupt_request,
                setup->options.corrupt);
}

/* Nothing fails for want of an answer: a scheduler is not needed to move bytes. */
static void ask_scheduler(const struct replay_setup *setup, struct replay_figures *figures)
{
    struct kvr_error error = {0};

    if (setup->options.scheduler[0] == '\0')
        return;
    figures->agents = scheduler_get(setup->options.scheduler, "/api/v1/agents", "agents",
                                    SCHEDULER_TIMEOUT, &error);
    if (figures->agents == NULL)
        fprintf(stderr, "note: %s\n", error.detail);
}

int tool_replay_main(int argc, char **argv)
{
    static struct replay_figures figures;
    static struct replay_setup setup;
    const char *json = setup.options.json;
    bool json_to_stdout;
    int exit_status;

    if (!replay_setup_load(argc, argv, &setup, &exit_status)) {
        replay_setup_done(&setup);
        return exit_status;
    }
    json_to_stdout = strcmp(json, "-") == 0;
    introduce(&setup);
    exit_status = replay_route(&setup, &figures);
    if (figures.started_at != 0) {
        ask_scheduler(&setup, &figures);
        replay_figures_print(&setup, &figures, json_to_stdout ? stderr : stdout);
        if (json[0] != '\0' && !replay_figures_write(&setup, &figures, json))
            exit_status = 1;
        if (exit_status == 0 && !replay_figures_good(&setup, &figures))
            exit_status = 1;
    }
    json_decref(figures.agents);
    replay_setup_done(&setup);
    return exit_status;
}
