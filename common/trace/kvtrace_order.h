/* Records in the order of their times, whatever order they come in. Memory is bounded: records are
 * kept as lines, sorted and written to a temporary file each time that they fill the room. At the
 * end the parts of that file are merged. The room is some 32 MiB, and each part takes 64 KiB more.
 * The file has no name, lies in $TMPDIR or /var/tmp, and exists only where the room was not enough.
 * One thread. */
#ifndef KVR_TRACE_KVTRACE_ORDER_H
#define KVR_TRACE_KVTRACE_ORDER_H

#include "trace/kvtrace.h"

#define KVTRACE_ORDER_ROOM (32u << 20)

struct kvtrace_order;

/* `room`: bytes of lines that are kept in memory. */
KVR_MUST_CHECK kvr_status kvtrace_order_open(size_t room, struct kvtrace_order **ret_order,
                                             struct kvr_error *error);
struct kvtrace_order *kvtrace_order_close(struct kvtrace_order *order); /* NULL is fine; NULL */

/* A record that has a time: a request, transfer, fault or mark. Others are KVR_INVALID, and a
 * member that no line can hold. */
KVR_MUST_CHECK kvr_status kvtrace_order_put(struct kvtrace_order *order,
                                            const struct kvtrace_record *record,
                                            struct kvr_error *error);
/* After the last put: the next record by time. Those of one moment come kind by kind, transfers
 * with equal ids side by side, and else as they were put. Valid until the next call but one.
 * KVR_NOT_FOUND: there is none. */
KVR_MUST_CHECK kvr_status kvtrace_order_next(struct kvtrace_order *order,
                                             const struct kvtrace_record **ret_record,
                                             struct kvr_error *error);

/* How many records were put before the one that kvtrace_order_next() gave last. */
uint64_t kvtrace_order_number(const struct kvtrace_order *order);

/* The record before the last one stays valid for one call more, in place of the last one. */
void kvtrace_order_keep(struct kvtrace_order *order);

/* The record's at_us. False: its kind has none. */
bool kvtrace_moment(const struct kvtrace_record *record, int64_t *ret_at_us);

#endif
