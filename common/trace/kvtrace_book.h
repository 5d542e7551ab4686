/* The agents, geometries and engines of a trace, and whether its records fit together. Memory grows
 * with these definitions, not with the transfers. One thread. */
#ifndef KVR_TRACE_KVTRACE_BOOK_H
#define KVR_TRACE_KVTRACE_BOOK_H

#include "trace/kvtrace.h"

#define KVTRACE_DEFINITIONS_MAX 65536              /* of each kind */
#define KVTRACE_NUMBER_MAX      ((int64_t)1 << 60) /* of times and amounts */

struct kvtrace_book {
    struct kvtrace_agent **agents; /* by number, as the next two */
    struct kvtrace_geometry **geometries;
    struct kvtrace_engine **engines;
    int64_t agent_count, geometry_count, engine_count;
};

/* Zeroed, it is open. */
void kvtrace_book_close(struct kvtrace_book *book);

/* Keeps the record if it defines something, and compares it with the records before it.
 * KVR_INVALID: the sentence says which member is wrong; a definition is kept only if it is right.
 * KVR_NO_MEMORY, KVR_TOO_LARGE. */
KVR_MUST_CHECK kvr_status kvtrace_book_take(struct kvtrace_book *book,
                                            const struct kvtrace_record *record,
                                            struct kvr_error *error);

/* NULL: KVTRACE_NONE, or not defined. */
const struct kvtrace_agent *kvtrace_book_agent(const struct kvtrace_book *book, int64_t number);

#endif
