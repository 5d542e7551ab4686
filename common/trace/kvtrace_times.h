/* Where the time of a transfer went, each part by one agent's clock. */
#ifndef KVR_TRACE_KVTRACE_TIMES_H
#define KVR_TRACE_KVTRACE_TIMES_H

#include "trace/kvtrace.h"

/* X(symbol, name, side that measures it, from, to, meaning) */
#define KVTRACE_TIME_LIST(X)                                                                       \
    X(KVTRACE_TIME_QUEUE, "queue", KVR_ROLE_TARGET, KVR_EVENT_OPENED, KVR_EVENT_MATCHED,           \
      "the fetch waited for its source")                                                           \
    X(KVTRACE_TIME_NEGOTIATE, "negotiate", KVR_ROLE_TARGET, KVR_EVENT_MATCHED, KVR_EVENT_GRANTED,  \
      "page tables were compared, slots and rails fixed")                                          \
    X(KVTRACE_TIME_FIRST_BYTE, "first_byte", KVR_ROLE_TARGET, KVR_EVENT_GRANTED,                   \
      KVR_EVENT_FIRST_LAND, "from the grant to the first chunk")                                   \
    X(KVTRACE_TIME_READY, "ready", KVR_ROLE_SOURCE, KVR_EVENT_FIRST_READY, KVR_EVENT_LAST_READY,   \
      "the source engine made the layers")                                                         \
    X(KVTRACE_TIME_LAND, "land", KVR_ROLE_TARGET, KVR_EVENT_FIRST_LAND, KVR_EVENT_LAST_LAND,       \
      "chunks arrived")                                                                            \
    X(KVTRACE_TIME_EXPOSED, "exposed_wait", KVR_ROLE_SOURCE, KVR_EVENT_LAST_READY,                 \
      KVR_EVENT_ENDED, "after the last layer was ready: no computation hides it")                  \
    X(KVTRACE_TIME_TOTAL, "total", KVR_ROLE_TARGET, KVR_EVENT_OPENED, KVR_EVENT_ENDED,             \
      "from the fetch to its end")

typedef enum kvtrace_time { KVTRACE_TIME_LIST(KVR_SYMBOL) KVTRACE_TIME_END } kvtrace_time;

const char *kvtrace_time_name(kvtrace_time time);
const char *kvtrace_time_meaning(kvtrace_time time);

/* The side that measures it. */
kvr_role kvtrace_time_role(kvtrace_time time);
/* Its first and last moment since the transfer's at_us. False: one of them is not known. */
bool kvtrace_time_span(const struct kvtrace_transfer *transfer, kvtrace_time time,
                       int64_t *ret_from, int64_t *ret_to);
/* Microseconds; KVTRACE_NEVER: one of both moments is not known. */
int64_t kvtrace_time_us(const struct kvtrace_transfer *transfer, kvtrace_time time);

#endif
