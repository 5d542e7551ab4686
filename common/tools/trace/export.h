/* A trace as a file of another format, record by record: the formats, and what they write with.
 * One thread. Memory does not grow with the records, except where a format says so. */
#ifndef KVR_TOOLS_TRACE_EXPORT_H
#define KVR_TOOLS_TRACE_EXPORT_H

#include "trace/kvtrace_book.h"
#include "trace/kvtrace_bytes.h"

/* X(symbol, name, what it writes) */
#define EXPORT_FORMAT_LIST(X)                                                                      \
    X(EXPORT_PERFETTO, "perfetto", "trace events of JSON for ui.perfetto.dev")                     \
    X(EXPORT_OTLP, "otlp", "spans of OpenTelemetry, OTLP/JSON, a line a transfer")                 \
    X(EXPORT_CSV, "csv", "a row a transfer")                                                       \
    X(EXPORT_SUMMARY, "summary", "counts and percentiles as JSON")
#define EXPORT_FORMATS "perfetto|otlp|csv|summary"

typedef enum export_kind { EXPORT_FORMAT_LIST(KVR_SYMBOL) EXPORT_FORMAT_END } export_kind;

struct export
{
    struct kvtrace_sink *sink;
    const struct kvtrace_book *book; /* has the record that is being written */
    const struct kvtrace_header *header;
    void *state;       /* of the format */
    kvr_status status; /* of the first write that failed; nothing is written any more */
    struct kvr_error error;
};

/* Each writes by the functions below, and sets the status where it has no memory. */
struct export_format {
    void (*begin)(struct export *export);
    void (*record)(struct export *export, const struct kvtrace_record *record);
    void (*end)(struct export *export);
    void (*release)(struct export *export); /* the state, NULL too */
};
extern const struct export_format export_perfetto, export_otlp, export_csv, export_summary;

void export_text(struct export *export, const char *text);
void export_print(struct export *export, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With quotes. */
void export_json(struct export *export, const char *text);
void export_no_memory(struct export *export);

/* Since 1970; since the start where that is not known. */
int64_t export_wall_us(const struct export *export, int64_t at_us);
/* The first and the last moment that a side of the transfer reports, since its at_us. False: none.
 */
bool export_side_span(const struct kvtrace_transfer *transfer, kvr_role role, int64_t *ret_first,
                      int64_t *ret_last);
/* "" where it is not known. */
const char *export_agent_name(const struct export *export, int64_t agent);
const char *export_rail_name(const struct export *export, int64_t agent, int64_t rail);

#endif
