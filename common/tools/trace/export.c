#include "tools/trace/export.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

#define PRINT_BYTES 512
#define TEXT_BYTES  1024 /* of the longest text of a trace, with its NUL */

static void put(struct export *export, const char *bytes, size_t count)
{
    if (export->status == KVR_OK)
        export->status = kvtrace_sink_write(export->sink, bytes, count, &export->error);
}

void export_text(struct export *export, const char *text)
{
    put(export, text, strlen(text));
}

void export_print(struct export *export, const char *format, ...)
{
    char text[PRINT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    export_text(export, text);
}

void export_json(struct export *export, const char *text)
{
    char json[6 * TEXT_BYTES + 1];

    kvr_text_json(text, json, sizeof(json));
    put(export, "\"", 1);
    export_text(export, json);
    put(export, "\"", 1);
}

void export_no_memory(struct export *export)
{
    if (export->status == KVR_OK)
        export->status =
            kvr_error_set(&export->error, KVR_NO_MEMORY, "trace", "no memory to export the trace");
}

int64_t export_wall_us(const struct export *export, int64_t at_us)
{
    return export->header->start_us + at_us;
}

bool export_side_span(const struct kvtrace_transfer *transfer, kvr_role role, int64_t *ret_first,
                      int64_t *ret_last)
{
    const int64_t *stages = transfer->sides[role].stages_us;
    bool any = false;

    for (int stage = 0; stage < KVR_EVENT_KIND_END; stage++) {
        if (stage == KVR_EVENT_RETRY || stages[stage] == KVTRACE_NEVER) /* retries are counted */
            continue;
        if (!any || stages[stage] < *ret_first)
            *ret_first = stages[stage];
        if (!any || stages[stage] > *ret_last)
            *ret_last = stages[stage];
        any = true;
    }
    return any;
}

const char *export_agent_name(const struct export *export, int64_t agent)
{
    const struct kvtrace_agent *one = kvtrace_book_agent(export->book, agent);

    return one != NULL ? one->name : "";
}

const char *export_rail_name(const struct export *export, int64_t agent, int64_t rail)
{
    const struct kvtrace_agent *one = kvtrace_book_agent(export->book, agent);

    return one != NULL && rail >= 0 && rail < (int64_t)one->rail_count ? one->rails[rail].name : "";
}
