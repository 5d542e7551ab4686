/* How the journal stands in its file, and what can be read of it.
 *
 *   offset 0   8  magic "KVRJRNL1"
 *          8   8  id of the journal: random, drawn when the file is made
 *         16      frames
 *
 * A frame is what one sync put on the disk: the reports of one round of the writer.
 *
 *   offset 0   4  magic "KVRJ"
 *          4   4  bytes of the reports behind the header
 *          8   8  XXH64 of these, with the id as its seed
 *         16   8  number: one more than the frame before
 *         24   8  when the reports arrived, wall
 *         32   4  reports
 *         36   4  0
 *         40   8  XXH64 of the bytes before, with the id as its seed
 *         48      each report: 4 bytes of length, then its body as it was received
 *
 * Integers are the machine's own: a journal never leaves its host. The writer begins again behind
 * the file's header once the database has all frames. So frames of before may stand behind the
 * newest one; their numbers are lower. The id is secret: no report can hold a frame that would be
 * believed.
 *
 * A frame that is not whole and that no higher number follows was cut off by a crash, and was never
 * acknowledged. Where a higher number follows, acknowledged reports are lost.
 *
 * The disk may have damaged the file: the decoder believes nothing. Pure. */
#ifndef KVR_SCHEDULER_JOURNAL_FRAMES_H
#define KVR_SCHEDULER_JOURNAL_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/types.h"

#define JOURNAL_MAGIC        "KVRJRNL1"
#define JOURNAL_HEADER_BYTES 16
#define JOURNAL_FRAME_BYTES  48 /* of its header */

struct journal_report {
    const uint8_t *bytes; /* borrowed */
    size_t count;
};

/* *ret_id: of the journal. False: it does not begin as a journal does. */
bool journal_read_header(const uint8_t *bytes, size_t count, uint64_t *ret_id);
void journal_write_header(uint64_t id, uint8_t bytes[JOURNAL_HEADER_BYTES]);

/* ---- write ---- */

struct journal_frame {
    uint64_t number;
    int64_t arrived_ns;
    uint32_t report_count;
    const uint8_t *reports; /* borrowed: what is left to read */
    size_t bytes;
};

/* The header of a frame with these reports. False: they are more than one frame can hold, or there
 * is no memory. */
bool journal_frame_header(uint64_t id, const struct journal_frame *frame,
                          const struct journal_report *reports, uint8_t bytes[JOURNAL_FRAME_BYTES]);

/* ---- read ---- */

/* Begin with bytes, count, id and after; the rest zeroed. */
struct journal_scan {
    const uint8_t *bytes; /* borrowed: the whole file */
    size_t count, offset;
    uint64_t id;
    uint64_t after; /* frames up to that number are passed over; then: of the last one found */
    uint64_t lost;  /* frames that were damaged, so far */
};

/* The next frame that is whole. False: there is none any more. */
bool journal_scan_next(struct journal_scan *scan, struct journal_frame *ret_frame);
/* The next report of the frame. False: there is none any more. */
bool journal_frame_next(struct journal_frame *frame, struct journal_report *ret_report);

#endif
