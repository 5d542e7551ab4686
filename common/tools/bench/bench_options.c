#include "tools/bench/bench_options.h"

#include <string.h>

#include "base/limits.h"
#include "base/options.h"
#include "fabric/fabric_provider.h"
#include "tools/bench/bench_cli.h"

#define OPTIONS         struct bench_options
#define FETCH_BYTES     (32u << 20) /* one request, where --pages does not say */
#define NETNS_RAILS_MAX 16

static const struct kvr_option options[] = {
    BENCH_OPTION_PROVIDER(OPTIONS, "Provider of the rails, for the agents and for the raw loop."),
    {.name = "rails",
     .fallback = "1",
     .min = 1,
     .max = KVR_AGENT_CARDS_MAX,
     KVR_OPTION_COUNT(OPTIONS, rails),
     .help = "How many; on tcp each has a loopback address of its own, local has one."},
    {.name = "netns",
     .fallback = "0",
     .max = NETNS_RAILS_MAX,
     KVR_OPTION_COUNT(OPTIONS, netns),
     .help = "So many rails of the source, each a veth pair in network namespaces and capped; "
             "without privilege in a user namespace, else on loopback. raw_gb_s is then the sum of "
             "the raw loop on each rail alone."},
    {.name = "target-rails",
     .fallback = "0",
     .max = NETNS_RAILS_MAX,
     KVR_OPTION_COUNT(OPTIONS, target_rails),
     .help = "With --netns, those of the target; 0: as many as the source."},
    {.name = "rail-mbits",
     .fallback = "1000",
     .min = 1,
     .max = 100000,
     KVR_OPTION_COUNT(OPTIONS, rail_mbits),
     .help = "With --netns, what each rail carries, in Mb/s."},
    {.name = "slow-mbits",
     .fallback = "0",
     .max = 100000,
     KVR_OPTION_COUNT(OPTIONS, slow_mbits),
     .help = "With --netns, what the source's last rail carries; 0: as the others."},
    {.name = "planes",
     .value = "N",
     .max = NETNS_RAILS_MAX,
     KVR_OPTION_LIST(OPTIONS, planes),
     .help = "With --netns, isolated planes: the target has as many rails as are listed, as "
             "3,1,4,2, and each reaches the source's rail of that number alone."},

    {.name = "device",
     .section = "pages",
     .choices = "none|cuda|emulated",
     .fallback = "none",
     KVR_OPTION_CHOICE(OPTIONS, device),
     .help = "Where both engines' pages lie: none: in host memory; cuda: on NVIDIA's first GPU; "
             "emulated: on the agents' emulated device. The raw loops have host memory all the "
             "same."},
    BENCH_OPTION_PAGE_BYTES(OPTIONS, "pages", "64k", 64u << 20,
                            "One page of one layer; a multiple of 1024."),
    {.name = "pages",
     .fallback = "0",
     .max = 1u << 20,
     KVR_OPTION_COUNT(OPTIONS, pages),
     .help = "Pages of one fetch, all layers together; 0: as many as make 32 MiB."},
    {.name = "layers",
     .fallback = "8",
     .min = 1,
     .max = KVR_LAYERS_MAX,
     KVR_OPTION_COUNT(OPTIONS, layers),
     .help = "Layers that a fetch's pages belong to."},
    {.name = "contiguous",
     .fallback = "no",
     KVR_OPTION_BOOL(OPTIONS, contiguous),
     .help = "Pages lie one after the other on both sides, so that they merge, and the raw loop "
             "writes 1 MiB at a time. Without it they lie at random."},
    {.name = "scatter",
     .fallback = "yes",
     KVR_OPTION_BOOL(OPTIONS, scatter),
     .help = "Pages lie at random; --no-scatter is --contiguous."},
    {.name = "pool-bytes",
     .fallback = "512M",
     .min = 1u << 20,
     .max = 16ull << 30,
     KVR_OPTION_SIZE(OPTIONS, pool_bytes),
     .help = "Memory of each side; all of it is gone through before a page is used again, so that "
             "no page is in a cache."},
    {.name = "fetches",
     .fallback = "4",
     .min = 1,
     .max = BENCH_FETCHES_MAX,
     KVR_OPTION_COUNT(OPTIONS, fetches),
     .help = "On their way at one time."},

    {.name = "pairs",
     .section = "measuring",
     .fallback = "9",
     .min = 1,
     .max = BENCH_PAIRS_MAX,
     KVR_OPTION_COUNT(OPTIONS, pairs),
     .help = "Turns of kvrail and of each raw loop, right after each other; which is first "
             "changes."},
    {.name = "against",
     .value = "NAME=VALUE",
     KVR_OPTION_LIST(OPTIONS, against),
     .help = "A second pair of agents with this option of theirs, and an engine at each, has turns "
             "too: what the option is worth. Repeat it for several options. tls=no compares agents "
             "with certificates and without."},
    {.name = "seconds",
     .fallback = "1",
     .min = 20 * KVR_MS,
     .max = 60 * KVR_S,
     .seconds = true,
     KVR_OPTION_DURATION(OPTIONS, duration),
     .help = "How long each side of a pair moves pages, in seconds if no unit is given."},
    {.name = "raw-window",
     .fallback = "0",
     .max = 65536,
     KVR_OPTION_COUNT(OPTIONS, raw_window),
     .help = "Writes of the raw loops on their way, a rail; 0: the best, found first for each."},
    {.name = "raw-tcp-congestion",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, raw_congestion),
     .help = "--tcp-congestion of the raw loops; without it that of the agents."},
    BENCH_OPTION_TLS(OPTIONS),
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_option_part parts[] = {
    {.table = &kvr_posting_options,
     .offset = offsetof(struct bench_options, posting),
     .shows_hidden = true},
    {.table = &kvr_staging_options, .offset = offsetof(struct bench_options, copying)},
    {.table = &kvr_copying_options, .offset = offsetof(struct bench_options, copying)},
    {.table = NULL},
};

static const struct kvr_exit_code exit_codes[] = {
    {BENCH_EXIT_NOT_QUIET,
     "a raw loop's interquartile range exceeds 15 % of its median: the machine was not quiet"},
    {0, NULL},
};

static const struct kvr_command command = {
    .name = "kvrail bench push",
    .description =
        "How fast pages get from one engine to another: starts a prefill-agent, a\n"
        "decode-agent and an engine at each, moves scattered, cache-cold pages, and beside it,\n"
        "in turns, runs raw loops: two processes, straight libfabric, the same rails, the same\n"
        "pages, one page a write (raw) and as many as kvrail's writes had (same). Stops and\n"
        "removes all that it started.\n"
        "\n"
        "gb_s counts from the target engine's first fetch to its last DONE; raw_gb_s and "
        "same_gb_s\n"
        "from the first write to the last arrival. ratio, ratio_same and cpu_ratio are medians\n"
        "over the pairs; so are ratio_against and cpu_ratio_against, to the agents of --against. "
        "cpu_s_per_gb is the CPU time of agents and engines, raw_cpu_s_per_gb and\n"
        "same_cpu_s_per_gb those of both raw processes. p50_us and\n"
        "p99_us are the time of a whole fetch, from the call that opens it to its DONE, with\n"
        "--fetches of them on their way.\n"
        "\n"
        "The options of rails are the agents'. The raw loops take --tcp-congestion too. Before\n"
        "the first turn they try several windows, and both spinning without end and sleeping as\n"
        "the agents do after --spin; they keep the fastest pair. With --provider local, raw is a\n"
        "plain memcpy of the same pages by --local-copy-threads, and same writes over a rail of\n"
        "local.",
    .parts = parts,
    KVR_OPTION_ROWS(options),
    .exit_codes = exit_codes,
    .footer = "Example:\n"
              "  kvrail bench push --provider tcp --rails 2 --page-bytes 64k --json figures.json",
};

static bool refuse(int *ret_exit, int code)
{
    *ret_exit = code;
    return false;
}

static bool check_against(const OPTIONS *chosen, int *ret_exit)
{
    for (uint32_t i = 0; i < chosen->against.count; i++) {
        const char *item = chosen->against.items[i];

        if (strchr(item, '=') == NULL || item[0] == '-' || item[0] == '=')
            return refuse(ret_exit, kvr_options_refuse(&command,
                                                       "--against is '%s', but must be NAME=VALUE, "
                                                       "as window-bytes=4M",
                                                       item));
    }
    return true;
}

/* Planes into numbers; each source rail has one partner at most. */
static bool check_planes(OPTIONS *chosen, int *ret_exit)
{
    for (uint32_t i = 0; i < chosen->planes.count; i++) {
        const char *item = chosen->planes.items[i];
        char *end;
        unsigned long number = strtoul(item, &end, 10);
        bool good = item[0] >= '1' && item[0] <= '9' && *end == '\0' && number <= chosen->netns;

        for (uint32_t k = 0; k < i; k++)
            good = good && chosen->plane_of[k] != number;
        if (!good)
            return refuse(ret_exit, kvr_options_refuse(&command,
                                                       "--planes has '%s', but must name rails of "
                                                       "--netns, 1 to %u, each once",
                                                       item, (unsigned)chosen->netns));
        chosen->plane_of[i] = (uint32_t)number;
    }
    if (chosen->planes.count > 0 && chosen->target_rails > 0)
        return refuse(ret_exit, kvr_options_refuse(&command, "--planes lists the rails that "
                                                             "--target-rails would count"));
    if (chosen->planes.count > 0)
        chosen->target_rails = chosen->planes.count;
    return true;
}

static bool check_rails(OPTIONS *chosen, int *ret_exit)
{
    const struct kvr_provider *provider = kvr_provider_find(chosen->provider);

    if (chosen->netns > 0 && !provider->kernel_tcp)
        return refuse(ret_exit, kvr_options_refuse(&command, "--netns lays rails of tcp, not of %s",
                                                   chosen->provider));
    if (chosen->netns == 0 &&
        (chosen->target_rails > 0 || chosen->slow_mbits > 0 || chosen->planes.count > 0))
        return refuse(ret_exit, kvr_options_refuse(&command, "--target-rails, --slow-mbits and "
                                                             "--planes need --netns"));
    if (!check_planes(chosen, ret_exit))
        return false;
    if (chosen->netns > 0)
        chosen->rails = chosen->netns;
    if (chosen->target_rails == 0)
        chosen->target_rails = chosen->rails;
    if (provider->same_host_only && chosen->rails > 1)
        return refuse(ret_exit, kvr_options_refuse(&command, "--rails is %u, but %s has one",
                                                   (unsigned)chosen->rails, chosen->provider));
    return true;
}

/* Makes the counts fit each other. */
static bool check(OPTIONS *chosen, int *ret_exit)
{
    uint64_t slice_bytes = chosen->page_bytes * chosen->layers;

    chosen->contiguous = chosen->contiguous || !chosen->scatter;
    if (chosen->raw_congestion[0] == '\0')
        memcpy(chosen->raw_congestion, chosen->posting.tcp_congestion,
               sizeof(chosen->raw_congestion));
    if (!check_rails(chosen, ret_exit) || !check_against(chosen, ret_exit))
        return false;
    if (chosen->page_bytes % 1024 != 0)
        return refuse(ret_exit,
                      kvr_options_refuse(&command, "--page-bytes must be a multiple of 1024"));
    if (chosen->pages == 0)
        chosen->pages = FETCH_BYTES / slice_bytes * chosen->layers;
    if (chosen->pages < chosen->layers)
        chosen->pages = chosen->layers;
    if (chosen->pages % chosen->layers != 0)
        return refuse(ret_exit,
                      kvr_options_refuse(&command, "--pages must be a multiple of --layers"));
    if (chosen->pages * chosen->page_bytes * (chosen->fetches + 1) > chosen->pool_bytes)
        return refuse(ret_exit,
                      kvr_options_refuse(&command, "--pool-bytes is too small for --fetches of "
                                                   "--pages each and one more"));
    return true;
}

void bench_options_init(struct bench_options *chosen)
{
    *chosen = (struct bench_options){0};
    kvr_option_table_defaults(&kvr_posting_options, &chosen->posting);
    kvr_option_table_defaults(&kvr_staging_options, &chosen->copying);
    kvr_option_table_defaults(&kvr_copying_options, &chosen->copying);
}

bool bench_options_load(int argc, char **argv, struct bench_options *chosen, int *ret_exit)
{
    return kvr_options_load(&command, argc, argv, chosen, ret_exit) && check(chosen, ret_exit);
}
