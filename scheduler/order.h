/* Orders of an operator or a router for a published request that no target has fetched:
 *
 *   POST /api/v1/requests/<request>/abandon            let go of it
 *   POST /api/v1/requests/<request>/renew?lease_ms=…   hold it for so much longer, from now on
 *
 * with &attempt=… for one attempt only. The answer is 202 {"order":…,"publishes":…}: that
 * many sources get the order with the answer to their next report, within about a second, and again
 * until they have taken it. */
#ifndef KVR_SCHEDULER_ORDER_H
#define KVR_SCHEDULER_ORDER_H

#include "scheduler/api.h"

struct order {
    kvr_order_kind kind;
    char request[KVR_REQUEST_BYTES];
    int64_t attempt;    /* -1: every */
    kvr_ns lease_ns;    /* renew */
    uint32_t publishes; /* that it was made for */
    struct audit_entry audit;
};

bool order_is_path(const char *path);
/* false: the answer has the mistake. */
KVR_MUST_CHECK bool order_parse(const char *path, const struct api_query *query,
                                struct order *ret_order, struct api_answer *ret_answer);
/* Within a transaction of the writer's. KVR_NOT_FOUND and KVR_REFUSED (nothing was changed) with a
 * sentence; anything else: roll back. */
KVR_MUST_CHECK kvr_status order_store(struct store *store, struct order *order, int64_t now_ns,
                                      struct kvr_error *error);
void order_answer(const struct order *order, struct api_answer *ret_answer);

#endif
