/* The marks of a scheduler, page by page. */
#ifndef KVR_TOOLS_TRACE_MARKS_H
#define KVR_TOOLS_TRACE_MARKS_H

#include "tools/scheduler_get.h"
#include "tools/trace/trace_recorder.h"

/* Records those between two moments of the wall clock. An answer has the newest 500; the next
 * question ends with the oldest of them. More than 500 of one second are not all had, and that is
 * said on stderr. */
KVR_MUST_CHECK kvr_status trace_record_marks(const struct scheduler_call *scheduler,
                                             struct trace_recorder *recorder, kvr_ns from,
                                             kvr_ns until, struct kvr_error *error);

#endif
