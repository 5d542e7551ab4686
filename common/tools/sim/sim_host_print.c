/* What the model of a host says, as a table or as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/json_output.h"
#include "tools/sim/sim_host.h"

#define VIRTUAL_NS KVR_S

static const struct line {
    const char *name; /* as in the JSON */
    kvr_ns alone_ns;  /* 0: as the costs have it */
    unsigned without;
    bool slow_card;
    const char *beside; /* NULL: nothing to lose */
} lines[] = {
    {"all", 0, 0, false, NULL},
    {"without_batch", 0, SIM_HOST_BATCH, false, "all"},
    {"without_warm_up", 0, SIM_HOST_WARM_UP, false, "all"},
    {"slow_card", 0, 0, true, NULL},
    {"slow_thread", HOST_COSTS_TUTORIAL_ALONE_NS, 0, false, NULL},
    {"slow_thread_without_batch", HOST_COSTS_TUTORIAL_ALONE_NS, SIM_HOST_BATCH, false,
     "slow_thread"},
};
static const uint32_t page_kib[] = {16, 64, 256};

#define LINES (sizeof(lines) / sizeof(lines[0]))
#define PAGES (sizeof(page_kib) / sizeof(page_kib[0]))

static struct host_costs costs_of(const struct host_costs *host, const struct line *line)
{
    struct host_costs costs = *host;

    if (line->alone_ns > 0)
        costs.alone_ns = line->alone_ns;
    return costs;
}

static bool run_all(const struct host_costs *host, struct sim_host_result results[LINES][PAGES])
{
    for (size_t i = 0; i < LINES; i++) {
        for (size_t k = 0; k < PAGES; k++) {
            struct sim_host_case one = {.page_bytes = page_kib[k] * UINT64_C(1024),
                                        .without = lines[i].without,
                                        .slow_card = lines[i].slow_card,
                                        .virtual_ns = VIRTUAL_NS};
            struct host_costs costs = costs_of(host, &lines[i]);
            struct kvr_error error = {0};

            if (sim_host_run(&costs, &one, &results[i][k], &error) == KVR_OK)
                continue;
            fprintf(stderr, "kvrail sim: %s at %u KiB: %s\n", lines[i].name, page_kib[k],
                    error.detail);
            return false;
        }
    }
    return true;
}

static void print_table(const struct host_costs *host, struct sim_host_result results[LINES][PAGES])
{
    double card_gbps = (double)host->card_bps / 1e9;

    printf(
        "A %s host, one virtual second: %d groups of %u cards of %.0f Gb/s (%.1f in writes of one "
        "page)\nShares are of %.0f Gb/s, of which the cards give %.1f %%; busy: of the threads' "
        "time; batch: writes a doorbell\n\n%-26s",
        host->name, SIM_HOST_GROUPS, host->rails, card_gbps,
        (double)host_costs_line_bps(host) / 1e9, SIM_HOST_GROUPS * host->rails * card_gbps,
        100 * results[0][0].ceiling, "");
    for (size_t k = 0; k < PAGES; k++)
        printf("  %3u KiB: share  busy batch", page_kib[k]);
    printf("\n");
    for (size_t i = 0; i < LINES; i++) {
        printf("%-26s", lines[i].name);
        for (size_t k = 0; k < PAGES; k++)
            printf("%14.1f %% %4.0f%% %5.1f", 100 * results[i][k].share, 100 * results[i][k].busy,
                   results[i][k].batch);
        printf("\n");
    }
    printf(
        "\nslow_card: one of each group at a quarter of its speed. slow_thread: a write with its "
        "own doorbell takes %.2f us instead of %.2f\nNot modelled: pinning, sharded state, the "
        "target's threads, PCIe, memory\n",
        HOST_COSTS_TUTORIAL_ALONE_NS / 1e3, (double)host->alone_ns / 1e3);
}

/* A number, or null where it is not published. */
static json_t *known(kvr_ns cost)
{
    return cost > 0 ? json_integer((json_int_t)cost) : json_null();
}

static json_t *costs_json(const struct host_costs *costs)
{
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "small_write_ns",
                     known(costs->small_write_ns), "large_write_ns", known(costs->large_write_ns),
                     "alone_ns", (json_int_t)costs->alone_ns, "batched_ns",
                     (json_int_t)costs->batched_ns, "own_ns", (json_int_t)costs->own_ns, "first_ns",
                     (json_int_t)costs->first_ns, "latency_ns", (json_int_t)costs->latency_ns,
                     "queue_writes", (json_int_t)costs->queue_writes, "line_gbps",
                     (double)host_costs_line_bps(costs) / 1e9);
}

static const struct sim_host_result *beside(struct sim_host_result results[LINES][PAGES],
                                            size_t line, size_t page)
{
    for (size_t i = 0; lines[line].beside != NULL && i < LINES; i++)
        if (strcmp(lines[i].name, lines[line].beside) == 0)
            return &results[i][page];
    return &results[line][page];
}

static json_t *result_json(const struct host_costs *host, const struct line *line, uint32_t kib,
                           const struct sim_host_result *result, double loss)
{
    return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "case",
                     line->name, "page_bytes", (json_int_t)kib * 1024, "alone_ns",
                     (json_int_t)costs_of(host, line).alone_ns, "gbps", result->gbps, "share",
                     result->share, "ceiling", result->ceiling, "loss", loss, "thread_busy",
                     result->busy, "writes_per_s", result->writes_per_s, "writes_a_doorbell",
                     result->batch, "writes", (json_int_t)result->writes, "refused",
                     (json_int_t)result->refused);
}

static json_t *report_json(const struct host_costs *host,
                           struct sim_host_result results[LINES][PAGES])
{
    json_t *runs = json_array();

    for (size_t i = 0; i < LINES; i++)
        for (size_t k = 0; k < PAGES; k++)
            (void)json_array_append_new(
                runs, result_json(host, &lines[i], page_kib[k], &results[i][k],
                                  1 - results[i][k].share / beside(results, i, k)->share));
    return json_pack("{s:s, s:i, s:i, s:f, s:o, s:o, s:[s, s, s, s, s]}", "model", host->name,
                     "groups", SIM_HOST_GROUPS, "rails", (int)host->rails, "virtual_s",
                     (double)VIRTUAL_NS / (double)KVR_S, "costs", costs_json(host), "runs", runs,
                     "not_modelled", "pinning", "sharding", "target threads", "pcie", "memory");
}

int sim_host_report(const struct host_costs *costs, const char *json)
{
    static struct sim_host_result results[LINES][PAGES];

    if (!run_all(costs, results))
        return 1;
    if (!json_output_replaces_text(json))
        print_table(costs, results);
    return json_output_write(report_json(costs, results), json) ? 0 : 1;
}
