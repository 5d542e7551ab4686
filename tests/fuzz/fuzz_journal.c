/* Any bytes as the journal's file: no frame is read that is not whole, frames have rising numbers,
 * and what is read can be written and read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/journal_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* A journal of these reports alone has them. */
static void write_again(const struct journal_frame *frame, const struct journal_report *report)
{
    struct journal_frame written = {
        .number = frame->number, .arrived_ns = frame->arrived_ns, .report_count = 1};
    size_t bytes = JOURNAL_HEADER_BYTES + JOURNAL_FRAME_BYTES + 4 + report->count;
    struct journal_scan scan = {.count = bytes, .id = 7, .after = frame->number - 1};
    uint32_t length = (uint32_t)report->count;
    uint8_t *file = malloc(bytes), *at = file + JOURNAL_HEADER_BYTES;
    struct journal_report again;

    check(file != NULL, "no memory");
    journal_write_header(7, file);
    check(journal_frame_header(7, &written, report, at), "too large, or no memory");
    memcpy(at + JOURNAL_FRAME_BYTES, &length, 4);
    memcpy(at + JOURNAL_FRAME_BYTES + 4, report->bytes, report->count);
    scan.bytes = file;
    check(journal_scan_next(&scan, &written) && written.number == frame->number &&
              written.arrived_ns == frame->arrived_ns,
          "what was written is not read");
    check(journal_frame_next(&written, &again) && again.count == report->count &&
              memcmp(again.bytes, report->bytes, again.count) == 0,
          "another report");
    free(file);
}

/* A fuzzer finds no checksum: the first byte says at which of the next 255 places the checksums of
 * a frame are made right. */
static void make_right(uint8_t *bytes, size_t count, uint64_t id, size_t at)
{
    struct journal_frame frame = {.report_count = 1};
    struct journal_report report;

    if (at + JOURNAL_FRAME_BYTES + 4 > count)
        return;
    memcpy(&frame.number, bytes + at + 16, 8);
    report.count = (count - at - JOURNAL_FRAME_BYTES - 4) / 2;
    report.bytes = bytes + at + JOURNAL_FRAME_BYTES + 4;
    memcpy(bytes + at + JOURNAL_FRAME_BYTES, &(uint32_t){(uint32_t)report.count}, 4);
    check(journal_frame_header(id, &frame, &report, bytes + at), "too large, or no memory");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal_scan scan = {0};
    struct journal_frame frame, left;
    struct journal_report report;
    uint64_t last = 0, id = 0;
    uint8_t *bytes;

    if (size == 0)
        return 0;
    bytes = malloc(size);
    check(bytes != NULL, "no memory");
    memcpy(bytes, data + 1, size - 1);
    if (!journal_read_header(bytes, size - 1, &id))
        id = 7;
    make_right(bytes, size - 1, id, JOURNAL_HEADER_BYTES + data[0]);
    scan = (struct journal_scan){.bytes = bytes, .count = size - 1, .id = id};
    while (journal_scan_next(&scan, &frame)) {
        check(frame.number > last, "a number of before");
        check(frame.reports >= bytes && frame.reports + frame.bytes <= bytes + size - 1,
              "a frame outside");
        last = frame.number;
        left = frame;
        while (journal_frame_next(&left, &report)) {
            check(report.bytes >= frame.reports &&
                      report.bytes + report.count <= frame.reports + frame.bytes,
                  "a report outside");
            write_again(&frame, &report);
        }
    }
    free(bytes);
    return 0;
}
