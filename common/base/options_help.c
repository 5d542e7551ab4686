#include "base/options_help.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/option_value.h"

#define COLUMNS     80
#define HELP_COLUMN 28

const struct kvr_option kvr_common_options[KVR_COMMON_OPTIONS] = {
    {.name = "config",
     .section = "general",
     .value = "FILE",
     .help = "Read options from this INI file.",
     KVR_OPTION_STRING(struct kvr_common_options, config_file)},
    {.name = "log-level",
     .section = "general",
     .fallback = "info",
     .choices = "error|warning|info|debug",
     .live = true,
     .help = "Write no line that is less important than this.",
     KVR_OPTION_CHOICE(struct kvr_common_options, log_level)},
    {.name = "log-file",
     .section = "general",
     .value = "FILE",
     .live = true,
     .help = "Append log lines to this file; without it they go to stderr.",
     KVR_OPTION_STRING(struct kvr_common_options, log_file)},
};

size_t kvr_command_rows(const struct kvr_command *command)
{
    size_t count = command->option_count;

    for (const struct kvr_option_part *part = command->parts; part != NULL && part->table != NULL;
         part++)
        count += part->table->count;
    return count;
}

/* The part that row *i belongs to, and in *i the row's number there; NULL: the command's own or a
 * common row, and *i is its number behind all parts. */
static const struct kvr_option_part *part_of(const struct kvr_command *command, size_t *i)
{
    for (const struct kvr_option_part *part = command->parts; part != NULL && part->table != NULL;
         part++) {
        if (*i < part->table->count)
            return part;
        *i -= part->table->count;
    }
    return NULL;
}

const struct kvr_option *kvr_command_row(const struct kvr_command *command, size_t i)
{
    const struct kvr_option_part *part = part_of(command, &i);

    if (part != NULL)
        return &part->table->rows[i];
    return i < command->option_count ? &command->options[i]
                                     : &kvr_common_options[i - command->option_count];
}

size_t kvr_command_row_offset(const struct kvr_command *command, size_t i)
{
    const struct kvr_option_part *part = part_of(command, &i);

    return part != NULL ? part->offset : 0;
}

const char *kvr_command_row_section(const struct kvr_command *command, size_t i)
{
    const struct kvr_option *row = kvr_command_row(command, i);

    (void)part_of(command, &i);
    for (; row->section == NULL; row--, i--)
        assert(i > 0); /* a table's first row names its section */
    return row->section;
}

bool kvr_command_row_shown(const struct kvr_command *command, size_t i)
{
    bool hidden = kvr_command_row(command, i)->hidden;
    const struct kvr_option_part *part = part_of(command, &i);

    return !hidden || (part != NULL && part->shows_hidden);
}

void kvr_options_variable_name(const struct kvr_option *option, char *ret_name, size_t bytes)
{
    snprintf(ret_name, bytes, "KVRAIL_%s", option->name);
    for (char *c = ret_name; *c != '\0'; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* Words of text from `column` on, continued at `indent`. */
static void print_wrapped(FILE *out, const char *text, int column, int indent)
{
    int at = column;

    while (*text != '\0') {
        int length = (int)strcspn(text, " \n");

        if (at > indent && at + 1 + length > COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", length, text);
        at += length;
        text += length;
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

static void print_row(FILE *out, const char *left, const char *help)
{
    int used = fprintf(out, "  %s", left);

    if (used > HELP_COLUMN - 2) {
        fputc('\n', out);
        used = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - used, "");
    print_wrapped(out, help, HELP_COLUMN, HELP_COLUMN);
}

void kvr_option_help_text(const struct kvr_option *option, char ret_text[KVR_OPTION_HELP_BYTES])
{
    const char *note = option->type == KVR_OPTION_TYPE_LIST
                           ? " May be repeated, or hold several separated by commas."
                           : "";

    if (option->required)
        snprintf(ret_text, KVR_OPTION_HELP_BYTES, "%s%s Required.", option->help, note);
    else if (option->fallback != NULL && option->fallback[0] != '\0')
        snprintf(ret_text, KVR_OPTION_HELP_BYTES, "%s%s [default: %s]", option->help, note,
                 option->fallback);
    else
        snprintf(ret_text, KVR_OPTION_HELP_BYTES, "%s%s", option->help, note);
}

static void print_option(FILE *out, const struct kvr_option *option)
{
    char left[256], help[KVR_OPTION_HELP_BYTES];

    if (option->type == KVR_OPTION_TYPE_BOOL)
        snprintf(left, sizeof(left), "--[no-]%s", option->name);
    else
        snprintf(left, sizeof(left), "--%s %s", option->name, kvr_option_value_hint(option));
    kvr_option_help_text(option, help);
    print_row(out, left, help);
}

static void print_heading(FILE *out, const char *section)
{
    fprintf(out, "\n%c%s options:\n", toupper((unsigned char)section[0]), section + 1);
}

/* Sections in the order of their first rows, each with all of its rows that are not hidden. */
static void print_sections(const struct kvr_command *command, FILE *out)
{
    for (size_t i = 0; i < kvr_command_rows(command); i++) {
        const char *section = kvr_command_row_section(command, i);
        bool seen = !kvr_command_row_shown(command, i);

        for (size_t j = 0; j < i; j++)
            seen = seen || (kvr_command_row_shown(command, j) &&
                            strcmp(kvr_command_row_section(command, j), section) == 0);
        if (seen)
            continue;
        print_heading(out, section);
        for (size_t j = i; j < kvr_command_rows(command); j++) {
            if (kvr_command_row_shown(command, j) &&
                strcmp(kvr_command_row_section(command, j), section) == 0)
                print_option(out, kvr_command_row(command, j));
        }
    }
}

void kvr_command_sources_text(const struct kvr_command *command,
                              char ret_text[KVR_OPTION_HELP_BYTES])
{
    size_t number = kvr_command_rows(command) > 0 ? 0 : 1;
    const struct kvr_option *example = kvr_command_row(command, number);
    char variable[128];

    kvr_options_variable_name(example, variable, sizeof(variable));
    snprintf(ret_text, KVR_OPTION_HELP_BYTES,
             "An option may also come from the environment (--%s as %s) or from the file that "
             "--config names ('%s = ...' below '[%s]'; the headings above are its sections). The "
             "command line wins over the environment, the environment over the file.",
             example->name, variable, example->name, kvr_command_row_section(command, number));
}

bool kvr_command_reread_text(const struct kvr_command *command,
                             char ret_text[KVR_OPTION_HELP_BYTES])
{
    size_t used = (size_t)snprintf(ret_text, KVR_OPTION_HELP_BYTES,
                                   "SIGHUP reopens the log file and rereads --config:");

    for (size_t i = 0; i < kvr_command_rows(command) + KVR_COMMON_OPTIONS; i++) {
        const struct kvr_option *option = kvr_command_row(command, i);

        if (option->live && used < KVR_OPTION_HELP_BYTES)
            used += (size_t)snprintf(ret_text + used, KVR_OPTION_HELP_BYTES - used, " --%s",
                                     option->name);
    }
    if (used < KVR_OPTION_HELP_BYTES)
        snprintf(ret_text + used, KVR_OPTION_HELP_BYTES - used,
                 " change at once, all others with the next start.");
    return command->rereads;
}

/* The command's own meaning of a code, else the common one. */
static const char *meaning_of(const struct kvr_command *command, int code, const char *common)
{
    const struct kvr_exit_code *own = command->exit_codes;

    while (own != NULL && own->meaning != NULL && own->code != code)
        own++;
    return own != NULL && own->meaning != NULL ? own->meaning : common;
}

bool kvr_command_exit_code(const struct kvr_command *command, size_t i,
                           struct kvr_exit_code *ret_code)
{
    static const struct kvr_exit_code common[] = {
        {0, "done, or stopped as asked"},
        {1, "failed; the reason is on stderr, or in the file of --log-file"},
        {KVR_EXIT_USAGE, "an option or argument that is not allowed"},
    };
    size_t commons = sizeof(common) / sizeof(common[0]);
    const struct kvr_exit_code *code = command->exit_codes;

    if (i < commons) {
        *ret_code = (struct kvr_exit_code){common[i].code,
                                           meaning_of(command, common[i].code, common[i].meaning)};
        return true;
    }
    for (i -= commons; code != NULL && code->meaning != NULL; code++) {
        if (code->code > KVR_EXIT_USAGE && i-- == 0) {
            *ret_code = *code;
            return true;
        }
    }
    return false;
}

static void print_exit_codes(const struct kvr_command *command, FILE *out)
{
    struct kvr_exit_code code;

    fprintf(out, "\nExit status:\n");
    for (size_t i = 0; kvr_command_exit_code(command, i, &code); i++)
        fprintf(out, "  %d  %s\n", code.code, code.meaning);
}

void kvr_options_print_help(const struct kvr_command *command, FILE *out)
{
    char text[KVR_OPTION_HELP_BYTES];

    fprintf(out, "Usage: %s [options]%s%s\n\n%s\n", command->name,
            command->arguments != NULL ? " " : "",
            command->arguments != NULL ? command->arguments : "", command->description);
    print_sections(command, out);
    print_heading(out, "general");
    for (size_t i = 0; i < KVR_COMMON_OPTIONS; i++)
        print_option(out, &kvr_common_options[i]);
    print_row(out, "-h, --help", "Print this and exit.");
    print_row(out, "--version", "Print the version and exit.");
    kvr_command_sources_text(command, text);
    fputc('\n', out);
    print_wrapped(out, text, 0, 0);
    if (kvr_command_reread_text(command, text))
        print_wrapped(out, text, 0, 0);
    fprintf(out, "%s\n", KVR_OPTION_UNITS);
    print_exit_codes(command, out);
    if (command->footer != NULL)
        fprintf(out, "\n%s\n", command->footer);
}
