/* The machine of a source agent as others drive it. */
#include "prefill-agent/outbound.h"

KVR_MACHINE_ADAPT(outbound)

static bool serves(kvr_request_kind kind)
{
    return kind != KVR_REQ_TARGET_OPEN && kind != KVR_REQ_TARGET_PAGES;
}

static uint32_t order(void *self, kvr_ns now, const struct kvr_order *asked)
{
    if (asked->kind == KVR_ORDER_ABANDON)
        return outbound_abandon(self, now, asked->request, asked->attempt);
    if (asked->kind == KVR_ORDER_RENEW)
        return outbound_renew(self, now, asked->request, asked->attempt, asked->lease_ns);
    return 0;
}

/* Published requests, and those that a target waits for and nobody has published. */
static uint32_t requests(const void *self, const char *names[], uint32_t max)
{
    const struct outbound *outbound = self;
    uint32_t count = 0;

    for (uint32_t i = 0; i < outbound->publishes.reach; i++) {
        const struct publish *publish = kvr_pool_at(&outbound->publishes, i, NULL);

        if (publish != NULL && count++ < max)
            names[count - 1] = publish->request;
    }
    for (uint32_t i = 0; i < outbound->offers.reach; i++) {
        const struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer != NULL && offer->state == O_PARKED && count++ < max)
            names[count - 1] = offer->request;
    }
    return count;
}

struct kvr_machine outbound_machine(struct outbound *outbound)
{
    return (struct kvr_machine){
        .self = outbound,
        .engines = &outbound->engines,
        .role = KVR_ROLE_SOURCE,
        .stage_bytes = sizeof(struct push_stage),
        .page_kind = PUSH_PAGE,
        .page_set_kind = PUSH_PAGE_SET,
        .serves = serves,
        .order = order,
        .requests = requests,
        KVR_MACHINE_ADAPTED(outbound),
    };
}
