#include "scheduler/api_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/api_spans.h"
#include "trace/page_runs.h"

static void write_number(struct json_writer *out, const char *key, int64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, number);
    json_writer_plain(out, key, text);
}

/* Microseconds after the opening, by the agent's clock; KVR_SPAN_NEVER. */
static int64_t moment(const struct transfer *transfer, kvr_role role, int64_t before_end_us)
{
    int64_t end_ns = transfer->sides[role].at_ns[STAGE_ENDED];

    if (before_end_us == KVR_SPAN_NEVER || end_ns == 0)
        return KVR_SPAN_NEVER;
    end_ns -= transfer_opened_ns(transfer);
    return end_ns / (int64_t)KVR_US - before_end_us;
}

static void write_layers(struct json_writer *out, const struct kvr_spans *spans,
                         const struct transfer *transfer)
{
    json_writer_array(out, "layers_us");
    for (uint32_t i = 0; i < spans->layer_count; i++) {
        json_writer_array(out, NULL);
        write_number(out, NULL, moment(transfer, spans->role, spans->layers[i].begins_us));
        write_number(out, NULL, moment(transfer, spans->role, spans->layers[i].ends_us));
        json_writer_end_array(out);
    }
    json_writer_end_array(out);
}

static void write_rails(struct json_writer *out, const struct kvr_spans *spans)
{
    json_writer_array(out, "rails");
    for (uint32_t i = 0; i < spans->rail_count; i++) {
        const struct kvr_spans_rail *rail = &spans->rails[i];

        json_writer_array(out, NULL);
        json_writer_count(out, NULL, rail->rail);
        json_writer_count(out, NULL, rail->carried.writes);
        json_writer_count(out, NULL, rail->carried.bytes);
        json_writer_count(out, NULL, rail->carried.retries);
        json_writer_end_array(out);
    }
    json_writer_end_array(out);
}

static void write_spans(struct json_writer *out, const struct transfer_spans *spans,
                        const struct transfer *transfer)
{
    json_writer_object(out, "spans");
    for (int role = 0; role < 2; role++) {
        if (!spans->has[role])
            continue;
        json_writer_object(out, transfer_role_name((kvr_role)role));
        json_writer_count(out, "layer_first", spans->of[role].layer_first);
        write_layers(out, &spans->of[role], transfer);
        write_rails(out, &spans->of[role]);
        json_writer_end_object(out);
    }
    json_writer_end_object(out);
}

/* ---- page tables ---- */

struct records {
    struct transfer_spans spans;
    struct pages {
        uint8_t *bytes; /* owned; NULL: none */
        size_t count;
    } pages[2]; /* by role; those that came last */
    bool failed;
};

static void keep_spans(void *self, const struct kvr_spans *spans)
{
    struct records *records = self;

    api_spans_keep(&records->spans, spans);
}

static void no_run(void *self, uint32_t group, struct kvr_page_run run)
{
    (void)self;
    (void)group;
    (void)run;
}

/* Those of a newer agent are left out. */
static void keep_pages(void *self, const uint8_t *bytes, size_t count)
{
    struct records *records = self;
    kvr_role role = KVR_ROLE_SOURCE;
    kvr_status status = kvr_page_runs_unpack(bytes, count, &role, no_run, NULL);

    if (status == KVR_MALFORMED)
        kvr_log_error("page tables of a transfer in the table events cannot be read, and are not "
                      "shown");
    if (status != KVR_OK || records->pages[role].bytes != NULL)
        return;
    records->pages[role].bytes = malloc(count);
    records->failed |= records->pages[role].bytes == NULL;
    if (records->pages[role].bytes == NULL)
        return;
    memcpy(records->pages[role].bytes, bytes, count);
    records->pages[role].count = count;
}

struct runs_writer {
    struct json_writer *out;
    int64_t group; /* -1: none yet */
};

static void end_group(const struct runs_writer *writer)
{
    if (writer->group < 0)
        return;
    json_writer_end_array(writer->out);
    json_writer_end_object(writer->out);
}

static void write_run(void *self, uint32_t group, struct kvr_page_run run)
{
    struct runs_writer *writer = self;

    if (writer->group != group) {
        end_group(writer);
        json_writer_object(writer->out, NULL);
        json_writer_count(writer->out, "group", group);
        json_writer_array(writer->out, "runs");
        writer->group = group;
    }
    json_writer_array(writer->out, NULL);
    json_writer_count(writer->out, NULL, run.page_first);
    json_writer_count(writer->out, NULL, run.page_count);
    json_writer_end_array(writer->out);
}

static void write_pages(struct json_writer *out, const struct pages pages[2])
{
    json_writer_object(out, "pages");
    for (int role = 0; role < 2; role++) {
        struct runs_writer writer = {out, -1};
        kvr_role said;

        if (pages[role].bytes == NULL)
            continue;
        json_writer_array(out, transfer_role_name((kvr_role)role));
        if (kvr_page_runs_unpack(pages[role].bytes, pages[role].count, &said, write_run, &writer) ==
            KVR_OK)
            end_group(&writer);
        json_writer_end_array(out);
    }
    json_writer_end_object(out);
}

bool api_write_trace(struct json_writer *out, struct store *store, const struct transfer *transfer)
{
    struct records records = {.failed = false};
    bool read = store_list_records(store, transfer->id,
                                   &(struct records_visitor){&records, keep_spans, keep_pages});

    write_number(out, "opened_us", transfer_opened_ns(transfer) / (int64_t)KVR_US);
    if (read) {
        write_spans(out, &records.spans, transfer);
        write_pages(out, records.pages);
    }
    free(records.pages[KVR_ROLE_SOURCE].bytes);
    free(records.pages[KVR_ROLE_TARGET].bytes);
    return read && !records.failed;
}
