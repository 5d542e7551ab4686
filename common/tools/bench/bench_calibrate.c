/* `kvrail bench calibrate`: what a provider does with an immediate. Two endpoints of this process
 * on one rail each, one thread that polls both: what is compared is one size with another. And what
 * a rail carries and its writes cost (bench_calibrate_costs.h), to a target in another process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memfd.h"
#include "base/removed.h"
#include "fabric/calibration.h"
#include "fabric/fabric_provider.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "fabric/region.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_calibrate_costs.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_stats.h"
#include "tools/bench/bench_turn.h"

#define OPTIONS       struct calibrate_options
#define POOL_BYTES    (64u << 20)
#define PAGE_BYTES    65536u
#define ROUNDS_MAX    BENCH_ROUNDS_MAX
#define LATE_NS       (2 * KVR_S)
#define SOURCE_STRIDE 37u
#define TARGET_STRIDE 53u
#define MARK          1

struct calibrate_options {
    char provider[16], state_dir[512], json[JSON_OUTPUT_PATH_BYTES];
    char rail[KVR_NAME_BYTES], target_rail[KVR_NAME_BYTES], target_netns[512];
    uint64_t rounds;
    char libfabric[KVR_LIBFABRIC_FOLDER_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "provider",
     .section = "rails",
     .choices_from = kvr_provider_choices,
     .removed = kvr_removed_provider,
     .fallback = "tcp",
     KVR_OPTION_CHOICE(OPTIONS, provider),
     .help = "The provider to measure."},
    {.name = "rail",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, rail),
     .help = "The rail to measure: an address, an interface or a domain. Without one the "
             "provider's first, or over TCP a loopback address."},
    {.name = "target-rail",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, target_rail),
     .help = "The other end, for the costs of writes and the bits per second. Without one --rail."},
    {.name = "target-netns",
     .value = "PATH",
     KVR_OPTION_STRING(OPTIONS, target_netns),
     .help = "The network namespace that has --target-rail: /run/netns/NAME. Without one ours."},
    KVR_OPTION_LIBFABRIC(OPTIONS),
    {.name = "state-dir",
     .section = "output",
     .value = "DIR",
     KVR_OPTION_STRING(OPTIONS, state_dir),
     .help = "Keep the result there, as calibration-PROVIDER.json, for agents with the same "
             "--state-dir."},
    BENCH_OPTION_ROUNDS(
        OPTIONS, "7", ROUNDS_MAX,
        "Every number of pieces and every size has a turn in each. The default is left only "
        "for a value that was never worse and mostly better by 5 %."),
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench calibrate",
    .description =
        "Finds how many pieces one write with an immediate may carry on a provider, how many of\n"
        "them pay, and which sizes of a message are good, and keeps that for the agents. Measures\n"
        "what a rail carries, what a small write costs and how long it takes, and keeps that for\n"
        "kvrail replay --virtual --costs FILE.",
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail bench calibrate --provider tcp --state-dir /var/lib/kvrail/p0",
};

/* At which end the pieces of a write touch, so that they are one run of bytes there. */
enum touch { TOUCH_NOWHERE, TOUCH_SOURCE, TOUCH_TARGET };

struct side {
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
    struct kvr_region *region;
};

struct bed {
    struct kvr_fabric fabric;
    struct side sides[2]; /* source, target */
    struct bench_turns turns;
    uint64_t peer, next; /* next: page of the order */
};

/* What a turn writes. */
struct shape {
    struct bed *bed;
    uint32_t pieces;
    uint64_t bytes; /* of each */
    enum touch touch;
};

static bool failed(const char *what, const struct kvr_error *error)
{
    fprintf(stderr, "kvrail bench calibrate: %s: %s\n", what, error->detail);
    return false;
}

static bool side_open(struct bed *bed, int index, const char *provider, const char *rail)
{
    struct side *side = &bed->sides[index];
    struct kvr_region_layout layout = {.region = 1, .bytes = POOL_BYTES};
    struct kvr_rail_options wanted = {0};
    const struct kvr_fabric_ops *ops = bed->fabric.ops;
    struct kvr_error error = {0};
    int fd;

    snprintf(wanted.provider, sizeof(wanted.provider), "%s", provider);
    snprintf(wanted.name, sizeof(wanted.name), "%s", rail);
    /* Both for reading and writing: the source's bytes are written here too. */
    if (ops->rail_open(bed->fabric.self, &wanted, &side->rail, &error) != KVR_OK ||
        ops->endpoint_open(side->rail, &side->endpoint, &error) != KVR_OK ||
        kvr_memfd_create("kvrail-calibrate", POOL_BYTES, "calibrate", &fd, &error) != KVR_OK ||
        kvr_region_open_memfd(&bed->fabric, &side->rail, 1, &layout, fd, 0, true, KVR_REMOTE_ALWAYS,
                              &side->region, &error) != KVR_OK)
        return failed("a rail", &error);
    memset(side->region->base, 0, POOL_BYTES);
    return true;
}

/* One side learns the address of the other. */
static bool side_insert(struct bed *bed, int index, uint64_t *ret_peer)
{
    uint8_t address[KVR_ADDRESS_BYTES];
    struct kvr_error error = {0};
    uint32_t bytes;

    bed->fabric.ops->endpoint_address(bed->sides[1 - index].endpoint, address, &bytes);
    if (bed->fabric.ops->peer_insert(bed->sides[index].endpoint, address, bytes, ret_peer,
                                     &error) != KVR_OK)
        return failed("the other side", &error);
    return true;
}

static bool bed_open(struct bed *bed, const char *provider, const char *rail)
{
    uint64_t writer;

    kvr_fabric_of(provider, &bed->fabric);
    if (!side_open(bed, 1, provider, rail) || !side_open(bed, 0, provider, rail) ||
        !side_insert(bed, 1, &writer) || !side_insert(bed, 0, &bed->peer))
        return false;
    bed->turns = (struct bench_turns){.ops = bed->fabric.ops,
                                      .source = bed->sides[0].endpoint,
                                      .target = bed->sides[1].endpoint,
                                      .late_ns = LATE_NS};
    return true;
}

static void bed_close(struct bed *bed)
{
    const struct kvr_fabric_ops *ops = bed->fabric.ops;

    for (int i = 0; i < 2; i++) {
        struct side *side = &bed->sides[i];

        if (side->endpoint != NULL) {
            ops->endpoint_stop(side->endpoint);
            ops->endpoint_close(side->endpoint);
        }
        kvr_region_release(&bed->fabric, side->region);
        if (side->rail != NULL)
            ops->rail_close(side->rail);
    }
}

/* Where the i-th piece of a write lies. The order of pages strides through the pool, so that none
 * is in a cache. */
static uint64_t place(uint64_t first, uint32_t i, uint64_t stride, bool touching, uint64_t bytes)
{
    uint64_t slots = POOL_BYTES / (2 * (bytes > PAGE_BYTES ? bytes : PAGE_BYTES));
    uint64_t step = POOL_BYTES / slots;

    return touching ? i * bytes : (first + i) * stride % slots * step;
}

static kvr_status post(void *self, uint32_t number, uint64_t context)
{
    const struct shape *shape = self;
    struct bed *bed = shape->bed;
    const struct kvr_region *source = bed->sides[0].region, *target = bed->sides[1].region;
    struct kvr_fabric_piece list[KVR_IOV_MAX];
    struct kvr_fabric_write write = {.pieces = list,
                                     .piece_count = shape->pieces,
                                     .peer = bed->peer,
                                     .immediate = number,
                                     .context = context};
    kvr_status status;

    for (uint32_t i = 0; i < shape->pieces; i++) {
        uint64_t from =
            place(bed->next, i, SOURCE_STRIDE, shape->touch == TOUCH_SOURCE, shape->bytes);
        uint64_t to =
            place(bed->next, i, TARGET_STRIDE, shape->touch == TOUCH_TARGET, shape->bytes);

        source->base[from] = MARK;
        list[i] = (struct kvr_fabric_piece){.local = source->base + from,
                                            .memory = source->memory[0],
                                            .remote = target->keys[0].base + to,
                                            .key = target->keys[0].key,
                                            .bytes = shape->bytes};
    }
    status = bed->fabric.ops->write(bed->sides[0].endpoint, &write);
    bed->next += status == KVR_OK ? shape->pieces : 0;
    return status;
}

/* Moves at least `total` bytes, in writes of `pieces` pieces of `bytes` each. Returns GB/s; 0: the
 * provider does not carry it. */
static double turn(struct bed *bed, uint32_t pieces, uint64_t bytes, uint64_t total,
                   enum touch touch)
{
    struct shape shape = {bed, pieces, bytes, touch};
    uint64_t writes = total / (pieces * bytes) + 1;
    kvr_ns took = bench_turn(&bed->turns, writes, post, &shape);

    return took > 0 ? (double)(writes * pieces * bytes) / (double)took : 0;
}

/* Every piece of one write is where it belongs when its one immediate arrives. */
static bool carries(struct bed *bed, uint32_t pieces, enum touch touch)
{
    uint64_t first = bed->next;

    memset(bed->sides[1].region->base, 0, POOL_BYTES);
    if (turn(bed, pieces, PAGE_BYTES, 1, touch) == 0)
        return false;
    for (uint32_t i = 0; i < pieces; i++) {
        uint64_t at = place(first, i, TARGET_STRIDE, touch == TOUCH_TARGET, PAGE_BYTES);

        if (bed->sides[1].region->base[at] != MARK)
            return false;
    }
    return true;
}

/* The most pieces of one write that do not touch at one end, if they do at the other. */
static uint32_t most_pieces(struct bed *bed, uint32_t advertised, enum touch touch)
{
    uint32_t most = 0;

    while (most < advertised && most < KVR_IOV_MAX && carries(bed, most + 1, touch))
        most++;
    return most;
}

static double median_of(const double *rates, uint64_t rounds, size_t choices, size_t choice)
{
    double values[ROUNDS_MAX];

    for (uint64_t round = 0; round < rounds; round++)
        values[round] = rates[round * choices + choice];
    return bench_spread_of(values, rounds).median;
}

/* As many pieces as it carries, unless fewer are better beyond noise; where pieces cannot be apart
 * at both ends there is nothing to choose. */
static void choose_pieces(struct bed *bed, uint64_t rounds, struct kvr_calibration *calibration)
{
    static double rates[ROUNDS_MAX * KVR_IOV_MAX];
    uint32_t most = calibration->imm_iov < calibration->imm_rma_iov ? calibration->imm_iov
                                                                    : calibration->imm_rma_iov;

    calibration->pieces = KVR_IOV_MAX;
    if (most == 1)
        return;
    for (uint64_t round = 0; round < rounds; round++)
        for (uint32_t k = 1; k <= most; k++)
            rates[round * most + k - 1] = turn(bed, k, PAGE_BYTES, POOL_BYTES, TOUCH_NOWHERE);
    calibration->pieces = (uint32_t)bench_choose(rates, rounds, most, most - 1) + 1;
}

/* What agents take by default, unless another size is better beyond noise. Sizes below four pages
 * are shown and not chosen: vectors make larger writes of small pages. */
static void choose_sizes(struct bed *bed, uint64_t rounds, struct kvr_calibration *calibration)
{
    static const uint64_t sizes[] = {16384,  32768,  49152,  65536,   98304,
                                     131072, 262144, 524288, 1048576, 2097152};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]), FIRST = 6, DEFAULT = 8 };
    static double rates[ROUNDS_MAX * COUNT], large[ROUNDS_MAX * (COUNT - FIRST)];

    for (uint64_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < COUNT; i++) {
            rates[round * COUNT + i] = turn(bed, 1, sizes[i], POOL_BYTES, TOUCH_NOWHERE);
            if (i >= FIRST)
                large[round * (COUNT - FIRST) + i - FIRST] = rates[round * COUNT + i];
        }
    calibration->size_count = COUNT;
    for (uint32_t i = 0; i < COUNT; i++) {
        calibration->sizes[i].bytes = sizes[i];
        calibration->sizes[i].gb_s = median_of(rates, rounds, COUNT, i);
    }
    calibration->chunk_bytes_max =
        sizes[FIRST + bench_choose(large, rounds, COUNT - FIRST, DEFAULT - FIRST)];
}

static bool measure(const struct calibrate_options *chosen, struct kvr_calibration *calibration)
{
    static struct bed bed;
    const struct kvr_rail_facts *facts;
    bool good = bed_open(&bed, chosen->provider, chosen->rail);

    memcpy(calibration->provider, chosen->provider, sizeof(calibration->provider));
    snprintf(calibration->libfabric, sizeof(calibration->libfabric), "%s",
             kvr_fabric_version(chosen->provider));
    if (good) {
        facts = bed.fabric.ops->rail_facts(bed.sides[0].rail);
        calibration->imm_iov = most_pieces(&bed, facts->write.pieces_local, TOUCH_TARGET);
        calibration->imm_rma_iov = most_pieces(&bed, facts->write.pieces_remote, TOUCH_SOURCE);
        good = calibration->imm_iov > 0 && calibration->imm_rma_iov > 0;
        if (!good)
            fprintf(stderr, "kvrail bench calibrate: %s carries no write with an immediate\n",
                    chosen->provider);
    }
    if (good) {
        choose_pieces(&bed, chosen->rounds, calibration);
        choose_sizes(&bed, chosen->rounds, calibration);
    }
    bed_close(&bed);
    return good;
}

static json_t *figures_json(const struct kvr_calibration *calibration)
{
    json_t *sizes = json_array();

    for (uint32_t i = 0; i < calibration->size_count; i++)
        json_array_append_new(sizes, json_pack("{s:I, s:f}", "bytes",
                                               (json_int_t)calibration->sizes[i].bytes, "gb_s",
                                               calibration->sizes[i].gb_s));
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:o, s:o*}", "provider", calibration->provider,
                     "libfabric", calibration->libfabric, "imm_iov", (int)calibration->imm_iov,
                     "imm_rma_iov", (int)calibration->imm_rma_iov, "pieces",
                     (int)calibration->pieces, "chunk_bytes_max",
                     (json_int_t)calibration->chunk_bytes_max, "sizes", sizes, "costs",
                     kvr_calibration_costs_json(&calibration->costs));
}

static void print(const struct kvr_calibration *calibration)
{
    printf("%s, %s: a write with an immediate carries %u pieces from the source and %u to "
           "the target, at most %u pay; a message of %llu KiB is large enough\n",
           calibration->provider, calibration->libfabric, calibration->imm_iov,
           calibration->imm_rma_iov, calibration->pieces,
           (unsigned long long)calibration->chunk_bytes_max >> 10);
    for (uint32_t i = 0; i < calibration->size_count; i++)
        printf("  %5llu KiB  %.2f GB/s\n", (unsigned long long)calibration->sizes[i].bytes >> 10,
               calibration->sizes[i].gb_s);
    printf("  a rail carries %.3f Gb/s; a small write takes %llu ns of the posting thread, and is "
           "there after %.1f us\n",
           (double)calibration->costs.rail_bps / 1e9,
           (unsigned long long)calibration->costs.write_ns,
           (double)calibration->costs.latency_ns / 1e3);
}

/* The default names of rails are the provider's. */
static void name_rails(struct calibrate_options *chosen)
{
    if (chosen->rail[0] == '\0')
        snprintf(chosen->rail, sizeof(chosen->rail), "%s",
                 kvr_provider_find(chosen->provider)->default_rail);
    if (chosen->target_rail[0] == '\0')
        memcpy(chosen->target_rail, chosen->rail, sizeof(chosen->target_rail));
}

static bool measure_all(const struct calibrate_options *chosen, struct kvr_calibration *calibration)
{
    struct calibrate_costs costs = {.provider = chosen->provider,
                                    .rail = chosen->rail,
                                    .target_rail = chosen->target_rail,
                                    .target_netns = chosen->target_netns};
    bool good;

    if (!calibrate_costs_open(&costs))
        return false;
    good = measure(chosen, calibration) &&
           calibrate_costs_measure(&costs, chosen->rounds, &calibration->costs);
    calibrate_costs_close(&costs);
    return good;
}

int bench_calibrate_main(int argc, char **argv)
{
    static struct calibrate_options chosen;
    static struct kvr_calibration calibration;
    struct kvr_error error = {0};
    int exit_status;
    bool written;

    if (!kvr_options_load(&command, argc, argv, &chosen, &exit_status))
        return exit_status;
    kvr_libfabric_choose(chosen.libfabric);
    if (chosen.state_dir[0] != '\0' && mkdir(chosen.state_dir, 0700) != 0 && errno != EEXIST) {
        fprintf(stderr, "kvrail bench calibrate: %s: %s\n", chosen.state_dir, strerror(errno));
        return 1;
    }
    name_rails(&chosen);
    if (!measure_all(&chosen, &calibration))
        return 1;
    if (!json_output_replaces_text(chosen.json))
        print(&calibration);
    written = json_output_write(figures_json(&calibration), chosen.json);
    if (chosen.state_dir[0] != '\0' &&
        kvr_calibration_save(chosen.state_dir, &calibration, &error) != KVR_OK)
        written = failed("state folder", &error);
    return written ? 0 : 1;
}
