#include "fabric/sim/fabric_model.h"

#include <stdlib.h>

#include "fabric/sim/fabric_null_state.h"

#define WRITES_MAX 16384 /* of one endpoint, a power of two */

struct write {
    uint64_t context, bytes;
    kvr_ns complete_at;
};

struct kvr_endpoint {
    struct kvr_fabric_model *model;
    uint32_t rail;
    bool warm;                  /* its first write has been through */
    kvr_ns warm_at, busy_until; /* busy: the line is, up to here */
    uint32_t first, rung, last; /* counts that wrap; rung: up to here a doorbell was rung */
    struct write writes[WRITES_MAX];
};

static struct kvr_fabric_model *model_of(const struct kvr_rail *rail)
{
    return (struct kvr_fabric_model *)(uintptr_t)rail->options;
}

static kvr_status rail_open(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    struct kvr_fabric_model *model = self;
    struct kvr_fabric null;

    kvr_fabric_null(&model->null, &null);
    KVR_TRY(null.ops->rail_open(self, options, ret_rail, error));
    (*ret_rail)->facts.write.outstanding_max = model->outstanding_max;
    (*ret_rail)->facts.write.doorbells = true;
    return KVR_OK;
}

/* Endpoints are opened in the order of the rails, and are not replaced. */
static kvr_status endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    struct kvr_fabric_model *model = model_of(rail);
    struct kvr_endpoint *endpoint;

    if (model->rail_count == KVR_FABRIC_MODEL_RAILS_MAX || model->queue_writes > WRITES_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "fabric", "a model of more than %u rails",
                             KVR_FABRIC_MODEL_RAILS_MAX);
    endpoint = calloc(1, sizeof(*endpoint));
    if (endpoint == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint");
    endpoint->model = model;
    endpoint->rail = model->rail_count;
    model->endpoints[model->rail_count++] = endpoint;
    *ret_endpoint = endpoint;
    return KVR_OK;
}

static void endpoint_stop(struct kvr_endpoint *endpoint)
{
    endpoint->first = endpoint->rung = endpoint->last;
}

static void endpoint_close(struct kvr_endpoint *endpoint)
{
    endpoint->model->endpoints[endpoint->rail] = NULL;
    free(endpoint);
}

static void charge(struct kvr_fabric_model *model, kvr_ns cost)
{
    model->now += cost;
    model->busy_ns += cost;
}

/* The card has heard of all that was handed over. */
static void doorbell(struct kvr_endpoint *endpoint)
{
    struct kvr_fabric_model *model = endpoint->model;

    charge(model, model->doorbell_ns);
    model->doorbells++;
    if (!endpoint->warm)
        endpoint->warm_at = model->now + model->first_ns;
    endpoint->warm = true;
    if (endpoint->busy_until < endpoint->warm_at)
        endpoint->busy_until = endpoint->warm_at;
    if (endpoint->busy_until < model->now)
        endpoint->busy_until = model->now;
    for (; endpoint->rung != endpoint->last; endpoint->rung++) {
        struct write *write = &endpoint->writes[endpoint->rung % WRITES_MAX];
        uint64_t line = model->line_bps[endpoint->rail];

        endpoint->busy_until += (write->bytes * 8 * KVR_S + line - 1) / line;
        write->complete_at = endpoint->busy_until + model->latency_ns;
    }
}

static kvr_status post(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    struct kvr_fabric_model *model = endpoint->model;
    uint64_t bytes = 0;

    charge(model, model->call_ns);
    if (endpoint->last - endpoint->first >= model->queue_writes) {
        model->refused++;
        return KVR_AGAIN;
    }
    for (unsigned i = 0; i < write->piece_count; i++)
        bytes += write->pieces[i].bytes;
    endpoint->writes[endpoint->last++ % WRITES_MAX] =
        (struct write){.context = write->context, .bytes = bytes};
    if (!write->more)
        doorbell(endpoint);
    return KVR_OK;
}

static unsigned poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                     unsigned capacity)
{
    struct kvr_fabric_model *model = endpoint->model;
    unsigned count = 0;

    while (count < capacity && endpoint->first != endpoint->rung) {
        const struct write *write = &endpoint->writes[endpoint->first % WRITES_MAX];

        if (write->complete_at > model->now)
            break;
        ret_completions[count++] = (struct kvr_completion){
            .kind = KVR_COMPLETION_WRITTEN, .has_context = true, .context = write->context};
        model->completed++;
        model->completed_bytes += write->bytes;
        endpoint->first++;
    }
    return count;
}

static bool endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    return endpoint->first == endpoint->last;
}

void kvr_fabric_model(struct kvr_fabric_model *model, struct kvr_fabric *ret_fabric)
{
    static struct kvr_fabric_ops ops;

    kvr_fabric_null(&model->null, ret_fabric);
    ops = *ret_fabric->ops;
    ops.rail_open = rail_open;
    ops.endpoint_open = endpoint_open;
    ops.endpoint_stop = endpoint_stop;
    ops.endpoint_close = endpoint_close;
    ops.write = post;
    ops.poll = poll;
    ops.endpoint_may_sleep = endpoint_may_sleep;
    *ret_fabric = (struct kvr_fabric){.ops = &ops, .self = model};
}

kvr_ns kvr_fabric_model_next(const struct kvr_fabric_model *model)
{
    kvr_ns next = KVR_NEVER;

    for (uint32_t i = 0; i < model->rail_count; i++) {
        const struct kvr_endpoint *endpoint = model->endpoints[i];
        kvr_ns at = KVR_NEVER;

        if (endpoint != NULL && endpoint->first != endpoint->rung)
            at = endpoint->writes[endpoint->first % WRITES_MAX].complete_at;
        next = at < next ? at : next;
    }
    return next;
}
