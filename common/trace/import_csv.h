/* The comma separated request traces: a header line that names the columns, then a line a request.
 * Columns may come in any order and others are ignored; nothing is quoted.
 *
 *   azure      Azure LLM inference traces: TIMESTAMP ("2023-11-16 18:17:03.9799600", UTC),
 *              ContextTokens, GeneratedTokens
 *   burstgpt   BurstGPT: Timestamp (seconds, may be fractional), Request tokens, Response tokens
 *
 * A request of 0 input tokens (a failed one, in BurstGPT) is skipped and counted. */
#ifndef KVR_TRACE_IMPORT_CSV_H
#define KVR_TRACE_IMPORT_CSV_H

#include "trace/trace_file.h"

/* Which field holds what; filled from the header line. */
struct kvr_import_csv {
    bool wall_time; /* TIMESTAMP is a date, not seconds */
    int time_column, input_column, output_column;
};

/* The names of the columns that an importer looks for. */
struct kvr_import_columns {
    const char *time, *input, *output;
    bool wall_time;
};

extern const struct kvr_import_columns kvr_import_azure, kvr_import_burstgpt;

/* KVR_MALFORMED with a sentence that names the column that is missing. */
KVR_MUST_CHECK kvr_status kvr_import_csv_header(const struct kvr_import_columns *columns,
                                                const char *line, size_t bytes,
                                                struct kvr_import_csv *ret_csv,
                                                struct kvr_error *error);
/* Appends the line's request. KVR_MALFORMED with a sentence that names the column. */
KVR_MUST_CHECK kvr_status kvr_import_csv_line(const struct kvr_import_csv *csv, const char *line,
                                              size_t bytes, struct kvr_trace *trace,
                                              struct kvr_error *error);
/* "2023-11-16 18:17:03.9799600", also with a T between and with a zone of Z or +00:00. */
bool kvr_import_date(const char *text, kvr_ns *ret_at);

#endif
