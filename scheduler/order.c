#include "scheduler/order.h"

#include <string.h>

#include "scheduler/api_parameters.h"

static const char prefix[] = "/api/v1/requests/";

bool order_is_path(const char *path)
{
    return strncmp(path, prefix, sizeof(prefix) - 1) == 0;
}

/* The request is the part between prefix and verb; it may contain slashes. */
static bool parse_path(const char *path, struct order *order)
{
    const char *request = path + sizeof(prefix) - 1, *verb = strrchr(request, '/');
    size_t length = verb != NULL ? (size_t)(verb - request) : 0;

    if (length == 0 || length >= sizeof(order->request))
        return false;
    memcpy(order->request, request, length);
    order->request[length] = '\0';
    order->kind = kvr_order_from_name(verb + 1);
    return order->kind != KVR_ORDER_KIND_END;
}

static bool parse_parameter(const char *name, const char *value, struct order *order,
                            struct api_answer *answer)
{
    int64_t number;

    if (strcmp(name, "attempt") == 0) {
        if (api_number(value, 0, UINT32_MAX, &order->attempt))
            return true;
        api_bad_request(answer, "attempt", "attempt=%s is not the number of an attempt", value);
    } else if (strcmp(name, "lease_ms") == 0 && order->kind == KVR_ORDER_RENEW) {
        if (api_number(value, 1, 3600 * 1000, &number)) {
            order->lease_ns = (kvr_ns)number * KVR_MS;
            return true;
        }
        api_bad_request(answer, "lease_ms", "lease_ms=%s is not a number from 1 to 3600000", value);
    } else {
        api_bad_request(answer, name, "there is no parameter \"%s\" here", name);
    }
    return false;
}

bool order_parse(const char *path, const struct api_query *query, struct order *ret_order,
                 struct api_answer *ret_answer)
{
    *ret_order = (struct order){.attempt = -1};
    if (!parse_path(path, ret_order)) {
        api_error(ret_answer, 404,
                  "orders are posted to /api/v1/requests/REQUEST/abandon and .../renew");
        return false;
    }
    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++)
        if (!parse_parameter(query->parameters[i].name, query->parameters[i].value, ret_order,
                             ret_answer))
            return false;
    if (ret_order->kind == KVR_ORDER_RENEW && ret_order->lease_ns == 0) {
        api_bad_request(ret_answer, "lease_ms",
                        "renew needs lease_ms=1..3600000: how long from now on", NULL);
        return false;
    }
    return true;
}

/* The reason why no source gets the order. */
static kvr_status refuse(const struct transfer *transfer, struct kvr_error *error)
{
    const struct transfer_side *source = &transfer->sides[KVR_ROLE_SOURCE];
    const struct transfer_side *target = &transfer->sides[KVR_ROLE_TARGET];

    if (!transfer_state_live(transfer->state))
        return kvr_error_set(error, KVR_REFUSED, "order",
                             "this request has ended already: it is %s",
                             transfer_state_name(transfer->state));
    if (source->boot == 0)
        return kvr_error_set(error, KVR_REFUSED, "order",
                             "no source has published this request yet; %s waits for it until its "
                             "deadline",
                             target->agent);
    return kvr_error_set(error, KVR_REFUSED, "order",
                         "a target has come for this request (%s), and only its end frees the "
                         "source now: cancel it at the target's engine",
                         target->agent[0] != '\0' ? target->agent : "of another transfer of it");
}

kvr_status order_store(struct store *store, struct order *order, int64_t now_ns,
                       struct kvr_error *error)
{
    struct transfer transfer;
    bool found = false;

    if (!store_add_orders(store, order->request, order->attempt, order->kind, order->lease_ns,
                          now_ns, &order->publishes) ||
        (order->publishes == 0 &&
         !store_get_request(store, order->request, order->attempt, &transfer, &found)))
        return kvr_error_set(error, KVR_SYSTEM, "order", "the database refused: %s",
                             store_problem(store));
    if (order->publishes > 0)
        return KVR_OK;
    if (found)
        return refuse(&transfer, error);
    return kvr_error_set(error, KVR_NOT_FOUND, "order",
                         "no such request is known: it was not reported yet, or it is past its "
                         "retention");
}

void order_answer(const struct order *order, struct api_answer *ret_answer)
{
    api_answer_with(ret_answer, 202,
                    json_pack("{s:s, s:I}", "order", kvr_order_name(order->kind), "publishes",
                              (json_int_t)order->publishes));
}
