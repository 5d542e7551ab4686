#include "scheduler/order.h"

#include <string.h>

#include "base/text.h"
#include "scheduler/api_parameters.h"
#include "scheduler/api_transfers.h"

enum { OF_REQUEST, OF_TRANSFER, OF_AGENT };

static const struct {
    const char *prefix;
    kvr_order_kind kinds[3]; /* the last one again where there are fewer */
} families[] = {
    [OF_REQUEST] = {"/api/v1/requests/", {KVR_ORDER_ABANDON, KVR_ORDER_RENEW, KVR_ORDER_RENEW}},
    [OF_TRANSFER] = {"/api/v1/transfers/", {KVR_ORDER_CANCEL, KVR_ORDER_CANCEL, KVR_ORDER_CANCEL}},
    [OF_AGENT] = {"/api/v1/agents/", {KVR_ORDER_DRAIN, KVR_ORDER_RESUME, KVR_ORDER_RECORD}},
};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

/* The object is the part between prefix and verb; a request may contain slashes. */
static bool parse_path(const char *path, struct order *order)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        size_t prefix = strlen(families[i].prefix), length;
        const char *object = path + prefix, *verb;

        if (strncmp(path, families[i].prefix, prefix) != 0)
            continue;
        verb = strrchr(object, '/');
        length = verb != NULL ? (size_t)(verb - object) : 0;
        if (length == 0 || length >= sizeof(order->object))
            return false;
        memcpy(order->object, object, length);
        order->object[length] = '\0';
        order->kind = kvr_order_from_name(verb + 1);
        return order->kind == families[i].kinds[0] || order->kind == families[i].kinds[1] ||
               order->kind == families[i].kinds[2];
    }
    return false;
}

bool order_is_path(const char *path)
{
    struct order order;

    /* Under requests/ there is nothing else. */
    return strncmp(path, families[OF_REQUEST].prefix, strlen(families[OF_REQUEST].prefix)) == 0 ||
           parse_path(path, &order);
}

static bool parse_parameter(const char *name, const char *value, struct order *order,
                            struct api_answer *answer)
{
    int64_t number;

    if (strcmp(name, "attempt") == 0 &&
        (order->kind == KVR_ORDER_ABANDON || order->kind == KVR_ORDER_RENEW)) {
        if (api_number(value, 0, UINT32_MAX, &order->attempt))
            return true;
        api_bad_request(answer, "attempt", "attempt=%s is not the number of an attempt", value);
    } else if ((strcmp(name, "lease_ms") == 0 && order->kind == KVR_ORDER_RENEW) ||
               (strcmp(name, "for_ms") == 0 && order->kind == KVR_ORDER_RECORD)) {
        if (api_number(value, 1, 3600 * 1000, &number)) {
            order->lease_ns = (kvr_ns)number * KVR_MS;
            return true;
        }
        api_bad_request(answer, name,
                        order->kind == KVR_ORDER_RENEW
                            ? "lease_ms=%s is not a number from 1 to 3600000"
                            : "for_ms=%s is not a number from 1 to 3600000",
                        value);
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
                  "orders are posted to /api/v1/requests/REQUEST/abandon and .../renew, "
                  "/api/v1/transfers/ID/cancel, /api/v1/agents/NAME/drain, .../resume and "
                  ".../record");
        return false;
    }
    if (ret_order->kind == KVR_ORDER_CANCEL &&
        !api_transfer_id(ret_order->object, &ret_order->transfer)) {
        api_error(ret_answer, 404, "a transfer has 16 hexadecimal digits");
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
    if (ret_order->kind == KVR_ORDER_RECORD && ret_order->lease_ns == 0) {
        api_bad_request(ret_answer, "for_ms",
                        "record needs for_ms=1..3600000: how long from now on", NULL);
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

static kvr_status no_request(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NOT_FOUND, "order",
                         "no such request is known: it was not reported yet, or it is past its "
                         "retention");
}

/* The reason why no target gets the order to cancel. */
static kvr_status refuse_cancel(const struct transfer *transfer, struct kvr_error *error)
{
    const struct transfer_side *target = &transfer->sides[KVR_ROLE_TARGET];

    if (!transfer_state_live(transfer->state))
        return kvr_error_set(error, KVR_REFUSED, "order",
                             "this transfer has ended already: it is %s",
                             transfer_state_name(transfer->state));
    if (target->agent[0] == '\0')
        return kvr_error_set(error, KVR_REFUSED, "order",
                             "no target has come for this transfer: abandon its request \"%s\"",
                             transfer->request);
    return kvr_error_set(error, KVR_REFUSED, "order", "its target, %s, %s: it cannot be asked",
                         target->agent, target->lost ? "is lost" : "has not reported it yet");
}

/* The name is the asker's, and the sentence goes to the log, too. */
static kvr_status refuse_agent(const char *name, struct kvr_error *error)
{
    char shown[KVR_REQUEST_BYTES];

    kvr_text_show(name, sizeof(shown), shown);
    return kvr_error_set(error, KVR_NOT_FOUND, "order", "no agent %s is known that has not stopped",
                         shown);
}

/* False: the database failed. order->count 0: no agent gets it. */
static bool add(struct store *store, struct order *order, int64_t now_ns)
{
    switch (order->kind) {
    case KVR_ORDER_CANCEL:
        return store_add_cancel(store, order->transfer, now_ns, &order->count);
    case KVR_ORDER_DRAIN:
    case KVR_ORDER_RESUME:
        return store_add_agent_order(store, order->object, order->kind, now_ns, &order->count);
    case KVR_ORDER_RECORD:
        return store_add_record_order(store, order->object, order->lease_ns, now_ns, &order->count);
    default:
        return store_add_orders(store, order->object, order->attempt, order->kind, order->lease_ns,
                                now_ns, &order->count);
    }
}

/* Why no agent gets it. */
static kvr_status refuse_order(struct store *store, const struct order *order,
                               struct kvr_error *error)
{
    bool cancel = order->kind == KVR_ORDER_CANCEL, found;
    struct transfer transfer;

    if (order->kind == KVR_ORDER_DRAIN || order->kind == KVR_ORDER_RESUME ||
        order->kind == KVR_ORDER_RECORD)
        return refuse_agent(order->object, error);
    if (cancel ? !store_get_transfer(store, order->transfer, &transfer, &found)
               : !store_get_request(store, order->object, order->attempt, &transfer, &found))
        return kvr_error_set(error, KVR_SYSTEM, "order", "the database refused: %s",
                             store_problem(store));
    if (found)
        return cancel ? refuse_cancel(&transfer, error) : refuse(&transfer, error);
    return cancel ? kvr_error_set(error, KVR_NOT_FOUND, "order",
                                  "no such transfer is known, or it is past its retention")
                  : no_request(error);
}

kvr_status order_store(struct store *store, struct order *order, int64_t now_ns,
                       struct kvr_error *error)
{
    if (!add(store, order, now_ns))
        return kvr_error_set(error, KVR_SYSTEM, "order", "the database refused: %s",
                             store_problem(store));
    return order->count > 0 ? KVR_OK : refuse_order(store, order, error);
}

void order_answer(const struct order *order, struct api_answer *ret_answer)
{
    bool of_request = order->kind == KVR_ORDER_ABANDON || order->kind == KVR_ORDER_RENEW;

    api_answer_with(ret_answer, 202,
                    json_pack("{s:s, s:I}", "order", kvr_order_name(order->kind),
                              of_request ? "publishes" : "agents", (json_int_t)order->count));
}
