/* Any bytes: they are refused, or they are spans that pack to the same spans again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/spans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define END ((kvr_ns)1 << 50) /* later than 2^32 microseconds */

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static kvr_ns time_of(int64_t before_us)
{
    check(before_us >= KVR_SPAN_NEVER && before_us <= UINT32_MAX, "a time out of bounds");
    return before_us == KVR_SPAN_NEVER ? 0 : END - (kvr_ns)before_us * KVR_US;
}

/* As an agent would have noted it. */
static struct kvr_span_book *book_of(const struct kvr_spans *spans)
{
    struct kvr_span_book *book = malloc(kvr_span_book_bytes(spans->layer_count));

    check(book != NULL, "no memory");
    kvr_span_book_open(book, 0, spans->layer_first, spans->layer_count);
    for (uint32_t i = 0; i < spans->layer_count; i++) {
        check(spans->layer_first + i < KVR_LAYERS_MAX, "a layer that no model has");
        book->layers[i].begins = time_of(spans->layers[i].begins_us);
        book->layers[i].ends = time_of(spans->layers[i].ends_us);
    }
    for (uint32_t i = 0; i < spans->rail_count; i++) {
        check(spans->rails[i].rail < KVR_RAILS_MAX, "a rail that no agent has");
        book->rails[spans->rails[i].rail] = spans->rails[i].carried;
    }
    return book;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kvr_spans spans, again;
    uint8_t packed[KVR_SPANS_BYTES_MAX];
    kvr_status status = kvr_spans_unpack(data, size, &spans);
    struct kvr_span_book *book;
    size_t count;

    check(status == KVR_OK || status == KVR_MALFORMED || status == KVR_UNSUPPORTED, "another end");
    if (status != KVR_OK)
        return 0;
    book = book_of(&spans);
    count = kvr_spans_pack(book, spans.role, END, packed);
    free(book);
    check(count <= sizeof(packed), "longer than it may be");
    check(kvr_spans_unpack(packed, count, &again) == KVR_OK, "what was packed must be read");
    check(memcmp(&spans, &again, sizeof(spans)) == 0, "as what it was");
    check(count == size && memcmp(packed, data, size) == 0, "from the same bytes");
    return 0;
}
