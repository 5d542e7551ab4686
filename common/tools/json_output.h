/* --json, the same option of every command that has it: a file, or standard output in place of the
 * text. */
#ifndef KVR_TOOLS_JSON_OUTPUT_H
#define KVR_TOOLS_JSON_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/options.h"

#define JSON_OUTPUT_PATH_BYTES 4096

/* In the struct's `char json[JSON_OUTPUT_PATH_BYTES]`; all_: what is written, a plural. */
#define JSON_OUTPUT_OPTION(type_, section_, all_)                                                  \
    {                                                                                              \
        .name = "json", .section = (section_), .value = "[FILE]", .alone = "-",                    \
        KVR_OPTION_STRING(type_, json),                                                            \
        .help = "Write " all_ " to FILE as JSON; without FILE or with -, to standard output in "   \
                "place of the text."                                                               \
    }

/* Standard output gets the JSON, and so no text. */
bool json_output_replaces_text(const char *path);
/* Before work that takes long: false after a sentence on stderr, where the file cannot be written.
 */
bool json_output_ready(const struct kvr_command *command, const char *path);
/* Nowhere for "". `json` is released. False after a sentence on stderr. */
bool json_output_write(json_t *json, const char *path);

#endif
