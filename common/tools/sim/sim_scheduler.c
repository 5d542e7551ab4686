#include "tools/sim/sim_scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/transfer.h"

struct boot {
    uint64_t boot, known; /* number of the last event that it holds */
};

struct sim_scheduler {
    struct transfer rows[SIM_ROWS]; /* id 0: went with its opening */
    uint32_t row_count;
    struct boot boots[SIM_BOOTS];
    uint32_t boot_count;
};

struct sim_scheduler *sim_scheduler_open(void)
{
    return calloc(1, sizeof(struct sim_scheduler));
}

void sim_scheduler_close(struct sim_scheduler *scheduler)
{
    free(scheduler);
}

void sim_scheduler_reset(struct sim_scheduler *scheduler)
{
    scheduler->row_count = scheduler->boot_count = 0;
}

static struct boot *boot_of(struct sim_scheduler *scheduler, uint64_t boot)
{
    for (uint32_t i = 0; i < scheduler->boot_count; i++)
        if (scheduler->boots[i].boot == boot)
            return &scheduler->boots[i];
    assert(scheduler->boot_count < SIM_BOOTS);
    scheduler->boots[scheduler->boot_count] = (struct boot){.boot = boot};
    return &scheduler->boots[scheduler->boot_count++];
}

static struct transfer *row_of(struct sim_scheduler *scheduler, uint64_t id, bool make)
{
    for (uint32_t i = 0; i < scheduler->row_count; i++)
        if (scheduler->rows[i].id == id)
            return &scheduler->rows[i];
    if (!make)
        return NULL;
    assert(scheduler->row_count < SIM_ROWS);
    scheduler->rows[scheduler->row_count] = (struct transfer){.id = id};
    return &scheduler->rows[scheduler->row_count++];
}

static void take(struct sim_scheduler *scheduler, const char *agent, uint64_t boot,
                 const struct kvr_event *event)
{
    uint64_t opening_id = transfer_opening_id(agent, boot, event);
    uint64_t id = event->transfer != 0 ? event->transfer : opening_id;
    struct transfer *row = row_of(scheduler, id, true), *opening;

    if (event->transfer != 0 && row->sides[event->role].boot == 0 &&
        event->kind != KVR_EVENT_OPENED) {
        opening = row_of(scheduler, opening_id, false);
        if (opening != NULL && transfer_take_opening(row, event->role, opening))
            opening->id = 0;
    }
    transfer_merge(row, agent, boot, event, (int64_t)event->at);
}

uint64_t sim_scheduler_report(struct sim_scheduler *scheduler, const char *agent, uint64_t boot,
                              uint64_t first, const struct kvr_event *events, uint32_t count)
{
    struct boot *position = boot_of(scheduler, boot);

    for (uint32_t i = 0; i < count; i++) {
        if (first + i <= position->known)
            continue;
        take(scheduler, agent, boot, &events[i]);
        position->known = first + i;
    }
    return position->known;
}

void sim_scheduler_lose(struct sim_scheduler *scheduler, uint64_t boot)
{
    for (uint32_t i = 0; i < scheduler->row_count; i++)
        for (int role = 0; role < 2; role++)
            if (scheduler->rows[i].id != 0 && scheduler->rows[i].sides[role].boot == boot)
                transfer_lose(&scheduler->rows[i], (kvr_role)role, "its agent is gone");
}

static void row_fill(const struct transfer *row, struct sim_row *ret_row)
{
    *ret_row = (struct sim_row){.live = transfer_state_live(row->state),
                                .state = transfer_state_name(row->state),
                                .reason = row->reason,
                                .bytes = row->bytes};
}

bool sim_scheduler_next(const struct sim_scheduler *scheduler, uint32_t *at, const char *request,
                        const struct kvr_uuid *source_engine, const struct kvr_uuid *target_engine,
                        struct sim_row *ret_row)
{
    while (*at < scheduler->row_count) {
        const struct transfer *row = &scheduler->rows[(*at)++];

        if (row->id == 0 || strcmp(row->request, request) != 0 ||
            !kvr_uuid_equal(&row->source_engine, source_engine) ||
            !kvr_uuid_equal(&row->target_engine, target_engine))
            continue;
        row_fill(row, ret_row);
        return true;
    }
    return false;
}

bool sim_scheduler_live(const struct sim_scheduler *scheduler, const char **ret_request,
                        struct sim_row *ret_row)
{
    for (uint32_t i = 0; i < scheduler->row_count; i++) {
        const struct transfer *row = &scheduler->rows[i];

        if (row->id == 0 || !transfer_state_live(row->state))
            continue;
        *ret_request = row->request;
        row_fill(row, ret_row);
        return true;
    }
    return false;
}
