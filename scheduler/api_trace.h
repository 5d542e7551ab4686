/* What a recorder of traces wants of a transfer beside its row: when it was opened, to the
 * microsecond, and the spans and page tables that its agents sent. The reading store's thread. */
#ifndef KVR_SCHEDULER_API_TRACE_H
#define KVR_SCHEDULER_API_TRACE_H

#include "scheduler/json_writer.h"
#include "scheduler/store.h"

/* The members opened_us, spans and pages, within the transfer's object. False: the database failed.
 */
bool api_write_trace(struct json_writer *out, struct store *store, const struct transfer *transfer);

#endif
