/* What the scheduler answers to a report, as protobuf. */
#include <string.h>

#include "base/proto.h"
#include "trace/events.pb-c.h"
#include "trace/report.h"
#include "trace/report_budget.h"

/* A full answer of honest orders needs about 4 KiB. */
#define DECODE_BYTES_MAX ((size_t)32 << 10)

static const char *const order_names[] = {KVR_ORDER_LIST(KVR_NAME)};

const char *kvr_order_name(kvr_order_kind kind)
{
    return kind >= 0 && kind < KVR_ORDER_KIND_END ? order_names[kind] : "?";
}

kvr_order_kind kvr_order_from_name(const char *name)
{
    return (kvr_order_kind)kvr_name_find(order_names, KVR_ORDER_KIND_END, name);
}

#define ORDER_FIELDS(X) X(number) X(attempt) X(lease_ns) X(transfer)

static void order_to_proto(const struct kvr_order *in, Kvrail__Report__Order *out)
{
    kvrail__report__order__init(out);
    ORDER_FIELDS(KVR_PROTO_COPY)
    out->kind = kvr_proto_text(kvr_order_name(in->kind));
    out->request = kvr_proto_text(in->request);
}

size_t kvr_report_answer_encode(const struct kvr_report_answer *answer,
                                uint8_t bytes[KVR_REPORT_ANSWER_BYTES])
{
    Kvrail__Report__ReportAnswer proto = KVRAIL__REPORT__REPORT_ANSWER__INIT;
    Kvrail__Report__Order orders[KVR_ORDERS_MAX], *list[KVR_ORDERS_MAX];

    for (uint32_t i = 0; i < answer->order_count; i++) {
        order_to_proto(&answer->orders[i], &orders[i]);
        list[i] = &orders[i];
    }
    proto.acknowledged = answer->acknowledged;
    proto.n_orders = answer->order_count;
    proto.orders = list;
    return kvrail__report__report_answer__pack(&proto, bytes);
}

static bool order_from_proto(const Kvrail__Report__Order *in, struct kvr_order *out)
{
    size_t length = strlen(in->request);

    if (length == 0 || length >= sizeof(out->request))
        return false;
    memset(out, 0, sizeof(*out));
    ORDER_FIELDS(KVR_PROTO_COPY)
    out->kind = kvr_order_from_name(in->kind);
    memcpy(out->request, in->request, length + 1);
    return true;
}

static bool answer_from_proto(const Kvrail__Report__ReportAnswer *in, struct kvr_report_answer *out)
{
    bool good = in->n_orders <= KVR_ORDERS_MAX;

    out->acknowledged = in->acknowledged;
    out->order_count = good ? (uint32_t)in->n_orders : 0;
    for (uint32_t i = 0; i < out->order_count && good; i++)
        good = order_from_proto(in->orders[i], &out->orders[i]);
    return good;
}

kvr_status kvr_report_answer_decode(const uint8_t *bytes, size_t size,
                                    struct kvr_report_answer *ret_answer)
{
    struct report_budget budget = {.left = DECODE_BYTES_MAX};
    ProtobufCAllocator allocator = report_budget_allocator(&budget);
    const Kvrail__Report__ReportAnswer *proto =
        kvrail__report__report_answer__unpack(&allocator, size, bytes);
    bool good = proto != NULL && answer_from_proto(proto, ret_answer);

    report_budget_end(&budget);
    return good ? KVR_OK : KVR_MALFORMED;
}
