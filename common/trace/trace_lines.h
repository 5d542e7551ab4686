/* The lines of a file, compressed or not, of standard input or of bytes in memory. Memory is two
 * chunks and twice the longest line. One thread. */
#ifndef KVR_TRACE_TRACE_LINES_H
#define KVR_TRACE_TRACE_LINES_H

#include "trace/kvtrace_bytes.h"

struct kvr_trace_lines;

/* Takes the source, also where it fails. A line of more than `bytes_max` ends the reading. */
KVR_MUST_CHECK kvr_status kvr_trace_lines_open(struct kvtrace_source *source, size_t bytes_max,
                                               struct kvr_trace_lines **ret_lines,
                                               struct kvr_error *error);
struct kvr_trace_lines *kvr_trace_lines_close(struct kvr_trace_lines *lines); /* returns NULL */

/* The next line, which the caller may change; a NUL stands in place of its newline. It is valid
 * until the next call. *ret_line NULL: no further newline comes. KVR_TOO_LARGE: the line is longer
 * than that. KVR_SYSTEM, KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status kvr_trace_lines_next(struct kvr_trace_lines *lines, char **ret_line,
                                               size_t *ret_bytes, struct kvr_error *error);
/* After the last line: the bytes behind the last newline, and a NUL. Returns how many they are. */
size_t kvr_trace_lines_rest(struct kvr_trace_lines *lines, char **ret_rest);
/* A sentence where damage of the compression ended the reading, else NULL. */
const char *kvr_trace_lines_damage(const struct kvr_trace_lines *lines);

#endif
