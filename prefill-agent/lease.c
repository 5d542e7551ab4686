/* Leases: how long a publish holds its pages for targets that have not come (rule 10). */
#include "base/mutant.h"
#include "prefill-agent/outbound.h"

#include <stdio.h>

#define LEASE_LOW_PART 4 /* the engine is told when a quarter is left */

void publish_renew(struct publish *publish, kvr_ns now)
{
    if (publish->lease_end == KVR_NEVER || KVR_MUTANT(renewal_forgotten))
        return;
    publish->lease_end = now + publish->lease_ns;
    publish->lease_low_told = false;
}

/* A consumer that has come is none of the lease's affair: what it asked for goes on, and only those
 * that have not come are given up. */
static void consumers_give_up(struct outbound *outbound, kvr_ns now, struct publish *publish,
                              kvr_status status, const char *detail)
{
    const struct refusal *refusal = &publish->refusal;
    struct kvr_error why;

    kvr_error_set(&why, status, "lease", "%s", detail);
    if (refusal->count > 0)
        kvr_error_set(&why, status, "lease", "%s; %s asked and was refused: %s", detail,
                      refusal->agent, refusal->detail);
    if (publish->come_count == 0) {
        publish_fail(outbound, now, publish, status, why.detail);
        return;
    }
    publish->lease_end = KVR_NEVER;
    publish->consumers = publish->come_count;
    publish_blame(publish, status, why.detail);
    publish_check_free(outbound, now, publish);
}

/* For the engine, which alone knows whether somebody will still come. */
static void lease_tell(struct outbound *outbound, const struct publish *publish,
                       kvr_notice_kind kind)
{
    struct kvr_notice notice = {.kind = kind, .handle = publish->handle};

    if (!publish->engine_gone)
        outbound->ports->notify(outbound->ports->self, publish->engine, &notice);
}

void publish_lease_tick(struct outbound *outbound, kvr_ns now, struct publish *publish)
{
    if (publish->lease_end == KVR_NEVER || publish->failing)
        return;
    if (now >= publish->lease_end && !KVR_MUTANT(lease_never_ends)) {
        outbound->leases_expired++;
        lease_tell(outbound, publish, KVR_NOTICE_LEASE_END);
        consumers_give_up(outbound, now, publish, KVR_EXPIRED,
                          "its lease ended before every consumer had come");
        return;
    }
    if (publish->lease_low_told || now + publish->lease_ns / LEASE_LOW_PART < publish->lease_end)
        return;
    publish->lease_low_told = true;
    lease_tell(outbound, publish, KVR_NOTICE_LEASE_LOW);
}

static bool awaits_consumers(const struct publish *publish, const char *request, uint32_t attempt)
{
    return publish != NULL && !publish->failing && publish->attempt == attempt &&
           (publish->lease_end != KVR_NEVER || KVR_MUTANT(abandon_after_want)) &&
           strcmp(publish->request, request) == 0;
}

uint32_t outbound_abandon(struct outbound *outbound, kvr_ns now, const char *request,
                          uint32_t attempt)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < outbound->publishes.reach; i++) {
        struct publish *publish = kvr_pool_at(&outbound->publishes, i, NULL);

        if (!awaits_consumers(publish, request, attempt))
            continue;
        count++;
        consumers_give_up(outbound, now, publish, KVR_CANCELLED,
                          "the scheduler abandoned it: no target will come");
    }
    return count;
}

uint32_t outbound_renew(struct outbound *outbound, kvr_ns now, const char *request,
                        uint32_t attempt, kvr_ns lease_ns)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < outbound->publishes.reach; i++) {
        struct publish *publish = kvr_pool_at(&outbound->publishes, i, NULL);

        if (!awaits_consumers(publish, request, attempt))
            continue;
        count++;
        publish->lease_ns = lease_ns;
        publish_renew(publish, now);
    }
    return count;
}
