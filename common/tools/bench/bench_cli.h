/* What the command lines of all benchmarks share. */
#ifndef KVR_TOOLS_BENCH_CLI_H
#define KVR_TOOLS_BENCH_CLI_H

#include "base/options.h"
#include "base/removed.h"
#include "fabric/fabric_provider.h"
#include "tools/json_output.h"

/* Rows that several benchmarks have, each in the struct's field of that name. */
#define BENCH_OPTION_PROVIDER(type_, help_)                                                        \
    {                                                                                              \
        .name = "provider", .section = "rails", .choices_from = kvr_provider_choices_loopback,     \
        .removed = kvr_removed_provider, .fallback = "tcp", KVR_OPTION_CHOICE(type_, provider),    \
        .help = (help_)                                                                            \
    }
#define BENCH_OPTION_PAGE_BYTES(type_, section_, fallback_, max_, help_)                           \
    {                                                                                              \
        .name = "page-bytes", .section = (section_), .fallback = (fallback_), .min = 1024,         \
        .max = (max_), KVR_OPTION_SIZE(type_, page_bytes), .help = (help_)                         \
    }
#define BENCH_OPTION_ROUNDS(type_, fallback_, max_, help_)                                         \
    {                                                                                              \
        .name = "rounds", .section = "measuring", .fallback = (fallback_), .min = 1,               \
        .max = (max_), KVR_OPTION_COUNT(type_, rounds), .help = (help_)                            \
    }
/* --tls, in the struct's `tls`. */
#define BENCH_OPTION_TLS(type_)                                                                    \
    {                                                                                              \
        .name = "tls", .section = "agents", .fallback = "yes", KVR_OPTION_BOOL(type_, tls),        \
        .help = "The agents get certificates, of a CA made for this run; --no-tls starts them "    \
                "with --insecure. No page passes TLS either way, and the raw loops have none."     \
    }

#endif
