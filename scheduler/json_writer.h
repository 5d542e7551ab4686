/* JSON as text, without a tree of it: for answers of many thousand rows. Members and elements stand
 * in the order of their calls; the writer sets commas. The caller ends what the caller begins.
 *
 *   key   of a member, plain ASCII; NULL: an element of an array, or the whole text
 *
 * A text from outside is written by kvr_text_json(): what cannot be printed is a question mark.
 * Without memory the writer keeps quiet, and json_writer_take() says so. One thread. */
#ifndef KVR_SCHEDULER_JSON_WRITER_H
#define KVR_SCHEDULER_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_writer { /* {0} is an empty one */
    char *text;
    size_t used, room;
    bool failed; /* no memory */
};

void json_writer_object(struct json_writer *writer, const char *key);
void json_writer_end_object(struct json_writer *writer);
void json_writer_array(struct json_writer *writer, const char *key);
void json_writer_end_array(struct json_writer *writer);

void json_writer_null(struct json_writer *writer, const char *key);
void json_writer_boolean(struct json_writer *writer, const char *key, bool value);
/* At most INT64_MAX, as readers may have no larger integers. */
void json_writer_count(struct json_writer *writer, const char *key, uint64_t value);
void json_writer_string(struct json_writer *writer, const char *key, const char *text);
/* null for NULL and "". */
void json_writer_text(struct json_writer *writer, const char *key, const char *text);
/* Exact, and with a decimal point, as a number that need not be whole. */
void json_writer_seconds(struct json_writer *writer, const char *key, int64_t ns);

/* A value that is JSON already. */
void json_writer_plain(struct json_writer *writer, const char *key, const char *value);

/* The text, malloc'ed, and an empty writer. NULL: no memory. */
char *json_writer_take(struct json_writer *writer);

#endif
