#include "tools/virtual/virtual_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/virtual/virtual_state.h"
#include "trace/kvtrace.h"

struct virtual_record {
    struct kvtrace_writer *writer;
    struct kvtrace_record line;
    int64_t *rows[2], *rails[2];
};

kvr_status virtual_record_open(const char *path, struct virtual_record **ret_record,
                               struct kvr_error *error)
{
    static struct kvtrace_header header;
    struct virtual_record *record = calloc(1, sizeof(*record));
    kvr_status status = KVR_OK;

    if (record == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "record", "no memory for a trace");
    for (int side = 0; side < 2 && status == KVR_OK; side++) {
        record->rows[side] = calloc(2 * (size_t)KVR_LAYERS_MAX, sizeof(int64_t));
        record->rails[side] = calloc(4 * (size_t)VIRTUAL_RAILS_MAX, sizeof(int64_t));
        if (record->rows[side] == NULL || record->rails[side] == NULL)
            status = kvr_error_set(error, KVR_NO_MEMORY, "record", "no memory for a trace");
    }
    header = (struct kvtrace_header){.virtual_time = true, .plain_ids = true};
    snprintf(header.note, sizeof(header.note), "kvrail replay --virtual");
    if (status == KVR_OK)
        status = kvtrace_create(path, &header, &record->writer, error);
    if (status == KVR_OK)
        *ret_record = record;
    else
        virtual_record_abandon(record);
    return status;
}

static void release(struct virtual_record *record)
{
    for (int side = 0; side < 2; side++) {
        free(record->rows[side]);
        free(record->rails[side]);
    }
    free(record);
}

kvr_status virtual_record_finish(struct virtual_record *record, struct kvr_error *error)
{
    kvr_status status = kvtrace_finish(record->writer, error);

    release(record);
    return status;
}

void virtual_record_abandon(struct virtual_record *record)
{
    if (record == NULL)
        return;
    kvtrace_abandon(record->writer);
    release(record);
}

static void write_line(struct world *world)
{
    struct kvr_error error = {0};
    kvr_status status = kvtrace_write(world->record->writer, &world->record->line, &error);

    if (status != KVR_OK)
        world_fail(world, status, "%s", error.detail);
}

static void write_agent(struct world *world, uint32_t number, kvr_role role, uint32_t host)
{
    const struct virtual_fleet *fleet = &world->config->fleet;
    struct kvtrace_agent *agent = &world->record->line.agent;

    kvtrace_clear(&world->record->line, KVTRACE_AGENT);
    agent->number = number;
    agent->role = role;
    agent->rail_count = fleet->rails;
    snprintf(agent->name, sizeof(agent->name), "%s-%u",
             role == KVR_ROLE_SOURCE ? "prefill" : "decode", host);
    snprintf(agent->host, sizeof(agent->host), "%s", agent->name);
    for (uint32_t i = 0; i < fleet->rails; i++) {
        snprintf(agent->rails[i].name, sizeof(agent->rails[i].name), "rail%u", i);
        snprintf(agent->rails[i].provider, sizeof(agent->rails[i].provider), "virtual");
        agent->rails[i].speed_bps = (int64_t)fleet->card_bps;
        agent->rails[i].group = i / world->group_cards;
    }
    write_line(world);
}

static void write_geometry(struct world *world)
{
    const struct kvr_region_layout *layout = &world->layouts[0];
    struct kvtrace_geometry *geometry = &world->record->line.geometry;

    kvtrace_clear(&world->record->line, KVTRACE_GEOMETRY);
    snprintf(geometry->model, sizeof(geometry->model), "%s", world->config->geometry.model->name);
    snprintf(geometry->dtype, sizeof(geometry->dtype), "%s", world->config->geometry.model->dtype);
    geometry->layers = layout->layer_count;
    geometry->group_count = 1;
    geometry->groups[0] = (struct kvtrace_kv_group){
        .kind = "full",
        .layers = layout->layer_count,
        .page_tokens = layout->page_tokens,
        .page_bytes = (int64_t)(layout->page_stride * layout->part_count),
    };
    write_line(world);
}

/* Ranks, lane after lane, of the engines of one side. */
static void write_engines(struct world *world, uint32_t first, uint32_t engines, const char *side,
                          uint32_t agent_first)
{
    uint32_t host_engines = virtual_gpus(world->config) / world->config->tp;

    for (uint32_t i = 0; i < engines * world->lanes; i++) {
        struct kvtrace_engine *engine = &world->record->line.engine;

        kvtrace_clear(&world->record->line, KVTRACE_ENGINE);
        engine->number = first + i;
        engine->agent = agent_first + i / world->lanes / host_engines;
        engine->geometry = 0;
        snprintf(engine->name, sizeof(engine->name), "%s-engine-%u", side, i / world->lanes);
        engine->tp = i % world->lanes;
        engine->tp_size = world->config->tp;
        write_line(world);
    }
}

void record_begin(struct world *world)
{
    const struct virtual_fleet *fleet = &world->config->fleet;

    for (uint32_t i = 0; i < fleet->prefill_hosts; i++)
        write_agent(world, i, KVR_ROLE_SOURCE, i);
    for (uint32_t i = 0; i < fleet->decode_hosts; i++)
        write_agent(world, fleet->prefill_hosts + i, KVR_ROLE_TARGET, i);
    write_geometry(world);
    write_engines(world, 0, world->prefill_count, "prefill", 0);
    write_engines(world, world->prefill_count * world->lanes, world->decode_count, "decode",
                  fleet->prefill_hosts);
}

static int64_t us(kvr_ns at, kvr_ns from)
{
    return at > from ? (int64_t)((at - from) / KVR_US) : 0;
}

/* Of each layer the last segment counts: with it the layer is whole. */
static void fill_layers(struct world *world, const struct request *request, const struct lane *lane,
                        kvr_ns from)
{
    uint32_t layers = world->config->geometry.layers;

    for (uint32_t layer = 0; layer < layers; layer++) {
        const struct unit *unit = &lane->units[layer];

        for (uint32_t chunk = 0; chunk < request->chunk_count; chunk++)
            if (request->chunks[chunk].layer_writes > 0)
                unit = &lane->units[chunk * layers + layer];
        for (int side = 0; side < 2; side++) {
            int64_t *row = world->record->rows[side] + 2 * (size_t)layer;

            row[0] = us(side == 0 ? unit->ready : unit->landed, from);
            row[1] = us(side == 0 ? unit->posted : unit->landed, from);
        }
    }
    for (int side = 0; side < 2; side++)
        world->record->line.transfer.sides[side].layers_us =
            (struct kvtrace_rows){world->record->rows[side], 2 * (size_t)layers};
}

static void fill_rails(struct world *world, const struct lane *lane, int side, uint32_t group)
{
    int64_t *rails = world->record->rails[side];
    uint32_t gpus = virtual_gpus(world->config);
    size_t count = 0;
    /* A lane that stands for several ranks is that of the engine's first GPU. */
    uint32_t first =
        (world->own_groups ? group * world->config->tp % gpus * world->host_groups / gpus
                           : group % world->host_groups) *
        world->group_cards;

    for (uint32_t i = 0; i < world->group_cards; i++) {
        if (lane->card_writes[i] == 0)
            continue;
        rails[count++] = first + i;
        rails[count++] = (int64_t)lane->card_writes[i];
        rails[count++] = (int64_t)lane->card_bytes[i];
        rails[count++] = 0;
    }
    world->record->line.transfer.sides[side].rails = (struct kvtrace_rows){rails, count};
}

static void fill_stages(struct kvtrace_transfer *transfer, const struct request *request,
                        kvr_ns from, kvr_ns control)
{
    int64_t *source = transfer->sides[KVR_ROLE_SOURCE].stages_us;
    int64_t *target = transfer->sides[KVR_ROLE_TARGET].stages_us;
    kvr_ns matched = request->granted_at - control;

    source[KVR_EVENT_OPENED] = us(request->started_at, from);
    source[KVR_EVENT_MATCHED] = us(matched, from);
    source[KVR_EVENT_GRANTED] = us(request->granted_at, from);
    source[KVR_EVENT_FIRST_READY] =
        us(request->chunks[0].start + request->chunks[0].layer_ns, from);
    source[KVR_EVENT_LAST_READY] = us(request->prefilled_at, from);
    source[KVR_EVENT_FIRST_POST] = us(request->first_post, from);
    source[KVR_EVENT_LAST_POST] = us(request->last_post, from);
    source[KVR_EVENT_ENDED] = us(request->landed_at + control, from);
    target[KVR_EVENT_OPENED] = us(request->arrived_at, from);
    target[KVR_EVENT_MATCHED] = us(matched, from);
    target[KVR_EVENT_GRANTED] = us(request->granted_at, from);
    target[KVR_EVENT_FIRST_LAND] = us(request->first_land, from);
    target[KVR_EVENT_LAST_LAND] = us(request->landed_at, from);
    target[KVR_EVENT_ENDED] = us(request->landed_at, from);
}

void record_request(struct world *world, const struct request *request)
{
    struct kvtrace_transfer *transfer = &world->record->line.transfer;
    uint32_t host_engines = virtual_gpus(world->config) / world->config->tp;

    for (uint32_t i = 0; i < world->lanes; i++) {
        const struct lane *lane = &request->lanes[i];

        kvtrace_clear(&world->record->line, KVTRACE_TRANSFER);
        snprintf(transfer->id, sizeof(transfer->id), "%016llx",
                 (unsigned long long)request->index * world->lanes + i + 1);
        snprintf(transfer->request, sizeof(transfer->request), "%u", request->index);
        transfer->attempt = 1;
        transfer->at_us = us(request->arrived_at, 0);
        transfer->tokens = asked(world, request)->input_tokens;
        transfer->skip_tokens = request->skip_tokens;
        transfer->bytes = (int64_t)request->bytes;
        transfer->chunks = (int64_t)request->writes;
        transfer->layers = world->config->geometry.layers;
        transfer->outcome = KVTRACE_DONE;
        transfer->sides[0].agent = request->prefill / host_engines;
        transfer->sides[1].agent =
            world->config->fleet.prefill_hosts + request->decode / host_engines;
        transfer->sides[0].engine = request->prefill * world->lanes + i;
        transfer->sides[1].engine = (world->prefill_count + request->decode) * world->lanes + i;
        fill_stages(transfer, request, request->arrived_at, world->config->costs.control_ns);
        fill_layers(world, request, lane, request->arrived_at);
        fill_rails(world, lane, 0, lane->source);
        fill_rails(world, lane, 1, lane->target);
        write_line(world);
    }
}
