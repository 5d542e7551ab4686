/* `kvrail bench post`: what a write costs us before a card has anything to do. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_cli.h"
#include "tools/post_rig.h"

#define OPTIONS         struct post_options
#define JOB_WRITES_MAX  16384u /* of one transfer */
#define LAYERS_MAX      32u
#define P5_WRITES_PER_S 5.93e6 /* 32 cards of 100 Gb/s, 64 KiB writes */

struct post_options {
    char provider[16];
    uint64_t writes, page_bytes, rails, jobs, pieces, in_flight, batch;
    bool spans;
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "provider",
     .section = "rails",
     .choices = "null",
     .fallback = "null",
     KVR_OPTION_CHOICE(OPTIONS, provider),
     .help = "null: a fabric that accepts every write, moves nothing and completes in order."},
    {.name = "rails",
     .fallback = "4",
     .min = 1,
     .max = KVR_AGENT_CARDS_MAX,
     KVR_OPTION_COUNT(OPTIONS, rails),
     .help = "Of the one rail group; a p5 host has four for each GPU."},
    {.name = "in-flight",
     .fallback = "128",
     .max = KVR_FABRIC_NULL_WRITES_MAX / 2,
     KVR_OPTION_COUNT(OPTIONS, in_flight),
     .help = "Writes that stay under way on each rail while others follow."},
    {.name = "writes",
     .section = "work",
     .fallback = "1000000",
     .min = 1,
     .max = 1ull << 40,
     KVR_OPTION_COUNT(OPTIONS, writes),
     .help = "How many are posted, in whole transfers of up to 16384."},
    BENCH_OPTION_PAGE_BYTES(OPTIONS, "work", "64k", 1u << 20, "One page of one layer."),
    {.name = "pieces",
     .fallback = "1",
     .min = 1,
     .max = KVR_IOV_MAX,
     KVR_OPTION_COUNT(OPTIONS, pieces),
     .help = "Pages of one write: 1 as on EFA, 4 as on tcp."},
    {.name = "jobs",
     .fallback = "4",
     .min = 1,
     .max = POST_RIG_JOBS_MAX,
     KVR_OPTION_COUNT(OPTIONS, jobs),
     .help = "Transfers at a time."},
    {.name = "spans",
     .fallback = "yes",
     KVR_OPTION_BOOL(OPTIONS, spans),
     .help = "Note when each layer is ready and posted, as agents do unless --spans-every is 0."},
    {.name = "batch",
     .section = "posting",
     .fallback = "0",
     .max = 1024,
     KVR_OPTION_COUNT(OPTIONS, batch),
     .help = "Writes with one doorbell, at most; 1: each rings; 0: as agents."},
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench post",
    .description =
        "What a write costs on the source's own way: from the engine's word that says that a\n"
        "layer is ready, over the plan, the choice of a rail and its window, to the post and its\n"
        "completion, on one thread and over a fabric that does nothing. What is left is ours.\n"
        "\n"
        "writes_per_s is what one core posts. For instructions a write, run it under\n"
        "valgrind --tool=callgrind with N and 2N writes: the difference divided by N.",
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail bench post --provider null --writes 10000000 --json",
};

/* Transfers of equal size, so that their number alone differs with --writes. */
static struct post_rig_options shape_of(const struct post_options *chosen)
{
    uint64_t chunks = chosen->writes < JOB_WRITES_MAX ? chosen->writes : JOB_WRITES_MAX;
    uint32_t layers = chunks < LAYERS_MAX ? 1 : LAYERS_MAX;

    return (struct post_rig_options){
        .page_bytes = chosen->page_bytes,
        .layers = layers,
        .pages = (uint32_t)(chunks / layers * chosen->pieces),
        .rails = (uint32_t)chosen->rails,
        .jobs = (uint32_t)chosen->jobs,
        .pieces = (uint32_t)chosen->pieces,
        .in_flight = (uint32_t)chosen->in_flight,
        .spans = chosen->spans,
        .group = {.batch_writes = (uint32_t)chosen->batch},
    };
}

static json_t *figures_json(const struct post_options *chosen, const struct post_rig *rig,
                            double seconds)
{
    uint64_t again = 0;

    for (uint32_t i = 0; i < rig->options.rails; i++)
        again += kvr_group_counters(rig->group, i).again;
    return json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "provider",
        chosen->provider, "writes", (json_int_t)rig->writes, "seconds", seconds, "writes_per_s",
        (double)rig->writes / seconds, "ns_per_write", seconds * 1e9 / (double)rig->writes,
        "p5_host_writes_per_s", P5_WRITES_PER_S, "page_bytes", (json_int_t)chosen->page_bytes,
        "rails", (json_int_t)chosen->rails, "pieces", (json_int_t)chosen->pieces, "jobs",
        (json_int_t)chosen->jobs, "in_flight", (json_int_t)chosen->in_flight, "again",
        (json_int_t)again, "transfers", (json_int_t)(rig->writes / rig->plan->chunk_count), "batch",
        (json_int_t)chosen->batch);
}

static int report(const struct post_options *chosen, const struct post_rig *rig, double seconds)
{
    if (!json_output_replaces_text(chosen->json))
        printf("%llu writes in %.3f s: %.2f M writes/s on one core, %.0f ns each (a p5 host needs "
               "%.2f M on eight)\n",
               (unsigned long long)rig->writes, seconds, (double)rig->writes / seconds / 1e6,
               seconds * 1e9 / (double)rig->writes, P5_WRITES_PER_S / 1e6);
    return json_output_write(figures_json(chosen, rig, seconds), chosen->json) ? 0 : 1;
}

int bench_post_main(int argc, char **argv)
{
    static struct post_rig rig;
    static struct post_options chosen;
    struct post_rig_options shape;
    int exit_status;
    bool good;
    kvr_ns began;

    if (!kvr_options_load(&command, argc, argv, &chosen, &exit_status))
        return exit_status;
    shape = shape_of(&chosen);
    good = post_rig_start(&rig, &shape);
    began = kvr_clock_now();
    if (good && !post_rig_run(&rig, chosen.writes)) {
        fprintf(stderr, "kvrail bench post: posting is stuck: please report it\n");
        good = false;
    }
    exit_status =
        good ? report(&chosen, &rig, (double)(kvr_clock_now() - began) / (double)KVR_S) : 1;
    post_rig_stop(&rig);
    return exit_status;
}
