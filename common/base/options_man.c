/* Pages of the manual, in the macros of man(7), from the same tables as --help. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/option_value.h"
#include "base/options_help.h"
#include "base/version.h"

/* The escape of a character; NULL: it is plain text. A line may break behind the bar between
 * choices. */
static const char *escape_of(char character)
{
    static const struct {
        char character;
        const char *escape;
    } escapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'`', "\\(ga"}, {'\'', "\\(aq"},
                   {'^', "\\(ha"}, {'~', "\\(ti"}, {'|', "|\\:"}};

    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++)
        if (escapes[i].character == character)
            return escapes[i].escape;
    return NULL;
}

/* No character of it is a request or an escape. */
static void print_text(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char *escape = escape_of(text[i]);

        if (text[i] == '.' && (i == 0 || text[i - 1] == '\n'))
            fputs("\\&", out); /* else a request */
        if (escape != NULL)
            fputs(escape, out);
        else
            fputc(text[i], out);
    }
}

static void print_string(FILE *out, const char *text)
{
    print_text(out, text, strlen(text));
}

/* A line, which the reader breaks. */
static void print_line(FILE *out, const char *text)
{
    print_string(out, text);
    fputc('\n', out);
}

static bool has_indented_line(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == ' ' && (i == 0 || text[i - 1] == '\n'))
            return true;
    return false;
}

/* Paragraphs, with an empty line between them. One with an indented line keeps its lines. */
static void print_paragraphs(FILE *out, const char *text)
{
    bool first = true;

    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t bytes = end != NULL ? (size_t)(end - text) : strlen(text);
        bool keeps = has_indented_line(text, bytes);

        while (bytes > 0 && text[bytes - 1] == '\n')
            bytes--;
        fputs(first ? "" : ".PP\n", out);
        fputs(keeps ? ".nf\n" : "", out);
        print_text(out, text, bytes);
        fputs(keeps ? "\n.fi\n" : "\n", out);
        first = false;
        text = end != NULL ? end + strspn(end, "\n") : "";
    }
}

/* "kvrail status" is kvrail-status(1); a program that runs as a service is in section 8. */
static const char *section_of(const char *name)
{
    return strcmp(name, "kvrail") == 0 || strncmp(name, "kvrail ", 7) == 0 ? "1" : "8";
}

static void print_name(FILE *out, const char *name)
{
    for (; *name != '\0'; name++)
        fputs(*name == ' ' || *name == '-' ? "\\-" : (char[]){*name, '\0'}, out);
}

/* SOURCE_DATE_EPOCH, so that equal sources give equal pages; else today. */
static const char *date_text(char text[16])
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    time_t at = epoch != NULL ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
    struct tm parts;

    if (gmtime_r(&at, &parts) == NULL || strftime(text, 16, "%Y-%m-%d", &parts) == 0)
        return "1970-01-01";
    return text;
}

/* summary: its first sentence counts. */
static void print_title(FILE *out, const char *name, const char *summary)
{
    char date[16], line[KVR_OPTION_HELP_BYTES];

    snprintf(line, sizeof(line), "%.*s", (int)strcspn(summary, ".:"), summary);
    for (char *c = strchr(line, '\n'); c != NULL; c = strchr(c, '\n'))
        *c = ' ';

    fprintf(out, ".TH ");
    for (const char *c = name; *c != '\0'; c++)
        fputc(*c == ' ' ? '-' : toupper((unsigned char)*c), out);
    fprintf(out, " %s %s \"kvrail %s\" kvrail\n.nh\n.ad l\n.SH NAME\n", section_of(name),
            date_text(date), KVRAIL_VERSION);
    print_name(out, name);
    fputs(" \\- ", out);
    print_line(out, line);
}

static void print_option(FILE *out, const struct kvr_option *option)
{
    char help[KVR_OPTION_HELP_BYTES];

    fprintf(out, ".TP\n\\fB\\-\\-%s", option->type == KVR_OPTION_TYPE_BOOL ? "[no\\-]" : "");
    print_string(out, option->name);
    fputs("\\fR", out);
    if (option->type != KVR_OPTION_TYPE_BOOL) {
        fputs(" \\fI", out);
        print_string(out, kvr_option_value_hint(option));
        fputs("\\fR", out);
    }
    fputc('\n', out);
    kvr_option_help_text(option, help);
    print_line(out, help);
}

/* Whether an earlier row has this section. */
static bool is_seen(const struct kvr_command *command, size_t row, const char *section)
{
    for (size_t i = 0; i < row; i++)
        if (kvr_command_row_shown(command, i) &&
            strcmp(kvr_command_row_section(command, i), section) == 0)
            return true;
    return false;
}

static void print_options(FILE *out, const struct kvr_command *command)
{
    size_t count = kvr_command_rows(command) + KVR_COMMON_OPTIONS;

    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < count; i++) {
        const char *section = kvr_command_row_section(command, i);

        if (!kvr_command_row_shown(command, i) || is_seen(command, i, section))
            continue;
        fprintf(out, ".SS %c%s options\n", toupper((unsigned char)section[0]), section + 1);
        for (size_t j = i; j < count; j++)
            if (kvr_command_row_shown(command, j) &&
                strcmp(kvr_command_row_section(command, j), section) == 0)
                print_option(out, kvr_command_row(command, j));
    }
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint a short form of this page and exit.\n"
          ".TP\n\\fB\\-\\-version\\fR\nPrint the version and exit.\n",
          out);
}

static void print_exit_codes(FILE *out, const struct kvr_command *command)
{
    struct kvr_exit_code code;

    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; kvr_command_exit_code(command, i, &code); i++) {
        fprintf(out, ".TP\n%d\n", code.code);
        print_line(out, code.meaning);
    }
}

void kvr_options_print_man(const struct kvr_command *command, FILE *out)
{
    char text[KVR_OPTION_HELP_BYTES];

    print_title(out, command->name, command->description);
    fputs(".SH SYNOPSIS\n\\fB", out);
    print_string(out, command->name);
    fputs("\\fR [options]", out);
    if (command->arguments != NULL) {
        fputs(" \\fI", out);
        print_string(out, command->arguments);
        fputs("\\fR", out);
    }
    fputs("\n.SH DESCRIPTION\n", out);
    print_paragraphs(out, command->description);
    print_options(out, command);
    fputs(".SH ENVIRONMENT\n", out);
    kvr_command_sources_text(command, text);
    print_line(out, text);
    print_line(out, KVR_OPTION_UNITS);
    if (kvr_command_reread_text(command, text)) {
        fputs(".PP\n", out);
        print_line(out, text);
    }
    print_exit_codes(out, command);
    if (command->footer != NULL) {
        fputs(".SH NOTES\n.nf\n", out);
        print_line(out, command->footer);
        fputs(".fi\n", out);
    }
    fputs(".SH SEE ALSO\n.BR kvrail (1)\n", out);
}

void kvr_subcommands_print_man(const char *program, const char *description,
                               const struct kvr_subcommand *subcommands, FILE *out)
{
    print_title(out, program, description);
    fputs(".SH SYNOPSIS\n\\fB", out);
    print_string(out, program);
    fputs("\\fR \\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n", out);
    print_paragraphs(out, description);
    fputs(".SH COMMANDS\n", out);
    for (; subcommands->name != NULL; subcommands++) {
        fputs(".TP\n.BR ", out);
        print_name(out, program);
        fputs("\\-", out);
        print_name(out, subcommands->name);
        fprintf(out, " (%s)\n", section_of(program));
        print_line(out, subcommands->summary);
    }
    fputs(".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nfailed\n.TP\n2\na command or option that is not "
          "allowed\n.PP\nThe pages of the commands list their others.\n",
          out);
}
