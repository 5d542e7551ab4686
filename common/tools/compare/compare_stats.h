/* How two lists of times differ, with the uncertainty of the difference by bootstrap: the requests
 * are drawn again with replacement, and the difference of each draw is noted. Pure; deterministic
 * by seed. */
#ifndef KVR_TOOLS_COMPARE_STATS_H
#define KVR_TOOLS_COMPARE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "base/status.h"

/* X(symbol, name, percent): mean has none */
#define COMPARE_FIGURE_LIST(X)                                                                     \
    X(COMPARE_P50, "p50", 50)                                                                      \
    X(COMPARE_P95, "p95", 95)                                                                      \
    X(COMPARE_P99, "p99", 99)                                                                      \
    X(COMPARE_MEAN, "mean", -1)

typedef enum compare_figure { COMPARE_FIGURE_LIST(KVR_SYMBOL) COMPARE_FIGURE_END } compare_figure;

const char *compare_figure_name(compare_figure figure);

struct compare_change {
    double a, b;      /* the figure in either, in the unit of the times */
    double low, high; /* of b - a: 95 % of the draws are between them */
    bool differs;     /* 0 is outside of nearly all draws: see COMPARE_DOUBT */
};

/* So rarely may one of all comparisons of a report be called a difference where there is none. */
#define COMPARE_DOUBT 0.05

struct compare_changes {
    size_t count, requests; /* pairs, and requests that they are of */
    struct compare_change figures[COMPARE_FIGURE_END];
};

/* Pairs of times, request by request: the ranks of one request have much in common, and are drawn
 * together. */
struct compare_pairs {
    const double *a, *b;
    size_t count;
    const size_t *firsts; /* of each request; NULL: each pair is a request of its own */
    size_t requests;
};

/* comparisons: how many the report makes in all. Fewer than COMPARE_REQUESTS_MIN requests prove no
 * difference. KVR_NO_MEMORY. */
#define COMPARE_REQUESTS_MIN 20
KVR_MUST_CHECK kvr_status compare_stats(const struct compare_pairs *pairs, size_t comparisons,
                                        uint64_t seed, struct compare_changes *ret_changes,
                                        struct kvr_error *error);

#endif
