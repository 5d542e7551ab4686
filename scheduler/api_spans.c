#include "scheduler/api_spans.h"

void api_spans_keep(void *self, const struct kvr_spans *one)
{
    struct transfer_spans *spans = self;

    if (spans->has[one->role])
        return;
    spans->has[one->role] = true;
    spans->of[one->role] = *one;
}

bool api_spans_read(struct store *store, uint64_t transfer, struct transfer_spans *ret_spans)
{
    ret_spans->has[KVR_ROLE_SOURCE] = ret_spans->has[KVR_ROLE_TARGET] = false;
    return store_list_records(
        store, transfer, &(struct records_visitor){.self = ret_spans, .spans = api_spans_keep});
}

const char *api_spans_word(const struct transfer_spans *spans, const struct transfer *transfer)
{
    if (spans->has[KVR_ROLE_SOURCE] || spans->has[KVR_ROLE_TARGET])
        return "sampled";
    return transfer_state_live(transfer->state) ? "not ended" : "not sampled";
}

/* ---- layers ---- */

/* The layer as this agent saw it; NULL: it did not. */
static const struct kvr_spans_layer *find_layer(const struct transfer_spans *spans, kvr_role role,
                                                uint32_t layer)
{
    const struct kvr_spans *of = &spans->of[role];

    return spans->has[role] && layer - of->layer_first < of->layer_count
               ? &of->layers[layer - of->layer_first]
               : NULL;
}

/* Since the opening; below 0 where the clocks of both hosts differ. */
static json_t *moment(const struct transfer *transfer, kvr_role role, int64_t before_end_us)
{
    int64_t end_ns = transfer->sides[role].at_ns[STAGE_ENDED];

    if (before_end_us == KVR_SPAN_NEVER || end_ns == 0)
        return json_null();
    return json_real(
        (double)(end_ns - before_end_us * (int64_t)KVR_US - transfer_opened_ns(transfer)) / 1e9);
}

static json_t *layer_json(const struct transfer_spans *spans, const struct transfer *transfer,
                          uint32_t layer)
{
    static const struct kvr_spans_layer never = {KVR_SPAN_NEVER, KVR_SPAN_NEVER};
    const struct kvr_spans_layer *source = find_layer(spans, KVR_ROLE_SOURCE, layer);
    const struct kvr_spans_layer *target = find_layer(spans, KVR_ROLE_TARGET, layer);

    source = source != NULL ? source : &never;
    target = target != NULL ? target : &never;
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "layer", (json_int_t)layer, "ready_seconds",
                     moment(transfer, KVR_ROLE_SOURCE, source->begins_us), "posted_seconds",
                     moment(transfer, KVR_ROLE_SOURCE, source->ends_us), "landed_seconds",
                     moment(transfer, KVR_ROLE_TARGET, target->begins_us), "delivered_seconds",
                     moment(transfer, KVR_ROLE_TARGET, target->ends_us));
}

/* Some agent saw it pass. */
static bool is_seen(const struct kvr_spans_layer *layer)
{
    return layer != NULL &&
           (layer->begins_us != KVR_SPAN_NEVER || layer->ends_us != KVR_SPAN_NEVER);
}

json_t *api_spans_layers(const struct transfer_spans *spans, const struct transfer *transfer)
{
    json_t *layers = json_array();

    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++)
        if (is_seen(find_layer(spans, KVR_ROLE_SOURCE, layer)) ||
            is_seen(find_layer(spans, KVR_ROLE_TARGET, layer)))
            json_array_append_new(layers, layer_json(spans, transfer, layer));
    return layers;
}

/* ---- rails ---- */

void api_spans_rail(json_t *object, const struct transfer_spans *spans, kvr_role role,
                    uint32_t rail)
{
    const struct kvr_rail_span *carried = NULL;

    for (uint32_t i = 0; spans->has[role] && i < spans->of[role].rail_count; i++)
        if (spans->of[role].rails[i].rail == rail)
            carried = &spans->of[role].rails[i].carried;
    json_object_set_new(object, "writes", carried ? json_count(carried->writes) : json_null());
    json_object_set_new(object, "bytes", carried ? json_count(carried->bytes) : json_null());
    json_object_set_new(object, "retries", carried ? json_count(carried->retries) : json_null());
}
