/* The cells of a row of rollups as the database holds them: amounts in one run of bytes, times in
 * another.
 *
 * Cells stand in the order of their keys; one without amounts, or without times, is left out there.
 * A cell is: how many bytes its key shares with the key before, how many follow, these bytes, a
 * byte with a bit for each amount (or histogram) that is not empty, and these. An amount is a
 * number. A histogram is how many buckets follow, and of each how many empty ones come before, and
 * its count. Numbers are those of base/varint.h.
 *
 * A file may be damaged: the decoder believes nothing. Pure but for memory. */
#ifndef KVR_SCHEDULER_ROLLUP_PACK_H
#define KVR_SCHEDULER_ROLLUP_PACK_H

#include "scheduler/rollup.h"

/* Zeroed: empty; reused from row to row. */
struct rollup_pack {
    uint8_t *bytes; /* owned */
    size_t count, room;
};

/* False: no memory. */
bool rollup_pack_amounts(struct rollup_row *row, struct rollup_pack *pack);
bool rollup_pack_times(struct rollup_row *row, struct rollup_pack *pack);
void rollup_pack_free(struct rollup_pack *pack);

/* ---- read ---- */

struct rollup_unpack {
    const uint8_t *bytes; /* borrowed: what is left */
    size_t count;
    struct rollup_key key; /* of the last cell */
};

/* The next cell. KVR_NOT_FOUND: there is none any more; KVR_MALFORMED: these are no cells. */
KVR_MUST_CHECK kvr_status rollup_next_amounts(struct rollup_unpack *unpack,
                                              uint64_t ret_amounts[ROLLUP_AMOUNT_END]);
/* Adds the times of the next cell. */
KVR_MUST_CHECK kvr_status rollup_next_times(struct rollup_unpack *unpack, rollup_histograms *times);

/* Adds packed cells to those of the row. KVR_MALFORMED, after some were added; KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status rollup_row_add(struct rollup_row *row, struct rollup_unpack amounts,
                                         struct rollup_unpack times);

#endif
