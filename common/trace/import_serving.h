/* What the benchmarks and the servers of vLLM and SGLang write, as requests. Each is JSON lines.
 *
 *     vllm-bench     `vllm bench serve --save-result --save-detailed`: a run a line, with an
 * element a request in input_lens, output_lens and start_times (seconds of a clock) sglang-bench
 * `python -m sglang.bench_serving --output-details`: a run a line, without start_times sglang-log
 * `--log-requests --log-requests-format json`: an event a line. A request is a `request.finished`
 * line: it came e2e_latency seconds before `timestamp`
 *
 * A run without start_times says no arrivals. Its requests come at `request_rate` a second, equally
 * far apart; where that is no number, all at once. A further run of the file comes behind the one
 * before. Requests of 0 input tokens are skipped and counted.
 *
 * Prompts and texts are left alone. Python's JSON may hold NaN and Infinity, which are read as 0
 * and null. */
#ifndef KVR_TRACE_IMPORT_SERVING_H
#define KVR_TRACE_IMPORT_SERVING_H

#include "trace/trace_file.h"

/* Where the next run of the file begins; zeroed at the start. */
struct kvr_import_runs {
    kvr_ns begin;
};

/* Adds the run's requests, or none. The line is changed. KVR_MALFORMED with a sentence, or what
 * kvr_trace_add() says. */
KVR_MUST_CHECK kvr_status kvr_import_run_line(struct kvr_import_runs *runs, char *line,
                                              size_t bytes, struct kvr_trace *trace,
                                              struct kvr_error *error);
/* Adds the line's request; a line of another event adds none. */
KVR_MUST_CHECK kvr_status kvr_import_log_line(char *line, size_t bytes, struct kvr_trace *trace,
                                              struct kvr_error *error);

#endif
