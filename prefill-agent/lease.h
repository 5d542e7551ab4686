/* How long a publish holds its pages for targets that have not come (rule 10). */
#ifndef PREFILL_AGENT_LEASE_H
#define PREFILL_AGENT_LEASE_H

#include "base/clock.h"
#include "base/state.h"

struct outbound;
struct publish;

enum publish_lease_state {
    LEASE_RUNS,
    LEASE_LOW, /* little is left, and the engine was notified */
    LEASE_OFF, /* every consumer has come, or was given up */
    LEASE_STATES
};
enum publish_lease_event {
    LEASE_ON_RENEW,
    LEASE_ON_LOW,
    LEASE_ON_OFF,
    LEASE_ON_REOPEN, /* more consumers will come than seemed */
    LEASE_EVENTS
};

KVR_STATE_MACHINE(publish_lease);

struct publish_lease {
    enum publish_lease_state state;
    kvr_ns length, end;
};

void lease_set(struct publish *publish, kvr_ns now, kvr_ns length);
void lease_off(struct publish *publish);
void lease_reopen(struct publish *publish, kvr_ns now);
void lease_renew(struct publish *publish, kvr_ns now);
void lease_tick(struct outbound *outbound, struct publish *publish);

/* Orders of the scheduler about every publish of that request and attempt which still waits for
 * targets: no target will come, or the lease is lease_ns from now on. What a target has asked for
 * goes on. Both return how many publishes they met. */
uint32_t outbound_abandon(struct outbound *outbound, kvr_ns now, const char *request,
                          uint32_t attempt);
uint32_t outbound_renew(struct outbound *outbound, kvr_ns now, const char *request,
                        uint32_t attempt, kvr_ns lease_ns);

#endif
