/* The keys of each kind of record, once for reader, writer and tests. */
#ifndef KVR_TRACE_KVTRACE_FIELDS_H
#define KVR_TRACE_KVTRACE_FIELDS_H

#include "trace/kvtrace.h"

typedef enum kvtrace_type {
    KVTRACE_NUMBER,  /* int64_t */
    KVTRACE_FLAG,    /* bool */
    KVTRACE_TEXT,    /* char[room] */
    KVTRACE_CHOICE,  /* an enum, by its name */
    KVTRACE_ROWS,    /* struct kvtrace_rows; room: numbers of one row; 1: a plain list of numbers */
    KVTRACE_OBJECT,  /* a struct */
    KVTRACE_OBJECTS, /* an array of structs, and its size_t */
} kvtrace_type;

struct kvtrace_field {
    const char *key;
    uint32_t key_bytes;
    kvtrace_type type;
    uint32_t offset; /* in its struct */
    uint32_t room;   /* TEXT: bytes; ROWS: numbers of a row; OBJECTS: bytes of an element */
    bool never;      /* NUMBER: the default is -1, and not 0 */
    bool always;     /* it is written even where it has its default */
    const char *(*name)(int value);      /* CHOICE */
    int names;                           /* CHOICE: values from 0 to names - 1 */
    const struct kvtrace_fields *fields; /* OBJECT, OBJECTS */
    uint32_t count_offset, count_max;    /* OBJECTS */
};

struct kvtrace_fields {
    const struct kvtrace_field *at;
    uint32_t count;
};

/* Of one kind. */
const struct kvtrace_fields *kvtrace_fields(kvtrace_kind kind);
/* Bytes of its member of struct kvtrace_record. */
size_t kvtrace_kind_bytes(kvtrace_kind kind);
/* Where the members of all kinds begin. */
static inline void *kvtrace_members(struct kvtrace_record *record)
{
    return &record->header;
}
/* Sets the defaults that are not 0, in memory that is 0. */
void kvtrace_fields_clear(const struct kvtrace_fields *fields, void *base);

#endif
