/* One line of a trace as a record, and back. Pure: no clock, no files; memory is the caller's. */
#ifndef KVR_TRACE_KVTRACE_SCAN_H
#define KVR_TRACE_KVTRACE_SCAN_H

#include "trace/kvtrace_fields.h"

/* A line being read. Behind the line stands a NUL. */
struct kvtrace_scan {
    const char *at, *end;
    int64_t *numbers; /* room for KVTRACE_NUMBERS(bytes of the line); rows of the record lie here */
    size_t count;
    const char *problem; /* what is wrong at `at`: the end of a sentence */
    const char *key;     /* the last known key before it, or NULL */
};

/* Each number of a row takes two bytes at least. */
#define KVTRACE_NUMBERS(bytes) ((bytes) / 2 + 1)

typedef enum kvtrace_scanned {
    KVTRACE_SCANNED,
    KVTRACE_SCANNED_UNKNOWN, /* well-formed, of a kind that is not known here */
    KVTRACE_SCANNED_NOT,     /* scan->problem says why */
} kvtrace_scanned;

kvtrace_scanned kvtrace_scan_line(struct kvtrace_scan *scan, struct kvtrace_record *record);

/* Text that grows. */
struct kvtrace_text {
    char *at;
    size_t count, room;
    bool failed; /* no memory: nothing is added any more */
};

/* Adds the record's line, with its newline. Returns NULL, or the key of a member that no line can
 * hold. */
const char *kvtrace_print(struct kvtrace_text *text, const struct kvtrace_record *record);

#endif
