#include "tools/sim/sim_host.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/sim/fabric_model.h"
#include "tools/post_rig.h"

#define JOBS        8
#define LAYERS      32
#define PAGES       256   /* of a layer: writes of one transfer / LAYERS */
#define STUCK_STEPS 10000 /* without time going on */

static uint64_t card_bps(const struct host_costs *costs, const struct sim_host_case *one,
                         uint32_t rail)
{
    uint64_t line = host_costs_line_bps(costs);

    return one->slow_card && rail == costs->rails - 1 ? line / 4 : line;
}

static void model_init(struct kvr_fabric_model *model, const struct host_costs *costs,
                       const struct sim_host_case *one)
{
    *model = (struct kvr_fabric_model){
        .null = {.pieces = 1}, /* EFA takes one piece with an immediate */
        .latency_ns = costs->latency_ns,
        .first_ns = one->without & SIM_HOST_WARM_UP ? costs->first_ns : 0,
        .call_ns = costs->batched_ns + costs->own_ns,
        .doorbell_ns = costs->alone_ns - costs->batched_ns,
        .queue_writes = costs->queue_writes,
        .outstanding_max = costs->queue_writes,
    };
    for (uint32_t rail = 0; rail < costs->rails; rail++)
        model->line_bps[rail] = card_bps(costs, one, rail);
}

static void rig_options_init(struct post_rig_options *options, const struct host_costs *costs,
                             const struct sim_host_case *one, const struct kvr_fabric *fabric)
{
    *options = (struct post_rig_options){
        .page_bytes = one->page_bytes,
        .layers = LAYERS,
        .pages = PAGES,
        .rails = costs->rails,
        .jobs = JOBS,
        .pieces = 1,
        .fabric = fabric,
    };
    options->group.batch_writes = one->without & SIM_HOST_BATCH ? 1 : 0;
}

/* Steps follow each other while the thread has something to do; then the next completion wakes it,
 * as it would if it spun. False: it is stuck. */
static bool group_run(struct post_rig *rig, struct kvr_fabric_model *model, kvr_ns end)
{
    uint64_t opens = UINT64_MAX;
    uint32_t idle = 0;

    while (model->now < end && idle < STUCK_STEPS) {
        kvr_ns now = model->now, next;
        bool moved;

        if (!post_rig_step(rig, now, &opens, &moved))
            return false;
        next = kvr_fabric_model_next(model);
        if (!moved && model->now == now && next != KVR_NEVER && next > now)
            model->now = next;
        idle = model->now == now ? idle + 1 : 0;
    }
    return model->now >= end;
}

static kvr_status group_measure(const struct host_costs *costs, const struct sim_host_case *one,
                                struct kvr_fabric_model *model, struct kvr_error *error)
{
    struct post_rig *rig = calloc(1, sizeof(*rig));
    struct post_rig_options options;
    struct kvr_fabric fabric;
    bool good;

    if (rig == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "model", "no memory for a group");
    model_init(model, costs, one);
    kvr_fabric_model(model, &fabric);
    rig_options_init(&options, costs, one, &fabric);
    good = post_rig_start(rig, &options) && group_run(rig, model, one->virtual_ns);
    post_rig_stop(rig);
    free(rig);
    return good ? KVR_OK : kvr_error_set(error, KVR_INVALID, "model", "posting is stuck");
}

kvr_status sim_host_run(const struct host_costs *costs, const struct sim_host_case *one,
                        struct sim_host_result *ret_result, struct kvr_error *error)
{
    const double cards_bps = (double)(costs->rails * costs->card_bps);
    struct kvr_fabric_model model;
    kvr_status status = group_measure(costs, one, &model, error);
    double seconds, bps, ceiling_bps = 0;

    if (status != KVR_OK)
        return status;
    seconds = (double)model.now / (double)KVR_S;
    bps = (double)model.completed_bytes * 8 / seconds;
    for (uint32_t rail = 0; rail < costs->rails; rail++)
        ceiling_bps += (double)card_bps(costs, one, rail);
    *ret_result = (struct sim_host_result){
        .gbps = bps * SIM_HOST_GROUPS / 1e9,
        .share = bps / cards_bps,
        .ceiling = ceiling_bps / cards_bps,
        .busy = (double)model.busy_ns / (double)model.now,
        .writes_per_s = (double)model.completed / seconds * SIM_HOST_GROUPS,
        .batch = model.doorbells > 0 ? (double)model.completed / (double)model.doorbells : 0,
        .writes = model.completed,
        .refused = model.refused,
    };
    return KVR_OK;
}
