/* Goal: the writer's text is JSON, with each value as it was given. Method: small texts, letter by
 * letter. */
#include "tests/support/check.h"

#include <jansson.h>

#include "scheduler/json_writer.h"

static void expect(struct json_writer *writer, const char *wanted)
{
    char *text = json_writer_take(writer);

    assert_string_equal(text, wanted);
    free(text);
}

static void commas_stand_between_values(void **state)
{
    struct json_writer writer = {0};

    (void)state;
    json_writer_object(&writer, NULL);
    json_writer_array(&writer, "none");
    json_writer_end_array(&writer);
    json_writer_array(&writer, "two");
    json_writer_count(&writer, NULL, 1);
    json_writer_string(&writer, NULL, "[");
    json_writer_end_array(&writer);
    json_writer_object(&writer, "empty");
    json_writer_end_object(&writer);
    json_writer_string(&writer, "bracket", "{");
    json_writer_boolean(&writer, "yes", true);
    json_writer_boolean(&writer, "no", false);
    json_writer_null(&writer, "unknown");
    json_writer_end_object(&writer);
    expect(&writer, "{\"none\":[],\"two\":[1,\"[\"],\"empty\":{},\"bracket\":\"{\",\"yes\":true,"
                    "\"no\":false,\"unknown\":null}");
    json_writer_null(&writer, NULL); /* it is empty again */
    expect(&writer, "null");
}

static void numbers_are_exact(void **state)
{
    struct json_writer writer = {0};

    (void)state;
    json_writer_array(&writer, NULL);
    json_writer_count(&writer, NULL, 0);
    json_writer_count(&writer, NULL, 1000000007);
    json_writer_count(&writer, NULL, INT64_MAX);
    json_writer_count(&writer, NULL, UINT64_MAX);
    json_writer_seconds(&writer, NULL, 0);
    json_writer_seconds(&writer, NULL, 1);
    json_writer_seconds(&writer, NULL, 1500000000);
    json_writer_seconds(&writer, NULL, -60000000000);
    json_writer_seconds(&writer, NULL, -1);
    json_writer_seconds(&writer, NULL, INT64_MAX);
    json_writer_seconds(&writer, NULL, INT64_MIN);
    json_writer_end_array(&writer);
    expect(&writer, "[0,1000000007,9223372036854775807,9223372036854775807,0.0,0.000000001,1.5,"
                    "-60.0,-0.000000001,9223372036.854775807,-9223372036.854775808]");
}

static void texts_are_escaped(void **state)
{
    struct json_writer writer = {0};

    (void)state;
    json_writer_array(&writer, NULL);
    json_writer_text(&writer, NULL, NULL);
    json_writer_text(&writer, NULL, "");
    json_writer_string(&writer, NULL, "");
    json_writer_text(&writer, NULL, "\"\"\\");
    json_writer_text(&writer, NULL, "a\tb\x1b\x7f");
    json_writer_text(&writer, NULL, "\xc3\xa9\xff\xc3");
    json_writer_end_array(&writer);
    expect(&writer, "[null,null,\"\",\"\\\"\\\"\\\\\",\"a?b??\",\"\xc3\xa9??\"]");
}

/* Longer than any room that the writer takes at once. */
static void long_texts_are_whole(void **state)
{
    enum { LENGTH = 100000, COUNT = 20 };
    char *text = calloc(1, LENGTH + 1), *taken;
    struct json_writer writer = {0};
    json_t *json;

    (void)state;
    memset(text, '"', LENGTH);
    json_writer_array(&writer, NULL);
    for (int i = 0; i < COUNT; i++)
        json_writer_string(&writer, NULL, text);
    json_writer_end_array(&writer);
    taken = json_writer_take(&writer);
    json = json_loads(taken, 0, NULL);
    assert_int_equal(json_array_size(json), COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_string_equal(json_string_value(json_array_get(json, i)), text);
    json_decref(json);
    free(taken);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_values),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(long_texts_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
