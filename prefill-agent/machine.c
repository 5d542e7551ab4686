/* The source agent's machine as the shell and the simulator drive it. */
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/source_transfer.h"

KVR_MACHINE_ADAPT(outbound)

static bool serves(kvr_request_kind kind)
{
    return kind != KVR_REQ_TARGET_OPEN && kind != KVR_REQ_TARGET_PAGES &&
           kind != KVR_REQ_TARGET_SKIP && kind != KVR_REQ_TARGET_HOLD;
}

static uint32_t order(void *self, kvr_ns now, const struct kvr_order *asked)
{
    struct outbound *outbound = self;

    if (asked->kind == KVR_ORDER_RECORD)
        kvr_pages_ask(&outbound->pages, now, asked->lease_ns);
    if (asked->kind == KVR_ORDER_ABANDON)
        return outbound_abandon(self, now, asked->request, asked->attempt);
    if (asked->kind == KVR_ORDER_RENEW)
        return outbound_renew(self, now, asked->request, asked->attempt, asked->lease_ns);
    return 0;
}

/* Requests that are published, and requests that only a target has named yet. */
static uint32_t requests(const void *self, const char *names[], uint32_t max)
{
    const struct outbound *outbound = self;
    uint32_t count = 0;

    KVR_POOL_EACH (const struct publish, publish, &outbound->publishes)
        if (count++ < max)
            names[count - 1] = publish->request;
    KVR_POOL_EACH (const struct source_transfer, transfer, &outbound->transfers)
        if (transfer->state == ST_PARKED && count++ < max)
            names[count - 1] = transfer->match.request;
    return count;
}

struct kvr_machine outbound_machine(struct outbound *outbound)
{
    return (struct kvr_machine){
        .self = outbound,
        .engines = &outbound->engines,
        .role = KVR_ROLE_SOURCE,
        .stage_bytes = sizeof(struct push_stage),
        .page_command = push_page_command,
        .page_forgotten = push_page_forgotten,
        .serves = serves,
        .order = order,
        .requests = requests,
        KVR_MACHINE_ADAPTED(outbound),
    };
}
