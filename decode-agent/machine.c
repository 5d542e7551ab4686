/* The machine of a target agent as others drive it. */
#include "decode-agent/fetch.h"
#include "decode-agent/land.h"

KVR_MACHINE_ADAPT(inbound)

static bool serves(kvr_request_kind kind)
{
    return kind == KVR_REQ_TARGET_OPEN || kind == KVR_REQ_TARGET_PAGES ||
           kind == KVR_REQ_TARGET_SKIP || kind == KVR_REQ_TARGET_HOLD || kind == KVR_REQ_WATCH ||
           kind == KVR_REQ_CANCEL;
}

static uint32_t order(void *self, kvr_ns now, const struct kvr_order *asked)
{
    struct inbound *inbound = self;

    if (asked->kind == KVR_ORDER_RECORD)
        kvr_pages_ask(&inbound->pages, now, asked->lease_ns);
    return asked->kind == KVR_ORDER_CANCEL ? inbound_cancel(self, now, asked) : 0;
}

static uint32_t requests(const void *self, const char *names[], uint32_t max)
{
    const struct inbound *inbound = self;
    uint32_t count = 0;

    KVR_POOL_EACH (const struct fetch, fetch, &inbound->fetches)
        if (count++ < max)
            names[count - 1] = fetch->request;
    return count;
}

struct kvr_machine inbound_machine(struct inbound *inbound)
{
    return (struct kvr_machine){
        .self = inbound,
        .engines = &inbound->engines,
        .role = KVR_ROLE_TARGET,
        .stage_bytes = sizeof(struct land_stage),
        .serves = serves,
        .order = order,
        .requests = requests,
        KVR_MACHINE_ADAPTED(inbound),
    };
}
