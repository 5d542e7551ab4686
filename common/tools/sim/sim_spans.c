#include "tools/sim/sim_spans.h"

#include <inttypes.h>

#include "tools/sim/sim_world.h"
#include "trace/page_runs.h"

/* Of a transfer that is done every layer has passed, or had nothing to move. */
static void check_layers(struct sim_world *world, const struct kvr_event *event,
                         const struct kvr_spans *spans)
{
    for (uint32_t i = 0; i < spans->layer_count; i++) {
        const struct kvr_spans_layer *layer = &spans->layers[i];
        bool begun = layer->begins_us != KVR_SPAN_NEVER, ended = layer->ends_us != KVR_SPAN_NEVER;

        if (begun != ended || layer->ends_us > layer->begins_us)
            sim_fail(world, -1,
                     "the spans of transfer %" PRIx64 " at its %s: layer %u begins %" PRId64
                     " us before the end, and ends %" PRId64,
                     event->transfer, event->role == KVR_ROLE_SOURCE ? "source" : "target",
                     spans->layer_first + i, layer->begins_us, layer->ends_us);
    }
}

static void check_rails(struct sim_world *world, const struct kvr_event *event,
                        const struct kvr_spans *spans)
{
    struct kvr_rail_span sum = {0};
    bool source = event->role == KVR_ROLE_SOURCE;

    for (uint32_t i = 0; i < spans->rail_count; i++) {
        sum.bytes += spans->rails[i].carried.bytes;
        sum.writes += spans->rails[i].carried.writes;
        sum.retries += spans->rails[i].carried.retries;
    }
    if (source ? sum.retries != event->retries || sum.writes != event->chunks + sum.retries ||
                     sum.bytes < event->bytes
               : sum.bytes != event->bytes || sum.writes < event->chunks)
        sim_fail(world, -1,
                 "the rails of transfer %" PRIx64 " at its %s carried %" PRIu64 " bytes in %" PRIu64
                 " writes, %" PRIu64 " of them again; it has %" PRIu64 " bytes in %u and %u",
                 event->transfer, source ? "source" : "target", sum.bytes, sum.writes, sum.retries,
                 event->bytes, event->chunks, event->retries);
}

#define PAGES_MAX (2 * SIM_PAGES) /* of an engine's region, some of them no other's */

/* A request has each page once. */
struct pages_seen {
    bool seen[KVR_GROUPS_MAX][PAGES_MAX], wrong;
};

static void see_run(void *self, uint32_t group, struct kvr_page_run run)
{
    struct pages_seen *pages = self;

    for (uint32_t i = 0; i < run.page_count && !pages->wrong; i++) {
        uint32_t page = run.page_first + i;

        pages->wrong = page >= PAGES_MAX || pages->seen[group][page];
        if (!pages->wrong)
            pages->seen[group][page] = true;
    }
}

static void check_pages(struct sim_world *world, const struct kvr_event *event)
{
    struct pages_seen pages = {.wrong = false};
    kvr_role role = KVR_ROLE_SOURCE;

    if (event->pages_bytes == 0)
        return;
    if (kvr_page_runs_unpack(event->pages, event->pages_bytes, &role, see_run, &pages) != KVR_OK ||
        role != event->role || (pages.wrong && event->outcome == KVR_OK))
        sim_fail(world, -1, "the page tables of transfer %" PRIx64 " at its %s are wrong",
                 event->transfer, event->role == KVR_ROLE_SOURCE ? "source" : "target");
}

void sim_spans_check(struct sim_agent *agent, const struct kvr_event *event)
{
    struct kvr_spans spans;

    check_pages(agent->world, event);
    if (event->spans_bytes == 0)
        return;
    if (kvr_spans_unpack(event->spans, event->spans_bytes, &spans) != KVR_OK ||
        spans.role != event->role) {
        sim_fail(agent->world, -1, "the spans of transfer %" PRIx64 " cannot be read",
                 event->transfer);
        return;
    }
    if (event->outcome != KVR_OK)
        return;
    check_layers(agent->world, event, &spans);
    check_rails(agent->world, event, &spans);
}
