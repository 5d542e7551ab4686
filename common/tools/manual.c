/* `kvrail manual`: the pages of the manual of every `kvrail` command, from the tables of options.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/options_help.h"
#include "tools/tool.h"

struct manual_options {
    struct kvr_option_list folders;
};

static const struct kvr_command command = {
    .name = "kvrail manual",
    .description =
        "Writes the pages of the manual of kvrail and its commands into a folder that\n"
        "exists. The build installs them. `prefill-agent --help=man` and the like print\n"
        "the page of one program.",
    .arguments = "FOLDER",
    .arguments_offset = offsetof(struct manual_options, folders),
    .arguments_min = 1,
    .arguments_max = 1,
};

struct manual {
    const char *folder;
    bool failed;
};

/* "kvrail replay --virtual" has the page kvrail-replay-virtual. */
static void shorten(char *name)
{
    char *to = name;

    for (const char *from = name; *from != '\0'; from++) {
        char c = *from == ' ' ? '-' : *from;

        if (c != '-' || to == name || to[-1] != '-')
            *to++ = c;
    }
    *to = '\0';
}

/* NULL after a sentence. */
static FILE *open_page(struct manual *manual, const char *name)
{
    char path[512];
    FILE *page;
    int used = snprintf(path, sizeof(path), "%s/%s.1", manual->folder, name);

    shorten(path + strlen(manual->folder));
    page = used < (int)sizeof(path) ? fopen(path, "we") : NULL;
    if (page == NULL) {
        fprintf(stderr, "kvrail manual: %s cannot be written: %s\n", path, strerror(errno));
        manual->failed = true;
    }
    return page;
}

static void close_page(struct manual *manual, FILE *page)
{
    if (fclose(page) == 0)
        return;
    fprintf(stderr, "kvrail manual: a page cannot be written: %s\n", strerror(errno));
    manual->failed = true;
}

static void write_program(void *self, const char *program, const char *description,
                          const struct kvr_subcommand *subcommands)
{
    struct manual *manual = self;
    FILE *page = open_page(manual, program);

    if (page == NULL)
        return;
    kvr_subcommands_print_man(program, description, subcommands, page);
    close_page(manual, page);
}

static void write_command(void *self, const struct kvr_command *of)
{
    struct manual *manual = self;
    FILE *page = open_page(manual, of->name);

    if (page == NULL)
        return;
    kvr_options_print_man(of, page);
    close_page(manual, page);
}

int tool_manual_main(int argc, char **argv)
{
    struct manual_options config = {0};
    struct manual manual = {.folder = config.folders.items[0]};
    const struct kvr_options_visitor visitor = {&manual, write_program, write_command};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    kvr_options_visit(&visitor);
    (void)kvr_subcommands_run("kvrail", tool_description, tool_subcommands, 0, NULL);
    kvr_options_visit(NULL);
    return manual.failed ? 1 : 0;
}
