/* `kvrail bench gpu`: what a GPU's copies and its readiness words cost. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "tools/bench/bench.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_gpu_copy.h"
#include "tools/bench/bench_gpu_ping.h"
#include "tools/bench/bench_gpu_ready.h"
#include "tools/bench/bench_stats.h"
#include "tools/interrupt.h"

#define OPTIONS    struct gpu_options
#define ROUNDS_MAX 100u

struct gpu_options {
    char device[16];
    uint64_t bytes, page_bytes, rounds, pings;
    kvr_ns duration;
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "device",
     .section = "device",
     .choices = "cuda|emulated",
     .fallback = "cuda",
     KVR_OPTION_CHOICE(OPTIONS, device),
     .help = "cuda: NVIDIA's first GPU. emulated: host memory behind a copy engine, and a thread "
             "in the place of the GPU: shows that it works, and no speed."},
    {.name = "bytes",
     .fallback = "1G",
     .min = 64u << 20,
     .max = 16ull << 30,
     KVR_OPTION_SIZE(OPTIONS, bytes),
     .help = "Device memory."},
    BENCH_OPTION_PAGE_BYTES(OPTIONS, "device", "16k", 1u << 20, "Scattered pages; a power of two."),
    BENCH_OPTION_ROUNDS(OPTIONS, "9", ROUNDS_MAX,
                        "Every way of copying has a turn in each; ratios are of one round."),
    {.name = "turn",
     .fallback = "100ms",
     .min = KVR_MS,
     .max = 10 * KVR_S,
     KVR_OPTION_DURATION(OPTIONS, duration),
     .help = "How long a turn copies."},
    {.name = "pings",
     .fallback = "8192",
     .min = 64,
     .max = GPU_PING_MAX,
     KVR_OPTION_COUNT(OPTIONS, pings),
     .help = "Readiness words, and raw round trips; in multiples of 64."},
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_exit_code exit_codes[] = {
    {BENCH_EXIT_NO_DEVICE, "there is no GPU, no driver, or a build without CUDA"},
    {0, NULL},
};

static const struct kvr_command command = {
    .name = "kvrail bench gpu",
    .description =
        "What staging and readiness cost on a GPU, in one process and without agents:\n"
        "  out, in           large plain copies of the driver, to and from pinned memory\n"
        "  gather, scatter   the same bytes as scattered pages, by a kernel; _packed: by way of\n"
        "                    the device's memory, the last half by the driver; _driver: by the\n"
        "                    driver, all pages in one call where it has that (CUDA 12.8)\n"
        "  beside            a plain copy within the device\n"
        "  move              scattered pages within the device, by the kernel; _driver: by a copy\n"
        "                    of the driver for each page\n"
        "  ready             from the GPU's readiness word to the first posted write, by the\n"
        "                    GPU's clock: the round trip until a rail group's spinning thread has\n"
        "                    posted and replied, less the median of a raw round trip\n"
        "Before that every gather and scatter is compared, byte for byte; moves are compared by\n"
        "kvrail bench push --provider local --device, which has whole transfers.",
    KVR_OPTION_ROWS(options),
    .exit_codes = exit_codes,
    .footer = "Example:\n"
              "  kvrail bench gpu --json gpu.json",
};

static const char *const names[GPU_COPIES] = {
    [GPU_GATHER_PACKED] = "gather_packed",
    [GPU_SCATTER_PACKED] = "scatter_packed",
    [GPU_OUT] = "out",
    [GPU_GATHER] = "gather",
    [GPU_GATHER_DRIVER] = "gather_driver",
    [GPU_IN] = "in",
    [GPU_SCATTER] = "scatter",
    [GPU_SCATTER_DRIVER] = "scatter_driver",
    [GPU_BESIDE] = "beside",
    [GPU_MOVE] = "move",
    [GPU_MOVE_DRIVER] = "move_driver",
};

struct figures {
    double gb_s[GPU_COPIES][ROUNDS_MAX];
    double ratios[GPU_COPIES][ROUNDS_MAX]; /* to the plain copy of the same round and direction */
    struct gpu_ready ready;
    bool possible[GPU_COPIES];
    bool ready_known;
    char no_ready[KVR_DETAIL_BYTES]; /* why not */
};

static enum gpu_copy plain_of(enum gpu_copy what)
{
    if (what >= GPU_BESIDE)
        return GPU_BESIDE;
    return what < GPU_IN ? GPU_OUT : GPU_IN;
}

/* Which goes first changes, so that what slows down slows all. */
static bool round_run(const struct gpu_options *chosen, struct gpu_copies *copies, uint64_t round,
                      struct figures *figures)
{
    for (unsigned i = 0; i < GPU_COPIES; i++) {
        enum gpu_copy what = (enum gpu_copy)((i + round) % GPU_COPIES);

        if (!figures->possible[what])
            continue;
        figures->gb_s[what][round] = gpu_copies_turn(copies, what, chosen->duration);
        if (figures->gb_s[what][round] == 0 || interrupts() > 0)
            return false;
    }
    for (unsigned what = 0; what < GPU_COPIES; what++)
        if (figures->possible[what])
            figures->ratios[what][round] =
                figures->gb_s[what][round] / figures->gb_s[plain_of((enum gpu_copy)what)][round];
    return true;
}

static bool copies_measure(const struct gpu_options *chosen, struct bench_device *device,
                           struct figures *figures)
{
    struct gpu_copies copies;
    bool good = gpu_copies_open(&copies, device, chosen->page_bytes, chosen->bytes) &&
                gpu_copies_check(&copies);

    for (unsigned what = 0; good && what < GPU_COPIES; what++)
        figures->possible[what] = gpu_copies_can(&copies, (enum gpu_copy)what);
    for (uint64_t round = 0; good && round < chosen->rounds; round++)
        good = round_run(chosen, &copies, round, figures);
    gpu_copies_close(&copies);
    return good;
}

/* Without nvcc the build has no kernel for it, and the rest is good all the same. */
static bool ready_measure(const struct gpu_options *chosen, const struct bench_device *device,
                          struct figures *figures)
{
    struct kvr_error error = {0};
    kvr_status status;

    figures->ready.pings = chosen->pings;
    status = gpu_ready_measure(device->device, &figures->ready, &error);
    figures->ready_known = status == KVR_OK;
    snprintf(figures->no_ready, sizeof(figures->no_ready), "%s", error.detail);
    if (status != KVR_OK)
        fprintf(stderr, "kvrail bench gpu: readiness: %s\n", error.detail);
    return status == KVR_OK || status == KVR_UNSUPPORTED;
}

static double median(double *values, uint64_t rounds)
{
    return bench_spread_of(values, rounds).median;
}

static double raw_us(const struct figures *figures, double percent)
{
    return (double)kvr_histogram_percentile(&figures->ready.raw, percent) / (double)KVR_US;
}

static json_t *ready_json(const struct figures *figures)
{
    if (!figures->ready_known)
        return json_pack("{s:s}", "skipped", figures->no_ready);
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "pings", (json_int_t)figures->ready.pings,
                     "p50_us", gpu_ready_us(&figures->ready, 50), "p99_us",
                     gpu_ready_us(&figures->ready, 99), "raw_p50_us", raw_us(figures, 50),
                     "raw_p99_us", raw_us(figures, 99));
}

static json_t *figures_json(const struct gpu_options *chosen, struct figures *figures)
{
    json_t *json = json_pack("{s:s, s:I, s:I, s:I}", "device", chosen->device, "bytes",
                             (json_int_t)chosen->bytes, "page_bytes",
                             (json_int_t)chosen->page_bytes, "rounds", (json_int_t)chosen->rounds);

    for (unsigned what = 0; what < GPU_COPIES; what++) {
        struct bench_spread rate = bench_spread_of(figures->gb_s[what], chosen->rounds);

        if (!figures->possible[what])
            continue;
        json_object_set_new(json, names[what],
                            json_pack("{s:f, s:f, s:f, s:f}", "gb_s", rate.median, "gb_s_min",
                                      rate.min, "gb_s_max", rate.max, "ratio",
                                      median(figures->ratios[what], chosen->rounds)));
    }
    json_object_set_new(json, "ready", ready_json(figures));
    return json;
}

static void print(const struct gpu_options *chosen, struct figures *figures)
{
    printf("%s, pages of %.10g KiB%s\n\n                     GB/s   ratio\n", chosen->device,
           (double)chosen->page_bytes / 1024,
           strcmp(chosen->device, "cuda") == 0 ? "" : ": no speed of any GPU");
    for (unsigned what = 0; what < GPU_COPIES; what++)
        if (figures->possible[what])
            printf("  %-15s %8.3f  %6.3f\n", names[what],
                   median(figures->gb_s[what], chosen->rounds),
                   median(figures->ratios[what], chosen->rounds));
    if (figures->ready_known)
        printf("\nreadiness word to first write: p50 %.2f us, p99 %.2f us more than a raw round "
               "trip of %.2f us (p99 %.2f us); %llu of each\n",
               gpu_ready_us(&figures->ready, 50), gpu_ready_us(&figures->ready, 99),
               raw_us(figures, 50), raw_us(figures, 99), (unsigned long long)figures->ready.pings);
}

static int report(const struct gpu_options *chosen, struct figures *figures)
{
    if (!json_output_replaces_text(chosen->json))
        print(chosen, figures);
    return json_output_write(figures_json(chosen, figures), chosen->json) ? 0 : 1;
}

int bench_gpu_main(int argc, char **argv)
{
    static struct gpu_options chosen;
    static struct figures figures;
    struct bench_device device;
    int exit_status;
    bool good;

    if (!kvr_options_load(&command, argc, argv, &chosen, &exit_status))
        return exit_status;
    if ((chosen.page_bytes & (chosen.page_bytes - 1)) != 0)
        return kvr_options_refuse(&command, "--page-bytes must be a power of two");
    interrupt_catch();
    (void)prctl(PR_SET_TIMERSLACK, 1000ul); /* as the rail groups' threads */
    if (!bench_device_open(&device, chosen.device)) {
        bench_device_close(&device);
        return BENCH_EXIT_NO_DEVICE;
    }
    (void)bench_device_pack(&device, chosen.device);
    good = copies_measure(&chosen, &device, &figures) && ready_measure(&chosen, &device, &figures);
    bench_device_close(&device);
    return good ? report(&chosen, &figures) : 1;
}
