/* Plays a small fleet to a scheduler, so that the page has something to show: two prefill-agents
 * and two decode-agents with transfers of every outcome, and two agents that are gone.
 *
 *   ui.generate HOST:PORT SECONDS [SEED]
 *
 * It first reports a past minute at once, then the rest as it happens. At SIGUSR1 the rail that is
 * down comes back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/report/reporter.h"
#include "base/clock.h"
#include "base/entropy.h"
#include "base/rng.h"
#include "trace/spans.h"

#define AGENTS       4
#define GONE         2
#define PAST_NS      (58 * KVR_S)
#define STEP_NS      (40 * KVR_MS)
#define TRANSFERS    512
#define STEPS        16
#define PREFILL_PAIR 2 /* agents 0 and 1 are prefill, 2 and 3 decode */
#define LAYERS       80
#define STUCK        3 /* this transfer, counted from 1, stays at the landing of its first chunk */
#define STEPS_STUCK  9

struct agent {
    struct kvr_reporter *reporter;
    struct kvr_event_sink sink;
    struct kvr_agent_facts facts;
};

struct step {
    kvr_ns at;
    kvr_role role;
    kvr_event_kind kind;
};

struct play {
    struct kvr_event event; /* the event that both sides report */
    int source, target, step, step_count;
    struct step steps[STEPS];
};

static struct agent agents[AGENTS + GONE];
static struct play plays[TRANSFERS];
static struct kvr_rng rng;
static volatile sig_atomic_t mended;
static const char *const names[] = {"prefill-0", "prefill-1",   "decode-0",
                                    "decode-1",  "prefill-old", "decode-spare"};

static uint64_t between(uint64_t low, uint64_t high)
{
    return low + kvr_rng_below(&rng, high - low + 1);
}

/* Two NUMA nodes, with two cards and a GPU each; the second pair of cards is faster. */
static void tell_place(struct kvr_agent_facts *facts)
{
    facts->traits.reported = true;
    facts->traits.gpu_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(facts->traits.gpus[i].pci, sizeof(facts->traits.gpus[i].pci), "0000:%02x:00.0",
                 i == 0 ? 0x10 : 0x90);
        strcpy(facts->traits.gpus[i].model, "H100");
        facts->traits.gpus[i].node_known = true;
        facts->traits.gpus[i].node = i;
        facts->traits.gpus[i].groups = 1u << i;
    }
    for (uint32_t i = 0; i < facts->rail_count; i++) {
        facts->rails[i].group = i / 2;
        facts->rails[i].speed_bps *= 1 + i / 2;
        facts->rails[i].traits.reported = true;
        facts->rails[i].traits.node_known = true;
        facts->rails[i].traits.node = i / 2;
    }
}

static void open_agent(int index, const char *scheduler)
{
    struct kvr_reporter_options options = {
        .schedulers = {scheduler}, .agent = names[index], .boot = kvr_random_u64()};
    struct kvr_agent_facts *facts = &agents[index].facts;
    struct kvr_error error;

    if (kvr_reporter_open(&options, &agents[index].reporter, &error) != KVR_OK) {
        fprintf(stderr, "%s\n", error.detail);
        exit(1);
    }
    agents[index].sink = kvr_reporter_sink(agents[index].reporter);
    facts->role = strncmp(names[index], "prefill", 7) == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
    strcpy(facts->version, "0.1.0");
    snprintf(facts->host, sizeof(facts->host), "gpu-%02d.rack7", 11 + index);
    facts->pid = 4200 + (uint32_t)index;
    strcpy(facts->provider, index == 3 ? "verbs" : "efa");
    facts->peers_up = PREFILL_PAIR;
    facts->secure = index != 2;
    facts->peers_warm = index == 0 ? PREFILL_PAIR : index == 1 ? 1 : 0;
    facts->tenant_count = 2;
    strcpy(facts->tenants[0].name, "red");
    strcpy(facts->tenants[1].name, "blue");
    facts->engine_count = 2;
    for (uint32_t i = 0; i < facts->engine_count; i++) {
        snprintf(facts->engines[i].name, KVR_NAME_BYTES, "rank%u", i);
        strcpy(facts->engines[i].model, "llama-3.1-70b");
        facts->engines[i].rank = (struct kvr_rank){.tp = i, .tp_size = 2, .pp_size = 1};
        facts->engines[i].region_count = 1;
        facts->engines[i].region_bytes = 48ull << 30;
    }
    facts->rail_count = 4;
    for (uint32_t i = 0; i < facts->rail_count; i++) {
        snprintf(facts->rails[i].name, KVR_NAME_BYTES, "rdmap%us0", 79 + i);
        strcpy(facts->rails[i].provider, facts->provider);
        facts->rails[i].epoch = 1;
        facts->rails[i].group = index == 1 ? i / 2 : 0;
        facts->rails[i].speed_bps = 100000000000u;
    }
    if (index == 1)
        facts->rails[2].state = KVR_RAIL_DOWN;
    if (index == 0)
        tell_place(facts);
    kvr_reporter_facts(agents[index].reporter, facts);
}

/* Each card of a prefill-agent with that of the same number; one pair is broken. */
static void tell_pairs(int index)
{
    static struct kvr_report_pairs pairs;

    pairs.peer_count = 2;
    pairs.pair_count = 0;
    for (uint32_t peer = 0; peer < pairs.peer_count; peer++) {
        strcpy(pairs.peers[peer].peer, names[PREFILL_PAIR + peer]);
        pairs.peers[peer].pair_first = pairs.pair_count;
        pairs.peers[peer].pair_count = 4;
        for (uint32_t rail = 0; rail < 4; rail++) {
            struct kvr_pair_facts *pair = &pairs.pairs[pairs.pair_count++];
            bool broken = index == 1 && peer == 1 && rail == 2;

            *pair = (struct kvr_pair_facts){.rail = rail,
                                            .target_rail = rail,
                                            .state = broken ? KVR_PAIR_UNREACHABLE : KVR_PAIR_WARM,
                                            .bytes = broken ? 0 : 7ull << 30,
                                            .state_ns = 90 * KVR_S,
                                            .breaks = broken};
            if (broken)
                strcpy(pair->detail, "writes failed: completion error 5 (flushed)");
        }
    }
    kvr_reporter_pairs(agents[index].reporter, &pairs);
}

static void add_step(struct play *play, kvr_ns *at, uint64_t us_low, uint64_t us_high,
                     kvr_role role, kvr_event_kind kind)
{
    *at += between(us_low, us_high) * KVR_US;
    play->steps[play->step_count++] = (struct step){*at, role, kind};
}

static void write_script(struct play *play, kvr_ns at, bool slow)
{
    uint64_t move_us = play->event.bytes / (slow ? 2000 : 32000);

    add_step(play, &at, 0, 10, KVR_ROLE_SOURCE, KVR_EVENT_OPENED);
    add_step(play, &at, 200, 9000, KVR_ROLE_TARGET, KVR_EVENT_OPENED);
    add_step(play, &at, 300, 900, KVR_ROLE_SOURCE, KVR_EVENT_MATCHED);
    add_step(play, &at, 100, 400, KVR_ROLE_TARGET, KVR_EVENT_MATCHED);
    add_step(play, &at, 100, 300, KVR_ROLE_TARGET, KVR_EVENT_GRANTED);
    add_step(play, &at, 100, 300, KVR_ROLE_SOURCE, KVR_EVENT_GRANTED);
    add_step(play, &at, 3000, 60000, KVR_ROLE_SOURCE, KVR_EVENT_FIRST_READY);
    add_step(play, &at, 20, 90, KVR_ROLE_SOURCE, KVR_EVENT_FIRST_POST);
    add_step(play, &at, 30, 200, KVR_ROLE_TARGET, KVR_EVENT_FIRST_LAND);
    add_step(play, &at, move_us, 2 * move_us, KVR_ROLE_SOURCE, KVR_EVENT_LAST_READY);
    add_step(play, &at, 100, 400, KVR_ROLE_SOURCE, KVR_EVENT_LAST_POST);
    if (play->event.retries > 0)
        add_step(play, &at, 100, 400, KVR_ROLE_SOURCE, KVR_EVENT_RETRY);
    if (play->event.outcome != KVR_OK) {
        add_step(play, &at, 100, 900, KVR_ROLE_TARGET, KVR_EVENT_FAILING);
    } else {
        add_step(play, &at, 200, 900, KVR_ROLE_TARGET, KVR_EVENT_LAST_LAND);
    }
    add_step(play, &at, 60, 300, KVR_ROLE_TARGET, KVR_EVENT_ENDED);
    add_step(play, &at, 60, 300, KVR_ROLE_SOURCE, KVR_EVENT_ENDED);
}

static void draw_outcome(struct kvr_event *event)
{
    uint64_t draw = between(0, 199);

    if (draw < 4) {
        event->outcome = KVR_PEER_LOST;
        strcpy(event->detail, "decode-1 gave no sign for 3.1 s; its session was fenced");
    } else if (draw < 7) {
        event->outcome = KVR_RAIL_FAILED;
        strcpy(event->detail, "rdmap81s0 of prefill-1: completion error 5 (flushed), link down");
    } else if (draw < 15) {
        event->outcome = KVR_CANCELLED;
        strcpy(event->detail, "the client of the request went away");
    } else if (draw < 19) {
        event->outcome = KVR_EXPIRED;
        strcpy(event->detail, "its deadline of 2.0 s ended before the first layer was ready");
    }
}

static void begin(kvr_ns at)
{
    static const uint64_t prompts[] = {512, 1024, 2048, 4096, 8192, 12288};
    static uint64_t count;
    struct play *play = NULL;
    struct kvr_event *event;

    for (int i = 0; i < TRANSFERS && play == NULL; i++)
        if (plays[i].step == plays[i].step_count)
            play = &plays[i];
    if (play == NULL)
        return;
    memset(play, 0, sizeof(*play));
    event = &play->event;
    play->source = (int)between(0, 1);
    play->target = PREFILL_PAIR + (int)between(0, 1);
    event->transfer = kvr_rng_next(&rng);
    snprintf(event->request, sizeof(event->request), "chatcmpl-%08llx-%llu",
             (unsigned long long)(kvr_rng_next(&rng) >> 32), (unsigned long long)count++);
    strcpy(event->tenant, count % 4 == 0 ? "blue" : "red");
    event->attempt = 1;
    memset(event->source_engine.bytes, 0x10 + play->source, 16);
    memset(event->target_engine.bytes, 0x20 + play->target, 16);
    event->tokens = prompts[between(0, 5)] + between(0, 255);
    event->skip_tokens = between(0, 3) == 0 ? 512 : 0;
    event->bytes = (event->tokens - event->skip_tokens) * 163840;
    event->layers = LAYERS;
    event->chunks = (uint32_t)(event->bytes >> 19) + 1;
    event->rails = play->source == 1 ? 11 : 15;
    event->retries = between(0, 19) == 0 ? (uint32_t)between(1, 12) : 0;
    draw_outcome(event);
    write_script(play, at, between(0, 14) == 0);
    if (count == STUCK) { /* it lives until an order cancels it */
        strcpy(event->request, "chatcmpl-stuck");
        play->step_count = STEPS_STUCK;
    }
}

static kvr_ns time_of(const struct play *play, kvr_role role, kvr_event_kind kind)
{
    for (int i = 0; i < play->step_count; i++)
        if (play->steps[i].role == role && play->steps[i].kind == kind)
            return play->steps[i].at;
    return 0;
}

/* Layer after layer, evenly; what lands does so a little later than it was posted. */
static uint32_t pack_spans(const struct play *play, kvr_role role, kvr_ns end,
                           uint8_t bytes[KVR_SPANS_BYTES_MAX])
{
    static union {
        struct kvr_span_book book;
        uint8_t room[sizeof(struct kvr_span_book) + LAYERS * sizeof(struct kvr_layer_span)];
    } all;
    struct kvr_span_book *book = &all.book;
    bool source = role == KVR_ROLE_SOURCE;
    kvr_ns first = time_of(play, role, source ? KVR_EVENT_FIRST_READY : KVR_EVENT_FIRST_LAND);
    kvr_ns last = time_of(play, role, source ? KVR_EVENT_LAST_READY : KVR_EVENT_LAST_LAND);

    kvr_span_book_open(book, time_of(play, role, KVR_EVENT_GRANTED), 0, LAYERS);
    for (uint32_t i = 0; i < LAYERS && last > first; i++) {
        kvr_ns at = first + (last - first) * i / (LAYERS - 1);

        kvr_span_begins(book, i, at);
        kvr_span_ends(book, i, at + (source ? 20 : 60) * KVR_US);
    }
    for (uint32_t i = 0; i < 4; i++)
        if ((play->event.rails >> i & 1) != 0)
            book->rails[i] = (struct kvr_rail_span){.bytes = play->event.bytes / 4,
                                                    .writes = play->event.chunks / 4,
                                                    .retries = i == 0 ? play->event.retries : 0};
    return (uint32_t)kvr_spans_pack(book, role, end, bytes);
}

static void say(struct play *play, const struct step *step)
{
    struct agent *speaker = &agents[step->role == KVR_ROLE_SOURCE ? play->source : play->target];
    static uint8_t spans[KVR_SPANS_BYTES_MAX];
    struct kvr_event event = play->event;

    event.kind = step->kind;
    event.role = step->role;
    event.at = step->at;
    strcpy(event.peer, names[step->role == KVR_ROLE_SOURCE ? play->target : play->source]);
    if (step->kind != KVR_EVENT_ENDED && step->kind != KVR_EVENT_FAILING) {
        event.outcome = KVR_OK;
        event.detail[0] = '\0';
    }
    if (step->kind != KVR_EVENT_ENDED)
        event.bytes = event.retries = 0;
    if (step->kind == KVR_EVENT_ENDED && (event.transfer % 4 == 0 || event.outcome != KVR_OK)) {
        event.spans = spans;
        event.spans_bytes = pack_spans(play, step->role, step->at, spans);
    }
    if (step->kind == KVR_EVENT_ENDED)
        for (uint32_t i = 0; i < 4; i++)
            if ((event.rails >> i & 1) != 0)
                speaker->facts.rails[i].bytes += event.bytes / 4;
    speaker->sink.emit(speaker->sink.self, &event);
}

static void play_until(kvr_ns now)
{
    for (int i = 0; i < TRANSFERS; i++) {
        struct play *play = &plays[i];

        for (; play->step < play->step_count && play->steps[play->step].at <= now; play->step++)
            say(play, &play->steps[play->step]);
    }
}

static void mend(int signal)
{
    (void)signal;
    mended = 1;
}

static uint32_t live_of(int agent)
{
    uint32_t live = 0;

    for (int i = 0; i < TRANSFERS; i++)
        live += plays[i].step < plays[i].step_count &&
                (plays[i].source == agent || plays[i].target == agent);
    return live;
}

static void rest(kvr_ns duration)
{
    struct timespec time = {(time_t)(duration / KVR_S), (long)(duration % KVR_S)};

    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    kvr_ns begun = kvr_clock_now(), end, at, told = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: %s HOST:PORT SECONDS [SEED]\n", argv[0]);
        return 2;
    }
    end = begun + (kvr_ns)strtoull(argv[2], NULL, 10) * KVR_S;
    signal(SIGUSR1, mend);
    kvr_rng_init(&rng, argc > 3 ? strtoull(argv[3], NULL, 10) : 7);
    for (int i = 0; i < AGENTS + GONE; i++)
        open_agent(i, argv[1]);
    rest(300 * KVR_MS);
    agents[5].reporter = kvr_reporter_close(agents[5].reporter); /* said goodbye */
    at = begun - (begun > PAST_NS ? PAST_NS : 0);
    for (; at < end; at += STEP_NS) {
        /* Busy and quiet times, so that the throughput has a shape. */
        uint64_t busy = (at / KVR_S) % 20 < 12 ? 45 : 12;

        if (between(0, 99) < busy)
            begin(at);
        if (at > kvr_clock_now())
            rest(at - kvr_clock_now());
        else if (at % (50 * STEP_NS) < STEP_NS)
            rest(20 * KVR_MS); /* the past, but no faster than a ring of events takes it */
        play_until(at);
        if (at > told + KVR_S) {
            if (mended)
                agents[1].facts.rails[2].state = KVR_RAIL_UP;
            for (int i = 0; i < AGENTS; i++) {
                agents[i].facts.transfers_live = live_of(i);
                kvr_reporter_facts(agents[i].reporter, &agents[i].facts);
            }
            for (int i = 0; i < PREFILL_PAIR; i++)
                tell_pairs(i);
            told = at;
        }
    }
    for (int i = 0; i < AGENTS + GONE; i++)
        kvr_reporter_close(agents[i].reporter);
    return 0;
}
