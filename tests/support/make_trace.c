/* Writes a trace of transfers of a given size, for measurements: make_trace FILE MEGABYTES. Every
 * eighth transfer has the times of 80 layers and of four rails, as one in --spans-every 8 has. Each
 * fourth has page tables of 64 runs. The same arguments give the same file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "trace/kvtrace.h"

#define AGENTS 16
#define LAYERS 80
#define RAILS  4
#define RUNS   64

static struct kvtrace_record record;
static struct kvr_rng rng;
static struct kvr_error error;
static int64_t layers[2][2 * LAYERS], rails[2][4 * RAILS], runs[2][2 * RUNS];

static int64_t below(uint64_t bound)
{
    return (int64_t)kvr_rng_below(&rng, bound);
}

static void write_record(struct kvtrace_writer *writer)
{
    if (kvtrace_write(writer, &record, &error) == KVR_OK)
        return;
    fprintf(stderr, "make_trace: %s\n", error.detail);
    exit(1);
}

static void write_agents(struct kvtrace_writer *writer)
{
    for (int i = 0; i < AGENTS; i++) {
        kvtrace_clear(&record, KVTRACE_AGENT);
        record.agent.number = i;
        record.agent.role = i < AGENTS / 2 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
        snprintf(record.agent.name, sizeof(record.agent.name), "agent-%d", i);
        snprintf(record.agent.host, sizeof(record.agent.host), "host-%d", i);
        record.agent.rail_count = RAILS;
        for (int rail = 0; rail < RAILS; rail++)
            snprintf(record.agent.rails[rail].name, sizeof(record.agent.rails[rail].name),
                     "rdmap%ds0", rail);
        write_record(writer);
    }
}

static void set_side(int role, bool spans, bool pages)
{
    static const kvr_event_kind kinds[2][7] = {
        {KVR_EVENT_OPENED, KVR_EVENT_MATCHED, KVR_EVENT_FIRST_READY, KVR_EVENT_FIRST_POST,
         KVR_EVENT_LAST_READY, KVR_EVENT_LAST_POST, KVR_EVENT_ENDED},
        {KVR_EVENT_OPENED, KVR_EVENT_MATCHED, KVR_EVENT_GRANTED, KVR_EVENT_FIRST_LAND,
         KVR_EVENT_LAST_LAND, KVR_EVENT_ENDED, KVR_EVENT_ENDED}};
    struct kvtrace_side *side = &record.transfer.sides[role];
    int64_t at_us = 0;

    side->agent = below(AGENTS / 2) + (role == KVR_ROLE_TARGET ? AGENTS / 2 : 0);
    for (int i = 0; i < 7; i++)
        side->stages_us[kinds[role][i]] = at_us += below(9000);
    if (spans) {
        for (int i = 0; i < 2 * LAYERS; i++)
            layers[role][i] = 100 + 150 * i + below(100);
        for (int rail = 0; rail < RAILS; rail++) {
            const int64_t row[4] = {rail, 100 + below(100), 10000000 + below(1000000), 0};

            memcpy(&rails[role][4 * rail], row, sizeof(row));
        }
        side->layers_us = (struct kvtrace_rows){layers[role], 2 * LAYERS};
        side->rails = (struct kvtrace_rows){rails[role], 4 * RAILS};
    }
    if (pages) {
        for (int i = 0; i < RUNS; i++) {
            runs[role][2 * i] = below(1 << 20);
            runs[role][2 * i + 1] = 1 + below(8);
        }
        side->pages[0] = (struct kvtrace_pages){0, {runs[role], 2 * RUNS}};
        side->pages_count = 1;
    }
}

static void write_transfer(struct kvtrace_writer *writer, uint64_t number)
{
    struct kvtrace_transfer *one = &record.transfer;

    kvtrace_clear(&record, KVTRACE_TRANSFER);
    snprintf(one->id, sizeof(one->id), "%016" PRIx64, kvr_rng_next(&rng));
    snprintf(one->request, sizeof(one->request), "%016" PRIx64, kvr_rng_next(&rng));
    snprintf(one->tenant, sizeof(one->tenant), "default");
    one->at_us = (int64_t)number * 500;
    one->tokens = 1000 + below(30000);
    one->bytes = one->tokens * 16384;
    one->layers = LAYERS;
    one->chunks = 400 + below(400);
    one->pieces = one->chunks * 4;
    one->outcome = below(100) == 0 ? KVTRACE_FAILED : KVTRACE_DONE;
    if (one->outcome == KVTRACE_FAILED)
        snprintf(one->reason, sizeof(one->reason), "peer_lost");
    for (int role = 0; role < 2; role++)
        set_side(role, number % 8 == 0, number % 4 == 0);
    write_record(writer);
}

int main(int argc, char **argv)
{
    const struct kvtrace_header header = {.start_us = 1795773600000000};
    struct kvtrace_writer *writer;
    uint64_t megabytes, transfers;

    if (argc != 3 || (megabytes = strtoull(argv[2], NULL, 10)) == 0) {
        fputs("usage: make_trace FILE MEGABYTES\n", stderr);
        return 2;
    }
    transfers = megabytes * 889; /* 1.12 KB each on average */
    kvr_rng_init(&rng, 1);
    if (kvtrace_create(argv[1], &header, &writer, &error) != KVR_OK) {
        fprintf(stderr, "make_trace: %s\n", error.detail);
        return 1;
    }
    write_agents(writer);
    for (uint64_t i = 0; i < transfers; i++)
        write_transfer(writer, i);
    if (kvtrace_finish(writer, &error) != KVR_OK) {
        fprintf(stderr, "make_trace: %s\n", error.detail);
        return 1;
    }
    return 0;
}
