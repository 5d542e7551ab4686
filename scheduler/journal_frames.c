#include "scheduler/journal_frames.h"

#include <string.h>
#include <xxhash.h>

static const char frame_magic[4] = {'K', 'V', 'R', 'J'};

struct frame_header {
    char magic[4];
    uint32_t bytes;
    uint64_t checksum, number;
    int64_t arrived_ns;
    uint32_t reports, zero;
    uint64_t own_checksum;
};
_Static_assert(sizeof(struct frame_header) == JOURNAL_FRAME_BYTES, "the journal's format");

static uint64_t own_checksum(const struct frame_header *header, uint64_t id)
{
    return XXH64(header, offsetof(struct frame_header, own_checksum), id);
}

static const char magic[8] = JOURNAL_MAGIC; /* without its end */

bool journal_read_header(const uint8_t *bytes, size_t count, uint64_t *ret_id)
{
    if (count < JOURNAL_HEADER_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0)
        return false;
    memcpy(ret_id, bytes + 8, sizeof(*ret_id));
    return true;
}

void journal_write_header(uint64_t id, uint8_t bytes[JOURNAL_HEADER_BYTES])
{
    memcpy(bytes, magic, sizeof(magic));
    memcpy(bytes + 8, &id, sizeof(id));
}

/* ---- write ---- */

/* False: no memory. */
static bool checksum_of(uint64_t id, const struct journal_report *reports, uint32_t count,
                        uint64_t *ret_checksum)
{
    XXH64_state_t *state = XXH64_createState();

    if (state == NULL)
        return false;
    XXH64_reset(state, id);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length = (uint32_t)reports[i].count;

        XXH64_update(state, &length, sizeof(length));
        XXH64_update(state, reports[i].bytes, reports[i].count);
    }
    *ret_checksum = XXH64_digest(state);
    XXH64_freeState(state);
    return true;
}

bool journal_frame_header(uint64_t id, const struct journal_frame *frame,
                          const struct journal_report *reports, uint8_t bytes[JOURNAL_FRAME_BYTES])
{
    struct frame_header header = {.magic = {'K', 'V', 'R', 'J'},
                                  .number = frame->number,
                                  .arrived_ns = frame->arrived_ns,
                                  .reports = frame->report_count};
    uint64_t size = 0;

    for (uint32_t i = 0; i < frame->report_count; i++) {
        if (reports[i].count > UINT32_MAX)
            return false;
        size += sizeof(uint32_t) + reports[i].count;
    }
    if (size > UINT32_MAX || !checksum_of(id, reports, frame->report_count, &header.checksum))
        return false;
    header.bytes = (uint32_t)size;
    header.own_checksum = own_checksum(&header, id);
    memcpy(bytes, &header, sizeof(header));
    return true;
}

/* ---- read ---- */

/* The header at the offset is one, of a frame that was not seen yet. */
static bool read_header(const struct journal_scan *scan, struct frame_header *ret_header)
{
    if (scan->count - scan->offset < sizeof(*ret_header))
        return false;
    memcpy(ret_header, scan->bytes + scan->offset, sizeof(*ret_header));
    return memcmp(ret_header->magic, frame_magic, sizeof(frame_magic)) == 0 &&
           ret_header->own_checksum == own_checksum(ret_header, scan->id) &&
           ret_header->number > scan->after;
}

static bool is_whole(const struct journal_scan *scan, const struct frame_header *header)
{
    size_t left = scan->count - scan->offset - sizeof(*header);

    return header->bytes <= left && XXH64(scan->bytes + scan->offset + sizeof(*header),
                                          header->bytes, scan->id) == header->checksum;
}

/* To the next place where a frame may begin. False: there is none. */
static bool skip(struct journal_scan *scan)
{
    const uint8_t *found;

    if (scan->count - scan->offset <= 1)
        return false;
    found = memmem(scan->bytes + scan->offset + 1, scan->count - scan->offset - 1, frame_magic,
                   sizeof(frame_magic));
    if (found == NULL)
        return false;
    scan->offset = (size_t)(found - scan->bytes);
    return true;
}

static void take(struct journal_scan *scan, const struct frame_header *header,
                 struct journal_frame *ret_frame)
{
    scan->lost += header->number - scan->after - 1;
    scan->after = header->number;
    *ret_frame = (struct journal_frame){
        .number = header->number,
        .arrived_ns = header->arrived_ns,
        .report_count = header->reports,
        .reports = scan->bytes + scan->offset + sizeof(*header),
        .bytes = header->bytes,
    };
    scan->offset += sizeof(*header) + header->bytes;
}

bool journal_scan_next(struct journal_scan *scan, struct journal_frame *ret_frame)
{
    struct frame_header header;

    if (scan->offset == 0)
        scan->offset = JOURNAL_HEADER_BYTES;
    if (scan->offset >= scan->count)
        return false;
    while (!read_header(scan, &header) || !is_whole(scan, &header))
        if (!skip(scan)) {
            scan->offset = scan->count;
            return false;
        }
    take(scan, &header, ret_frame);
    return true;
}

bool journal_frame_next(struct journal_frame *frame, struct journal_report *ret_report)
{
    uint32_t length;

    if (frame->report_count == 0 || frame->bytes < sizeof(length))
        return false;
    memcpy(&length, frame->reports, sizeof(length));
    if (length > frame->bytes - sizeof(length))
        return false;
    *ret_report = (struct journal_report){frame->reports + sizeof(length), length};
    frame->reports += sizeof(length) + length;
    frame->bytes -= sizeof(length) + length;
    frame->report_count--;
    return true;
}
