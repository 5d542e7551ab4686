/* `kvrail bench beside`: what a small transfer waits for: alone, as the first after the hello, and
 * beside a huge one. Both engines in this process, one thread; every layer is ready at once. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/fabric_provider.h"
#include "rail_group/rail_group.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_agents.h"
#include "tools/bench/bench_attach.h"
#include "tools/bench/bench_beside.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_stats.h"
#include "tools/interrupt.h"

#define OPTIONS    struct bench_beside_options
#define ALONE      25u   /* small transfers of a round, one at once after the other */
#define RESTED     5u    /* and after a rest each */
#define BESIDE_MAX 4096u /* the same while the huge one runs */
#define HUGE_TRIES 8u
#define LATE_NS    (60 * KVR_S)
#define EVENTS     16
#define WORD_HUGE  0u
#define WORD_SMALL 1u

static const struct kvr_option options[] = {
    BENCH_OPTION_PROVIDER(OPTIONS, "Provider of the rails."),
    {.name = "warm-up",
     .choices = "yes|no",
     .fallback = "yes",
     KVR_OPTION_CHOICE(OPTIONS, warm_up),
     .help = "Whether the agents warm up their pairs of rails at the hello."},
    {.name = "window-bytes",
     .fallback = "0",
     .max = 1ull << 32,
     KVR_OPTION_SIZE(OPTIONS, window_bytes),
     .help = "As of the agents; 0: what suits the provider."},
    {.name = "agents",
     .value = "NAME=VALUE",
     KVR_OPTION_LIST(OPTIONS, agents),
     .help = "An option that both agents take. Repeat it for several."},
    BENCH_OPTION_PAGE_BYTES(OPTIONS, "pages", "64k", 1u << 20,
                            "A page, and so a small transfer; a multiple of 1024."),
    {.name = "huge-bytes",
     .fallback = "2G",
     .min = 1u << 20,
     .max = 64ull << 30,
     KVR_OPTION_SIZE(OPTIONS, huge_bytes),
     .help = "The huge transfer, in whole pages; each engine takes so much memory."},
    BENCH_OPTION_ROUNDS(OPTIONS, "9", BENCH_BESIDE_ROUNDS_MAX,
                        "Of small transfers alone and small ones beside a huge one."),
    {.name = "at-once",
     .fallback = "no",
     KVR_OPTION_BOOL(OPTIONS, at_once),
     .help = "The first transfer comes at once after the hello, while the pairs are still being "
             "connected; else when the prefill-agent says that they are, and after a rest."},
    {.name = "rest",
     .fallback = "50ms",
     .max = 60 * KVR_S,
     KVR_OPTION_DURATION(OPTIONS, rest),
     .help = "Before the first transfer, and before each of those it is compared with: all threads "
             "sleep then."},
    BENCH_OPTION_TLS(OPTIONS),
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench beside",
    .description =
        "How long a transfer of one page takes, from the fetch to its DONE: the first one after\n"
        "the agents' hello, alone, and while a huge one runs between the same engines. window_us\n"
        "is how long the window, what all rails have on their way at most, takes at the huge\n"
        "one's speed: beside_us is to be at most twice alone_us and one window; passed_bytes of\n"
        "the huge one go by meanwhile. The same of a transfer that moves no bytes\n"
        "(…_control_us) is what engines and agents take to agree.\n"
        "\n"
        "The first one comes when every pair of rails has carried a write, warm_us after the "
        "hello, and\n"
        "after a rest. first_ratio compares it with others after such a rest (rested_us): it is\n"
        "to be at most 1.5. first_ratio_in_a_row compares it with those that follow one another\n"
        "at once (alone_us), while the threads are still awake. With --warm-up no the pairs are\n"
        "not connected before, and with --at-once it does not wait for that.",
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail bench beside --provider tcp --json",
};

struct transfer {
    kvrail_handle source, target;
    kvr_ns opened_at, done_at; /* done_at: 0 while it runs */
    bool source_ended;
};

struct beside {
    struct bench_beside_options options;
    struct bench_rails rails;
    struct bench_agents agents;
    struct kvrail *source, *target;
    struct kvrail_memory memory[2];
    uint64_t generation, number, values[2]; /* number: of transfers; values: of the words */
    uint32_t *pages;                        /* of the huge one; behind them the small one's */
    uint32_t page_count;
    struct transfer huge, small;
    kvr_ns warm_at; /* every pair of rails has carried a write; 0: not reported */
    struct bench_beside_figures figures;
    bool broken;
};

static bool failed(struct beside *beside, const char *what, const char *detail)
{
    if (!beside->broken)
        fprintf(stderr, "kvrail bench beside: %s: %s\n", what, detail);
    beside->broken = true;
    return false;
}

static bool start(struct beside *beside)
{
    struct bench_options agents;
    struct bench_attach what = {.socket = beside->agents.source_socket,
                                .name = "bench-source",
                                .engine = {1},
                                .layers = 1,
                                .page_bytes = beside->options.page_bytes};

    bench_options_init(&agents);
    agents.copying.local_copy_threads = 1;
    agents.tls = beside->options.tls;
    agents.posting.warm_up = strcmp(beside->options.warm_up, "yes") == 0;
    agents.posting.window_bytes = beside->options.window_bytes;
    beside->generation = what.generation = kvr_clock_wall();
    beside->page_count = (uint32_t)(beside->options.huge_bytes / what.page_bytes);
    what.pages = beside->page_count + 1;
    beside->pages = malloc(what.pages * sizeof(beside->pages[0]));
    if (beside->pages == NULL)
        return failed(beside, "page ids", "no memory");
    for (uint32_t i = 0; i < what.pages; i++)
        beside->pages[i] = i;
    memcpy(agents.provider, beside->options.provider, sizeof(agents.provider));
    bench_rails_loopback(&beside->rails, agents.provider, 0, 0);
    if (!bench_agents_start(&beside->agents, &agents, &beside->rails, &beside->options.agents) ||
        !bench_attach(&what, &beside->source, &beside->memory[0]))
        return false;
    what.socket = beside->agents.target_socket;
    what.name = "bench-target";
    what.engine[0] = 2;
    return bench_attach(&what, &beside->target, &beside->memory[1]);
}

static void stop(struct beside *beside)
{
    kvrail_close(beside->source);
    kvrail_close(beside->target);
    bench_agents_stop(&beside->agents);
    free(beside->pages);
}

static void settle(struct beside *beside, struct transfer *transfer,
                   const struct kvrail_event *event)
{
    if (!event->terminal)
        return;
    if (event->handle == transfer->target)
        transfer->done_at = kvr_clock_now();
    if (event->handle == transfer->source)
        transfer->source_ended = true;
    if (event->status != KVRAIL_OK &&
        (event->handle == transfer->target || event->handle == transfer->source))
        (void)failed(beside, kvrail_event_name(event->kind), event->detail);
}

/* Whatever has happened, after at most `wait_ms`. */
static void take_events(struct beside *beside, int wait_ms)
{
    struct kvrail *connections[] = {beside->target, beside->source};
    struct pollfd descriptors[] = {{kvrail_event_fd(beside->target), POLLIN, 0},
                                   {kvrail_event_fd(beside->source), POLLIN, 0}};
    struct kvrail_event events[EVENTS];

    (void)poll(descriptors, 2, wait_ms);
    for (int side = 0; side < 2; side++) {
        int count = kvrail_poll(connections[side], events, EVENTS);

        if (count < 0)
            (void)failed(beside, "an agent", "the connection ended");
        for (int i = 0; i < count; i++) {
            if (events[i].kind == KVRAIL_EVENT_PEER_WARM)
                beside->warm_at = kvr_clock_now();
            settle(beside, &beside->huge, &events[i]);
            settle(beside, &beside->small, &events[i]);
        }
    }
}

/* Publishes and fetches `count` pages; skip: nothing of them is wanted. */
static bool begin(struct beside *beside, struct transfer *transfer, const uint32_t *pages,
                  uint32_t count, uint32_t word, bool skip)
{
    uint64_t tokens = (uint64_t)count * BENCH_PAGE_TOKENS;
    char name[32];
    char secret[KVRAIL_SECRET_BYTES];
    struct kvrail_source_address address = {.size = sizeof(struct kvrail_source_address),
                                            .agent = beside->agents.source_address,
                                            .engine = {1},
                                            .generation = beside->generation};
    struct kvrail_source_options publish = {.size = sizeof(struct kvrail_source_options),
                                            .request = name,
                                            .tokens = tokens,
                                            .consumers = 1};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .request = name,
                                          .tokens = tokens,
                                          .skip_tokens = skip ? tokens : 0,
                                          .sources = &address,
                                          .source_count = 1,
                                          .secret = secret};
    struct kvrail *source = beside->source, *target = beside->target;

    snprintf(name, sizeof(name), "beside-%" PRIu64, beside->number++);
    *transfer = (struct transfer){0};
    if (kvrail_source_open(source, &publish, &transfer->source) != KVRAIL_OK ||
        kvrail_source_secret(source, transfer->source, secret) != KVRAIL_OK ||
        kvrail_source_pages(source, transfer->source, 0, pages, count) != KVRAIL_OK ||
        kvrail_source_watch(source, transfer->source, word, beside->values[word], 0, tokens) !=
            KVRAIL_OK ||
        kvrail_ready(source, word, beside->values[word] + 1) != KVRAIL_OK ||
        kvrail_source_end(source, transfer->source, KVRAIL_OK) != KVRAIL_OK)
        return failed(beside, "publish", kvrail_last_error(source)->detail);
    beside->values[word]++;
    transfer->opened_at = kvr_clock_now();
    if (kvrail_target_open(target, &fetch, &transfer->target) != KVRAIL_OK ||
        kvrail_target_pages(target, transfer->target, 0, pages, count) != KVRAIL_OK)
        return failed(beside, "fetch", kvrail_last_error(target)->detail);
    return true;
}

static bool await(struct beside *beside, const struct transfer *transfer)
{
    while (!beside->broken && (transfer->done_at == 0 || !transfer->source_ended)) {
        take_events(beside, 100);
        if (interrupts() > 0 || kvr_clock_now() - transfer->opened_at > LATE_NS)
            return failed(beside, "a transfer", "it does not end");
    }
    return !beside->broken;
}

/* A transfer of one page; 0: it failed. */
static double small_us(struct beside *beside, bool skip)
{
    struct transfer *small = &beside->small;

    if (!begin(beside, small, &beside->pages[beside->page_count], 1, WORD_SMALL, skip) ||
        !await(beside, small))
        return 0;
    return (double)(small->done_at - small->opened_at) / 1e3;
}

/* Without anything else on its way. */
static void round_alone(struct beside *beside, struct bench_beside_round *round)
{
    double alone[ALONE], rested[RESTED], control[ALONE];

    for (unsigned i = 0; i < RESTED && !beside->broken; i++) {
        bench_sleep(beside->options.rest);
        rested[i] = small_us(beside, false);
    }
    for (unsigned i = 0; i < ALONE && !beside->broken; i++) {
        alone[i] = small_us(beside, false);
        control[i] = small_us(beside, true);
    }
    if (beside->broken)
        return;
    round->rested_us = bench_spread_of(rested, RESTED).median;
    round->alone_us = bench_spread_of(alone, ALONE).median;
    round->alone_control_us = bench_spread_of(control, ALONE).median;
}

/* False: it failed. */
static bool beside_huge(struct beside *beside, struct bench_beside_round *round,
                        double with[BESIDE_MAX], double control[BESIDE_MAX])
{
    struct transfer *huge = &beside->huge;

    if (!begin(beside, huge, beside->pages, beside->page_count, WORD_HUGE, false))
        return false;
    while (!beside->broken && huge->done_at == 0 && round->beside_count < BESIDE_MAX) {
        double took = small_us(beside, false), agreed = small_us(beside, true);

        if (huge->done_at == 0) { /* else it was alone at its end */
            control[round->beside_count] = agreed;
            with[round->beside_count++] = took;
        }
    }
    return await(beside, huge);
}

static bool round_run(struct beside *beside, struct bench_beside_round *round)
{
    static double with[BESIDE_MAX], control[BESIDE_MAX];
    const struct transfer *huge = &beside->huge;
    struct bench_spread spread;

    round_alone(beside, round);
    /* On a busy machine it may be through before this process has had its turn. */
    for (unsigned i = 0; i < HUGE_TRIES && round->beside_count == 0; i++)
        if (beside->broken || !beside_huge(beside, round, with, control))
            return false;
    if (round->beside_count == 0)
        return failed(beside, "the huge transfer", "it ended before a small one beside it");
    round->beside_control_us = bench_spread_of(control, round->beside_count).median;
    spread = bench_spread_of(with, round->beside_count);
    round->beside_us = spread.median;
    round->beside_max_us = spread.max;
    round->huge_gb_s =
        (double)beside->options.huge_bytes / (double)(huge->done_at - huge->opened_at);
    return true;
}

/* The session's hello, without a byte; then until every pair of rails is connected. */
static bool say_hello(struct beside *beside)
{
    bool warms = strcmp(beside->options.warm_up, "yes") == 0;
    kvr_ns hello_at;

    if (small_us(beside, true) == 0)
        return false;
    hello_at = kvr_clock_now();
    if (beside->options.at_once)
        return true;
    while (warms && beside->warm_at == 0 && !beside->broken) {
        take_events(beside, 100);
        if (interrupts() > 0 || kvr_clock_now() - hello_at > LATE_NS)
            return failed(beside, "the prefill-agent", "it does not say that the rails are warm");
    }
    if (beside->warm_at > hello_at)
        beside->figures.warm_us = (double)(beside->warm_at - hello_at) / 1e3;
    bench_sleep(beside->options.rest);
    return !beside->broken;
}

static bool measure(struct beside *beside)
{
    if (!say_hello(beside))
        return false;
    beside->figures.first_us = small_us(beside, false);
    for (uint64_t i = 0; i < beside->options.rounds && !beside->broken; i++)
        if (!round_run(beside, &beside->figures.rounds[i]))
            return false;
    return !beside->broken;
}

/* False: said on stderr. */
static bool find_window(struct beside *beside)
{
    struct kvr_rail_facts facts;
    struct kvr_error error;

    uint64_t bytes = beside->options.window_bytes;

    if (bytes == 0) {
        if (kvr_fabric_list(beside->options.provider, &facts, 1, &error) == 0)
            return failed(beside, "its rails", error.detail);
        bytes = kvr_group_window_bytes(&facts);
    }
    beside->figures.window_bytes = bytes;
    return true;
}

int bench_beside_main(int argc, char **argv)
{
    static struct beside beside;
    int exit_status;
    bool good;

    if (!kvr_options_load(&command, argc, argv, &beside.options, &exit_status))
        return exit_status;
    if (beside.options.page_bytes % 1024 != 0)
        return kvr_options_refuse(&command, "--page-bytes must be a multiple of 1024");
    beside.options.huge_bytes -= beside.options.huge_bytes % beside.options.page_bytes;
    interrupt_catch();
    good = find_window(&beside) && start(&beside) && measure(&beside);
    stop(&beside);
    if (!good)
        return 1;
    if (!json_output_replaces_text(beside.options.json))
        bench_beside_print(&beside.figures, &beside.options);
    return json_output_write(bench_beside_json(&beside.figures, &beside.options),
                             beside.options.json)
               ? 0
               : 1;
}
