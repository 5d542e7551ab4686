/* Goal: the answer to a report arrives as the scheduler sent it, and no other body is accepted. */
#include "tests/support/check.h"

#include "trace/report.h"

static void answer_survives_a_round_trip(void **state)
{
    struct kvr_report_answer answer = {.acknowledged = UINT64_MAX}, decoded;
    uint8_t bytes[KVR_REPORT_ANSWER_BYTES];
    size_t size;

    (void)state;
    for (; answer.order_count <= KVR_ORDERS_MAX; answer.order_count++) {
        memset(&decoded, 0, sizeof(decoded));
        size = kvr_report_answer_encode(&answer, bytes);
        assert_true(size <= sizeof(bytes));
        assert_int_equal(kvr_report_answer_decode(bytes, size, &decoded), KVR_OK);
        assert_memory_equal(&decoded, &answer, sizeof(answer));
        if (answer.order_count < KVR_ORDERS_MAX) { /* the longest orders that exist */
            struct kvr_order *order = &answer.orders[answer.order_count];

            order->number = order->lease_ns = UINT64_MAX;
            order->attempt = UINT32_MAX;
            order->kind = answer.order_count % 2 == 0 ? KVR_ORDER_ABANDON : KVR_ORDER_RENEW;
            memset(order->request, 'r', sizeof(order->request) - 1);
        }
    }
}

static void refuse_answer(const char *bytes, size_t size)
{
    struct kvr_report_answer decoded;

    assert_int_equal(kvr_report_answer_decode((const uint8_t *)bytes, size, &decoded),
                     KVR_MALFORMED);
}

/* field 2 is an order; its field 2 the kind, 3 the request */
static void answer_refuses_what_is_wrong(void **state)
{
    static const char one[] = "\x12\x03\x1a\x01r";
    char many[(sizeof(one) - 1) * (KVR_ORDERS_MAX + 1)];
    char large[6 + KVR_REQUEST_BYTES];

    (void)state;
    refuse_answer("\xff", 1);
    refuse_answer("\x12\x00", 2); /* of no request */
    for (size_t i = 0; i < sizeof(many); i += sizeof(one) - 1)
        memcpy(many + i, one, sizeof(one) - 1);
    refuse_answer(many, sizeof(many));
    memset(large, 'r', sizeof(large)); /* lengths of two bytes: 131 and 128 */
    memcpy(large, "\x12\x83\x01\x1a\x80\x01", 6);
    refuse_answer(large, sizeof(large));
}

static void answer_keeps_the_number_of_an_order_it_does_not_know(void **state)
{
    static const char newer[] = "\x12\x0b\x08\x07\x12\x04warp\x1a\x01r";
    struct kvr_report_answer decoded;

    (void)state;
    assert_int_equal(kvr_report_answer_decode((const uint8_t *)newer, sizeof(newer) - 1, &decoded),
                     KVR_OK);
    assert_int_equal(decoded.order_count, 1);
    assert_int_equal(decoded.orders[0].number, 7);
    assert_int_equal(decoded.orders[0].kind, KVR_ORDER_KIND_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_survives_a_round_trip),
        cmocka_unit_test(answer_refuses_what_is_wrong),
        cmocka_unit_test(answer_keeps_the_number_of_an_order_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
