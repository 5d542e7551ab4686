/* The bytes of a trace file, compressed or not. One thread. */
#ifndef KVR_TRACE_KVTRACE_BYTES_H
#define KVR_TRACE_KVTRACE_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* A name that ends in ".zst" is compressed when it is written. Reading looks at the first bytes. */
struct kvtrace_source;
struct kvtrace_sink;

KVR_MUST_CHECK kvr_status kvtrace_source_open(const char *path, struct kvtrace_source **ret_source,
                                              struct kvr_error *error);
/* The same of bytes in memory, which stay the caller's and must stay as they are. */
KVR_MUST_CHECK kvr_status kvtrace_source_memory(const void *bytes, size_t count,
                                                struct kvtrace_source **ret_source,
                                                struct kvr_error *error);
/* Up to `room` bytes; *ret_count 0: the end. KVR_MALFORMED: damaged or cut within a compressed
 * frame; the bytes before are good. KVR_SYSTEM. */
KVR_MUST_CHECK kvr_status kvtrace_source_read(struct kvtrace_source *source, char *bytes,
                                              size_t room, size_t *ret_count,
                                              struct kvr_error *error);
struct kvtrace_source *kvtrace_source_close(struct kvtrace_source *source); /* returns NULL */

KVR_MUST_CHECK kvr_status kvtrace_sink_open(const char *path, struct kvtrace_sink **ret_sink,
                                            struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvtrace_sink_write(struct kvtrace_sink *sink, const char *bytes,
                                             size_t count, struct kvr_error *error);
/* What was written so far is in the file, and can be read there. */
KVR_MUST_CHECK kvr_status kvtrace_sink_flush(struct kvtrace_sink *sink, struct kvr_error *error);
/* Ends the compressed frame, where `whole`, and closes. */
KVR_MUST_CHECK kvr_status kvtrace_sink_close(struct kvtrace_sink *sink, bool whole,
                                             struct kvr_error *error);

#endif
