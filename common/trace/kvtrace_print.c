#include <stdlib.h>

#include "base/text.h"
#include "trace/kvtrace_scan.h"

#define NUMBER_BYTES 20 /* "-9223372036854775808" */

static bool make_room(struct kvtrace_text *text, size_t bytes)
{
    size_t room = 2 * text->room + bytes + 4096;
    char *larger;

    if (text->failed || text->room - text->count >= bytes)
        return !text->failed;
    larger = realloc(text->at, room);
    text->failed = larger == NULL;
    if (larger != NULL) {
        text->at = larger;
        text->room = room;
    }
    return !text->failed;
}

static void add(struct kvtrace_text *text, const char *bytes, size_t count)
{
    if (make_room(text, count)) {
        memcpy(text->at + text->count, bytes, count);
        text->count += count;
    }
}

static void add_character(struct kvtrace_text *text, char one)
{
    add(text, &one, 1);
}

static void add_number(struct kvtrace_text *text, int64_t number)
{
    char digits[NUMBER_BYTES], *first = digits + sizeof(digits);
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    do
        *--first = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--first = '-';
    add(text, first, (size_t)(digits + sizeof(digits) - first));
}

static void add_key(struct kvtrace_text *text, const char *key, size_t bytes)
{
    add_character(text, '"');
    add(text, key, bytes);
    add(text, "\":", 2);
}

/* False: no text of UTF-8. */
static bool add_text(struct kvtrace_text *text, const char *value, size_t room)
{
    size_t bytes = 6 * strnlen(value, room) + 1;

    if (!kvr_text_valid(value, room))
        return false;
    add_character(text, '"');
    if (make_room(text, bytes)) {
        kvr_text_json(value, text->at + text->count, bytes);
        text->count += strlen(text->at + text->count);
    }
    add_character(text, '"');
    return true;
}

static void add_rows(struct kvtrace_text *text, const struct kvtrace_rows *rows, uint32_t width)
{
    add_character(text, '[');
    for (size_t i = 0; i < rows->count; i++) {
        if (i > 0)
            add_character(text, ',');
        if (width > 1 && i % width == 0)
            add_character(text, '[');
        add_number(text, rows->numbers[i]);
        if (width > 1 && i % width == width - 1)
            add_character(text, ']');
    }
    add_character(text, ']');
}

static bool is_default(const struct kvtrace_field *field, const void *base)
{
    const void *at = (const char *)base + field->offset;

    switch (field->type) {
    case KVTRACE_NUMBER:
        return *(const int64_t *)at == (field->never ? KVTRACE_NEVER : 0);
    case KVTRACE_FLAG:
        return !*(const bool *)at;
    case KVTRACE_TEXT:
        return *(const char *)at == '\0';
    case KVTRACE_CHOICE:
        return *(const int *)at == 0;
    case KVTRACE_ROWS:
        return ((const struct kvtrace_rows *)at)->count == 0;
    case KVTRACE_OBJECTS:
        return *(const size_t *)((const char *)base + field->count_offset) == 0;
    case KVTRACE_OBJECT:
        break;
    }
    for (uint32_t i = 0; i < field->fields->count; i++)
        if (!is_default(&field->fields->at[i], at))
            return false;
    return true;
}

static const char *add_object(struct kvtrace_text *text, const struct kvtrace_fields *fields,
                              const void *base);

static const char *add_objects(struct kvtrace_text *text, const struct kvtrace_field *field,
                               const char *first, size_t count)
{
    const char *wrong = NULL;

    add_character(text, '[');
    for (size_t i = 0; i < count && wrong == NULL; i++) {
        if (i > 0)
            add_character(text, ',');
        wrong = add_object(text, field->fields, first + i * field->room);
    }
    add_character(text, ']');
    return wrong;
}

/* NULL, or the key that cannot be held. */
static const char *add_value(struct kvtrace_text *text, const struct kvtrace_field *field,
                             const void *base)
{
    const void *at = (const char *)base + field->offset;
    bool good = true;
    size_t count;

    switch (field->type) {
    case KVTRACE_NUMBER:
        add_number(text, *(const int64_t *)at);
        break;
    case KVTRACE_FLAG:
        *(const bool *)at ? add(text, "true", 4) : add(text, "false", 5);
        break;
    case KVTRACE_TEXT:
        good = add_text(text, at, field->room);
        break;
    case KVTRACE_CHOICE:
        good = *(const int *)at >= 0 && *(const int *)at < field->names;
        good = good && add_text(text, field->name(*(const int *)at), KVTRACE_TEXT_BYTES);
        break;
    case KVTRACE_ROWS:
        good = ((const struct kvtrace_rows *)at)->count % field->room == 0;
        add_rows(text, at, field->room);
        break;
    case KVTRACE_OBJECT:
        return add_object(text, field->fields, at);
    case KVTRACE_OBJECTS:
        count = *(const size_t *)((const char *)base + field->count_offset);
        return count <= field->count_max ? add_objects(text, field, at, count) : field->key;
    }
    return good ? NULL : field->key;
}

static const char *add_object(struct kvtrace_text *text, const struct kvtrace_fields *fields,
                              const void *base)
{
    const char *wrong = NULL;
    bool first = true;

    add_character(text, '{');
    for (uint32_t i = 0; i < fields->count && wrong == NULL; i++) {
        const struct kvtrace_field *field = &fields->at[i];

        if (!field->always && is_default(field, base))
            continue;
        if (!first)
            add_character(text, ',');
        first = false;
        add_key(text, field->key, field->key_bytes);
        wrong = add_value(text, field, base);
    }
    add_character(text, '}');
    return wrong;
}

const char *kvtrace_print(struct kvtrace_text *text, const struct kvtrace_record *record)
{
    const char *kind = kvtrace_kind_name(record->kind), *wrong;

    add_character(text, '{');
    add_key(text, kind, strlen(kind));
    wrong = add_object(text, kvtrace_fields(record->kind), &record->header);
    add(text, "}\n", 2);
    return wrong;
}
