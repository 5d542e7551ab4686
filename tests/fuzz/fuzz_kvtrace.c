/* Any line: it is refused, or jansson takes it too and has the same numbers and texts, and it comes
 * back as it was when it is written and read again. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/kvtrace_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* In memory of exactly that size, so that a sanitizer sees each read beyond it. */
static kvtrace_scanned scan_copy(const char *line, size_t bytes, int64_t **ret_numbers,
                                 struct kvtrace_record *record)
{
    char *copy = malloc(bytes + 1);
    struct kvtrace_scan scan = {.at = copy, .end = copy + bytes};
    kvtrace_scanned scanned;

    check(copy != NULL, "no memory");
    memcpy(copy, line, bytes);
    copy[bytes] = '\0';
    scan.numbers = *ret_numbers = malloc(KVTRACE_NUMBERS(bytes) * sizeof(int64_t));
    check(scan.numbers != NULL, "no memory");
    scanned = kvtrace_scan_line(&scan, record);
    check((scanned == KVTRACE_SCANNED_NOT) == (scan.problem != NULL), "a reason is missing");
    check(scan.at >= copy && scan.at <= scan.end, "it went on behind the line");
    check(scan.count <= KVTRACE_NUMBERS(bytes), "more numbers than room");
    free(copy);
    return scanned;
}

static void compare_object(const struct kvtrace_fields *fields, const void *base,
                           const json_t *object);

static void compare_rows(const struct kvtrace_rows *rows, uint32_t width, const json_t *list)
{
    check(rows->count == json_array_size(list) * width, "another number of rows");
    for (size_t i = 0; i < rows->count; i++) {
        const json_t *one = json_array_get(list, i / width);

        if (width > 1)
            one = json_array_get(one, i % width);
        check(json_is_integer(one) && json_integer_value(one) == rows->numbers[i],
              "another number of a row");
    }
}

static void compare_value(const struct kvtrace_field *field, const void *base, const json_t *value)
{
    const char *at = (const char *)base + field->offset;
    size_t count;

    if (value == NULL) /* left out: nothing to compare */
        return;
    switch (field->type) {
    case KVTRACE_NUMBER:
        check(json_is_integer(value) && json_integer_value(value) == *(const int64_t *)at,
              "another number");
        break;
    case KVTRACE_FLAG:
        check(json_is_boolean(value) && json_is_true(value) == *(const bool *)at, "another flag");
        break;
    case KVTRACE_TEXT:
        check(json_is_string(value) && strcmp(json_string_value(value), at) == 0, "another text");
        break;
    case KVTRACE_CHOICE:
        check(json_is_string(value) &&
                  strcmp(json_string_value(value), field->name(*(const int *)at)) == 0,
              "another choice");
        break;
    case KVTRACE_ROWS:
        compare_rows((const struct kvtrace_rows *)at, field->room, value);
        break;
    case KVTRACE_OBJECT:
        compare_object(field->fields, at, value);
        break;
    case KVTRACE_OBJECTS:
        count = *(const size_t *)((const char *)base + field->count_offset);
        check(count == json_array_size(value), "another number of objects");
        for (size_t i = 0; i < count; i++)
            compare_object(field->fields, at + i * field->room, json_array_get(value, i));
        break;
    }
}

static void compare_object(const struct kvtrace_fields *fields, const void *base,
                           const json_t *object)
{
    check(json_is_object(object), "no object");
    for (uint32_t i = 0; i < fields->count; i++)
        compare_value(&fields->at[i], base, json_object_get(object, fields->at[i].key));
}

/* A key that comes twice has its last value in jansson, and merged objects here: left out. */
static json_t *by_jansson(const char *line, size_t bytes)
{
    return json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
}

static void compare_again(const struct kvtrace_record *record)
{
    static struct kvtrace_record again;
    struct kvtrace_text text = {0}, second = {0};
    int64_t *numbers;

    check(kvtrace_print(&text, record) == NULL && !text.failed, "it cannot be written");
    check(text.at[text.count - 1] == '\n', "no line");
    check(scan_copy(text.at, text.count - 1, &numbers, &again) == KVTRACE_SCANNED,
          "what was written must be read");
    check(kvtrace_print(&second, &again) == NULL, "it cannot be written again");
    check(text.count == second.count && memcmp(text.at, second.at, text.count) == 0,
          "it changed on the way");
    free(numbers);
    free(text.at);
    free(second.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kvtrace_record record;
    int64_t *numbers;
    kvtrace_scanned scanned;
    json_t *tree, *duplicates;

    if (memchr(data, '\n', size) != NULL)
        return 0; /* the reader gives lines */
    scanned = scan_copy((const char *)data, size, &numbers, &record);
    if (scanned != KVTRACE_SCANNED_NOT) {
        duplicates = json_loadb((const char *)data, size, 0, NULL);
        check(duplicates != NULL, "jansson refuses it");
        json_decref(duplicates);
    }
    if (scanned == KVTRACE_SCANNED) {
        tree = by_jansson((const char *)data, size);
        if (tree != NULL)
            compare_object(kvtrace_fields(record.kind), &record.header,
                           json_object_get(tree, kvtrace_kind_name(record.kind)));
        json_decref(tree);
        compare_again(&record);
    }
    free(numbers);
    return 0;
}
