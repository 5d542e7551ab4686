/* What the command lines of all benchmarks share. */
#ifndef KVR_TOOLS_BENCH_CLI_H
#define KVR_TOOLS_BENCH_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "base/options.h"

/* The row of --json, in the struct's `json`. */
#define BENCH_OPTION_JSON(type_)                                                                   \
    {                                                                                              \
        .name = "json", .section = "output", .value = "[FILE]", KVR_OPTION_STRING(type_, json),    \
        .help = "Write the figures there as JSON; without FILE or with -, to standard output in "  \
                "place of the table."                                                              \
    }

/* kvr_options_load, and --json may stand without a file: it then reads "-". False: leave with
 * *ret_exit. */
bool bench_load(const struct kvr_command *command, int argc, char **argv, void *config,
                int *ret_exit);
/* To the file, to standard output for "-", or nowhere for ""; `report` is released. False: said on
 * stderr. */
bool bench_json_write(json_t *report, const char *path);

#endif
