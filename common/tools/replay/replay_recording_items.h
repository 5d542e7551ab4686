/* From the records of a trace to the requests of a replay (replay_recording.h): private to both
 * files.
 *
 * Agents report what they saw. A transfer that ended before its publish and its fetch had met is
 * two records, a half each, and a third one where they met afterwards. They are one request here.
 */
#ifndef KVR_TOOLS_REPLAY_RECORDING_ITEMS_H
#define KVR_TOOLS_REPLAY_RECORDING_ITEMS_H

#include "tools/replay/replay_recording.h"
#include "trace/kvtrace_book.h"

struct recording_name; /* a request's id */

/* What is known of an item only while its trace is read. */
struct recording_entry {
    bool gone;         /* another item stands for it */
    bool ended_well;   /* by its outcome */
    uint32_t previous; /* another transfer of its request; UINT32_MAX: none */
    int64_t attempt;
    int64_t engines[REPLAY_ROLES]; /* of the trace; KVTRACE_NONE */
};

struct recording_reader {
    struct kvr_trace *trace;
    struct replay_recording *recording;
    struct kvtrace_book book;
    struct recording_name *names;
    struct recording_entry *entries; /* as recording->items */
    size_t entry_capacity, item_capacity, number_capacity, fault_capacity;
};

/* Of microseconds that a record may hold: none below 0, and KVR_NEVER where they are absurd. */
kvr_ns recording_ns(int64_t us);
/* Room for `more` elements behind `count`; false without memory. */
bool recording_reserve(void **array, size_t *capacity, size_t count, size_t more, size_t bytes);
kvr_status recording_no_memory(struct kvr_error *error);

KVR_MUST_CHECK kvr_status recording_take_request(struct recording_reader *reader,
                                                 const struct kvtrace_request *request,
                                                 struct kvr_error *error);
KVR_MUST_CHECK kvr_status recording_take_transfer(struct recording_reader *reader,
                                                  const struct kvtrace_transfer *transfer,
                                                  struct kvr_error *error);
/* Takes out of the trace what other items stand for, and halves that never met the other side. */
void recording_settle(struct recording_reader *reader);
void recording_names_done(struct recording_reader *reader);

#endif
