#include "tools/json_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FORM (JSON_INDENT(2) | JSON_REAL_PRECISION(12))

bool json_output_replaces_text(const char *path)
{
    return strcmp(path, "-") == 0;
}

static bool is_file(const char *path)
{
    return path[0] != '\0' && !json_output_replaces_text(path);
}

bool json_output_ready(const struct kvr_command *command, const char *path)
{
    FILE *file = is_file(path) ? fopen(path, "ae") : NULL;

    if (is_file(path) && file == NULL) {
        (void)kvr_options_refuse(command, "--json is '%s', but that cannot be written: %s", path,
                                 strerror(errno));
        return false;
    }
    if (file != NULL)
        (void)fclose(file);
    return true;
}

static bool write_to(FILE *file, const json_t *json)
{
    return json != NULL && json_dumpf(json, file, FORM) == 0 && fputc('\n', file) != EOF;
}

bool json_output_write(json_t *json, const char *path)
{
    FILE *file = is_file(path) ? fopen(path, "we") : stdout;
    bool written = path[0] == '\0' || (file != NULL && write_to(file, json));

    if (file != NULL && file != stdout)
        written = fclose(file) == 0 && written;
    if (!written)
        fprintf(stderr, "kvrail: --json is '%s', but that cannot be written: %s\n", path,
                strerror(errno));
    json_decref(json);
    return written;
}
