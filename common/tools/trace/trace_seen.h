/* The requests of one moment that a merge has written. Several traces may have one request: the
 * same id at the same moment. Two requests of one trace are two, even where both are the same.
 * Memory grows with the requests of one moment. One thread. */
#ifndef KVR_TOOLS_TRACE_SEEN_H
#define KVR_TOOLS_TRACE_SEEN_H

#include "trace/kvtrace.h"

struct trace_seen_id;

/* Zeroed, it is open. */
struct trace_seen {
    int64_t at_us;
    struct trace_seen_id *ids;
};

/* The next request by time; those of one moment come input by input. *ret_seen: an earlier input
 * had it. KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status trace_seen_take(struct trace_seen *seen,
                                          const struct kvtrace_request *request, uint32_t input,
                                          bool *ret_seen, struct kvr_error *error);
void trace_seen_done(struct trace_seen *seen);

#endif
