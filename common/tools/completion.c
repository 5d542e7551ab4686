/* `kvrail completion`: what a shell needs to complete words of a `kvrail` command line, printed
 * from the tables of options. */
#include <stdio.h>
#include <string.h>

#include "base/option_value.h"
#include "base/options_help.h"
#include "tools/tool.h"

struct completion_options {
    struct kvr_option_list shells;
};

static const struct kvr_command command = {
    .name = "kvrail completion",
    .description =
        "Prints a script by which a shell completes commands, options and values of kvrail. The\n"
        "packages of a system put such scripts where the shell finds them; `cmake --install` does\n"
        "so too.",
    .arguments = "bash|zsh|fish",
    .arguments_offset = offsetof(struct completion_options, shells),
    .arguments_min = 1,
    .arguments_max = 1,
    .footer = "For this shell alone:\n"
              "  source <(kvrail completion bash)\n"
              "  source <(kvrail completion zsh)\n"
              "  kvrail completion fish | source",
};

/* "status" of "kvrail status"; "" of kvrail itself. */
static const char *behind_kvrail(const char *name)
{
    return strlen(name) > 7 ? name + 7 : "";
}

/* ---- what a word may be ---------------------------------------------------------------------- */

static size_t count_rows(const struct kvr_command *of)
{
    return kvr_command_rows(of) + KVR_COMMON_OPTIONS;
}

static bool is_file(const char *hint)
{
    return strstr(hint, "FILE") != NULL || strstr(hint, "DIR") != NULL ||
           strstr(hint, "SOCKET") != NULL || strstr(hint, "FOLDER") != NULL;
}

/* Words between the bars of "a|b"; others are no words but a description. */
static bool is_words(const char *hint)
{
    return strchr(hint, '|') != NULL && strpbrk(hint, " []") == NULL;
}

/* With spaces between them. */
static void print_words(const char *hint)
{
    for (; *hint != '\0'; hint++)
        putchar(*hint == '|' ? ' ' : *hint);
}

/* In single quotes. */
static void print_quoted(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\'' || text[i] == '\\')
            putchar('\\');
        putchar(text[i] == '\n' ? ' ' : text[i]);
    }
}

/* ---- bash and zsh: functions with the words, and one that uses them -------------------------- */

static void print_subcommands(void *self, const char *program, const char *description,
                              const struct kvr_subcommand *subcommands)
{
    (void)self, (void)description;
    printf("    '%s') echo '", behind_kvrail(program));
    for (; subcommands->name != NULL; subcommands++)
        printf("%s%s", subcommands->name, subcommands[1].name != NULL ? " " : "");
    puts("' ;;");
}

static void print_arguments(void *self, const struct kvr_command *of)
{
    (void)self;
    if (of->arguments == NULL || !is_words(of->arguments))
        return;
    printf("    '%s') echo '", behind_kvrail(of->name));
    print_words(of->arguments);
    puts("' ;;");
}

static void print_options(void *self, const struct kvr_command *of)
{
    (void)self;
    printf("    '%s') echo '--help --version", behind_kvrail(of->name));
    for (size_t i = 0; i < count_rows(of); i++) {
        const struct kvr_option *option = kvr_command_row(of, i);

        if (!kvr_command_row_shown(of, i))
            continue;
        printf(" --%s", option->name);
        if (option->type == KVR_OPTION_TYPE_BOOL)
            printf(" --no-%s", option->name);
    }
    puts("' ;;");
}

static void print_values(void *self, const struct kvr_command *of)
{
    (void)self;
    for (size_t i = 0; i < count_rows(of); i++) {
        const struct kvr_option *option = kvr_command_row(of, i);
        const char *hint = kvr_option_value_hint(option);

        if (!kvr_command_row_shown(of, i) || option->type == KVR_OPTION_TYPE_BOOL)
            continue;
        printf("    '%s --%s') echo '", behind_kvrail(of->name), option->name);
        if (is_words(hint))
            print_words(hint);
        else if (is_file(hint))
            printf("@files");
        puts("' ;;");
    }
}

static void no_program(void *self, const char *program, const char *description,
                       const struct kvr_subcommand *subcommands)
{
    (void)self, (void)program, (void)description, (void)subcommands;
}

static void walk(const struct kvr_options_visitor *visitor)
{
    kvr_options_visit(visitor);
    (void)kvr_subcommands_run("kvrail", tool_description, tool_subcommands, 0, NULL);
    kvr_options_visit(NULL);
}

static void print_function(const char *name, const char *key,
                           const struct kvr_options_visitor *visitor)
{
    printf("%s() {\n    case \"%s\" in\n", name, key);
    walk(visitor);
    printf("    *) return 1 ;;\n    esac\n}\n\n");
}

static void print_functions(void)
{
    print_function(
        "_kvrail_words", "$1",
        &(struct kvr_options_visitor){.program = print_subcommands, .command = print_arguments});
    print_function("_kvrail_options", "$1",
                   &(struct kvr_options_visitor){.program = no_program, .command = print_options});
    print_function("_kvrail_values", "$1 $2",
                   &(struct kvr_options_visitor){.program = no_program, .command = print_values});
    /* The command that the words before the current one name: "bench push". */
    puts("_kvrail_command() {\n"
         "    command=\n"
         "    for word in \"$@\"; do\n"
         "        case \" $(_kvrail_words \"$command\") \" in\n"
         "        *\" $word \"*) command=\"${command:+$command }$word\" ;;\n"
         "        *) break ;;\n"
         "        esac\n"
         "    done\n"
         "}\n");
}

static void print_bash(void)
{
    puts("# kvrail for bash: made by `kvrail completion bash`.\n");
    print_functions();
    puts("_kvrail() {\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command "
         "word values\n"
         "    _kvrail_command \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"\n"
         "    [ \"$current\" != = ] || { before='=' current=; }\n"
         "    [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    [ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}\n"
         "    COMPREPLY=()\n"
         "    if values=$(_kvrail_values \"$command\" \"$before\"); then\n"
         "        [ \"$values\" != @files ] || return 0 # bash completes files\n"
         "        compopt +o default 2>/dev/null\n"
         "    elif [[ $current == -* ]]; then\n"
         "        values=$(_kvrail_options \"$command\")\n"
         "    else\n"
         "        values=$(_kvrail_words \"$command\") || return 0\n"
         "    fi\n"
         "    COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _kvrail kvrail");
}

static void print_zsh(void)
{
    puts("#compdef kvrail\n# kvrail for zsh: made by `kvrail completion zsh`.\n");
    print_functions();
    puts("_kvrail() {\n"
         "    local current=${words[CURRENT]} before=${words[CURRENT-1]} command word values\n"
         "    _kvrail_command \"${(@)words[2,CURRENT-1]}\"\n"
         "    if [[ $current == --*=* ]]; then\n"
         "        before=${current%%=*}\n"
         "        compset -P '*='\n"
         "        current=\n"
         "    fi\n"
         "    if values=$(_kvrail_values \"$command\" \"$before\"); then\n"
         "        [[ $values == @files ]] && { _files; return; }\n"
         "    elif [[ $current == -* ]]; then\n"
         "        values=$(_kvrail_options \"$command\")\n"
         "    elif ! values=$(_kvrail_words \"$command\"); then\n"
         "        _files\n"
         "        return\n"
         "    fi\n"
         "    compadd -- ${=values}\n"
         "}\n"
         "if [[ ${funcstack[1]:-} == _kvrail ]]; then\n"
         "    _kvrail \"$@\"\n"
         "else\n"
         "    compdef _kvrail kvrail\n"
         "fi");
}

/* ---- fish: a line for each word -------------------------------------------------------------- */

static void fish_line(const char *at, const char *form)
{
    printf("complete -c kvrail -n '__kvrail_at \"%s\"' %s", at, form);
}

static void fish_subcommands(void *self, const char *program, const char *description,
                             const struct kvr_subcommand *subcommands)
{
    (void)self, (void)description;
    for (; subcommands->name != NULL; subcommands++) {
        fish_line(behind_kvrail(program), "-f -a ");
        printf("%s -d '", subcommands->name);
        print_quoted(subcommands->summary, strlen(subcommands->summary));
        puts("'");
    }
}

/* -x: it has a value, which is no file; -r: it has one. */
static void fish_option(const char *at, const struct kvr_option *option)
{
    const char *hint = kvr_option_value_hint(option);
    bool has_value = option->type != KVR_OPTION_TYPE_BOOL;
    bool file = has_value && is_file(hint);

    fish_line(at, "");
    printf("-l %s%s", option->name, !has_value ? "" : file ? " -r -F" : " -x");
    if (has_value && is_words(hint)) {
        printf(" -a '");
        print_words(hint);
        printf("'");
    }
    printf(" -d '");
    print_quoted(option->help, strcspn(option->help, ".:;"));
    puts("'");
    if (has_value)
        return;
    fish_line(at, "");
    printf("-l no-%s\n", option->name);
}

static void fish_command(void *self, const struct kvr_command *of)
{
    const char *at = behind_kvrail(of->name);

    (void)self;
    for (size_t i = 0; i < count_rows(of); i++)
        if (kvr_command_row_shown(of, i))
            fish_option(at, kvr_command_row(of, i));
    fish_line(at, "-s h -l help -d 'Print the help and exit'\n");
    if (of->arguments == NULL || !is_words(of->arguments))
        return;
    fish_line(at, "-f -a '");
    print_words(of->arguments);
    puts("'");
}

/* The list of all commands, so that an operand is not taken for one. */
static void fish_name(void *self, const char *program, const char *description,
                      const struct kvr_subcommand *subcommands)
{
    (void)self, (void)description;
    for (; subcommands->name != NULL; subcommands++)
        printf(" '%s%s%s'", behind_kvrail(program), behind_kvrail(program)[0] != '\0' ? " " : "",
               subcommands->name);
}

static void no_command(void *self, const struct kvr_command *of)
{
    (void)self, (void)of;
}

static void print_fish(void)
{
    printf("# kvrail for fish: made by `kvrail completion fish`.\n\nset -g __kvrail_commands");
    walk(&(struct kvr_options_visitor){.program = fish_name, .command = no_command});
    puts("\n\n"
         "# Whether the words so far name this command.\n"
         "function __kvrail_at\n"
         "    set -l command ''\n"
         "    for word in (commandline -opc)[2..-1]\n"
         "        set -l longer (string trim -- \"$command $word\")\n"
         "        contains -- $longer $__kvrail_commands; or break\n"
         "        set command $longer\n"
         "    end\n"
         "    test \"$command\" = \"$argv[1]\"\n"
         "end\n");
    walk(&(struct kvr_options_visitor){.program = fish_subcommands, .command = fish_command});
}

int tool_completion_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    struct completion_options config = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(config.shells.items[0], shells[i].name) == 0) {
            shells[i].print();
            return 0;
        }
    }
    return kvr_options_refuse(&command, "'%s' is no shell of these: %s", config.shells.items[0],
                              command.arguments);
}
