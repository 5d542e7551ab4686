/* How long a publish holds its pages for targets that have not come (rule 10).
 *
 * state | RENEW | LOW | OFF | REOPEN
 * ------|-------|-----|-----|-------
 * RUNS  | =     | LOW | OFF | =
 * LOW   | RUNS  | -   | OFF | =
 * OFF   | =     | -   | =   | RUNS */
#include "prefill-agent/publish.h"

#include <stdio.h>

#include "base/mutant.h"
#include "prefill-agent/outbound.h"

#define LEASE_LOW_PART 4 /* the engine is notified when a quarter is left */

KVR_STATE_TABLE(publish_lease, LEASE) = {
    /* RENEW, LOW, OFF, REOPEN */
    [LEASE_RUNS] = {LEASE_RUNS, LEASE_LOW, LEASE_OFF, LEASE_RUNS},
    [LEASE_LOW] = {LEASE_RUNS, NEVER, LEASE_OFF, LEASE_LOW},
    [LEASE_OFF] = {LEASE_OFF, NEVER, LEASE_OFF, LEASE_RUNS},
};

void lease_renew(struct publish *publish, kvr_ns now)
{
    if (KVR_MUTANT(renewal_forgotten))
        return;
    publish_lease_on(&publish->lease.state, LEASE_ON_RENEW);
    if (publish->lease.state != LEASE_OFF)
        publish->lease.end = now + publish->lease.length;
}

void lease_set(struct publish *publish, kvr_ns now, kvr_ns length)
{
    publish->lease.length = length;
    lease_renew(publish, now);
}

void lease_off(struct publish *publish)
{
    publish_lease_on(&publish->lease.state, LEASE_ON_OFF);
}

void lease_reopen(struct publish *publish, kvr_ns now)
{
    if (publish->lease.state == LEASE_OFF)
        publish->lease.end = now + publish->lease.length;
    publish_lease_on(&publish->lease.state, LEASE_ON_REOPEN);
}

/* The lease does not concern a consumer that has come: its transfer goes on. Only consumers that
 * have not come are given up. */
static void consumers_give_up(struct outbound *outbound, struct publish *publish, kvr_status status,
                              const char *detail)
{
    const struct publish_refusal *refusal = &publish->refusal;
    struct kvr_error why;

    kvr_error_set(&why, status, "lease", "%s", detail);
    if (refusal->count > 0)
        kvr_error_set(&why, status, "lease", "%s; %s asked and was refused: %s", detail,
                      refusal->agent, refusal->detail);
    if (publish->consumers.count == 0) {
        publish_fail(outbound, publish, status, why.detail);
        return;
    }
    lease_off(publish);
    publish->consumers.expected = publish->consumers.count;
    publish_blame(publish, status, why.detail);
    publish_check_free(outbound, publish);
}

void lease_tick(struct outbound *outbound, struct publish *publish)
{
    if (publish->lease.state == LEASE_OFF || publish->state == PUBLISH_FAILING)
        return;
    if (outbound->now >= publish->lease.end && !KVR_MUTANT(lease_never_ends)) {
        outbound->leases_expired++;
        publish_notify(outbound, publish, &(struct kvr_notice){.kind = KVR_NOTICE_LEASE_END});
        consumers_give_up(outbound, publish, KVR_EXPIRED,
                          "its lease ended before every consumer had come");
        return;
    }
    if (publish->lease.state == LEASE_LOW ||
        outbound->now + publish->lease.length / LEASE_LOW_PART < publish->lease.end)
        return;
    publish_lease_on(&publish->lease.state, LEASE_ON_LOW);
    publish_notify(outbound, publish, &(struct kvr_notice){.kind = KVR_NOTICE_LEASE_LOW});
}

static bool awaits_consumers(const struct publish *publish, const char *request, uint32_t attempt)
{
    return publish != NULL && publish->state != PUBLISH_FAILING && publish->attempt == attempt &&
           (publish->lease.state != LEASE_OFF || KVR_MUTANT(abandon_after_want)) &&
           strcmp(publish->request, request) == 0;
}

uint32_t outbound_abandon(struct outbound *outbound, kvr_ns now, const char *request,
                          uint32_t attempt)
{
    uint32_t count = 0;

    outbound->now = now;
    KVR_POOL_EACH (struct publish, publish, &outbound->publishes) {
        if (!awaits_consumers(publish, request, attempt))
            continue;
        count++;
        consumers_give_up(outbound, publish, KVR_CANCELLED,
                          "the scheduler abandoned it: no target will come");
    }
    return count;
}

uint32_t outbound_renew(struct outbound *outbound, kvr_ns now, const char *request,
                        uint32_t attempt, kvr_ns lease_ns)
{
    uint32_t count = 0;

    outbound->now = now;
    KVR_POOL_EACH (struct publish, publish, &outbound->publishes) {
        if (!awaits_consumers(publish, request, attempt))
            continue;
        count++;
        lease_set(publish, now, lease_ns);
    }
    return count;
}
