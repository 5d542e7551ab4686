/* `kvrail bench`: what is measured, one subcommand each. */
#include "tools/bench/bench.h"

#include "base/options.h"
#include "tools/tool.h"

int tool_bench_main(int argc, char **argv)
{
    static const struct kvr_subcommand subcommands[] = {
        {"beside", "what a small transfer waits for beside a huge one", bench_beside_main},
        {"calibrate", "what a provider does well with an immediate", bench_calibrate_main},
        {"connector", "what the connector for vLLM costs in Python", bench_connector_main},
        {"gpu", "what a GPU's copies and its readiness words cost", bench_gpu_main},
        {"ingest", "how many events a second the scheduler takes", bench_ingest_main},
        {"ping", "how long one page takes, and what each layer adds", bench_ping_main},
        {"plan", "what it takes to plan a request, and what the plan weighs", bench_plan_main},
        {"post", "what posting a write costs before a card has anything to do", bench_post_main},
        {"push", "engines, agents and wire against a raw libfabric loop", bench_push_main},
        {"query", "how long the scheduler's API takes for each page", bench_query_main},
        {NULL, NULL, NULL},
    };

    return kvr_subcommands_run("kvrail bench",
                               "Measures, and starts and stops all that it needs for it.",
                               subcommands, argc, argv);
}
