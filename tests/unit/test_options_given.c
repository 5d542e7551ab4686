/* Goal: a program says what it was given beside its defaults, and nothing secret. Method: a command
 * of rows of each kind, in two tables. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/options.h"

struct birds {
    struct {
        uint64_t eggs;
        bool sings;
    } common;
    char name[64], colour[16], key_file[64], at[64];
    kvr_ns hatch;
    struct kvr_option_list nests, keepers;
};

static const struct kvr_option common_rows[] = {
    {.name = "eggs",
     .section = "common",
     .fallback = "3",
     .type = KVR_OPTION_TYPE_COUNT,
     .bytes = sizeof(uint64_t),
     .help = "How many."},
    {.name = "sings",
     .fallback = "yes",
     .type = KVR_OPTION_TYPE_BOOL,
     .offset = sizeof(uint64_t),
     .bytes = sizeof(bool),
     .help = "Whether."},
};
static const struct kvr_option_table common_table = {common_rows, 2};
static const struct kvr_option_part parts[] = {
    {.table = &common_table, .offset = offsetof(struct birds, common)}, {.table = NULL}};

static const struct kvr_option rows[] = {
    {.name = "name",
     .section = "birds",
     .reported = true,
     KVR_OPTION_STRING(struct birds, name),
     .help = "Which."},
    {.name = "colour",
     .choices = "red|blue",
     .fallback = "red",
     KVR_OPTION_CHOICE(struct birds, colour),
     .help = "Of it."},
    {.name = "key-file", KVR_OPTION_STRING(struct birds, key_file), .help = "A secret."},
    {.name = "at", .port = 9470, KVR_OPTION_ADDRESS(struct birds, at), .help = "Where."},
    {.name = "hatch",
     .fallback = "20s",
     KVR_OPTION_DURATION(struct birds, hatch),
     .help = "How long."},
    {.name = "nest",
     .reported = true,
     KVR_OPTION_LIST(struct birds, nests),
     .help = "Where they are."},
    {.name = "keeper", KVR_OPTION_LIST(struct birds, keepers), .help = "A person."},
};
static const struct kvr_command command = {
    .name = "birds", .description = "", .parts = parts, KVR_OPTION_ROWS(rows)};

#define GIVEN(text, bytes, ...)                                                                    \
    given((const char *const[]){"birds", __VA_ARGS__},                                             \
          sizeof((const char *const[]){"birds", __VA_ARGS__}) / sizeof(char *), text, bytes)

static void given(const char *const *arguments, size_t count, char *text, size_t bytes)
{
    struct birds birds;
    int status;

    memset(&birds, 0, sizeof(birds));
    assert_true(
        kvr_options_load(&command, (int)count, (char **)(uintptr_t)arguments, &birds, &status));
    kvr_options_given(&command, &birds, text, bytes);
}

static void defaults_are_left_out(void **state)
{
    char text[200];

    (void)state;
    GIVEN(text, sizeof(text), "--eggs", "3", "--hatch", "20000ms", "--colour", "red", "--sings");
    assert_string_equal(text, "");
}

static void each_kind_is_there(void **state)
{
    char text[200];

    (void)state;
    GIVEN(text, sizeof(text), "--hatch", "21s", "--name", "a robin, 100%", "--eggs", "4", "--at",
          "10.0.0.5", "--colour", "blue", "--no-sings", "--nest", "oak,elm", "--nest", "ash");
    assert_string_equal(text, "eggs=4 sings=no name=a%20robin,%20100%25 colour=blue "
                              "at=10.0.0.5:9470 hatch=21s nest=oak,elm,ash");
}

static void paths_and_people_are_left_out(void **state)
{
    char text[200];

    (void)state;
    GIVEN(text, sizeof(text), "--key-file", "/etc/birds.key", "--keeper", "anna", "--eggs", "4");
    assert_string_equal(text, "eggs=4");
}

/* Wherever the end is: whole words stay, and the text says that it was cut. */
static void what_does_not_fit_is_cut(void **state)
{
    static const char whole[] = "eggs=4 sings=no name=a%20robin nest=oak";
    char text[sizeof(whole) + 8];

    (void)state;
    for (size_t bytes = 8; bytes < sizeof(text); bytes++) {
        size_t words;

        memset(text, 'x', sizeof(text));
        GIVEN(text, bytes, "--eggs", "4", "--no-sings", "--name", "a robin", "--nest", "oak");
        assert_true(strlen(text) < bytes);
        for (size_t i = bytes; i < sizeof(text); i++)
            assert_int_equal(text[i], 'x');
        if (bytes >= sizeof(whole) + 4) {
            assert_string_equal(text, whole);
            continue;
        }
        words = strlen(text) - strlen(" ...");
        assert_string_equal(text + words, " ...");
        assert_memory_equal(text, whole, words);
        assert_true(words == 0 || whole[words] == ' ');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_left_out),
        cmocka_unit_test(each_kind_is_there),
        cmocka_unit_test(paths_and_people_are_left_out),
        cmocka_unit_test(what_does_not_fit_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
