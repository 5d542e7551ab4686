/* Frames: the way between struct kvr_message and the bytes of one protobuf Frame.
 *
 * Encoding fills protobuf structs that borrow from the message (scratch memory only for arrays) and
 * packs them. Decoding gives protobuf-c an allocator over the decoder's fixed arena, so that no
 * input makes us use more, then checks every length against limits.h. */
#include "wire/message.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/message_parts.h"

/* Several times what the largest legal message needs. */
#define DECODER_BYTES ((size_t)4 << 20)
/* Arrays of most messages fit here; longer ones take memory from the heap for the call. */
#define SCRATCH_BYTES 8192

static_assert(KVRAIL__CONTROL__FRAME__BODY_HELLO == KVR_MSG_HELLO + 2 &&
                  KVRAIL__CONTROL__FRAME__BODY_SENDER_KNOWN == KVR_MSG_SENDER_KNOWN + 2 &&
                  KVR_MSG_SENDER_KNOWN + 1 == KVR_MSG_KIND_END,
              "the body's field number is the kind plus 2");

const char *kvr_message_name(kvr_message_kind kind)
{
    static const char *const names[] = {
        "?",       "HELLO", "WELCOME", "REFUSED",   "RESUME",       "BEAT",
        "REGIONS", "WANT",  "PAGES",   "PLAN",      "GRANT",        "FINAL",
        "TAIL",    "QUIET", "MISSING", "RAIL_LOST", "EPOCH_ENDED",  "LANDED",
        "CANCEL",  "FAIL",  "UNKNOWN", "DIGEST",    "PROBE",        "ALIVE",
        "NO_RAIL", "ROOM",  "SKIP",    "SENDER",    "SENDER_KNOWN",
    };

    static_assert(sizeof(names) / sizeof(names[0]) == KVR_MSG_KIND_END, "a name for each kind");
    return (unsigned)kind < KVR_MSG_KIND_END ? names[kind] : names[0];
}

bool kvr_message_numbered(kvr_message_kind kind)
{
    return kind >= KVR_MSG_REGIONS && kind < KVR_MSG_KIND_END;
}

bool kvr_message_patient(kvr_message_kind kind)
{
    return kind == KVR_MSG_REGIONS || kind == KVR_MSG_WANT || kind == KVR_MSG_PAGES ||
           kind == KVR_MSG_PLAN || kind == KVR_MSG_FINAL || kind == KVR_MSG_TAIL ||
           kind == KVR_MSG_RAIL_LOST || kind == KVR_MSG_DIGEST || kind == KVR_MSG_FAIL ||
           kind == KVR_MSG_SKIP;
}

void *kvr_arena_take(struct kvr_arena *arena, size_t count, size_t each)
{
    size_t start = (arena->used + 15) & ~(size_t)15;
    void *taken;

    if (start > arena->bytes || (each > 0 && count > (arena->bytes - start) / each))
        return NULL;
    taken = arena->memory + start;
    arena->used = start + count * each;
    return memset(taken, 0, count * each);
}

/* ---- text ---- */

kvr_status kvr_get_name(const struct kvr_get *get, const char *field, const char *text,
                        size_t capacity, char *ret_text)
{
    size_t bytes = strlen(text);

    if (bytes >= capacity)
        return kvr_get_malformed(get, "%s is %zu bytes long: at most %zu are allowed", field, bytes,
                                 capacity - 1);
    if (!kvr_text_valid(text, capacity))
        return kvr_get_malformed(get, "%s is not printable text", field);
    memcpy(ret_text, text, bytes + 1);
    return KVR_OK;
}

/* ---- encoding ---- */

/* Enough for every array of the message; each count was checked against its limit by no one yet, so
 * all of it is done in size_t. */
static size_t scratch_bytes(const struct kvr_message *message)
{
    const size_t item = 320; /* a pointer and the largest protobuf struct of an array */
    size_t items = 8, runs = 0;

    switch (message->kind) {
    case KVR_MSG_HELLO:
    case KVR_MSG_WELCOME:
        items += (size_t)message->hello.rail_count + message->hello.compat_count;
        break;
    case KVR_MSG_REGIONS:
        items += message->regions.layout_count;
        break;
    case KVR_MSG_PAGES:
        runs = message->pages.run_count;
        break;
    case KVR_MSG_PLAN:
        runs = message->plan.run_count;
        break;
    case KVR_MSG_GRANT:
        items += (size_t)message->grant.rail_count + message->grant.slot_count;
        break;
    case KVR_MSG_QUIET:
        items += message->quiet.count_count;
        break;
    case KVR_MSG_MISSING:
        runs = message->missing.run_count;
        break;
    case KVR_MSG_RAIL_LOST:
        runs = message->rail_lost.run_count;
        break;
    default:
        break;
    }
    return items * item + runs * 8;
}

static kvr_status encode_in(struct kvr_arena *arena, const struct kvr_message *message,
                            uint8_t *buffer, size_t capacity, size_t *ret_bytes)
{
    kvr_pb_frame frame;
    union kvr_pb_body body;
    size_t bytes;

    kvrail__control__frame__init(&frame);
    frame.sequence = message->sequence;
    frame.transfer = message->transfer;
    frame.body_case = (Kvrail__Control__Frame__BodyCase)(message->kind + 2);
    frame.hello = &body.hello; /* every member of both unions is at the same place */
    if (message->kind <= KVR_MSG_REGIONS)
        KVR_TRY(kvr_put_session(arena, message, &body));
    else
        KVR_TRY(kvr_put_transfer(arena, message, &body));

    bytes = kvrail__control__frame__get_packed_size(&frame);
    if (bytes > capacity)
        return KVR_TOO_LARGE;
    *ret_bytes = kvrail__control__frame__pack(&frame, buffer);
    return KVR_OK;
}

kvr_status kvr_message_encode(const struct kvr_message *message, uint8_t *buffer, size_t capacity,
                              size_t *ret_bytes)
{
    _Alignas(16) uint8_t small[SCRATCH_BYTES];
    struct kvr_arena arena = {.memory = small, .bytes = sizeof(small)};
    size_t needed;
    kvr_status status;

    if (message->kind < KVR_MSG_HELLO || message->kind >= KVR_MSG_KIND_END)
        return KVR_INVALID;
    needed = scratch_bytes(message);
    if (needed > DECODER_BYTES)
        return KVR_INVALID;
    if (needed <= sizeof(small))
        return encode_in(&arena, message, buffer, capacity, ret_bytes);

    arena.memory = malloc(needed);
    arena.bytes = needed;
    if (arena.memory == NULL)
        return KVR_NO_MEMORY;
    status = encode_in(&arena, message, buffer, capacity, ret_bytes);
    free(arena.memory);
    return status;
}

/* `sequence` is the first field and of fixed size: its tag, then eight bytes, lowest first. */
void kvr_message_renumber(uint8_t *frame, uint64_t sequence)
{
    assert(frame[0] == (1 << 3 | 1) && sequence != 0);
    for (int i = 0; i < 8; i++)
        frame[1 + i] = (uint8_t)(sequence >> (8 * i));
}

/* ---- decoding ---- */

struct kvr_message_decoder {
    struct kvr_arena arena;
    _Alignas(16) uint8_t memory[DECODER_BYTES];
};

struct kvr_message_decoder *kvr_message_decoder_open(void)
{
    /* Not cleared: what is never used is never touched. */
    struct kvr_message_decoder *decoder = aligned_alloc(64, (sizeof(*decoder) + 63) & ~(size_t)63);

    if (decoder == NULL)
        return NULL;
    decoder->arena = (struct kvr_arena){.memory = decoder->memory, .bytes = DECODER_BYTES};
    return decoder;
}

void kvr_message_decoder_close(struct kvr_message_decoder *decoder)
{
    free(decoder);
}

static void *arena_alloc(void *self, size_t bytes)
{
    return kvr_arena_take(self, 1, bytes);
}

static void arena_free(void *self, void *memory)
{
    (void)self;
    (void)memory;
}

kvr_status kvr_get_malformed(const struct kvr_get *get, const char *format, ...)
{
    char sentence[KVR_DETAIL_BYTES];
    va_list values;

    va_start(values, format);
    vsnprintf(sentence, sizeof(sentence), format, values);
    va_end(values);
    return kvr_error_set(get->error, KVR_MALFORMED, "message", "%s", sentence);
}

kvr_status kvr_get_checked(const struct kvr_get *get, const char *wrong)
{
    return wrong == NULL ? KVR_OK : kvr_get_malformed(get, "%s", wrong);
}

void *kvr_get_list(const struct kvr_get *get, const char *name, size_t count, size_t max,
                   size_t each)
{
    void *list = count <= max ? kvr_arena_take(get->arena, count, each) : NULL;

    if (count > max)
        (void)kvr_get_malformed(get, "%s has %zu entries: at most %zu are allowed", name, count,
                                max);
    else if (list == NULL)
        (void)kvr_get_malformed(get, "it needs more than %zu bytes to decode", DECODER_BYTES);
    return list;
}

kvr_status kvr_message_decode(struct kvr_message_decoder *decoder, const uint8_t *frame,
                              size_t bytes, struct kvr_message *ret_message,
                              struct kvr_error *error)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, &decoder->arena};
    struct kvr_get get = {&decoder->arena, error};
    struct kvr_message message;
    kvr_pb_frame *in;

    memset(&message, 0, sizeof(message));
    decoder->arena.used = 0;
    if (bytes > KVR_FRAME_BYTES_MAX)
        return kvr_get_malformed(&get, "a frame of %zu bytes: at most %u are allowed", bytes,
                                 KVR_FRAME_BYTES_MAX);
    in = kvrail__control__frame__unpack(&allocator, bytes, frame);
    if (in == NULL)
        return kvr_get_malformed(&get, "a frame of %zu bytes that is no message", bytes);
    if (in->body_case == KVRAIL__CONTROL__FRAME__BODY__NOT_SET)
        return kvr_get_malformed(&get, "a message of a kind that this version does not know");

    message.kind = (kvr_message_kind)(in->body_case - 2);
    message.transfer = in->transfer;
    message.sequence = in->sequence;
    if (message.kind <= KVR_MSG_REGIONS)
        KVR_TRY(kvr_get_session(&get, in, &message));
    else
        KVR_TRY(kvr_get_transfer(&get, in, &message));
    *ret_message = message;
    return KVR_OK;
}
