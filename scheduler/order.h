/* Orders of an operator or a router to agents. For a published request that no target has fetched:
 *
 *   POST /api/v1/requests/<request>/abandon            let go of it
 *   POST /api/v1/requests/<request>/renew?lease_ms=…   hold it for so much longer, from now on
 *
 * with &attempt=… for one attempt only. For a transfer with a target:
 *
 *   POST /api/v1/transfers/<id>/cancel                 end its fetch
 *
 * and for an agent:
 *
 *   POST /api/v1/agents/<name>/drain                   take no new requests from engines
 *   POST /api/v1/agents/<name>/resume                  take them again; so does its next start
 *   POST /api/v1/agents/<name>/record?for_ms=…         send page tables for so long from now on
 *
 * The last one may have * as the name: each agent gets it.
 *
 * The answer is 202 {"order":…,"publishes":…}. Those of transfers and agents have "agents" in place
 * of "publishes". So many get the order with the answer to their next report, within about a
 * second. It comes again until they have taken it. */
#ifndef KVR_SCHEDULER_ORDER_H
#define KVR_SCHEDULER_ORDER_H

#include "scheduler/api.h"

struct order {
    kvr_order_kind kind;
    char object[KVR_REQUEST_BYTES]; /* of the path: the request, the transfer or the agent */
    uint64_t transfer;              /* cancel */
    int64_t attempt;                /* -1: every */
    kvr_ns lease_ns;                /* renew, record */
    uint32_t count;                 /* of agents that get it, once a publish */
    struct audit_entry audit;
};

bool order_is_path(const char *path); /* for POST; of a GET it may be another one's */
/* false: the answer has the mistake. */
KVR_MUST_CHECK bool order_parse(const char *path, const struct api_query *query,
                                struct order *ret_order, struct api_answer *ret_answer);
/* Within a transaction of the writer's. KVR_NOT_FOUND and KVR_REFUSED (nothing was changed) with a
 * sentence; anything else: roll back. */
KVR_MUST_CHECK kvr_status order_store(struct store *store, struct order *order, int64_t now_ns,
                                      struct kvr_error *error);
void order_answer(const struct order *order, struct api_answer *ret_answer);

#endif
