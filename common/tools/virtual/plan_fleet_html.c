/* One page without outside parts: the answer, a plot with the knees, the tables, the model. */
#include <inttypes.h>
#include <math.h>

#include "tools/html_text.h"
#include "tools/virtual/plan_fleet_print.h"
#include "tools/virtual/virtual_options.h"

#define WIDTH  640.0 /* of the plot, in its own units */
#define HEIGHT 280.0

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>kvrail plan-fleet</title>\n<style>\n"
    ":root{color-scheme:light dark;--c0:#1f5fa8;--c1:#b8480f;--c2:#2c7a3f;--c3:#7a3f9a;"
    "--line:#8886}\n"
    "@media(prefers-color-scheme:dark){:root{--c0:#7db4f0;--c1:#f0a070;--c2:#80d090;"
    "--c3:#d0a0f0}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\n"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\n"
    "table{border-collapse:collapse}th,td{padding:.2rem .7rem;text-align:right;"
    "border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}\n"
    "th:first-child,td:first-child{text-align:left}.in{font-weight:600}\n"
    "svg{width:100%;height:auto}path{fill:none;stroke-width:2}"
    ".axis{stroke:var(--line);stroke-width:1}.budget{stroke:currentColor;stroke-width:1;"
    "stroke-dasharray:6 3}\n"
    "text{font-size:12px;fill:currentColor}\n"
    "</style></head><body>\n";

struct axes {
    uint32_t hosts_first, hosts_last;
    double least, most; /* seconds */
};

static double seconds(uint64_t ns)
{
    return (double)(ns > 0 ? ns : 1) / 1e9;
}

static struct axes axes_of(const struct plan_grid *grid)
{
    struct axes axes = {UINT32_MAX, 0, seconds(grid->budget_ns), seconds(grid->budget_ns)};

    for (uint32_t i = 0; i < grid->cell_count; i++) {
        const struct plan_cell *cell = &grid->cells[i];
        uint32_t hosts = cell->fleet.prefill_hosts + cell->fleet.decode_hosts;

        axes.hosts_first = hosts < axes.hosts_first ? hosts : axes.hosts_first;
        axes.hosts_last = hosts > axes.hosts_last ? hosts : axes.hosts_last;
        axes.least = fmin(axes.least, seconds(cell->time_ns));
        axes.most = fmax(axes.most, seconds(cell->time_ns));
    }
    axes.least /= 1.2;
    axes.most *= 1.2;
    return axes;
}

static double x_of(const struct axes *axes, uint32_t hosts)
{
    uint32_t range = axes->hosts_last - axes->hosts_first;

    return range == 0 ? WIDTH / 2 : WIDTH * (hosts - axes->hosts_first) / range;
}

static double y_of(const struct axes *axes, uint64_t ns)
{
    return HEIGHT * (1 - log(seconds(ns) / axes->least) / log(axes->most / axes->least));
}

static void put_curve(FILE *stream, const struct plan_grid *grid, const struct axes *axes,
                      uint32_t cards)
{
    struct plan_point points[PLAN_POINTS_MAX];
    uint32_t count = plan_grid_points(grid, cards, points), knee = plan_knee(points, count);

    fprintf(stream, "<g style=\"stroke:var(--c%u)\"><path d=\"", cards % 4);
    for (uint32_t i = 0; i < count; i++)
        fprintf(stream, "%s%.1f %.1f", i == 0 ? "M" : "L", x_of(axes, points[i].hosts),
                y_of(axes, points[i].cell->time_ns));
    fputs("\"/>\n", stream);
    for (uint32_t i = 0; i < count; i++)
        fprintf(stream,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" style=\"fill:var(--c%u)\"><title>%u + %u "
                "hosts, %.3f s%s</title></circle>\n",
                x_of(axes, points[i].hosts), y_of(axes, points[i].cell->time_ns), i == knee ? 6 : 3,
                cards % 4, points[i].cell->fleet.prefill_hosts, points[i].cell->fleet.decode_hosts,
                seconds(points[i].cell->time_ns), i == knee ? ", the knee" : "");
    fputs("</g>\n", stream);
    if (knee != UINT32_MAX)
        fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\">knee, %s</text>\n",
                x_of(axes, points[knee].hosts) + 9, y_of(axes, points[knee].cell->time_ns) - 6,
                grid->card_names[cards]);
}

static void put_plot(FILE *stream, const struct plan_grid *grid)
{
    struct axes axes = axes_of(grid);
    double budget = y_of(&axes, grid->budget_ns);

    fprintf(stream,
            "<svg viewBox=\"-60 -14 %.0f %.0f\" role=\"img\" aria-label=\"time by hosts: the "
            "tables have the figures\">\n<path class=\"axis\" d=\"M0 0V%.0fH%.0f\"/>\n"
            "<path class=\"budget\" d=\"M0 %.1fH%.0f\"/>\n<text x=\"4\" y=\"%.1f\">budget</text>\n",
            WIDTH + 140, HEIGHT + 50, HEIGHT, WIDTH, budget, WIDTH, budget - 4);
    for (int i = 0; i <= 2; i++)
        fprintf(stream, "<text x=\"-6\" y=\"%.1f\" text-anchor=\"end\">%.3g s</text>\n",
                HEIGHT * (1 - i / 2.0) + 4, axes.least * pow(axes.most / axes.least, i / 2.0));
    for (int i = 0; i <= 2; i++)
        fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f hosts</text>\n",
                WIDTH * i / 2, HEIGHT + 18,
                axes.hosts_first + (axes.hosts_last - axes.hosts_first) * i / 2.0);
    for (uint32_t cards = 0; cards < grid->card_count; cards++)
        put_curve(stream, grid, &axes, cards);
    fputs("</svg>\n<p>", stream);
    for (uint32_t cards = 0; cards < grid->card_count; cards++)
        fprintf(stream, "<span style=\"color:var(--c%u)\">%s</span> ", cards % 4,
                grid->card_names[cards]);
    fputs("</p>\n", stream);
}

static void put_table(FILE *stream, const struct plan_grid *grid, uint32_t cards)
{
    fprintf(stream,
            "<h2>%s, seconds; bold is within the budget</h2>\n<table><tr><th>prefill "
            "hosts</th>",
            grid->card_names[cards]);
    for (uint32_t i = 0; i < grid->decode_count; i++)
        fprintf(stream, "<th>%u decode</th>", grid->decode[i]);
    fputs("</tr>\n", stream);
    for (uint32_t i = 0; i < grid->prefill_count; i++) {
        fprintf(stream, "<tr><td>%u</td>", grid->prefill[i]);
        for (uint32_t k = 0; k < grid->decode_count; k++) {
            const struct plan_cell *cell = plan_grid_cell(grid, cards, i, k);

            fprintf(stream, "<td%s>%.3f</td>",
                    cell->time_ns <= grid->budget_ns ? " class=\"in\"" : "",
                    seconds(cell->time_ns));
        }
        fputs("</tr>\n", stream);
    }
    fputs("</table>\n", stream);
}

bool plan_html(const struct plan_report *report, FILE *stream)
{
    const struct plan_grid *grid = report->grid;
    char verdict[PLAN_VERDICT_BYTES];
    char sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES];
    char shortened[VIRTUAL_SENTENCE_BYTES];
    size_t count = virtual_assumptions(report->config, sentences);

    fputs(head, stream);
    fputs("<h1>", stream);
    html_text_put(stream, plan_verdict(report, verdict));
    fprintf(stream, "</h1>\n<p>%u requests of ", report->requests);
    html_text_put(stream, report->trace);
    fprintf(stream, ", %s</p>\n<h2>p%" PRIu64 " of %s: the shortest with so many hosts</h2>\n",
            report->config->geometry.model->name, grid->percent, virtual_time_name(grid->time));
    put_plot(stream, grid);
    for (uint32_t cards = 0; cards < grid->card_count; cards++)
        put_table(stream, grid, cards);
    virtual_shortened(report->config, report->grid->clipped, report->grid->without_output,
                      shortened);
    if (shortened[0] != '\0')
        fprintf(stream, "<p>Note: %s</p>\n", shortened);
    fputs("<h2>The model</h2><ul>\n", stream);
    for (size_t i = 0; i < count; i++) {
        fputs("<li>", stream);
        html_text_put(stream, sentences[i]);
        fputs("</li>\n", stream);
    }
    fputs("</ul></body></html>\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
