#include "tools/bench/bench_scheduler.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/bench_child.h"

#define PROGRAM "kvrail-scheduler"

bool bench_database_check(const struct kvr_command *command, const char *database, int *ret_exit)
{
    if (strstr(database, "://") == NULL)
        return true;
    *ret_exit = kvr_options_refuse(command,
                                   "--database is '%s', but this benchmark reads SQLite alone: "
                                   "give a folder",
                                   database);
    return false;
}

static bool listens(struct bench_scheduler *scheduler, const struct store_place *place)
{
    static struct bench_arguments arguments;
    char port_file[BENCH_PATH_BYTES + 32];
    unsigned port;

    snprintf(port_file, sizeof(port_file), "%s/port", scheduler->folder);
    bench_arguments_init(&arguments);
    bench_arguments_add_item(&arguments, "insecure");
    bench_arguments_add(&arguments, "listen", "127.0.0.1:0");
    bench_arguments_add(&arguments, "port-file", port_file);
    bench_arguments_add(&arguments, "state-dir", scheduler->state);
    if (place->url != NULL)
        bench_arguments_add(&arguments, "database", place->url);
    if (place->password_file != NULL)
        bench_arguments_add(&arguments, "database-password-file", place->password_file);
    scheduler->pid = bench_program_start(scheduler->folder, PROGRAM, &arguments, NULL, NULL);
    if (scheduler->pid == 0 || !bench_program_await(port_file, scheduler->pid))
        return bench_program_failed(scheduler->folder, PROGRAM);
    port = bench_program_port(port_file);
    snprintf(scheduler->url, sizeof(scheduler->url), "http://127.0.0.1:%u", port);
    return port != 0 || bench_program_failed(scheduler->folder, PROGRAM);
}

bool bench_scheduler_start(struct bench_scheduler *scheduler, const struct store_place *place)
{
    *scheduler = (struct bench_scheduler){.keeps = place->url == NULL && place->folder[0] != '\0'};
    if (!bench_folder_make(scheduler->folder))
        return false;
    if (scheduler->keeps)
        snprintf(scheduler->state, sizeof(scheduler->state), "%s", place->folder);
    else
        snprintf(scheduler->state, sizeof(scheduler->state), "%s/state", scheduler->folder);
    return listens(scheduler, place);
}

void bench_scheduler_stop(struct bench_scheduler *scheduler)
{
    bench_process_stop(&scheduler->pid);
    if (scheduler->folder[0] == '\0')
        return;
    if (!scheduler->keeps)
        bench_folder_remove(scheduler->state);
    bench_folder_remove(scheduler->folder);
}

kvr_ns bench_schedulers_cpu(const struct bench_scheduler *schedulers, uint64_t count)
{
    kvr_ns used = 0;

    for (uint64_t i = 0; i < count; i++)
        if (schedulers[i].pid != 0)
            used += bench_cpu_time(schedulers[i].pid);
    return used;
}
