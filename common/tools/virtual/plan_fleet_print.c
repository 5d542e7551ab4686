#include "tools/virtual/plan_fleet_print.h"

#include <inttypes.h>
#include <math.h>

#include "tools/virtual/virtual_options.h"

#define BAR_WIDTH 40

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

char *plan_verdict(const struct plan_report *report, char text[PLAN_VERDICT_BYTES])
{
    const struct plan_grid *grid = report->grid;
    const struct plan_cell *best = plan_grid_best(grid);

    if (best == NULL)
        snprintf(text, PLAN_VERDICT_BYTES,
                 "No fleet of the grid keeps p%" PRIu64 " of %s within %.3f s: name larger ones "
                 "with --prefill, --decode and --rails",
                 grid->percent, virtual_time_name(grid->time), seconds(grid->budget_ns));
    else
        snprintf(text, PLAN_VERDICT_BYTES,
                 "%u prefill and %u decode hosts with %s keep p%" PRIu64
                 " of %s within %.3f s: it is %.3f s",
                 best->fleet.prefill_hosts, best->fleet.decode_hosts, grid->card_names[best->cards],
                 grid->percent, virtual_time_name(grid->time), seconds(grid->budget_ns),
                 seconds(best->time_ns));
    return text;
}

static void print_table(const struct plan_grid *grid, uint32_t cards, FILE *stream)
{
    fprintf(stream, "\n%s: p%" PRIu64 " of %s in seconds; * is within the budget\n  %-14s",
            grid->card_names[cards], grid->percent, virtual_time_name(grid->time), "prefill hosts");
    for (uint32_t i = 0; i < grid->decode_count; i++)
        fprintf(stream, " %6u decode", grid->decode[i]);
    fputc('\n', stream);
    for (uint32_t i = 0; i < grid->prefill_count; i++) {
        fprintf(stream, "  %-14u", grid->prefill[i]);
        for (uint32_t k = 0; k < grid->decode_count; k++) {
            const struct plan_cell *cell = plan_grid_cell(grid, cards, i, k);

            fprintf(stream, " %12.3f%c", seconds(cell->time_ns),
                    cell->time_ns <= grid->budget_ns ? '*' : ' ');
        }
        fputc('\n', stream);
    }
}

/* Bars of the logarithm, from a tenth of the shortest time. */
static void print_plot(const struct plan_grid *grid, uint32_t cards, FILE *stream)
{
    struct plan_point points[PLAN_POINTS_MAX];
    uint32_t count = plan_grid_points(grid, cards, points), knee = plan_knee(points, count);
    double most = seconds(points[0].cell->time_ns) + 1e-9;
    double least = (seconds(points[count - 1].cell->time_ns) + 1e-9) / 10;

    fprintf(stream, "  the shortest with so many hosts, logarithmic:\n");
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_cell *cell = points[i].cell;
        int bar = (int)lround(BAR_WIDTH * log((seconds(cell->time_ns) + 1e-9) / least) /
                              log(most / least));

        fprintf(stream, "  %4u = %3u + %-3u ", points[i].hosts, cell->fleet.prefill_hosts,
                cell->fleet.decode_hosts);
        for (int k = 0; k < bar; k++)
            fputc('#', stream);
        fprintf(stream, " %.3f s%s%s\n", seconds(cell->time_ns),
                cell->time_ns <= grid->budget_ns ? "  within the budget" : "",
                i == knee ? "  <- knee: more hosts gain little" : "");
    }
}

void plan_print(const struct plan_report *report, FILE *stream)
{
    char verdict[PLAN_VERDICT_BYTES];
    char sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES];
    char shortened[VIRTUAL_SENTENCE_BYTES];
    size_t count = virtual_assumptions(report->config, sentences);

    fprintf(stream, "%s\n%u requests of %s, %s\n", plan_verdict(report, verdict), report->requests,
            report->trace, report->config->geometry.model->name);
    for (uint32_t cards = 0; cards < report->grid->card_count; cards++) {
        print_table(report->grid, cards, stream);
        print_plot(report->grid, cards, stream);
    }
    virtual_shortened(report->config, report->grid->clipped, report->grid->without_output,
                      shortened);
    if (shortened[0] != '\0')
        fprintf(stream, "\nNote: %s\n", shortened);
    fputs("\nThe model:\n", stream);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "  %s\n", sentences[i]);
}

static json_t *cell_json(const struct plan_grid *grid, const struct plan_cell *cell)
{
    return json_pack("{s:s, s:i, s:i, s:f, s:f, s:b, s:f, s:f, s:f}", "rails",
                     grid->card_names[cell->cards], "prefill_hosts", (int)cell->fleet.prefill_hosts,
                     "decode_hosts", (int)cell->fleet.decode_hosts, "time_ms",
                     (double)cell->time_ns / 1e6, "p50_ms", (double)cell->p50_ns / 1e6,
                     "within_budget", cell->time_ns <= grid->budget_ns, "prefill_busy",
                     cell->prefill_busy, "source_share", cell->source_share, "target_share",
                     cell->target_share);
}

json_t *plan_json(const struct plan_report *report)
{
    const struct plan_grid *grid = report->grid;
    const struct plan_cell *best = plan_grid_best(grid);
    char sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES];
    size_t count = virtual_assumptions(report->config, sentences);
    json_t *cells = json_array(), *knees = json_array(), *assumptions = json_array();

    for (uint32_t i = 0; i < grid->cell_count; i++)
        json_array_append_new(cells, cell_json(grid, &grid->cells[i]));
    for (uint32_t cards = 0; cards < grid->card_count; cards++) {
        struct plan_point points[PLAN_POINTS_MAX];
        uint32_t knee = plan_knee(points, plan_grid_points(grid, cards, points));

        if (knee != UINT32_MAX)
            json_array_append_new(knees, cell_json(grid, points[knee].cell));
    }
    for (size_t i = 0; i < count; i++)
        json_array_append_new(assumptions, json_string(sentences[i]));
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:I, s:f, s:o, s:o, s:o, s:o}", "trace",
                     report->trace, "model", report->config->geometry.model->name, "requests",
                     (int)report->requests, "clipped", (int)grid->clipped, "without_output",
                     (int)grid->without_output, "of", virtual_time_name(grid->time), "percentile",
                     (json_int_t)grid->percent, "budget_ms", (double)grid->budget_ns / 1e6, "best",
                     best != NULL ? cell_json(grid, best) : json_null(), "knees", knees, "cells",
                     cells, "assumptions", assumptions);
}
