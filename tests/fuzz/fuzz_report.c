/* Any bytes: the decoder refuses them or gives a report that encodes and decodes to the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void decode_answer(const uint8_t *data, size_t size)
{
    struct kvr_report_answer answer, again;
    uint8_t bytes[KVR_REPORT_ANSWER_BYTES];
    size_t length;

    if (kvr_report_answer_decode(data, size, &answer) != KVR_OK)
        return;
    length = kvr_report_answer_encode(&answer, bytes);
    check(length <= sizeof(bytes), "the answer grew");
    check(kvr_report_answer_decode(bytes, length, &again) == KVR_OK, "the answer decodes again");
    check(again.acknowledged == answer.acknowledged && again.order_count == answer.order_count,
          "to as many orders");
    for (uint32_t i = 0; i < answer.order_count; i++)
        check(again.orders[i].number == answer.orders[i].number &&
                  again.orders[i].kind == answer.orders[i].kind &&
                  strcmp(again.orders[i].request, answer.orders[i].request) == 0,
              "to the same orders");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kvr_report *report, *again;
    uint8_t *bytes, *bytes_again;
    size_t length, length_again;

    decode_answer(data, size);
    if (kvr_report_decode(data, size, &report, NULL) != KVR_OK)
        return 0;
    check(report->event_count <= KVR_REPORT_EVENTS_MAX, "too many events were let in");
    check(kvr_report_encode(report, &bytes, &length) == KVR_OK, "what was decoded must encode");
    kvr_report_free(report);
    check(kvr_report_decode(bytes, length, &again, NULL) == KVR_OK, "and decode again");
    check(kvr_report_encode(again, &bytes_again, &length_again) == KVR_OK, "and encode again");
    check(length == length_again && memcmp(bytes, bytes_again, length) == 0, "to the same bytes");
    kvr_report_free(again);
    free(bytes);
    free(bytes_again);
    return 0;
}
