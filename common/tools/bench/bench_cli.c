#include "tools/bench/bench_cli.h"

#include <stdio.h>
#include <string.h>

#define ARGUMENTS_MAX 256
#define FORM          (JSON_INDENT(2) | JSON_REAL_PRECISION(6))

/* The option table knows only options with a value or without. */
static void complete_json(int argc, char **argv, char **ret_argv)
{
    static char to_stdout[] = "--json=-";

    for (int i = 0; i < argc; i++) {
        bool alone =
            strcmp(argv[i], "--json") == 0 && (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0);

        ret_argv[i] = alone ? to_stdout : argv[i];
    }
    ret_argv[argc] = NULL;
}

bool bench_load(const struct kvr_command *command, int argc, char **argv, void *config,
                int *ret_exit)
{
    char *arguments[ARGUMENTS_MAX + 1];

    if (argc > ARGUMENTS_MAX) {
        *ret_exit = kvr_options_refuse(command, "too many arguments");
        return false;
    }
    complete_json(argc, argv, arguments);
    return kvr_options_load(command, argc, arguments, config, ret_exit);
}

bool bench_json_write(json_t *report, const char *path)
{
    bool to_stdout = strcmp(path, "-") == 0, written = true;

    if (to_stdout)
        written = json_dumpf(report, stdout, FORM) == 0;
    else if (path[0] != '\0')
        written = json_dump_file(report, path, FORM) == 0;
    json_decref(report);
    if (to_stdout)
        putchar('\n');
    if (!written)
        fprintf(stderr, "kvrail bench: %s cannot be written\n", path);
    return written;
}
