/* Reports that the scheduler has not acknowledged, in order, on disk.
 *
 * The folder holds segments `events-<number>.spool`, each a run of records:
 *
 *   offset 0   4  magic "KVRS"
 *          4   4  bytes of the report that follows the header
 *          8   4  XXH32 of the bytes after it, to the end of the report
 *         12   4  events in the report
 *         16   8  boot of the agent that made them
 *         24   8  sequence number of the first
 *         32      the report, as it will be posted
 *
 * Integers are the machine's own: a spool never leaves its host. Records are appended to the newest
 * segment and taken from the oldest; a segment that is used up is removed. Past the bound the
 * oldest segment goes unsent. Reports that were taken but not yet removed with their segment are
 * posted again after a restart, which changes nothing at the scheduler. A record cut off by a crash
 * ends its segment. So does a record with a damaged header, and the loss is reported.
 *
 * One thread at a time. */
#ifndef KVR_AGENT_SPOOL_H
#define KVR_AGENT_SPOOL_H

#include <stddef.h>

#include "base/status.h"
#include "base/types.h"

struct kvr_spool;

struct kvr_spool_record {
    uint64_t boot, sequence_first;
    uint32_t event_count;
    uint32_t bytes;
};

/* Reports that the disk did not give back. */
struct kvr_spool_loss {
    uint64_t events; /* at least: events after a header that was damaged earlier are not counted */
    char file[48];   /* in the folder; the last, where there are several */
};

/* folder: exists. Takes over what an earlier process left in it. */
KVR_MUST_CHECK kvr_status kvr_spool_open(const char *folder, size_t bytes_max,
                                         struct kvr_spool **ret_spool, struct kvr_error *error);
struct kvr_spool *kvr_spool_close(struct kvr_spool *spool); /* keeps the files; returns NULL */

/* Adds the events that the bound pushed out to *dropped, also when it fails. */
KVR_MUST_CHECK kvr_status kvr_spool_append(struct kvr_spool *spool,
                                           const struct kvr_spool_record *record,
                                           const uint8_t *report, uint64_t *dropped);

/* What was appended is on the disk, with the name of its segment, when this returns. It takes as
 * long as the disk does. */
void kvr_spool_sync(struct kvr_spool *spool);

/* The oldest record; false when there is none. */
bool kvr_spool_front(struct kvr_spool *spool, struct kvr_spool_record *ret_record);
/* Its report, into record->bytes bytes; false when the disk does not give it back: its events count
 * as lost, and the caller drops it. */
bool kvr_spool_read(struct kvr_spool *spool, const struct kvr_spool_record *record,
                    uint8_t *report);
void kvr_spool_drop(struct kvr_spool *spool);

/* What was lost since the last call; false: nothing. */
bool kvr_spool_take_loss(struct kvr_spool *spool, struct kvr_spool_loss *ret_loss);

#endif
