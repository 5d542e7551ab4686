/* Spans and page tables, packed, with the end of a transfer. */
#include "trace/page_runs.h"
#include "trace/report_parts.h"

static uint32_t kept(const ProtobufCBinaryData *packed, size_t max)
{
    return packed->len <= max ? (uint32_t)packed->len : 0;
}

uint32_t report_spans_kept(const Kvrail__Report__Event *in)
{
    return kept(&in->spans, KVR_SPANS_BYTES_MAX);
}

uint32_t report_pages_kept(const Kvrail__Report__Event *in)
{
    return kept(&in->pages, KVR_PAGE_RUNS_BYTES_MAX);
}

const uint8_t *report_keep(const ProtobufCBinaryData *packed, uint32_t count, uint8_t **room)
{
    const uint8_t *at = *room;

    if (count == 0)
        return NULL;
    memcpy(*room, packed->data, count);
    *room += count;
    return at;
}
