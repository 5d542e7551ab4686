/* Layers of a fetch: a layer is in place when every source rank and every KV group that has it has
 * given it.
 *
 * A layer of a KV group is a line for each source: the tokens up to which that source has given it.
 * A layer is in place up to the smallest of its lines. The first PLAN of a KV group shows what the
 * source gives of it; before that, its lines hold the layer back. */
#include "decode-agent/layers.h"

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"
#include "kv/layout.h"

#define NOT_GIVEN UINT64_MAX /* this source gives nothing of it */

struct layer_line {
    uint32_t layer, group;
};

struct fetch_layers {
    uint32_t line_count, source_count;
    struct layer_line *lines; /* by layer, then group */
    uint64_t *announced; /* for each line the tokens announced; the first line of a layer counts */
    uint64_t *ends;      /* [source × line_count + line]: tokens in place, without a gap */
    struct layer_source {
        struct kvr_region_set *regions; /* kept: the transfer may end before others begin */
        uint32_t gives, none;           /* bit g: the source said so of KV group g */
    } * sources;
};

/* ---- making ---------------------------------------------------------------------------------- */

static uint32_t lines_of(const struct kvr_region_set *set, struct layer_line *ret_lines)
{
    uint32_t groups[KVR_LAYERS_MAX] = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct kvr_region_layout *layout = &set->layouts[i];

        for (uint32_t layer = 0; layer < layout->layer_count; layer++)
            groups[layout->layer_first + layer] |= 1u << layout->group;
    }
    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
            if (!(groups[layer] >> group & 1))
                continue;
            if (ret_lines != NULL)
                ret_lines[count] = (struct layer_line){layer, group};
            count++;
        }
    }
    return count;
}

static bool layers_open(struct inbound *inbound, struct fetch *fetch)
{
    uint32_t lines = lines_of(fetch->set, NULL), sources = fetch->transfer_count;
    size_t ends = (size_t)lines * sources * sizeof(uint64_t), announced = lines * sizeof(uint64_t);
    size_t of_sources = sources * sizeof(struct layer_source);
    struct fetch_layers *layers =
        kvr_buddy_alloc(inbound->memory, sizeof(*layers) + of_sources + ends + announced +
                                             lines * sizeof(struct layer_line));

    if (layers == NULL)
        return false;
    layers->line_count = lines;
    layers->source_count = sources;
    layers->sources = (struct layer_source *)(layers + 1);
    layers->ends = (uint64_t *)(layers->sources + sources);
    layers->announced = layers->ends + (size_t)lines * sources;
    layers->lines = (struct layer_line *)(layers->announced + lines);
    memset(layers->sources, 0, of_sources);
    (void)lines_of(fetch->set, layers->lines);
    for (uint32_t line = 0; line < lines; line++) {
        uint64_t skip = fetch->skips[layers->lines[line].group];

        layers->announced[line] = skip;
        for (uint32_t source = 0; source < sources; source++)
            layers->ends[source * lines + line] = skip == fetch->tokens ? NOT_GIVEN : skip;
    }
    fetch->layers = layers;
    return true;
}

void layers_close(struct inbound *inbound, struct fetch *fetch)
{
    if (fetch->layers == NULL)
        return;
    for (uint32_t i = 0; i < fetch->layers->source_count; i++)
        if (fetch->layers->sources[i].regions != NULL)
            kvr_region_set_release(fetch->layers->sources[i].regions, inbound->memory);
    kvr_buddy_free(inbound->memory, fetch->layers);
    fetch->layers = NULL;
}

/* ---- announcing ------------------------------------------------------------------------------ */

/* Tokens of the layer that are in place from all sources and in all KV groups. Lines [line,
 * line_end) are the layer's. */
static uint64_t layer_end(const struct fetch_layers *layers, uint32_t line, uint32_t line_end)
{
    uint64_t end = NOT_GIVEN, furthest = 0;

    for (uint32_t source = 0; source < layers->source_count; source++) {
        for (uint32_t at = line; at < line_end; at++) {
            uint64_t given = layers->ends[source * layers->line_count + at];

            end = given < end ? given : end;
            furthest = given != NOT_GIVEN && given > furthest ? given : furthest;
        }
    }
    return KVR_MUTANT(layer_in_by_half) ? furthest : end;
}

static void layer_announce(struct inbound *inbound, const struct fetch *fetch, uint32_t layer)
{
    struct fetch_layers *layers = fetch->layers;
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_LAYER_IN, .layer_first = layer, .layer_count = 1};
    uint32_t line = 0, line_end;

    while (line < layers->line_count && layers->lines[line].layer < layer)
        line++;
    for (line_end = line; line_end < layers->line_count && layers->lines[line_end].layer == layer;
         line_end++)
        if (layers->announced[line_end] < layers->announced[line])
            layers->announced[line] = layers->announced[line_end];
    if (line == line_end)
        return; /* the target has nothing of this layer */
    notice.token_first = layers->announced[line];
    notice.token_end = layer_end(layers, line, line_end);
    if (notice.token_end == NOT_GIVEN || notice.token_end <= notice.token_first)
        return;
    for (; line < line_end; line++)
        layers->announced[line] = notice.token_end;
    landed_word_update(inbound, fetch);
    if (fetch->state != F_FAILING)
        fetch_notify(inbound, fetch, &notice);
}

uint32_t layers_all(const struct fetch *fetch)
{
    bool has[KVR_LAYERS_MAX] = {false};
    uint32_t count = 0;

    for (uint32_t i = 0; i < fetch->set->count; i++) {
        const struct kvr_region_layout *layout = &fetch->set->layouts[i];

        for (uint32_t layer = 0; layer < layout->layer_count; layer++) {
            count += !has[layout->layer_first + layer];
            has[layout->layer_first + layer] = true;
        }
    }
    return count;
}

uint32_t layers_whole(const struct fetch *fetch)
{
    const struct fetch_layers *layers = fetch->layers;
    uint32_t count = 0;

    for (uint32_t line = 0; layers != NULL && line < layers->line_count; count++) {
        uint32_t layer = layers->lines[line].layer;

        for (; line < layers->line_count && layers->lines[line].layer == layer; line++)
            if (layers->announced[line] < fetch->result.token_end)
                return count;
    }
    return count;
}

/* The segment's layer is in place, and nothing can overwrite it. Segments may come in any order;
 * what is announced has no gap. */
static void layer_in(struct inbound *inbound, const struct transfer *transfer,
                     struct landing_segment *segment, uint32_t index)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    struct fetch_layers *layers = fetch->layers;
    struct kvr_chunk_run chunks;
    uint32_t layer = kvr_plan_layer(segment->plan, index, &chunks), line = 0;
    uint64_t *end;

    segment->layers_in++;
    segment->in[index] = true;
    while (layers->lines[line].layer != layer || layers->lines[line].group != segment->group)
        line++;
    end = &layers->ends[transfer->place * layers->line_count + line];
    for (const struct landing_segment *at = transfer->intake.segments; at != NULL;
         at = at->loop_next)
        if (at->group == segment->group && at->plan->token_first == *end && at->in[index])
            *end = at->plan->token_end;
    layer_announce(inbound, fetch, layer);
    kvr_span_ends(transfer->grant.spans, layer, inbound->now);
}

/* ---- what the sources give ------------------------------------------------------------------- */

/* Once every source has said what it gives of the KV group: together they must give all that the
 * target has. */
static kvr_status check_cover(const struct fetch *fetch, uint32_t group, struct kvr_error *error)
{
    const struct kvr_layout_list target = {fetch->set->layouts, fetch->set->count};
    struct kvr_layout_list givers[KVR_SOURCES_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < fetch->layers->source_count; i++) {
        const struct layer_source *source = &fetch->layers->sources[i];

        if (!((source->gives | source->none) >> group & 1))
            return KVR_OK;
        if (source->gives >> group & 1)
            givers[count++] =
                (struct kvr_layout_list){source->regions->layouts, source->regions->count};
    }
    return kvr_layout_covers(givers, count, &target, group, error);
}

/* The source gives nothing of the layers that its plan lacks. */
static void lines_strike(struct fetch_layers *layers, uint32_t source, uint32_t group,
                         const struct kvr_plan *plan)
{
    uint32_t index = 0;

    for (uint32_t line = 0; line < layers->line_count; line++) {
        struct kvr_chunk_run chunks;
        uint32_t layer = layers->lines[line].layer;

        if (layers->lines[line].group != group)
            continue;
        while (plan != NULL && index < plan->layer_count &&
               kvr_plan_layer(plan, index, &chunks) < layer)
            index++;
        if (plan == NULL || index == plan->layer_count ||
            kvr_plan_layer(plan, index, &chunks) != layer)
            layers->ends[source * layers->line_count + line] = NOT_GIVEN;
    }
}

kvr_status layers_planned(struct inbound *inbound, struct transfer *transfer, uint32_t group,
                          const struct kvr_plan *plan, struct kvr_error *error)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct layer_source *source;
    uint32_t before = UINT32_MAX;

    if (fetch->layers == NULL && !layers_open(inbound, fetch))
        return kvr_error_set(error, KVR_NO_MEMORY, "plan",
                             "the agent's memory for tables is used up");
    source = &fetch->layers->sources[transfer->place];
    if ((source->gives | source->none) >> group & 1)
        return KVR_OK; /* known from its first plan */
    if (source->regions == NULL)
        source->regions = kvr_region_set_acquire(transfer->intake.remote);
    *(plan != NULL ? &source->gives : &source->none) |= 1u << group;
    lines_strike(fetch->layers, transfer->place, group, plan);
    for (uint32_t line = 0; line < fetch->layers->line_count; line++) {
        if (fetch->layers->lines[line].layer != before)
            layer_announce(inbound, fetch, fetch->layers->lines[line].layer);
        before = fetch->layers->lines[line].layer;
    }
    return check_cover(fetch, group, error);
}

bool layers_decided(const struct fetch *fetch, const struct transfer *transfer, uint32_t group,
                    bool none)
{
    const struct layer_source *source;

    if (fetch->layers == NULL)
        return false;
    source = &fetch->layers->sources[transfer->place];
    return (none ? source->none : source->gives) >> group & 1;
}

bool layers_give_nothing(const struct fetch *fetch, const struct transfer *transfer)
{
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        if (fetch->pages.groups[group].page_tokens > 0 && fetch->skips[group] < fetch->tokens &&
            !layers_decided(fetch, transfer, group, true))
            return false;
    return true;
}

/* ---- landing --------------------------------------------------------------------------------- */

void layer_landed(struct inbound *inbound, struct transfer *transfer,
                  const struct land_layer *landed)
{
    struct landing_segment *segment = transfer->intake.segments;
    struct kvr_chunk_run chunks;

    if (transfer->state != T_LIVE)
        return;
    while (segment->segment != landed->segment)
        segment = segment->loop_next;
    kvr_span_begins(transfer->grant.spans, kvr_plan_layer(segment->plan, landed->layer, &chunks),
                    landed->at);
    if (!transfer_trusted(inbound, transfer))
        segment->held[landed->layer] = true;
    else
        layer_in(inbound, transfer, segment, landed->layer);
}

void layers_release(struct inbound *inbound, struct transfer *transfer)
{
    if (!transfer_trusted(inbound, transfer))
        return;
    for (struct landing_segment *at = transfer->intake.segments; at != NULL; at = at->loop_next) {
        for (uint32_t layer = 0; layer < at->plan->layer_count; layer++) {
            if (!at->held[layer])
                continue;
            at->held[layer] = false;
            layer_in(inbound, transfer, at, layer);
        }
    }
}
