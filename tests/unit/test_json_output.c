/* Goal: --json is a file, or standard output with "-" or without a file; text stays beside a file
 * and goes beside "-". What cannot be written is said. Method: a command with nothing but that
 * option, and its operand; standard output is a file. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "tools/json_output.h"

struct config {
    char json[JSON_OUTPUT_PATH_BYTES];
    bool loud;
    struct kvr_option_list words;
};

static const struct kvr_option rows[] = {
    JSON_OUTPUT_OPTION(struct config, "output", "the numbers"),
    {.name = "loud", KVR_OPTION_BOOL(struct config, loud), .help = "Loud."},
};

static const struct kvr_command command = {
    .name = "kvrail test",
    .description = "Does nothing.",
    KVR_OPTION_ROWS(rows),
    .arguments = "[WORD]",
    .arguments_offset = offsetof(struct config, words),
    .arguments_max = 1,
};

static struct config load(int argc, const char *const *argv)
{
    struct config config = {0};
    int status;

    assert_true(kvr_options_load(&command, argc, (char **)(uintptr_t)argv, &config, &status));
    return config;
}

#define LOAD(...)                                                                                  \
    load(sizeof((const char *[]){"test", __VA_ARGS__}) / sizeof(char *),                           \
         (const char *[]){"test", __VA_ARGS__})

static void json_output_stands_alone_or_with_a_file(void **state)
{
    struct config config;

    (void)state;
    assert_string_equal(LOAD("--json").json, "-");
    assert_string_equal(LOAD("--json", "-").json, "-");
    assert_string_equal(LOAD("--json", "a.json").json, "a.json");
    assert_string_equal(LOAD("--json=a.json").json, "a.json");
    config = LOAD("--json", "--loud");
    assert_string_equal(config.json, "-");
    assert_true(config.loud);
    config = LOAD("--json", "-", "word");
    assert_string_equal(config.json, "-");
    assert_string_equal(config.words.items[0], "word");
    assert_string_equal(LOAD("word").json, "");
    assert_true(json_output_replaces_text("-"));
    assert_false(json_output_replaces_text("") || json_output_replaces_text("a.json"));
}

static void json_output_help_comes_behind_it_too(void **state)
{
    static const char *const argv[] = {"test", "--json", "--help"};
    struct config config = {0};
    size_t bytes;
    char *text;
    FILE *out = open_memstream(&text, &bytes);
    int status = 7;

    (void)state;
    assert_false(
        kvr_options_load_to(&command, 3, (char **)(uintptr_t)argv, out, out, &config, &status));
    fclose(out);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "--json [FILE]"));
    free(text);
}

static void json_output_writes_the_file(void **state)
{
    char folder[] = "/tmp/test_json_output.XXXXXX", path[64], text[64] = "";
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a.json", folder);
    assert_true(json_output_ready(&command, path));
    assert_true(json_output_write(json_pack("{s:f}", "a", 0.1), path));
    assert_true(json_output_write(json_pack("{s:i}", "a", 2), path)); /* in place of the first */
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof(text) - 1, file), strlen("{\n  \"a\": 2\n}\n"));
    fclose(file);
    assert_string_equal(text, "{\n  \"a\": 2\n}\n");
    unlink(path);
    rmdir(folder);
    assert_true(json_output_ready(&command, "") && json_output_ready(&command, "-"));
    assert_true(json_output_write(NULL, ""));
    assert_false(json_output_ready(&command, path));
    assert_false(json_output_write(json_object(), path));
    assert_false(json_output_write(json_object(), "/dev/full"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_output_stands_alone_or_with_a_file),
        cmocka_unit_test(json_output_help_comes_behind_it_too),
        cmocka_unit_test(json_output_writes_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
