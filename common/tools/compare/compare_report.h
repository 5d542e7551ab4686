/* What two traces have in common and what differs, as values: made once, printed in three ways. */
#ifndef KVR_TOOLS_COMPARE_REPORT_H
#define KVR_TOOLS_COMPARE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/compare/compare_sample.h"
#include "tools/compare/compare_stats.h"

#define COMPARE_SENTENCE_BYTES 256
#define COMPARE_SENTENCES_MAX  64

struct compare_report {
    const char *paths[2];
    struct compare_sample samples[2];
    compare_matching matching;
    size_t matched;
    struct compare_changes times[KVTRACE_TIME_END]; /* milliseconds; of pairs that are both done */
    /* Sentences about options and rails that are not the same. */
    char options[COMPARE_SENTENCES_MAX][COMPARE_SENTENCE_BYTES];
    char rails[COMPARE_SENTENCES_MAX][COMPARE_SENTENCE_BYTES];
    size_t option_count, rail_count;
    bool differs; /* some time does, or the outcomes do */
    /* The part of a transfer with the largest change of its mean, at least a quarter of the
     * total's; KVTRACE_TIME_END: there is none. */
    kvtrace_time cause;
};

KVR_MUST_CHECK kvr_status compare_report_make(const char *a, const char *b, uint64_t seed,
                                              struct compare_report *ret_report,
                                              struct kvr_error *error);
void compare_report_release(struct compare_report *report);

/* Whether the outcomes of both are the same, in counts. */
bool compare_same_outcomes(const struct compare_report *report);
/* A sentence: the verdict. */
void compare_verdict(const struct compare_report *report, char *text, size_t room);

void compare_print(const struct compare_report *report, FILE *stream);
json_t *compare_json(const struct compare_report *report);
/* One page without outside parts. False: the stream refused. */
bool compare_html(const struct compare_report *report, FILE *stream);

/* ---- conditions: "p99_total>+5%" --------------------------------------------------------------
 */

struct compare_condition {
    compare_figure figure;
    kvtrace_time time;
    bool above;    /* '>', else '<' */
    double amount; /* of the change: milliseconds, or percent */
    bool percent;
};

/* KVR_INVALID with a sentence. */
KVR_MUST_CHECK kvr_status compare_condition_parse(const char *text,
                                                  struct compare_condition *ret_condition,
                                                  struct kvr_error *error);
/* True: the change is so large, and no chance. */
bool compare_condition_holds(const struct compare_condition *condition,
                             const struct compare_report *report);

#endif
