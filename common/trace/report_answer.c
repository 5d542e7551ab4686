/* What the scheduler answers to a report, as protobuf. */
#include <string.h>

#include "trace/events.pb-c.h"
#include "trace/report.h"
#include "trace/report_budget.h"

/* A full answer of honest orders needs about 4 KiB. */
#define DECODE_BYTES_MAX ((size_t)32 << 10)

static const char *const order_names[] = {
#define X(symbol, name, text) [symbol] = name,
    KVR_ORDER_LIST(X)
#undef X
};

const char *kvr_order_name(kvr_order_kind kind)
{
    return kind >= 0 && kind < KVR_ORDER_KIND_END ? order_names[kind] : "?";
}

static char *text(const char *borrowed)
{
    return (char *)(uintptr_t)borrowed; /* protobuf-c's structs are not const */
}

size_t kvr_report_answer_encode(const struct kvr_report_answer *answer,
                                uint8_t bytes[KVR_REPORT_ANSWER_BYTES])
{
    Kvrail__Report__ReportAnswer proto = KVRAIL__REPORT__REPORT_ANSWER__INIT;
    Kvrail__Report__Order orders[KVR_ORDERS_MAX], *list[KVR_ORDERS_MAX];

    for (uint32_t i = 0; i < answer->order_count; i++) {
        const struct kvr_order *order = &answer->orders[i];

        list[i] = &orders[i];
        kvrail__report__order__init(list[i]);
        list[i]->number = order->number;
        list[i]->kind = text(kvr_order_name(order->kind));
        list[i]->request = text(order->request);
        list[i]->attempt = order->attempt;
        list[i]->lease_ns = order->lease_ns;
    }
    proto.acknowledged = answer->acknowledged;
    proto.n_orders = answer->order_count;
    proto.orders = list;
    return kvrail__report__report_answer__pack(&proto, bytes);
}

static bool order_from_proto(const Kvrail__Report__Order *proto, struct kvr_order *order)
{
    size_t length = strlen(proto->request);

    if (length == 0 || length >= sizeof(order->request))
        return false;
    *order = (struct kvr_order){.number = proto->number,
                                .kind = KVR_ORDER_KIND_END,
                                .attempt = proto->attempt,
                                .lease_ns = proto->lease_ns};
    for (int kind = 0; kind < KVR_ORDER_KIND_END; kind++)
        if (strcmp(proto->kind, order_names[kind]) == 0)
            order->kind = (kvr_order_kind)kind;
    memcpy(order->request, proto->request, length + 1);
    return true;
}

kvr_status kvr_report_answer_decode(const uint8_t *bytes, size_t size,
                                    struct kvr_report_answer *ret_answer)
{
    struct report_budget budget = {.left = DECODE_BYTES_MAX};
    ProtobufCAllocator allocator = report_budget_allocator(&budget);
    Kvrail__Report__ReportAnswer *proto =
        kvrail__report__report_answer__unpack(&allocator, size, bytes);
    bool good;

    if (proto == NULL)
        return KVR_MALFORMED;
    good = proto->n_orders <= KVR_ORDERS_MAX;
    ret_answer->acknowledged = proto->acknowledged;
    ret_answer->order_count = good ? (uint32_t)proto->n_orders : 0;
    for (uint32_t i = 0; i < ret_answer->order_count && good; i++)
        good = order_from_proto(proto->orders[i], &ret_answer->orders[i]);
    kvrail__report__report_answer__free_unpacked(proto, &allocator);
    return good ? KVR_OK : KVR_MALFORMED;
}
