/* What a scheduler says, as records of a trace, in the order of their times whatever order the
 * answers have. One thread; memory grows with agents and engines, and with the transfers that had
 * not ended when they were read; kvtrace_order.h has the rest. */
#ifndef KVR_TOOLS_TRACE_RECORDER_H
#define KVR_TOOLS_TRACE_RECORDER_H

#include <jansson.h>

#include "tools/trace/trace_hash.h"
#include "trace/kvtrace_book.h"

struct trace_recorder;

/* key: of the hashes of requests' ids; NULL: ids stay as they are. start_us: since 1970. The writer
 * is borrowed. NULL: no memory. */
struct trace_recorder *trace_recorder_open(struct kvtrace_writer *writer, int64_t start_us,
                                           const uint8_t key[TRACE_KEY_BYTES]);
struct trace_recorder *trace_recorder_close(struct trace_recorder *recorder); /* returns NULL */

/* Agents and what was dropped, of /api/v1/agents. First of all. */
KVR_MUST_CHECK kvr_status trace_record_agents(struct trace_recorder *recorder, const json_t *agents,
                                              struct kvr_error *error);
/* One of that agent: of /api/v1/engines, or of /api/v1/agents. One that was written before, and one
 * of an agent that was not, is left out. Before the transfers. */
KVR_MUST_CHECK kvr_status trace_record_engine(struct trace_recorder *recorder, const char *agent,
                                              const json_t *engine, struct kvr_error *error);
/* One of /api/v1/transfers?trace=yes. A transfer that was written before is left out. */
KVR_MUST_CHECK kvr_status trace_record_transfer(struct trace_recorder *recorder,
                                                const json_t *transfer, struct kvr_error *error);
/* One of /api/v1/faults. */
KVR_MUST_CHECK kvr_status trace_record_fault(struct trace_recorder *recorder, const json_t *fault,
                                             struct kvr_error *error);
/* One of /api/v1/marks. */
KVR_MUST_CHECK kvr_status trace_record_mark(struct trace_recorder *recorder, const json_t *mark,
                                            struct kvr_error *error);
/* After the last record: writes those that have a time. */
KVR_MUST_CHECK kvr_status trace_recorder_finish(struct trace_recorder *recorder,
                                                struct kvr_error *error);
uint64_t trace_recorder_transfers(const struct trace_recorder *recorder); /* written */

#endif
