/* Goal: a page of the manual has every shown option, takes no text for a request or an escape, and
 * names statuses; a visitor sees each command of a program, and none runs. Method: commands with
 * texts that would disturb a formatter. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/options_help.h"

struct config {
    char name[64], delay[16];
    bool drain;
    kvr_ns lease;
};

static const struct kvr_option rows[] = {
    {.name = "the-name",
     .section = "agent",
     .value = "NAME",
     KVR_OPTION_STRING(struct config, name),
     .help = "A \\name, `it's` ~ 2^3.\n.SH of its own."},
    {.name = "drain", .fallback = "yes", KVR_OPTION_BOOL(struct config, drain), .help = "Wait."},
    {.name = "delay",
     .section = "tests",
     .choices = "none|some",
     .hidden = true,
     KVR_OPTION_CHOICE(struct config, delay),
     .help = "Hidden."},
    {.name = "lease",
     .section = "agent",
     .fallback = "7d",
     .live = true,
     KVR_OPTION_DURATION(struct config, lease),
     .help = "How long."},
};

static const struct kvr_exit_code exit_codes[] = {{1, "odd"}, {75, "the other is away"}, {0, NULL}};
static const struct kvr_command command = {
    .name = "kvrail a-test",
    .description = "Does nothing\nfor long. More of it.\n\n.PP is no request:\n  indented  text",
    KVR_OPTION_ROWS(rows),
    .arguments = "[FILE]",
    .exit_codes = exit_codes,
    .footer = "Example: kvrail a-test",
    .rereads = true,
};

static int runs, commands, programs;

static int a_test_main(int argc, char **argv)
{
    struct config config = {0};
    int status;

    if (!kvr_options_load(&command, argc, argv, &config, &status))
        return status;
    runs++;
    return 0;
}

static const struct kvr_subcommand inner[] = {{"a-test", "test it", a_test_main},
                                              {NULL, NULL, NULL}};

static int inner_main(int argc, char **argv)
{
    return kvr_subcommands_run("kvrail inner", "Inner ones.", inner, argc, argv);
}

static const struct kvr_subcommand outer[] = {
    {"inner", "more", inner_main}, {"a-test", "test it", a_test_main}, {NULL, NULL, NULL}};

static void expect(const char *page, const char *part)
{
    if (strstr(page, part) == NULL)
        fail_msg("no \"%s\" in %s", part, page);
}

static void a_page_has_all_and_nothing_of_it_is_a_request(void **state)
{
    static const char *const parts[] = {
        ".TH KVRAIL-A-TEST 1 2001-09-09 \"kvrail ",
        ".SH NAME\nkvrail\\-a\\-test \\- Does nothing for long\n",
        ".SH SYNOPSIS\n\\fBkvrail a\\-test\\fR [options] \\fI[FILE]\\fR\n",
        "\n.PP\n.nf\n\\&.PP is no request:\n  indented  text\n.fi\n",
        ".SS Agent options\n.TP\n\\fB\\-\\-the\\-name\\fR \\fINAME\\fR\n",
        "A \\ename, \\(gait\\(aqs\\(ga \\(ti 2\\(ha3.\n\\&.SH of its own.\n",
        ".TP\n\\fB\\-\\-[no\\-]drain\\fR\nWait. [default: yes]\n",
        "\\fB\\-\\-lease\\fR \\fITIME\\fR\nHow long. [default: 7d]\n",
        "KVRAIL_THE_NAME",
        "SIGHUP reopens the log file and rereads \\-\\-config: \\-\\-lease",
        ".TP\n1\nodd\n",
        ".TP\n75\nthe other is away\n",
        ".SH NOTES\n.nf\nExample: kvrail a\\-test\n.fi\n",
    };
    size_t bytes;
    char *page;
    FILE *out = open_memstream(&page, &bytes);

    (void)state;
    setenv("SOURCE_DATE_EPOCH", "1000000000", 1);
    kvr_options_print_man(&command, out);
    unsetenv("SOURCE_DATE_EPOCH");
    fclose(out);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        expect(page, parts[i]);
    assert_null(strstr(page, "Hidden"));
    free(page);
}

static void a_program_of_commands_lists_their_pages(void **state)
{
    size_t bytes;
    char *page;
    FILE *out = open_memstream(&page, &bytes);

    (void)state;
    kvr_subcommands_print_man("kvrail", "Moves it. Fast.", outer, out);
    fclose(out);
    expect(page, ".TH KVRAIL 1 ");
    expect(page, "kvrail \\- Moves it\n");
    expect(page, ".BR kvrail\\-a\\-test (1)\ntest it\n");
    free(page);
}

static void see_program(void *self, const char *program, const char *description,
                        const struct kvr_subcommand *subcommands)
{
    (void)self, (void)program, (void)description, (void)subcommands;
    programs++;
}

static void see_command(void *self, const struct kvr_command *seen)
{
    assert_ptr_equal(self, &commands);
    assert_ptr_equal(seen, &command);
    commands++;
}

static void a_visitor_sees_each_command_and_none_runs(void **state)
{
    const struct kvr_options_visitor visitor = {&commands, see_program, see_command};
    char *argv[] = {(char *)"kvrail", (char *)"a-test", NULL};

    (void)state;
    kvr_options_visit(&visitor);
    assert_int_equal(kvr_subcommands_run("kvrail", "All.", outer, 0, NULL), 0);
    kvr_options_visit(NULL);
    assert_int_equal(programs, 2);
    assert_int_equal(commands, 2);
    assert_int_equal(runs, 0);
    assert_int_equal(kvr_subcommands_run("kvrail", "All.", outer, 2, argv), 0);
    assert_int_equal(runs, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_has_all_and_nothing_of_it_is_a_request),
        cmocka_unit_test(a_program_of_commands_lists_their_pages),
        cmocka_unit_test(a_visitor_sees_each_command_and_none_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
