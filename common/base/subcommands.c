#include "base/options.h"

#include <string.h>

#include "base/version.h"

static void print_list(const char *program, const char *description,
                       const struct kvr_subcommand *subcommands)
{
    printf("Usage: %s COMMAND [options]\n\n%s\n\nCommands:\n", program, description);
    for (; subcommands->name != NULL; subcommands++)
        printf("  %-14s%s\n", subcommands->name, subcommands->summary);
    printf("\n'%s COMMAND --help' explains a command.\n"
           "'%s --version' prints the version.\n\n"
           "Exit status: 0 when it did what it says, 1 when it failed, 2 for a command or\n"
           "option that is not allowed; a command's --help lists its others.\n",
           program, program);
}

static int show(const char *program, const char *description,
                const struct kvr_subcommand *subcommands)
{
    const struct kvr_options_visitor *visitor = kvr_options_visitor();

    visitor->program(visitor->self, program, description, subcommands);
    for (; subcommands->name != NULL; subcommands++) {
        char name[64], *argv[] = {name, NULL};

        snprintf(name, sizeof(name), "%s", subcommands->name);
        (void)subcommands->run(1, argv);
    }
    return 0;
}

int kvr_subcommands_run(const char *program, const char *description,
                        const struct kvr_subcommand *subcommands, int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (kvr_options_visitor() != NULL)
        return show(program, description, subcommands);
    if (name == NULL) {
        fprintf(stderr, "%s: which command? '%s --help' lists them\n", program, program);
        return KVR_EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_list(program, description, subcommands);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("%s %s\n", program, KVRAIL_VERSION);
        return 0;
    }
    for (; subcommands->name != NULL; subcommands++) {
        if (strcmp(name, subcommands->name) == 0)
            return subcommands->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "%s: there is no command '%s'; '%s --help' lists them\n", program, name,
            program);
    return KVR_EXIT_USAGE;
}
