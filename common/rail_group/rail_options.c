#include "rail_group/rail_options.h"

#include "base/limits.h"

/* A row of a struct's members, and what it has beside: .fallback, .min … and .help. */
#define ROW(of, called, option, ...)                                                               \
    {                                                                                              \
        .section = (of), .name = (called), option, __VA_ARGS__                                     \
    }
#define POSTING(of, called, kind, field, ...)                                                      \
    ROW(of, called, KVR_OPTION_##kind(struct kvr_posting_config, field), __VA_ARGS__)
#define COPYING(of, called, kind, field, ...)                                                      \
    ROW(of, called, KVR_OPTION_##kind(struct kvr_copying_config, field), __VA_ARGS__)
#define TABLE(rows)                                                                                \
    {                                                                                              \
        rows, sizeof(rows) / sizeof((rows)[0])                                                     \
    }

static const struct kvr_option posting_rows[] = {
    KVR_OPTION_LIBFABRIC(struct kvr_posting_config),
    POSTING("rails", "chunk-bytes-max", SIZE, chunk_bytes_max, .fallback = "1M",
            .min = KVR_CHUNK_BYTES_MIN, .max = 1ull << 30,
            .help = "Largest write; pages that are neighbours on both sides are merged up to it."),
    POSTING("rails", "window-bytes", SIZE, window_bytes, .fallback = "0", .max = 1ull << 32,
            .help = "Bytes posted and not completed, of each rail, half of them to one peer; 0: "
                    "what suits the provider, 64M on local and 16M on others."),
    POSTING("rails", "window-writes", COUNT, window_writes, .fallback = "0", .max = 65536,
            .help = "Writes posted and not completed, of each rail; 0: what the provider takes."),
    POSTING("rails", "connections", COUNT, connections, .fallback = "512", .max = 1u << 20,
            .help =
                "Connections that each rail keeps to rails of peers, on tcp and verbs: with more, "
                "the one that rested longest is closed, and made again when it is needed. Busy "
                "ones are not closed. 0: any number."),
    POSTING("rails", "spin", DURATION, spin, .fallback = "20us", .max = KVR_S,
            .help = "How long the rails' thread polls after the last progress before it sleeps. "
                    "Beyond 20us it leaves the core to other threads."),
    POSTING(
        "rails", "warm-up", BOOL, warm_up, .fallback = "yes",
        .help =
            "Write a few bytes over every pair of rails when it comes into use, into a page kept "
            "for that, so that no transfer waits for a connection; both agents of a pair."),
    POSTING("rails", "pieces", COUNT, pieces, .hidden = true, .fallback = "0", .max = KVR_IOV_MAX,
            .help = "Pieces of memory that one write gathers, at most; 0: as many as the provider "
                    "takes, or calibration found to pay."),
    POSTING("rails", "batch", COUNT, batch, .hidden = true, .fallback = "0", .max = 1024,
            .help = "Writes posted with one doorbell, at most; 1: each rings; 0: 32."),
    POSTING("rails", "acknowledge", BOOL, acknowledge, .fallback = "yes",
            .help = "On tcp a write is on its way until the target has it; no: until the kernel "
                    "has taken it, and what its buffers hold comes on top of --window-bytes."),
    POSTING(
        "rails", "tcp-congestion", STRING, tcp_congestion, .reported = true, .value = "NAME",
        .fallback = "auto",
        .help =
            "Congestion control of tcp's connections, a name that the host has (sysctl "
            "net.ipv4.tcp_available_congestion_control). auto: cubic where the host's own is bbr, "
            "because its pacing leaves a part of a short path unused; host: always its own."),
    POSTING("rails", "inline", SIZE, inline_bytes, .hidden = true, .fallback = "0", .max = 65536,
            .help =
                "Writes of up to so many bytes are handed to the provider with their bytes, so "
                "that nothing need read them from memory; tcp, at most what it takes so; 0: none."),
};
const struct kvr_option_table kvr_posting_options = TABLE(posting_rows);

static const struct kvr_option staging_rows[] = {
    COPYING(
        "device", "staging-memory", SIZE, staging_memory, .fallback = "256M", .min = 2ull << 20,
        .max = 1ull << 40,
        .help =
            "Pinned memory of each GPU, for pages that no card can reach, and of host memory, for "
            "fragments (see --fragments); at least two of --chunk-bytes-max. At a prefill-agent it "
            "is a ring. At a decode-agent a transfer uses an eighth of it at most, and transfers "
            "beyond that wait. Transfers of any size fit through. Taken with a GPU's first region, "
            "and with the first transfer that copies its fragments."),
    COPYING("device", "device-copies", CHOICE, device_copies,
            .choices = "auto|kernel|packed|driver", .fallback = "auto",
            .help =
                "What copies pages between a GPU and host memory. kernel: one kernel for many "
                "pages. packed: a kernel gathers them within the GPU, and the driver copies. "
                "driver: the driver copies, many pages in one call where it has that (CUDA 12.8). "
                "auto: the driver, because it does not hold up the engine's model; small pages "
                "packed where agent and engine share the GPU by MPS. Moves within a GPU are the "
                "kernel's, unless this is driver."),
};
const struct kvr_option_table kvr_staging_options = TABLE(staging_rows);

static const struct kvr_option copying_rows[] = {
    COPYING("rails", "local-copy-threads", COUNT, local_copy_threads, .fallback = "2", .min = 1,
            .max = 16,
            .help = "With provider local, how many threads copy a long list of pages; the rails' "
                    "own is one of them."),
};
const struct kvr_option_table kvr_copying_options = TABLE(copying_rows);
