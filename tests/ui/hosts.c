/* Plays a wide fleet to a scheduler: so many hosts of so many rails, each host with one agent,
 * every second one a decode-agent. Four times a second each rail has moved bytes, and each
 * prefill-agent begins a transfer and ends the one before.
 *
 *   ui.hosts HOST:PORT SECONDS HOSTS RAILS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/report/reporter.h"
#include "base/clock.h"
#include "base/entropy.h"
#include "base/rng.h"

#define HOSTS_MAX 64
#define STEP_NS   (250 * KVR_MS)
#define RAIL_BPS  100000000000u
#define LAYERS    80

struct host {
    struct kvr_reporter *reporter;
    struct kvr_event_sink sink;
    struct kvr_agent_facts facts;
    struct kvr_event event; /* of a prefill-agent: the transfer that is live; tokens 0: none is */
};

static struct host hosts[HOSTS_MAX];
static char names[HOSTS_MAX][KVR_NAME_BYTES];
static struct kvr_rng rng;

static void open_host(int index, const char *scheduler, uint32_t rails)
{
    bool source = index % 2 == 0;
    struct kvr_agent_facts *facts = &hosts[index].facts;
    struct kvr_reporter_options options = {
        .schedulers = {scheduler}, .agent = names[index], .boot = kvr_random_u64()};
    struct kvr_error error;

    snprintf(names[index], sizeof(names[index]), "wide-%s-%d", source ? "prefill" : "decode",
             index / 2);
    if (kvr_reporter_open(&options, &hosts[index].reporter, &error) != KVR_OK) {
        fprintf(stderr, "%s\n", error.detail);
        exit(1);
    }
    hosts[index].sink = kvr_reporter_sink(hosts[index].reporter);
    facts->role = source ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
    strcpy(facts->version, "0.1.0");
    snprintf(facts->host, sizeof(facts->host), "wide-%02d", index);
    strcpy(facts->provider, "efa");
    facts->pid = 4200 + (uint32_t)index;
    facts->secure = true;
    facts->rail_count = rails;
    for (uint32_t i = 0; i < rails; i++) {
        snprintf(facts->rails[i].name, KVR_NAME_BYTES, "rdmap%us0", 79 + i);
        strcpy(facts->rails[i].provider, "efa");
        facts->rails[i].epoch = 1;
        facts->rails[i].speed_bps = RAIL_BPS;
    }
}

static void emit(const struct kvr_event *event, int index, int peer, kvr_ns at, kvr_event_kind kind)
{
    struct kvr_event said = *event;

    said.kind = kind;
    said.role = hosts[index].facts.role;
    said.at = at;
    strcpy(said.peer, names[peer]);
    if (kind != KVR_EVENT_ENDED)
        said.bytes = 0;
    hosts[index].sink.emit(hosts[index].sink.self, &said);
}

/* What both say, one microsecond after the other, up to `at`. */
static void emit_all(const struct kvr_event *event, int source, kvr_ns at,
                     const kvr_event_kind *kinds, int count)
{
    for (int i = 0; i < count; i++) {
        emit(event, source, source + 1, at - (kvr_ns)(count - i) * KVR_US, kinds[i]);
        emit(event, source + 1, source, at - (kvr_ns)(count - i) * KVR_US, kinds[i]);
    }
}

static void end_transfer(int source, kvr_ns at)
{
    static const kvr_event_kind kinds[] = {KVR_EVENT_LAST_READY, KVR_EVENT_LAST_POST,
                                           KVR_EVENT_LAST_LAND, KVR_EVENT_ENDED};

    if (hosts[source].event.tokens > 0)
        emit_all(&hosts[source].event, source, at, kinds, 4);
}

static void begin_transfer(int source, kvr_ns at)
{
    static const kvr_event_kind kinds[] = {KVR_EVENT_OPENED,     KVR_EVENT_MATCHED,
                                           KVR_EVENT_GRANTED,    KVR_EVENT_FIRST_READY,
                                           KVR_EVENT_FIRST_POST, KVR_EVENT_FIRST_LAND};
    static unsigned count;
    struct kvr_event *event = &hosts[source].event;

    memset(event, 0, sizeof(*event));
    event->transfer = kvr_rng_next(&rng);
    snprintf(event->request, sizeof(event->request), "wide-%u", count++);
    event->attempt = 1;
    memset(event->source_engine.bytes, 0x10 + source, 16);
    memset(event->target_engine.bytes, 0x11 + source, 16);
    event->tokens = 4096;
    event->bytes = event->tokens * 163840;
    event->layers = LAYERS;
    event->chunks = (uint32_t)(event->bytes >> 19) + 1;
    event->rails = (1ull << hosts[source].facts.rail_count) - 1;
    emit_all(event, source, at, kinds, 6);
}

static void tell(int index)
{
    struct kvr_agent_facts *facts = &hosts[index].facts;

    facts->transfers_live = 1;
    facts->peers_up = facts->peers_warm = 1;
    for (uint32_t i = 0; i < facts->rail_count; i++) {
        facts->rails[i].bytes += kvr_rng_below(&rng, RAIL_BPS / 8 / (KVR_S / STEP_NS));
        facts->rails[i].writes += 4000;
    }
    kvr_reporter_facts(hosts[index].reporter, facts);
}

int main(int argc, char **argv)
{
    int count = argc > 3 ? atoi(argv[3]) : 0, rails = argc > 4 ? atoi(argv[4]) : 0;
    kvr_ns at = kvr_clock_now(), end;

    if (count < 2 || count > HOSTS_MAX || count % 2 != 0 || rails < 1 || rails > KVR_RAILS_MAX) {
        fprintf(stderr, "usage: %s HOST:PORT SECONDS HOSTS RAILS: an even number of hosts\n",
                argv[0]);
        return 2;
    }
    end = at + (kvr_ns)strtoull(argv[2], NULL, 10) * KVR_S;
    kvr_rng_init(&rng, 7);
    for (int i = 0; i < count; i++)
        open_host(i, argv[1], (uint32_t)rails);
    for (; at < end; at += STEP_NS) {
        kvr_ns now = kvr_clock_now();

        if (at > now) {
            struct timespec time = {0, (long)(at - now)};

            nanosleep(&time, NULL);
        }
        for (int i = 0; i < count; i++)
            tell(i);
        for (int i = 0; i < count; i += 2) {
            end_transfer(i, at);
            begin_transfer(i, at);
        }
    }
    for (int i = 0; i < count; i++)
        kvr_reporter_close(hosts[i].reporter);
    return 0;
}
