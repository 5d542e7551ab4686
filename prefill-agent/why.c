/* What the machine knows of a publish, as JSON: the answer to an engine's why. */

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/source_transfer.h"

static const char *const state_names[] = {"parked",   "offered", "live",
                                          "stopping", "closing", "ended"};

/* The object with its comma, or nothing at all where it does not fit. */
static size_t why_refusal(const struct publish_refusal *refusal, char *json, size_t capacity)
{
    char agent[2 * KVR_NAME_BYTES], detail[2 * KVR_DETAIL_BYTES];
    int bytes;

    if (refusal->count == 0)
        return 0;
    bytes = snprintf(json, capacity,
                     ",\"refused\":{\"count\":%u,\"agent\":\"%s\",\"reason\":\"%s\","
                     "\"detail\":\"%s\"}",
                     refusal->count, kvr_text_json(refusal->agent, agent, sizeof(agent)),
                     kvr_status_name(refusal->status),
                     kvr_text_json(refusal->detail, detail, sizeof(detail)));
    return (size_t)bytes < capacity ? (size_t)bytes : 0;
}

void outbound_why(const struct outbound *outbound, uint32_t engine, uint64_t handle, char *json,
                  size_t capacity)
{
    const struct publish *publish = publish_find(outbound, engine, handle);
    char detail[2 * KVR_DETAIL_BYTES];
    size_t used;

    if (publish == NULL) {
        kvr_ended_why(&outbound->ended, engine, handle, json, capacity);
        return;
    }
    used = (size_t)snprintf(json, capacity, "{\"tenant\":\"%s\",\"consumers\":%u,\"offers\":[",
                            outbound->engines.tenants.list[publish->tenant].name,
                            publish->consumers.expected);
    for (uint32_t i = 0; i < publish->consumers.count && used + 1800 < capacity; i++) {
        const struct source_transfer *transfer =
            kvr_pool_get(&outbound->transfers, publish->consumers.list[i].transfer);

        if (transfer == NULL)
            continue;
        used += (size_t)snprintf(json + used, capacity - used,
                                 "%s{\"transfer\":\"%016" PRIx64
                                 "\",\"state\":\"%s\",\"rail_group\":%u,\"segments\":%u,"
                                 "\"chunks\":%u,\"final\":%s,\"reason\":\"%s\"}",
                                 i > 0 ? "," : "", transfer->nonce, state_names[transfer->state],
                                 transfer->grant.rail_group, transfer->announce.segment_count,
                                 transfer->announce.chunk_count,
                                 transfer->announce.state == ANNOUNCE_ALL_SENT ? "true" : "false",
                                 kvr_status_name(transfer->status));
    }
    used += (size_t)snprintf(json + used, capacity - used,
                             "],\"pages\":%u,\"tokens_announced\":%" PRIu64
                             ",\"ended\":%s,\"reason\":\"%s\",\"detail\":\"%s\"",
                             kvr_page_tables_count(&publish->pages), publish->content.token_end,
                             publish->content.complete ? "true" : "false",
                             kvr_status_name(publish->status),
                             kvr_text_json(publish->detail, detail, sizeof(detail)));
    used += why_refusal(&publish->refusal, json + used, capacity - used);
    snprintf(json + used, capacity - used, "}");
}
