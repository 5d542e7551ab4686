#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "base/log.h"
#include "base/option_value.h"
#include "base/options_help.h"
#include "base/removed.h"
#include "base/version.h"

#define OPTIONS_MAX 128

/* In the order of precedence: a later one wins. */
enum source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_ARGUMENTS };

struct loader {
    const struct kvr_command *command;
    void *config;
    FILE *errors;
    struct kvr_common_options common;
    uint8_t sources[OPTIONS_MAX]; /* enum source: the last to set it; the common rows come last */
    char problem[512];            /* of the file: the first sentence */
    bool line_too_long;
};

enum verdict { VERDICT_GO_ON, VERDICT_STOP, VERDICT_BAD };

static size_t row_count(const struct loader *loader)
{
    return kvr_command_rows(loader->command) + KVR_COMMON_OPTIONS;
}

static const struct kvr_option *row_at(const struct loader *loader, size_t i)
{
    return kvr_command_row(loader->command, i);
}

/* row_count() when there is none of that name. */
static size_t find_row(const struct loader *loader, const char *name, size_t length)
{
    size_t i = 0;

    while (i < row_count(loader) && (strlen(row_at(loader, i)->name) != length ||
                                     memcmp(row_at(loader, i)->name, name, length) != 0))
        i++;
    return i;
}

static void complain(const struct loader *loader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void complain(const struct loader *loader, const char *format, ...)
{
    va_list arguments;

    fprintf(loader->errors, "%s: ", loader->command->name);
    va_start(arguments, format);
    vfprintf(loader->errors, format, arguments);
    va_end(arguments);
    fputc('\n', loader->errors);
}

/* The first value of a list from a better source replaces what a lesser one gave. */
static bool set_row(struct loader *loader, size_t i, enum source source, const char *text,
                    struct kvr_error *error)
{
    const struct kvr_option *option = row_at(loader, i);
    bool own = i < kvr_command_rows(loader->command);
    void *config = own ? (char *)loader->config + kvr_command_row_offset(loader->command, i)
                       : (void *)&loader->common;

    if (option->type == KVR_OPTION_TYPE_LIST && loader->sources[i] != source)
        ((struct kvr_option_list *)(void *)((char *)config + option->offset))->count = 0;
    loader->sources[i] = (uint8_t)source;
    return kvr_option_value_set(option, text, config, error) == KVR_OK;
}

static bool load_defaults(struct loader *loader)
{
    struct kvr_error error;

    for (size_t i = 0; i < row_count(loader); i++) {
        const struct kvr_option *option = row_at(loader, i);

        if (option->fallback != NULL &&
            !set_row(loader, i, SOURCE_DEFAULT, option->fallback, &error)) {
            complain(loader, "the default of --%s is '%s', but %s", option->name, option->fallback,
                     error.detail);
            return false;
        }
    }
    return true;
}

static bool load_environment_row(struct loader *loader, size_t i)
{
    struct kvr_error error;
    char variable[128];
    const char *text;

    kvr_options_variable_name(row_at(loader, i), variable, sizeof(variable));
    text = getenv(variable);
    if (text == NULL || set_row(loader, i, SOURCE_ENVIRONMENT, text, &error))
        return true;
    complain(loader, "%s in the environment is '%s', but %s", variable, text, error.detail);
    return false;
}

static bool load_environment(struct loader *loader)
{
    for (size_t i = 0; i < row_count(loader); i++) {
        if (!load_environment_row(loader, i))
            return false;
    }
    return true;
}

/* For inih: 0 is an error. Only the first is kept. */
static int load_file_row(void *user, const char *section, const char *name, const char *value)
{
    struct loader *loader = user;
    size_t i = find_row(loader, name, strlen(name));
    bool known = i < row_count(loader) && strcmp(name, "config") != 0;
    const char *own = known ? kvr_command_row_section(loader->command, i) : NULL;
    struct kvr_error error;

    if (loader->problem[0] != '\0')
        return 0;
    if (kvr_removed_option(name) != NULL)
        snprintf(loader->problem, sizeof(loader->problem), "%s", kvr_removed_option(name));
    else if (!known)
        snprintf(loader->problem, sizeof(loader->problem), "there is no option '%.64s'", name);
    else if (section[0] != '\0' && strcmp(section, own) != 0)
        snprintf(loader->problem, sizeof(loader->problem), "'%s' belongs into [%s], not [%.64s]",
                 name, own, section);
    else if (!set_row(loader, i, SOURCE_FILE, value, &error))
        snprintf(loader->problem, sizeof(loader->problem), "%s is '%.160s', but %s", name, value,
                 error.detail);
    return loader->problem[0] == '\0';
}

struct line_reader {
    FILE *file;
    struct loader *loader;
    int os_errno; /* of a read that failed: of a folder, say */
};

/* inih cuts long lines silently; we refuse them. */
static char *read_line(char *line, int bytes, void *stream)
{
    struct line_reader *reader = stream;
    char *read = fgets(line, bytes, reader->file);

    if (read == NULL && ferror(reader->file))
        reader->os_errno = errno;
    if (read != NULL && strchr(line, '\n') == NULL && !feof(reader->file) &&
        !reader->loader->line_too_long) {
        reader->loader->line_too_long = true;
        snprintf(reader->loader->problem, sizeof(reader->loader->problem),
                 "a line has more than %d characters: continue it on an indented line", bytes - 2);
    }
    return read;
}

static bool unreadable(const struct loader *loader, const char *path, int os_errno)
{
    complain(loader, "--config is '%s', but that cannot be read: %s", path, strerror(os_errno));
    return false;
}

static bool load_file(struct loader *loader)
{
    const char *path = loader->common.config_file;
    struct line_reader reader = {.loader = loader};
    int line;

    if (path[0] == '\0')
        return true;
    reader.file = fopen(path, "re");
    if (reader.file == NULL)
        return unreadable(loader, path, errno);
    line = ini_parse_stream(read_line, &reader, load_file_row, loader);
    fclose(reader.file);
    if (reader.os_errno != 0)
        return unreadable(loader, path, reader.os_errno);
    if (line == 0 && loader->problem[0] == '\0')
        return true;
    if (loader->problem[0] == '\0')
        snprintf(loader->problem, sizeof(loader->problem), "neither [section] nor name = value");
    complain(loader, "%s line %d: %s", path, line, loader->problem);
    return false;
}

/* How many letters must be added, taken away or changed to come from a to b; short words only. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[64];
    size_t columns = strlen(b);

    if (columns >= 64)
        return 64;
    for (size_t j = 0; j <= columns; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= columns; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[columns];
}

static void complain_unknown(const struct loader *loader, const char *argument)
{
    const char *nearest = NULL;
    unsigned least = 3;
    char name[64]; /* without its value */

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument, "="), argument);
    for (size_t i = 0; i < row_count(loader); i++) {
        unsigned letters = distance(name, row_at(loader, i)->name);

        if (letters < least && !row_at(loader, i)->hidden) {
            least = letters;
            nearest = row_at(loader, i)->name;
        }
    }
    if (kvr_removed_option(name) != NULL)
        complain(loader, "%s", kvr_removed_option(name));
    else if (nearest != NULL)
        complain(loader, "there is no option --%s; did you mean --%s?", name, nearest);
    else
        complain(loader, "there is no option --%s; --help lists them all", name);
}

static bool set_argument(struct loader *loader, size_t i, const char *text)
{
    struct kvr_error error;

    if (set_row(loader, i, SOURCE_ARGUMENTS, text, &error))
        return true;
    complain(loader, "--%s is '%s', but %s", row_at(loader, i)->name, text, error.detail);
    return false;
}

/* Whether the option at `at`, which has no '=', takes the next argument as its value. */
static bool takes_next(const struct kvr_option *option, int argc, char **argv, int at)
{
    if (option->type == KVR_OPTION_TYPE_BOOL)
        return false;
    return option->alone == NULL || (at + 1 < argc && strncmp(argv[at + 1], "--", 2) != 0);
}

/* One option of the command line; *at is moved over a value that is an argument of its own. */
static bool load_option(struct loader *loader, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "=");
    size_t i = find_row(loader, name, length);

    if (i < row_count(loader) && name[length] == '=')
        return set_argument(loader, i, name + length + 1);
    if (i < row_count(loader) && !takes_next(row_at(loader, i), argc, argv, *at))
        return set_argument(
            loader, i,
            row_at(loader, i)->type == KVR_OPTION_TYPE_BOOL ? "yes" : row_at(loader, i)->alone);
    if (i < row_count(loader)) {
        if (*at + 1 >= argc) {
            complain(loader, "--%s lacks its value: --%s %s", name, name,
                     kvr_option_value_hint(row_at(loader, i)));
            return false;
        }
        return set_argument(loader, i, argv[++*at]);
    }
    if (strncmp(name, "no-", 3) == 0) {
        i = find_row(loader, name + 3, strlen(name + 3));
        if (i < row_count(loader) && row_at(loader, i)->type == KVR_OPTION_TYPE_BOOL)
            return set_argument(loader, i, "no");
    }
    complain_unknown(loader, name);
    return false;
}

static bool add_operand(struct loader *loader, const char *text)
{
    const struct kvr_command *command = loader->command;
    struct kvr_option_list *list;

    if (command->arguments == NULL) {
        complain(loader, "'%s' is no option, and no other argument is expected", text);
        return false;
    }
    list = (void *)((char *)loader->config + command->arguments_offset);
    if (list->count >= command->arguments_max || list->count >= KVR_OPTION_LIST_MAX) {
        complain(loader, "'%s' is one argument too many: %s", text, command->arguments);
        return false;
    }
    if (text[0] == '\0' || strlen(text) >= KVR_OPTION_ITEM_BYTES) {
        complain(loader, "'%s' must have 1 to %d characters: %s", text, KVR_OPTION_ITEM_BYTES - 1,
                 command->arguments);
        return false;
    }
    strcpy(list->items[list->count++], text);
    return true;
}

static bool load_arguments(struct loader *loader, int argc, char **argv)
{
    bool options_end = false;

    for (int i = 1; i < argc; i++) {
        bool fine;

        if (options_end || argv[i][0] != '-' || argv[i][1] == '\0') {
            fine = add_operand(loader, argv[i]);
        } else if (strcmp(argv[i], "--") == 0) {
            options_end = true;
            fine = true;
        } else if (argv[i][1] == '-') {
            fine = load_option(loader, argc, argv, &i);
        } else {
            complain(loader, "there is no option %s; --help lists them all", argv[i]);
            fine = false;
        }
        if (!fine)
            return false;
    }
    return true;
}

/* What must be known before all other options: --help, --version, and the file. Values are skipped
 * by looking the option up; what is unknown is said later. */
static enum verdict look_ahead(struct loader *loader, int argc, char **argv, FILE *out)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i] + 2;
        size_t row;

        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            kvr_options_print_help(loader->command, out);
            return VERDICT_STOP;
        }
        if (strcmp(argv[i], "--help=man") == 0) {
            kvr_options_print_man(loader->command, out);
            return VERDICT_STOP;
        }
        if (strcmp(argv[i], "--version") == 0) {
            fprintf(out, "%s %s\n", loader->command->name, KVRAIL_VERSION);
            return VERDICT_STOP;
        }
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        row = find_row(loader, name, strcspn(name, "="));
        if (row == row_count(loader))
            continue;
        if (row_at(loader, row) != &kvr_common_options[0])
            i += strchr(name, '=') == NULL && takes_next(row_at(loader, row), argc, argv, i);
        else if (!load_option(loader, argc, argv, &i))
            return VERDICT_BAD;
    }
    return VERDICT_GO_ON;
}

static bool check_required(const struct loader *loader)
{
    const struct kvr_command *command = loader->command;

    for (size_t i = 0; i < kvr_command_rows(command); i++) {
        const struct kvr_option *option = kvr_command_row(command, i);

        if (option->required && loader->sources[i] == SOURCE_NONE) {
            complain(loader, "--%s %s is missing: %s", option->name, kvr_option_value_hint(option),
                     option->help);
            return false;
        }
    }
    if (command->arguments != NULL) {
        const struct kvr_option_list *list =
            (const void *)((const char *)loader->config + command->arguments_offset);

        if (list->count < command->arguments_min) {
            complain(loader, "an argument is missing: %s", command->arguments);
            return false;
        }
    }
    return true;
}

/* All sources, in order. */
static enum verdict load_all(struct loader *loader, int argc, char **argv, FILE *out)
{
    enum verdict verdict;

    assert(row_count(loader) <= OPTIONS_MAX);
    if (!load_defaults(loader) || !load_environment_row(loader, kvr_command_rows(loader->command)))
        return VERDICT_BAD;
    verdict = look_ahead(loader, argc, argv, out);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    return load_file(loader) && load_environment(loader) && load_arguments(loader, argc, argv) &&
                   check_required(loader)
               ? VERDICT_GO_ON
               : VERDICT_BAD;
}

static const struct kvr_options_visitor *visitor;

void kvr_options_visit(const struct kvr_options_visitor *visits)
{
    visitor = visits;
}

const struct kvr_options_visitor *kvr_options_visitor(void)
{
    return visitor;
}

bool kvr_options_read(const struct kvr_command *command, int argc, char **argv, FILE *out,
                      FILE *errors, void *config, struct kvr_common_options *common, int *ret_exit)
{
    struct loader loader = {.command = command, .config = config, .errors = errors};
    enum verdict verdict;

    if (visitor != NULL) {
        visitor->command(visitor->self, command);
        *ret_exit = 0;
        return false;
    }
    verdict = load_all(&loader, argc, argv, out);
    *ret_exit = verdict == VERDICT_BAD ? KVR_EXIT_USAGE : 0;
    *common = loader.common;
    return verdict == VERDICT_GO_ON;
}

bool kvr_options_load_to(const struct kvr_command *command, int argc, char **argv, FILE *out,
                         FILE *errors, void *config, int *ret_exit)
{
    struct kvr_common_options common;

    if (!kvr_options_read(command, argc, argv, out, errors, config, &common, ret_exit))
        return false;
    *ret_exit = KVR_EXIT_USAGE;
    return kvr_options_apply_common(command, &common, errors);
}

bool kvr_options_load(const struct kvr_command *command, int argc, char **argv, void *config,
                      int *ret_exit)
{
    return kvr_options_load_to(command, argc, argv, stdout, stderr, config, ret_exit);
}

void kvr_option_table_defaults(const struct kvr_option_table *table, void *values)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct kvr_option *option = &table->rows[i];
        kvr_status status = KVR_OK;

        if (option->fallback != NULL)
            status = kvr_option_value_set(option, option->fallback, values, NULL);
        assert(status == KVR_OK);
        (void)status;
    }
}

int kvr_options_refuse(const struct kvr_command *command, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", command->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return KVR_EXIT_USAGE;
}
