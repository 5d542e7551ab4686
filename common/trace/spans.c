#include "trace/spans.h"

#include "base/varint.h"

#define VERSION      1
#define VERSION_MASK 0x0f
#define ROLE_BIT     0x10

#define TIME_BYTES  5 /* of 1 and a folded difference of two times below 2^32 */
#define COUNT_BYTES 2 /* of layers or rails, of a layer's or a rail's number */

_Static_assert(KVR_LAYERS_MAX <= 1 << 14 && KVR_RAILS_MAX <= 1 << 14, "two bytes");
_Static_assert(1 + 3 * COUNT_BYTES + KVR_LAYERS_MAX * 2 * TIME_BYTES +
                       KVR_RAILS_MAX * (COUNT_BYTES + 2 * KVR_VARINT_BYTES + TIME_BYTES) <=
                   KVR_SPANS_BYTES_MAX,
               "the longest fits");

void kvr_span_book_open(struct kvr_span_book *book, kvr_ns now, uint32_t layer_first,
                        uint32_t layer_count)
{
    memset(book, 0, kvr_span_book_bytes(layer_count));
    book->opened = now;
    book->layer_first = layer_first;
    book->layer_count = layer_count;
}

/* The transfer's number is random and the same at both ends. */
static bool is_chosen(const struct kvr_spans_choice *choice, const struct kvr_event *ended)
{
    return choice->every != 0 && (ended->outcome != KVR_OK || ended->transfer % choice->every == 0);
}

bool kvr_spans_wanted(const struct kvr_spans_choice *choice, const struct kvr_span_book *book,
                      const struct kvr_event *ended)
{
    return book != NULL && choice->every != 0 &&
           (ended->at - book->opened > choice->slow_ns || is_chosen(choice, ended));
}

bool kvr_spans_missed(const struct kvr_spans_choice *choice, const struct kvr_span_book *book,
                      const struct kvr_event *ended)
{
    return book == NULL && is_chosen(choice, ended);
}

/* ---- write ---- */

/* How long before the end, in microseconds. An earlier time is never shown as a later one. */
static uint8_t *put_time(uint8_t *at, kvr_ns time, kvr_ns end, uint64_t *before_us)
{
    uint64_t us;

    if (time == 0)
        return kvr_put_varint(at, 0);
    us = time < end ? kvr_min_u64((end - time) / KVR_US, UINT32_MAX) : 0;
    at = kvr_put_varint(at, 1 + kvr_fold(us - *before_us));
    *before_us = us;
    return at;
}

static uint8_t *put_rails(uint8_t *at, const struct kvr_rail_span *rails)
{
    uint32_t count = 0;

    for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++)
        count += rails[rail].writes > 0;
    at = kvr_put_varint(at, count);
    for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++) {
        if (rails[rail].writes == 0)
            continue;
        at = kvr_put_varint(at, rail);
        at = kvr_put_varint(at, rails[rail].writes);
        at = kvr_put_varint(at, rails[rail].bytes);
        at = kvr_put_varint(at, kvr_min_u64(rails[rail].retries, UINT32_MAX));
    }
    return at;
}

size_t kvr_spans_pack(const struct kvr_span_book *book, kvr_role role, kvr_ns end,
                      uint8_t bytes[KVR_SPANS_BYTES_MAX])
{
    uint8_t *at = bytes;
    uint64_t before_us = 0;

    *at++ = VERSION | (role == KVR_ROLE_TARGET ? ROLE_BIT : 0);
    at = kvr_put_varint(at, book->layer_first);
    at = kvr_put_varint(at, book->layer_count);
    for (uint32_t i = 0; i < book->layer_count; i++) {
        at = put_time(at, book->layers[i].begins, end, &before_us);
        at = put_time(at, book->layers[i].ends, end, &before_us);
    }
    return (size_t)(put_rails(at, book->rails) - bytes);
}

/* ---- read ---- */

struct reader {
    const uint8_t *bytes;
    size_t count;
};

static bool take(struct reader *reader, uint64_t max, uint64_t *ret_number)
{
    return kvr_take_varint(&reader->bytes, &reader->count, ret_number) && *ret_number <= max;
}

static bool take_count(struct reader *reader, uint32_t max, uint32_t *ret_count)
{
    uint64_t number;
    bool taken = take(reader, max, &number);

    *ret_count = taken ? (uint32_t)number : 0;
    return taken;
}

static bool take_time(struct reader *reader, uint64_t *before_us, int64_t *ret_us)
{
    uint64_t number;

    if (!take(reader, UINT64_MAX, &number))
        return false;
    *ret_us = KVR_SPAN_NEVER;
    if (number == 0)
        return true;
    *before_us += kvr_unfold(number - 1);
    *ret_us = (int64_t)*before_us;
    return *before_us <= UINT32_MAX;
}

static bool take_rail(struct reader *reader, uint32_t rail_from, struct kvr_spans_rail *rail)
{
    return take_count(reader, KVR_RAILS_MAX - 1, &rail->rail) && rail->rail >= rail_from &&
           take(reader, INT64_MAX, &rail->carried.writes) && rail->carried.writes > 0 &&
           take(reader, INT64_MAX, &rail->carried.bytes) &&
           take(reader, UINT32_MAX, &rail->carried.retries);
}

static bool take_spans(struct reader *reader, struct kvr_spans *spans)
{
    uint64_t before_us = 0;
    uint32_t rail_from = 0;
    bool good = take_count(reader, KVR_LAYERS_MAX, &spans->layer_first) &&
                take_count(reader, KVR_LAYERS_MAX - spans->layer_first, &spans->layer_count);

    for (uint32_t i = 0; i < spans->layer_count && good; i++)
        good = take_time(reader, &before_us, &spans->layers[i].begins_us) &&
               take_time(reader, &before_us, &spans->layers[i].ends_us);
    good = good && take_count(reader, KVR_RAILS_MAX, &spans->rail_count);
    for (uint32_t i = 0; i < spans->rail_count && good; i++) {
        good = take_rail(reader, rail_from, &spans->rails[i]);
        rail_from = spans->rails[i].rail + 1;
    }
    return good && reader->count == 0;
}

kvr_status kvr_spans_unpack(const uint8_t *bytes, size_t count, struct kvr_spans *ret_spans)
{
    struct reader reader = {bytes, count};

    memset(ret_spans, 0, sizeof(*ret_spans));
    if (count == 0)
        return KVR_MALFORMED;
    if ((bytes[0] & VERSION_MASK) != VERSION)
        return KVR_UNSUPPORTED;
    if ((bytes[0] & ~(VERSION_MASK | ROLE_BIT)) != 0)
        return KVR_MALFORMED;
    ret_spans->role = (bytes[0] & ROLE_BIT) != 0 ? KVR_ROLE_TARGET : KVR_ROLE_SOURCE;
    reader.bytes++;
    reader.count--;
    return take_spans(&reader, ret_spans) ? KVR_OK : KVR_MALFORMED;
}
