/* The scheduler of a simulated world: what it knows, from the reports that reached it, by its own
 * pure code (scheduler/transfer.h). No database and no HTTP; a report that comes twice changes
 * nothing, as there. */
#ifndef KVR_TOOLS_SIM_SCHEDULER_H
#define KVR_TOOLS_SIM_SCHEDULER_H

#include "trace/event.h"

#define SIM_ROWS  384
#define SIM_BOOTS 24

struct sim_scheduler;

struct sim_row { /* of one transfer */
    bool live;
    const char *state;
    kvr_status reason;
    uint64_t bytes;
};

struct sim_scheduler *sim_scheduler_open(void);
void sim_scheduler_close(struct sim_scheduler *scheduler);
void sim_scheduler_reset(struct sim_scheduler *scheduler);

/* The events of a boot from number `first` on; returns the last number that it holds then. */
uint64_t sim_scheduler_report(struct sim_scheduler *scheduler, const char *agent, uint64_t boot,
                              uint64_t first, const struct kvr_event *events, uint32_t count);
/* That boot will not speak again. */
void sim_scheduler_lose(struct sim_scheduler *scheduler, uint64_t boot);

/* The next transfer of a request between two engines; false: no further row. *at: 0 before the
 * first call. Where engines have ranks there is a row for every pair of ranks. */
bool sim_scheduler_next(const struct sim_scheduler *scheduler, uint32_t *at, const char *request,
                        const struct kvr_uuid *source_engine, const struct kvr_uuid *target_engine,
                        struct sim_row *ret_row);
/* A row that says that its transfer goes on; false: there is none. */
bool sim_scheduler_live(const struct sim_scheduler *scheduler, const char **ret_request,
                        struct sim_row *ret_row);

#endif
