/* The transfers of two traces, and which of them are the same requests. One thread; memory grows
 * with the transfers, some 120 bytes each. */
#ifndef KVR_TOOLS_COMPARE_SAMPLE_H
#define KVR_TOOLS_COMPARE_SAMPLE_H

#include "trace/kvtrace_book.h"
#include "trace/kvtrace_times.h"

struct compare_transfer {
    uint64_t request; /* a hash of its id */
    uint64_t key;     /* of request, attempt and both ranks */
    int64_t at_us, tokens;
    kvtrace_outcome outcome;
    int64_t times_us[KVTRACE_TIME_END]; /* KVTRACE_NEVER */
    int64_t other;                      /* its place in the other sample, or KVTRACE_NONE */
};

/* What one rail of one agent carried. */
struct compare_rail {
    char agent[KVR_NAME_BYTES], rail[KVR_NAME_BYTES];
    kvr_role role;
    uint64_t writes, bytes, retries;
};

struct compare_sample {
    struct kvtrace_book book; /* its agents */
    struct compare_transfer *transfers;
    size_t count, room;
    struct compare_rail *rails; /* those that carried something, in the order of the agents */
    size_t rail_count;
    uint64_t *carried; /* while reading: writes, bytes, retries of each agent's rail */
    uint64_t outcomes[KVTRACE_OUTCOME_END];
};

/* Reads a trace. KVR_MALFORMED names the line. */
KVR_MUST_CHECK kvr_status compare_read(const char *path, struct compare_sample *ret_sample,
                                       struct kvr_error *error);
void compare_release(struct compare_sample *sample);

typedef enum compare_matching {
    COMPARE_BY_ID,    /* equal ids of requests */
    COMPARE_BY_ORDER, /* no id is in both: by time, and equal numbers of tokens */
} compare_matching;

/* Sets `other` in both. Returns how many are matched, and how. */
size_t compare_match(struct compare_sample *a, struct compare_sample *b,
                     compare_matching *ret_matching);

/* The times of one kind of those transfers that are matched and have it in both, in milliseconds,
 * the shortest first; the caller frees the list. NULL: no memory. */
double *compare_sorted_times(const struct compare_sample *sample,
                             const struct compare_sample *other, kvtrace_time time,
                             size_t *ret_count);

#endif
