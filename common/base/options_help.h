/* --help of a command, printed from its table. Part of options. */
#ifndef KVR_BASE_OPTIONS_HELP_H
#define KVR_BASE_OPTIONS_HELP_H

#include "base/options.h"

/* Rows that every program has, the struct that they fill, and how many they are. */
struct kvr_common_options {
    char config_file[4096];
    char log_level[16];
    char log_file[4096];
};
#define KVR_COMMON_OPTIONS 3
extern const struct kvr_option kvr_common_options[KVR_COMMON_OPTIONS];

/* The rows of a command: those of its parts, its own, and behind these the common ones. */
size_t kvr_command_rows(const struct kvr_command *command); /* how many, without the common ones */
const struct kvr_option *kvr_command_row(const struct kvr_command *command, size_t i);
/* Of the row, or of the nearest one above it in its table that names one. */
const char *kvr_command_row_section(const struct kvr_command *command, size_t i);
/* Where the struct that the row fills begins in the command's own. */
size_t kvr_command_row_offset(const struct kvr_command *command, size_t i);

/* All sources into *config and *common, nothing else. False: leave with *ret_exit. */
bool kvr_options_read(const struct kvr_command *command, int argc, char **argv, FILE *out,
                      FILE *errors, void *config, struct kvr_common_options *common, int *ret_exit);
/* Level and file of the log. False, after a sentence to errors: that file cannot be written. */
bool kvr_options_apply_common(const struct kvr_command *command,
                              const struct kvr_common_options *common, FILE *errors);

/* --help has it; of the common ones too. */
bool kvr_command_row_shown(const struct kvr_command *command, size_t i);

void kvr_options_print_help(const struct kvr_command *command, FILE *out);
/* --help=man: a page of the manual, in the macros of man(7). */
void kvr_options_print_man(const struct kvr_command *command, FILE *out);
/* The page of a program of subcommands. */
void kvr_subcommands_print_man(const char *program, const char *description,
                               const struct kvr_subcommand *subcommands, FILE *out);

/* Parts of both: what an option does, with its default; where else options come from; what SIGHUP
 * does, false where it does nothing; and which statuses there are, false behind the last. */
#define KVR_OPTION_HELP_BYTES 1024
#define KVR_OPTION_UNITS      "Sizes take k, M or G (powers of 1024); times take us, ms, s, min, h or d."
void kvr_option_help_text(const struct kvr_option *option, char ret_text[KVR_OPTION_HELP_BYTES]);
void kvr_command_sources_text(const struct kvr_command *command,
                              char ret_text[KVR_OPTION_HELP_BYTES]);
bool kvr_command_reread_text(const struct kvr_command *command,
                             char ret_text[KVR_OPTION_HELP_BYTES]);
bool kvr_command_exit_code(const struct kvr_command *command, size_t i,
                           struct kvr_exit_code *ret_code);
/* "KVRAIL_STATE_DIR" of "state-dir". */
void kvr_options_variable_name(const struct kvr_option *option, char *ret_name, size_t bytes);

#endif
