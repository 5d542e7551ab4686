/* CSV as RFC 4180 has it: a header line, a row a transfer, lines that end in CRLF, and quotes where
 * a field needs them. A time that is not known is empty. */
#include <inttypes.h>

#include "tools/trace/export.h"
#include "trace/kvtrace_times.h"

static void put_field(struct export *export, const char *text)
{
    if (text[strcspn(text, "\",\r\n")] == '\0') {
        export_text(export, text);
        return;
    }
    export_text(export, "\"");
    for (; *text != '\0'; text++)
        export_print(export, *text == '"' ? "\"%c" : "%c", *text);
    export_text(export, "\"");
}

static void put_next_field(struct export *export, const char *text)
{
    export_text(export, ",");
    put_field(export, text);
}

static void put_number(struct export *export, int64_t number)
{
    export_print(export, ",%" PRId64, number);
}

/* Nothing where it is KVTRACE_NEVER. */
static void put_time(struct export *export, int64_t time_us)
{
    if (time_us == KVTRACE_NEVER)
        export_text(export, ",");
    else
        put_number(export, time_us);
}

static void begin(struct export *export)
{
    export_text(export, "id,request,tenant,attempt,at_us,outcome,reason,detail,tokens,skip_tokens,"
                        "bytes,layers,chunks,retries,pieces,priority,deadline_us,cancelled_us,"
                        "source_agent,source_engine,source_path,target_agent,target_engine,"
                        "target_path");
    for (int time = 0; time < KVTRACE_TIME_END; time++)
        export_print(export, ",%s_us", kvtrace_time_name((kvtrace_time)time));
    export_text(export, "\r\n");
}

static void put_amounts(struct export *export, const struct kvtrace_transfer *transfer)
{
    const int64_t numbers[] = {transfer->tokens, transfer->skip_tokens, transfer->bytes,
                               transfer->layers, transfer->chunks,      transfer->retries,
                               transfer->pieces, transfer->priority,    transfer->deadline_us};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        put_number(export, numbers[i]);
    put_time(export, transfer->cancelled_us);
}

static void put_side(struct export *export, const struct kvtrace_side *side)
{
    put_next_field(export, export_agent_name(export, side->agent));
    put_next_field(export,
                   side->engine != KVTRACE_NONE ? export->book->engines[side->engine]->name : "");
    put_next_field(export, kvr_path_name(side->path));
}

static void put_record(struct export *export, const struct kvtrace_record *record)
{
    const struct kvtrace_transfer *transfer = &record->transfer;

    if (record->kind != KVTRACE_TRANSFER)
        return;
    put_field(export, transfer->id);
    put_next_field(export, transfer->request);
    put_next_field(export, transfer->tenant);
    put_number(export, transfer->attempt);
    put_number(export, transfer->at_us);
    put_next_field(export, kvtrace_outcome_name(transfer->outcome));
    put_next_field(export, transfer->reason);
    put_next_field(export, transfer->detail);
    put_amounts(export, transfer);
    for (int role = 0; role < 2; role++)
        put_side(export, &transfer->sides[role]);
    for (int time = 0; time < KVTRACE_TIME_END; time++)
        put_time(export, kvtrace_time_us(transfer, (kvtrace_time)time));
    export_text(export, "\r\n");
}

static void end(struct export *export)
{
    (void)export;
}

const struct export_format export_csv = {begin, put_record, end, end};
