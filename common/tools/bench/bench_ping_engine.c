/* Pings between two engines: each layer of a transfer is one page, and is timed from the source
 * engine's store to the event at the target engine. */
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/kvrail.h"
#include "tools/bench/bench_agents.h"
#include "tools/bench/bench_attach.h"
#include "tools/bench/bench_ping.h"

#define LAYERS   PING_PAGES /* of one transfer, a page each */
#define SETTLED  8u         /* the first layers wait for the handshake and are not counted */
#define PAUSE_US 300
#define LATE_NS  (30 * KVR_S) /* it never comes: no machine is so busy */
#define EVENTS   16
#define LOST_MAX 10 /* transfers that are measured anew */

struct engines {
    const struct ping_options *options;
    struct bench_agents agents;
    struct kvrail *source, *target;
    struct kvrail_memory memory[2];
    uint64_t generation;
    uint32_t layers_in; /* of the transfer under way */
    kvr_ns told_at;     /* of the last of them */
    bool source_ended, target_ended;
    struct kvrail_event last; /* terminal event of the target */
};

static bool failed(const char *what, const char *detail)
{
    fprintf(stderr, "kvrail bench ping: %s: %s\n", what, detail);
    return false;
}

static bool attach(struct engines *engines, int side)
{
    struct bench_attach what = {
        .socket = side == 0 ? engines->agents.source_socket : engines->agents.target_socket,
        .name = side == 0 ? "ping-source" : "ping-target",
        .engine = {(uint8_t)(side + 1)},
        .generation = engines->generation,
        .layers = LAYERS,
        .pages = 1,
        .page_bytes = engines->options->page_bytes,
    };

    return bench_attach(&what, side == 0 ? &engines->source : &engines->target,
                        &engines->memory[side]);
}

static bool take_events(struct engines *engines)
{
    struct kvrail_event events[EVENTS];
    int count = kvrail_poll(engines->target, events, EVENTS);

    for (int i = 0; i < count; i++) {
        if (events[i].kind == KVRAIL_EVENT_LAYER_IN) {
            engines->layers_in += events[i].layer_count;
            engines->told_at = events[i].time_ns;
        }
        engines->target_ended = engines->target_ended || events[i].terminal;
        if (events[i].terminal)
            engines->last = events[i];
    }
    return count >= 0;
}

/* Until so many layers are in; sleeps in between, as an engine's loop does. */
static bool await_layers(struct engines *engines, uint32_t layers)
{
    struct pollfd descriptor = {.fd = kvrail_event_fd(engines->target), .events = POLLIN};
    kvr_ns end = kvr_clock_now() + LATE_NS;

    while (take_events(engines)) {
        if (engines->layers_in >= layers)
            return true;
        if (engines->target_ended)
            return failed("a transfer ended", engines->last.detail);
        if (kvr_clock_now() > end)
            return failed("a page", "it did not arrive");
        (void)poll(&descriptor, 1, 100);
    }
    return failed("the decode-agent", "the connection ended");
}

static bool transfer_open(struct engines *engines, uint64_t number, kvrail_handle *ret_source)
{
    static const uint32_t page = 0;
    struct kvrail_source_address address = {.size = sizeof(struct kvrail_source_address),
                                            .agent = engines->agents.source_address,
                                            .generation = engines->generation};
    char name[32];
    char secret[KVRAIL_SECRET_BYTES];
    struct kvrail_source_options publish = {.size = sizeof(struct kvrail_source_options),
                                            .request = name,
                                            .tokens = 16,
                                            .consumers = 1};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .request = name,
                                          .tokens = 16,
                                          .deadline_ms = 60000,
                                          .sources = &address,
                                          .source_count = 1,
                                          .secret = secret};
    kvrail_handle target;

    snprintf(name, sizeof(name), "ping-%" PRIu64, number);
    address.engine[0] = 1;
    engines->layers_in = 0;
    engines->source_ended = engines->target_ended = false;
    if (kvrail_source_open(engines->source, &publish, ret_source) != KVRAIL_OK ||
        kvrail_source_secret(engines->source, *ret_source, secret) != KVRAIL_OK ||
        kvrail_source_pages(engines->source, *ret_source, 0, &page, 1) != KVRAIL_OK ||
        kvrail_source_watch(engines->source, *ret_source, 0, number * LAYERS, 0, 16) != KVRAIL_OK)
        return failed("publish", kvrail_last_error(engines->source)->detail);
    if (kvrail_target_open(engines->target, &fetch, &target) != KVRAIL_OK ||
        kvrail_target_pages(engines->target, target, 0, &page, 1) != KVRAIL_OK)
        return failed("fetch", kvrail_last_error(engines->target)->detail);
    return true;
}

static bool transfer_close(struct engines *engines, kvrail_handle source)
{
    struct kvrail_event events[EVENTS];
    kvr_ns end = kvr_clock_now() + LATE_NS;

    if (kvrail_source_end(engines->source, source, KVRAIL_OK) != KVRAIL_OK)
        return failed("end", kvrail_last_error(engines->source)->detail);
    while (!engines->source_ended || !engines->target_ended) {
        int count = kvrail_poll(engines->source, events, EVENTS);

        for (int i = 0; i < count; i++)
            engines->source_ended = engines->source_ended || events[i].terminal;
        if (count < 0 || !take_events(engines) || kvr_clock_now() > end)
            return failed("a transfer", "it did not end");
        (void)usleep(PAUSE_US);
    }
    return true;
}

/* What the agents noted of the transfer's layers, which have all been read: pings of them, from the
 * first that counts. False: not every layer passed every station as it should, because an agent was
 * stopped for a while or had to post again. */
static bool stations_read(const struct engines *engines, uint64_t pings,
                          struct ping_sample *samples)
{
    static const ping_station noted[KVR_STATION_END] = {
        [KVR_STATION_SEEN] = PING_SEEN,
        [KVR_STATION_POSTED] = PING_POSTED,
        [KVR_STATION_LANDED] = PING_LANDED,
        [KVR_STATION_LOOP] = PING_LOOP,
    };

    static_assert(LAYERS <= KVR_STAMPS_KEPT, "a transfer's layers are noted");
    for (uint64_t i = 0; i < pings; i++) {
        for (int station = 0; station < KVR_STATION_END; station++) {
            kvr_ns at = kvr_stamp_before(engines->agents.stamps, (kvr_station)station,
                                         LAYERS - 1 - SETTLED - i);

            if (at < samples[i].at[PING_ASKED])
                return false;
            samples[i].at[noted[station]] = at;
        }
    }
    return true;
}

static bool transfer_ping(struct engines *engines, uint64_t number, uint64_t pings,
                          struct ping_sample *samples, bool *ret_noted)
{
    kvrail_handle source;

    if (!transfer_open(engines, number, &source))
        return false;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        kvr_ns sent_at;

        (void)usleep(layer == 0 ? 50000 : layer < SETTLED + pings ? PAUSE_US : 0);
        sent_at = kvr_clock_now();
        (void)kvrail_ready(engines->source, 0, number * LAYERS + layer + 1);
        if (!await_layers(engines, layer + 1))
            return false;
        if (layer < SETTLED || layer >= SETTLED + pings)
            continue;
        samples[layer - SETTLED].at[PING_READ] = kvr_clock_now();
        samples[layer - SETTLED].at[PING_ASKED] = sent_at;
        samples[layer - SETTLED].at[PING_TOLD] = engines->told_at;
    }
    if (!transfer_close(engines, source))
        return false;
    *ret_noted = stations_read(engines, pings, samples);
    return true;
}

bool ping_engines(const struct ping_options *options, bool spin, struct ping_sample *samples)
{
    /* None of them dies, but each may have to wait for a core. */
    static const struct kvr_option_list patient = {.count = 1, .items = {"heartbeat=10s"}};
    static struct bench_options agents;
    static struct bench_rails rails;
    struct engines engines = {.options = options, .generation = kvr_clock_now()};
    uint64_t each = LAYERS - SETTLED, lost = 0;
    bool good;

    bench_options_init(&agents);
    agents.posting.spin = spin ? KVR_MS : 0;
    agents.copying.local_copy_threads = 1;
    agents.stamps = true;
    agents.tls = options->tls;
    memcpy(agents.provider, options->provider, sizeof(agents.provider));
    bench_rails_loopback(&rails, options->provider, 0, 0);
    good = bench_agents_start(&engines.agents, &agents, &rails, &patient) && attach(&engines, 0) &&
           attach(&engines, 1);
    for (uint64_t done = 0, number = 0; good && done < options->pings; number++) {
        uint64_t left = options->pings - done;
        bool noted = false;

        good = transfer_ping(&engines, number, left < each ? left : each, samples + done, &noted);
        done += noted ? each : 0;
        lost += noted ? 0 : 1;
        if (lost > LOST_MAX)
            good = failed("the agents", "too many pages did not go the straight way");
    }
    kvrail_close(engines.source);
    kvrail_close(engines.target);
    bench_agents_stop(&engines.agents);
    return good;
}
