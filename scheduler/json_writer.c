#include "scheduler/json_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/types.h"

#define ROOM_FIRST   4096
#define NUMBER_BYTES 24 /* of an integer, or of seconds without their fraction */

/* Where `bytes` more may be written, and a NUL; NULL: no memory. */
static char *reserve(struct json_writer *writer, size_t bytes)
{
    if (writer->room - writer->used <= bytes) {
        size_t room = 2 * writer->room + bytes + ROOM_FIRST;
        char *larger = writer->failed ? NULL : realloc(writer->text, room);

        writer->failed |= larger == NULL;
        if (larger == NULL)
            return NULL;
        writer->text = larger;
        writer->room = room;
    }
    return writer->failed ? NULL : writer->text + writer->used;
}

static bool follows_another(const struct json_writer *writer)
{
    char last = writer->used > 0 ? writer->text[writer->used - 1] : '[';

    return last != '[' && last != '{';
}

/* The comma and the key before a value of at most `bytes`. Where that goes; NULL: no memory. */
static char *begin_value(struct json_writer *writer, const char *key, size_t bytes)
{
    size_t length = key != NULL ? strlen(key) : 0;
    char *to = reserve(writer, length + bytes + sizeof(",\"\":"));

    if (to == NULL)
        return NULL;
    if (follows_another(writer))
        *to++ = ',';
    if (key != NULL) {
        *to++ = '"';
        to = stpcpy(to, key);
        *to++ = '"';
        *to++ = ':';
    }
    return to;
}

static void end_value(struct json_writer *writer, const char *end)
{
    writer->used = (size_t)(end - writer->text);
}

void json_writer_plain(struct json_writer *writer, const char *key, const char *value)
{
    size_t length = strlen(value);
    char *to = begin_value(writer, key, length);

    if (to != NULL)
        end_value(writer, stpcpy(to, value));
}

static void add_end(struct json_writer *writer, char bracket)
{
    char *to = reserve(writer, 1);

    if (to == NULL)
        return;
    *to = bracket;
    writer->used++;
}

void json_writer_object(struct json_writer *writer, const char *key)
{
    json_writer_plain(writer, key, "{");
}

void json_writer_end_object(struct json_writer *writer)
{
    add_end(writer, '}');
}

void json_writer_array(struct json_writer *writer, const char *key)
{
    json_writer_plain(writer, key, "[");
}

void json_writer_end_array(struct json_writer *writer)
{
    add_end(writer, ']');
}

void json_writer_null(struct json_writer *writer, const char *key)
{
    json_writer_plain(writer, key, "null");
}

void json_writer_boolean(struct json_writer *writer, const char *key, bool value)
{
    json_writer_plain(writer, key, value ? "true" : "false");
}

/* Its digits; returns what is behind. printf takes ten times as long. */
static char *add_digits(char *to, uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[NUMBER_BYTES], *at = digits + sizeof(digits);
    size_t count;

    for (; value >= 100; value /= 100)
        memcpy(at -= 2, &pairs[2 * (value % 100)], 2);
    if (value >= 10)
        memcpy(at -= 2, &pairs[2 * value], 2);
    else
        *--at = (char)('0' + value);
    count = (size_t)(digits + sizeof(digits) - at);
    memcpy(to, at, count);
    return to + count;
}

void json_writer_count(struct json_writer *writer, const char *key, uint64_t value)
{
    char *to = begin_value(writer, key, NUMBER_BYTES);

    if (to != NULL)
        end_value(writer, add_digits(to, kvr_min_u64(value, INT64_MAX)));
}

void json_writer_string(struct json_writer *writer, const char *key, const char *text)
{
    size_t room = 2 * strlen(text) + 3; /* kvr_text_json() asks for more than it takes */
    char *to = begin_value(writer, key, room + sizeof("\"\""));

    if (to == NULL)
        return;
    *to++ = '"';
    to += strlen(kvr_text_json(text, to, room));
    *to++ = '"';
    end_value(writer, to);
}

void json_writer_text(struct json_writer *writer, const char *key, const char *text)
{
    if (text == NULL || text[0] == '\0')
        json_writer_null(writer, key);
    else
        json_writer_string(writer, key, text);
}

void json_writer_seconds(struct json_writer *writer, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    char *to = begin_value(writer, key, 2 * NUMBER_BYTES), *point;

    if (to == NULL)
        return;
    if (ns < 0)
        *to++ = '-';
    to = add_digits(to, size / KVR_S);
    point = to;
    to = add_digits(to, KVR_S + size % KVR_S); /* a one and nine digits */
    *point = '.';
    while (to[-1] == '0' && to[-2] != '.')
        to--;
    end_value(writer, to);
}

char *json_writer_take(struct json_writer *writer)
{
    char *end = reserve(writer, 0), *text = writer->text;

    if (end != NULL)
        *end = '\0';
    else
        free(text);
    *writer = (struct json_writer){0};
    return end != NULL ? text : NULL;
}
