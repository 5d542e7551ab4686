#include "tools/compare/compare_report.h"

#include <inttypes.h>
#include <stdlib.h>

#define CURVE_POINTS 21

static const char *matching_text(const struct compare_report *report)
{
    return report->matching == COMPARE_BY_ID
               ? "by the ids of their requests"
               : "by time and tokens, because no id of a request is in both";
}

static void print_sentences(FILE *stream, const char *title,
                            const char (*sentences)[COMPARE_SENTENCE_BYTES], size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "  %-9s %s\n", i == 0 ? title : "", sentences[i]);
}

static void print_outcomes(const struct compare_report *report, FILE *stream)
{
    for (int i = 0; i < KVTRACE_OUTCOME_END; i++) {
        uint64_t a = report->samples[0].outcomes[i], b = report->samples[1].outcomes[i];

        if (a > 0 || b > 0)
            fprintf(stream, "  %-9s %10" PRIu64 " %10" PRIu64 "%s\n",
                    kvtrace_outcome_name((kvtrace_outcome)i), a, b, a != b ? "  differs" : "");
    }
}

static void print_change(const struct compare_change *change, const char *name, const char *figure,
                         FILE *stream)
{
    char percent[32] = "";

    if (change->a > 0)
        snprintf(percent, sizeof(percent), "%+.1f %%", 100 * (change->b - change->a) / change->a);
    fprintf(stream, "  %-13s %-5s %10.2f %10.2f %+10.2f %9s  %+.2f to %+.2f%s\n", name, figure,
            change->a, change->b, change->b - change->a, percent, change->low, change->high,
            change->differs ? "" : "  not distinguishable");
}

static void print_times(const struct compare_report *report, FILE *stream)
{
    fprintf(stream, "\n  %-13s %-5s %10s %10s %10s %9s  %s\n", "ms", "", "A", "B", "B - A", "",
            "95 % of draws");
    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        const struct compare_changes *changes = &report->times[time];

        for (int figure = 0; figure < COMPARE_FIGURE_END && changes->count > 0; figure++)
            print_change(&changes->figures[figure],
                         figure == 0 ? kvtrace_time_name((kvtrace_time)time) : "",
                         compare_figure_name((compare_figure)figure), stream);
    }
}

void compare_print(const struct compare_report *report, FILE *stream)
{
    char verdict[400];

    compare_verdict(report, verdict, sizeof(verdict));
    fprintf(stream, "A: %s, %zu transfers\nB: %s, %zu transfers\n%s\n\n", report->paths[0],
            report->samples[0].count, report->paths[1], report->samples[1].count, verdict);
    fprintf(stream, "  %-9s %zu, %s\n", "matched", report->matched, matching_text(report));
    print_sentences(stream, "options", (const char(*)[COMPARE_SENTENCE_BYTES])report->options,
                    report->option_count);
    print_sentences(stream, "rails", (const char(*)[COMPARE_SENTENCE_BYTES])report->rails,
                    report->rail_count);
    print_outcomes(report, stream);
    print_times(report, stream);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *change_json(const struct compare_change *change)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:b}", "a", change->a, "b", change->b, "change",
                     change->b - change->a, "low", change->low, "high", change->high, "differs",
                     change->differs);
}

/* At most so long took each further twentieth of the matched transfers, from none to all; [] where
 * no pair has that time. */
static json_t *curve_json(const struct compare_report *report, int which, kvtrace_time time)
{
    size_t count;
    double *list =
        compare_sorted_times(&report->samples[which], &report->samples[1 - which], time, &count);
    json_t *curve = json_array();

    for (size_t i = 0; i < CURVE_POINTS && count > 0; i++)
        json_array_append_new(curve, json_real(list[(count - 1) * i / (CURVE_POINTS - 1)]));
    free(list);
    return curve;
}

static json_t *times_json(const struct compare_report *report)
{
    json_t *object = json_object();

    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        json_t *one = json_pack("{s:I}", "pairs", (json_int_t)report->times[time].count);

        for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
            json_object_set_new(one, compare_figure_name((compare_figure)figure),
                                change_json(&report->times[time].figures[figure]));
        json_object_set_new(one, "curve",
                            json_pack("{s:o, s:o}", "a", curve_json(report, 0, (kvtrace_time)time),
                                      "b", curve_json(report, 1, (kvtrace_time)time)));
        json_object_set_new(object, kvtrace_time_name((kvtrace_time)time), one);
    }
    return object;
}

static json_t *sentences_json(const char (*sentences)[COMPARE_SENTENCE_BYTES], size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(sentences[i]));
    return list;
}

static json_t *sample_json(const struct compare_sample *sample, const char *path)
{
    json_t *outcomes = json_object();

    for (int i = 0; i < KVTRACE_OUTCOME_END; i++)
        json_object_set_new(outcomes, kvtrace_outcome_name((kvtrace_outcome)i),
                            json_integer((json_int_t)sample->outcomes[i]));
    return json_pack("{s:s, s:I, s:o}", "file", path, "transfers", (json_int_t)sample->count,
                     "outcomes", outcomes);
}

json_t *compare_json(const struct compare_report *report)
{
    char verdict[400];

    compare_verdict(report, verdict, sizeof(verdict));
    return json_pack(
        "{s:s, s:b, s:s?, s:o, s:o, s:I, s:s, s:o, s:o, s:o}", "verdict", verdict,
        "distinguishable", report->differs, "cause",
        report->cause != KVTRACE_TIME_END ? kvtrace_time_name(report->cause) : NULL, "a",
        sample_json(&report->samples[0], report->paths[0]), "b",
        sample_json(&report->samples[1], report->paths[1]), "matched", (json_int_t)report->matched,
        "matched_by", report->matching == COMPARE_BY_ID ? "id" : "order", "options",
        sentences_json((const char(*)[COMPARE_SENTENCE_BYTES])report->options,
                       report->option_count),
        "rails",
        sentences_json((const char(*)[COMPARE_SENTENCE_BYTES])report->rails, report->rail_count),
        "time_ms", times_json(report));
}
