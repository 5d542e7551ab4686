/* Goal: a line is read as it was written. Keys come in any order. Kinds and keys of a newer version
 * are skipped, and every other line is refused with a reason. The schema has the keys of the code.
 * Method: records of random members out and in, which jansson reads, too; lines by heart; the
 * file kvtrace.schema.json against the tables. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/kvtrace_case.h"
#include "trace/kvtrace_scan.h"

static struct kvtrace_record record, read_back;

static int64_t scanned_numbers[1 << 16];
static const char *scan_problem;

/* In memory of exactly its size. */
static kvtrace_scanned scan(const char *line, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    struct kvtrace_scan one = {.at = copy, .end = copy + bytes, .numbers = scanned_numbers};
    kvtrace_scanned scanned;

    assert_non_null(copy);
    assert_true(KVTRACE_NUMBERS(bytes) <= sizeof(scanned_numbers) / sizeof(scanned_numbers[0]));
    memcpy(copy, line, bytes);
    copy[bytes] = '\0';
    scanned = kvtrace_scan_line(&one, &read_back);
    scan_problem = one.problem;
    free(copy);
    return scanned;
}

static kvtrace_scanned scan_text(const char *line)
{
    return scan(line, strlen(line));
}

static void records_come_back_as_they_were(void **state)
{
    struct kvtrace_text text = {0}, again = {0};
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 1);
    for (int round = 0; round < (int)check_cases(4000, 400000); round++) {
        json_t *tree;

        kvtrace_random(&rng, (kvtrace_kind)(round % KVTRACE_KIND_END), &record);
        text.count = again.count = 0;
        assert_null(kvtrace_print(&text, &record));
        assert_false(text.failed);
        assert_int_equal(scan(text.at, text.count - 1), KVTRACE_SCANNED);
        assert_int_equal(read_back.kind, record.kind);
        assert_null(kvtrace_print(&again, &read_back));
        assert_int_equal(again.count, text.count);
        assert_memory_equal(again.at, text.at, text.count);
        tree = json_loadb(text.at, text.count, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(tree);
        assert_int_equal(json_object_size(tree), 1);
        json_decref(tree);
    }
    free(text.at);
    free(again.at);
}

static void what_is_missing_has_its_default(void **state)
{
    (void)state;
    assert_int_equal(scan_text("{\"transfer\":{}}"), KVTRACE_SCANNED);
    assert_int_equal(read_back.kind, KVTRACE_TRANSFER);
    assert_int_equal(read_back.transfer.tokens, 0);
    assert_int_equal(read_back.transfer.cancelled_us, KVTRACE_NEVER);
    assert_int_equal(read_back.transfer.outcome, KVTRACE_LIVE);
    for (int role = 0; role < 2; role++) {
        assert_int_equal(read_back.transfer.sides[role].agent, KVTRACE_NONE);
        assert_int_equal(read_back.transfer.sides[role].stages_us[KVR_EVENT_OPENED], KVTRACE_NEVER);
        assert_int_equal(read_back.transfer.sides[role].path, KVR_PATH_NONE);
    }
}

static void keys_come_in_any_order_and_with_blanks(void **state)
{
    (void)state;
    assert_int_equal(
        scan_text(" { \"fault\" : { \"text\" : \"a\\u00e9\\\"\" , \"\\u0061t_us\" : -5 ,\t"
                  "\"for_us\":7 } } \r"),
        KVTRACE_SCANNED);
    assert_int_equal(read_back.fault.at_us, -5);
    assert_int_equal(read_back.fault.for_us, 7);
    assert_string_equal(read_back.fault.text, "aé\"");
}

static void what_a_newer_version_adds_is_skipped(void **state)
{
    (void)state;
    assert_int_equal(scan_text("{\"weather\":{\"rain\":[1,[2,{\"a\":true}],\"é\"]}}"),
                     KVTRACE_SCANNED_UNKNOWN);
    assert_int_equal(scan_text("{\"fault\":{\"colour\":{\"x\":[[],{}]},\"at_us\":3,\"b\":false}}"),
                     KVTRACE_SCANNED);
    assert_int_equal(read_back.fault.at_us, 3);
}

/* What jansson refuses, and what the format has no use for. */
static void other_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "{",
        "{}",
        "[]",
        "7",
        "{\"fault\":{}",
        "{\"fault\":{}}}",
        "{\"fault\":{}} x",
        "{\"fault\":{},\"mark\":{}}",
        "{\"fault\":[]}",
        "{\"fault\":{\"at_us\":}}",
        "{\"fault\":{\"at_us\":1.5}}",
        "{\"fault\":{\"at_us\":1e3}}",
        "{\"fault\":{\"at_us\":01}}",
        "{\"fault\":{\"at_us\":-}}",
        "{\"fault\":{\"at_us\":null}}",
        "{\"fault\":{\"at_us\":\"1\"}}",
        "{\"fault\":{\"at_us\":9223372036854775808}}",
        "{\"fault\":{\"at_us\":-9223372036854775809}}",
        "{\"fault\":{\"at_us\":1,\"at_us\":1}}",
        "{\"fault\":{\"at_us\":1,}}",
        "{\"fault\":{at_us:1}}",
        "{\"fault\":{\"at_us\" 1}}",
        "{\"fault\":{\"kind\":\"a text that is longer than thirty-one bytes\"}}",
        "{\"fault\":{\"kind\":\"\\n\"}}",
        "{\"fault\":{\"kind\":\"\\u000a\"}}",
        "{\"fault\":{\"kind\":\"\\ud800\"}}",
        "{\"fault\":{\"kind\":\"\\udc00\"}}",
        "{\"fault\":{\"kind\":\"\\ud800\\u0041\"}}",
        "{\"fault\":{\"kind\":\"\\u00g0\"}}",
        "{\"fault\":{\"kind\":\"\xff\"}}",
        "{\"fault\":{\"kind\":\"\xc3\"}}",
        "{\"fault\":{\"unknown\":\"\xff\"}}",
        "{\"fault\":{\"kind\":\"no end}}",
        "{\"transfer\":{\"outcome\":\"finished\"}}",
        "{\"transfer\":{\"source\":{\"rails\":[[1,2,3]]}}}",
        "{\"transfer\":{\"source\":{\"rails\":[[1,2,3,4,5]]}}}",
        "{\"transfer\":{\"source\":{\"rails\":[1,2,3,4]}}}",
        "{\"transfer\":{\"source\":{\"rails\":[[1,2,3,4],]}}}",
        "{\"request\":{\"blocks\":[1,]}}",
        "{\"request\":{\"blocks\":[[1]]}}",
        "{\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}",
        "{\"kvtrace\":{\"virtual\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (scan_text(lines[i]) != KVTRACE_SCANNED_NOT)
            fail_msg("taken: %s", lines[i]);
        assert_non_null(scan_problem);
    }
    assert_int_equal(scan("{\"fault\":{\"kind\":\"a\0b\"}}", 25), KVTRACE_SCANNED_NOT);
}

static void lists_have_bounds(void **state)
{
    struct kvtrace_text text = {0};
    char line[20000];
    size_t used;

    (void)state;
    used = (size_t)snprintf(line, sizeof(line), "{\"agent\":{\"rails\":[{}");
    for (int i = 0; i < KVR_RAILS_MAX; i++)
        used += (size_t)snprintf(line + used, sizeof(line) - used, ",{}");
    snprintf(line + used, sizeof(line) - used, "]}}");
    assert_int_equal(scan_text(line), KVTRACE_SCANNED_NOT);
    assert_string_equal(scan_problem, "a list is too long");
    kvtrace_clear(&record, KVTRACE_AGENT);
    record.agent.rail_count = KVR_RAILS_MAX + 1;
    assert_string_equal(kvtrace_print(&text, &record), "rails");
    kvtrace_clear(&record, KVTRACE_FAULT);
    memcpy(record.fault.kind, "\xff", 2);
    assert_string_equal(kvtrace_print(&text, &record), "kind");
    free(text.at);
}

/* ---- the schema ------------------------------------------------------------------------------ */

static const json_t *resolve(const json_t *schema, const json_t *part)
{
    const char *reference = json_string_value(json_object_get(part, "$ref"));

    if (reference == NULL)
        return part;
    assert_true(strncmp(reference, "#/$defs/", 8) == 0);
    part = json_object_get(json_object_get(schema, "$defs"), reference + 8);
    assert_non_null(part);
    return part;
}

static void compare_keys(const json_t *schema, const struct kvtrace_fields *fields,
                         const json_t *object);

static void compare_key(const json_t *schema, const struct kvtrace_field *field,
                        const json_t *given)
{
    const json_t *part = resolve(schema, given), *items;
    const char *type = json_string_value(json_object_get(part, "type"));

    switch (field->type) {
    case KVTRACE_NUMBER:
        assert_string_equal(type, "integer");
        assert_int_equal(json_integer_value(json_object_get(given, "default")),
                         field->never ? KVTRACE_NEVER : 0);
        break;
    case KVTRACE_FLAG:
        assert_string_equal(type, "boolean");
        break;
    case KVTRACE_TEXT:
        assert_string_equal(type, "string");
        assert_int_equal(json_integer_value(json_object_get(part, "maxLength")), field->room - 1);
        break;
    case KVTRACE_CHOICE:
        assert_int_equal(json_array_size(json_object_get(part, "enum")), field->names);
        for (int i = 0; i < field->names; i++)
            assert_string_equal(
                json_string_value(json_array_get(json_object_get(part, "enum"), (size_t)i)),
                field->name(i));
        break;
    case KVTRACE_ROWS:
        assert_string_equal(type, "array");
        items = json_object_get(part, "items");
        if (field->room > 1) {
            assert_int_equal(json_integer_value(json_object_get(items, "minItems")), field->room);
            assert_int_equal(json_integer_value(json_object_get(items, "maxItems")), field->room);
        }
        break;
    case KVTRACE_OBJECT:
        compare_keys(schema, field->fields, part);
        break;
    case KVTRACE_OBJECTS:
        assert_int_equal(json_integer_value(json_object_get(part, "maxItems")), field->count_max);
        compare_keys(schema, field->fields, json_object_get(part, "items"));
        break;
    }
}

static void compare_keys(const json_t *schema, const struct kvtrace_fields *fields,
                         const json_t *object)
{
    const json_t *properties = json_object_get(object, "properties");

    assert_true(fields->count <= 32); /* a bit each in the reader */
    assert_int_equal(json_object_size(properties), fields->count);
    for (uint32_t i = 0; i < fields->count; i++) {
        const json_t *given = json_object_get(properties, fields->at[i].key);

        if (given == NULL)
            fail_msg("the schema has no %s", fields->at[i].key);
        compare_key(schema, &fields->at[i], given);
    }
}

static void the_schema_has_the_same_keys(void **state)
{
    char name[512];
    json_t *schema;
    const json_t *kinds;

    (void)state;
    assert_non_null(getenv("KVRAIL_ROOT_DIR"));
    snprintf(name, sizeof(name), "%s/common/trace/kvtrace.schema.json", getenv("KVRAIL_ROOT_DIR"));
    schema = json_load_file(name, 0, NULL);
    assert_non_null(schema);
    kinds = json_object_get(schema, "properties");
    assert_int_equal(json_object_size(kinds), KVTRACE_KIND_END);
    for (int i = 0; i < KVTRACE_KIND_END; i++) {
        const json_t *given = json_object_get(kinds, kvtrace_kind_name((kvtrace_kind)i));

        assert_non_null(given);
        compare_keys(schema, kvtrace_fields((kvtrace_kind)i), resolve(schema, given));
    }
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_as_they_were),
        cmocka_unit_test(what_is_missing_has_its_default),
        cmocka_unit_test(keys_come_in_any_order_and_with_blanks),
        cmocka_unit_test(what_a_newer_version_adds_is_skipped),
        cmocka_unit_test(other_lines_are_refused),
        cmocka_unit_test(lists_have_bounds),
        cmocka_unit_test(the_schema_has_the_same_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
