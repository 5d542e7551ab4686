/* One page without outside parts: the verdict, tables, and for each part of a transfer the share of
 * the matched transfers that took at most so long. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "tools/compare/compare_report.h"
#include "tools/html_text.h"

#define WIDTH  420.0 /* of a plot, in its own units */
#define HEIGHT 180.0
#define STEPS  120 /* points of a curve */

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>kvrail compare</title>\n<style>\n"
    ":root{color-scheme:light dark;--a:#1f5fa8;--b:#b8480f;--line:#8886}\n"
    "@media(prefers-color-scheme:dark){:root{--a:#7db4f0;--b:#f0a070}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\n"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\n"
    "table{border-collapse:collapse}th,td{padding:.2rem .7rem;text-align:right;"
    "border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}\n"
    "th:first-child,td:first-child{text-align:left}.far{font-weight:600}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(22rem,1fr));gap:1.5rem}\n"
    "figure{margin:0}svg{width:100%;height:auto}.a{stroke:var(--a)}.b{stroke:var(--b);"
    "stroke-dasharray:6 "
    "3}path{fill:none;stroke-width:2}.axis{stroke:var(--line);stroke-width:1;stroke-dasharray:none}"
    "\n"
    "text{font-size:11px;fill:currentColor}\n"
    "</style></head><body>\n";

/* On a logarithmic axis from a hundredth of the largest time. */
static double place_of(double ms, double largest)
{
    double least = largest / 100;

    return ms <= least ? 0 : WIDTH * log(ms / least) / log(100);
}

static void put_curve(FILE *stream, const char *name, const double *list, size_t count,
                      double largest)
{
    if (count == 0)
        return;
    fprintf(stream, "<path class=\"%s\" d=\"", name);
    for (int i = 0; i <= STEPS; i++) {
        size_t at = (size_t)((double)(count - 1) * i / STEPS);

        fprintf(stream, "%s%.1f %.1f", i == 0 ? "M" : "L", place_of(list[at], largest),
                HEIGHT * (1 - (double)i / STEPS));
    }
    fputs("\"/>\n", stream);
}

static void put_axes(FILE *stream, double largest)
{
    fprintf(stream, "<path class=\"axis\" d=\"M0 0V%.0fH%.0fM0 %.0fH%.0f\"/>\n", HEIGHT, WIDTH,
            HEIGHT / 2, WIDTH);
    for (int i = 0; i < 3; i++)
        fprintf(stream, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%.3g ms</text>\n",
                WIDTH * i / 2, HEIGHT + 15,
                i == 0   ? "start"
                : i == 1 ? "middle"
                         : "end",
                largest / pow(100, 1 - i / 2.0));
    fprintf(stream, "<text x=\"4\" y=\"12\">all</text><text x=\"4\" y=\"%.0f\">half</text>\n",
            HEIGHT / 2 - 4);
}

static void put_plot(FILE *stream, const struct compare_report *report, kvtrace_time time)
{
    size_t counts[2];
    double *lists[2], largest = 0;

    for (int i = 0; i < 2; i++) {
        lists[i] =
            compare_sorted_times(&report->samples[i], &report->samples[1 - i], time, &counts[i]);
        if (lists[i] != NULL && counts[i] > 0)
            largest = fmax(largest, lists[i][counts[i] - 1]);
    }
    if (largest > 0) {
        fprintf(stream, "<figure><figcaption><b>%s</b>: %s</figcaption>\n", kvtrace_time_name(time),
                kvtrace_time_meaning(time));
        fprintf(stream,
                "<svg viewBox=\"-4 -4 %.0f %.0f\" role=\"img\" aria-label=\"%s of A and B: the "
                "table has the figures\">\n",
                WIDTH + 8, HEIGHT + 24, kvtrace_time_name(time));
        put_axes(stream, largest);
        put_curve(stream, "a", lists[0], counts[0], largest);
        put_curve(stream, "b", lists[1], counts[1], largest);
        fputs("</svg></figure>\n", stream);
    }
    free(lists[0]);
    free(lists[1]);
}

static void put_sentences(FILE *stream, const char *title,
                          const char (*sentences)[COMPARE_SENTENCE_BYTES], size_t count)
{
    if (count == 0)
        return;
    fprintf(stream, "<h2>%s</h2><ul>\n", title);
    for (size_t i = 0; i < count; i++) {
        fputs("<li>", stream);
        html_text_put(stream, sentences[i]);
        fputs("</li>\n", stream);
    }
    fputs("</ul>\n", stream);
}

static void put_outcomes(FILE *stream, const struct compare_report *report)
{
    fputs("<h2>Outcomes</h2><table><tr><th></th><th>A</th><th>B</th></tr>\n", stream);
    for (int i = 0; i < KVTRACE_OUTCOME_END; i++) {
        uint64_t a = report->samples[0].outcomes[i], b = report->samples[1].outcomes[i];

        if (a > 0 || b > 0)
            fprintf(stream, "<tr%s><td>%s</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td></tr>\n",
                    a != b ? " class=\"far\"" : "", kvtrace_outcome_name((kvtrace_outcome)i), a, b);
    }
    fputs("</table>\n", stream);
}

static void put_times(FILE *stream, const struct compare_report *report)
{
    fputs("<h2>Times, in ms</h2><table><tr><th></th><th></th><th>A</th><th>B</th><th>B − A</th>"
          "<th>95 % of draws</th><th></th></tr>\n",
          stream);
    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        for (int figure = 0; figure < COMPARE_FIGURE_END && report->times[time].count > 0;
             figure++) {
            const struct compare_change *change = &report->times[time].figures[figure];

            fprintf(stream,
                    "<tr%s><td>%s</td><td>%s</td><td>%.2f</td><td>%.2f</td><td>%+.2f</td>"
                    "<td>%+.2f to %+.2f</td><td>%s</td></tr>\n",
                    change->differs ? " class=\"far\"" : "", kvtrace_time_name((kvtrace_time)time),
                    compare_figure_name((compare_figure)figure), change->a, change->b,
                    change->b - change->a, change->low, change->high,
                    change->differs ? "differs" : "not distinguishable");
        }
    }
    fputs("</table>\n", stream);
}

bool compare_html(const struct compare_report *report, FILE *stream)
{
    char verdict[400];

    compare_verdict(report, verdict, sizeof(verdict));
    fputs(head, stream);
    fputs("<h1>", stream);
    html_text_put(stream, verdict);
    fputs("</h1>\n<p><span style=\"color:var(--a)\">A, drawn through</span>: ", stream);
    html_text_put(stream, report->paths[0]);
    fprintf(stream, " (%zu transfers)<br><span style=\"color:var(--b)\">B, dashed</span>: ",
            report->samples[0].count);
    html_text_put(stream, report->paths[1]);
    fprintf(stream, " (%zu transfers)<br>%zu matched %s</p>\n", report->samples[1].count,
            report->matched, report->matching == COMPARE_BY_ID ? "by id" : "by order");
    put_sentences(stream, "Options", (const char(*)[COMPARE_SENTENCE_BYTES])report->options,
                  report->option_count);
    put_sentences(stream, "Rails", (const char(*)[COMPARE_SENTENCE_BYTES])report->rails,
                  report->rail_count);
    fputs(
        "<h2>Share of the matched transfers that took at most so long</h2><div class=\"plots\">\n",
        stream);
    for (int time = 0; time < KVTRACE_TIME_END; time++)
        put_plot(stream, report, (kvtrace_time)time);
    fputs("</div>\n", stream);
    put_outcomes(stream, report);
    put_times(stream, report);
    fputs("</body></html>\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
