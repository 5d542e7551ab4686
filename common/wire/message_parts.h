/* Inside of the control protocol's coding, shared by message*.c; no other file includes it. A put_
 * fills protobuf structs from plain values, its get_ twin checks and turns them back; both take
 * their arrays from one arena. */
#ifndef KVR_WIRE_MESSAGE_PARTS_H
#define KVR_WIRE_MESSAGE_PARTS_H

#include "base/text.h"
#include "wire/geometry.h"
#include "wire/kvrail.pb-c.h"
#include "wire/message.h"

/* Memory that is only ever taken, and given back as a whole: what an input can make us use is what
 * the arena holds. */
struct kvr_arena {
    uint8_t *memory;
    size_t bytes, used;
};
/* Zeroed; NULL when it is used up. */
void *kvr_arena_take(struct kvr_arena *arena, size_t count, size_t each);

typedef Kvrail__Control__Frame kvr_pb_frame;
typedef Kvrail__Control__Runs kvr_pb_runs;
typedef Kvrail__Control__RailAddress kvr_pb_rail;
typedef Kvrail__Control__WriteLimits kvr_pb_limits;

/* Everything a get_ needs beside its input. */
struct kvr_get {
    struct kvr_arena *arena;
    struct kvr_error *error;
};
kvr_status kvr_get_malformed(const struct kvr_get *get, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What a kvr_geometry_get_ said: KVR_OK when that is nothing. */
kvr_status kvr_get_checked(const struct kvr_get *get, const char *wrong);
kvr_status kvr_get_no_memory(const struct kvr_get *get);
/* Names that must be equal byte for byte: printable UTF-8, or refused. */
kvr_status kvr_get_name(const struct kvr_get *get, const char *field, const char *text,
                        size_t capacity, char *ret_text);

/* message_values.c */
kvr_status kvr_put_limits(struct kvr_arena *arena, const struct kvr_write_limits *limits,
                          kvr_pb_limits **ret_limits);
void kvr_get_limits(const kvr_pb_limits *in, struct kvr_write_limits *ret_limits);
kvr_status kvr_put_rank(struct kvr_arena *arena, const struct kvr_rank *rank,
                        kvr_pb_rank **ret_rank);
kvr_status kvr_put_rail(struct kvr_arena *arena, const struct kvr_rail_address *rail,
                        kvr_pb_rail **ret_rail);
kvr_status kvr_put_rails(struct kvr_arena *arena, const struct kvr_rail_address *rails,
                         uint32_t count, kvr_pb_rail ***ret_rails);
kvr_status kvr_get_rail(const struct kvr_get *get, const kvr_pb_rail *in,
                        struct kvr_rail_address *ret_rail);
kvr_status kvr_get_rails(const struct kvr_get *get, size_t count, kvr_pb_rail **in,
                         const struct kvr_rail_address **ret_rails, uint32_t *ret_count);
/* Runs of pages or of chunks: (first, count) pairs. */
kvr_status kvr_put_runs(struct kvr_arena *arena, const void *runs, uint32_t count,
                        kvr_pb_runs **ret_runs);
kvr_status kvr_get_runs(const struct kvr_get *get, const kvr_pb_runs *in, const void **ret_runs,
                        uint32_t *ret_count);

/* Each fills frame->body from the message, or the message from frame->body. KVR_INVALID: the
 * message breaks a limit. */
kvr_status kvr_put_session(struct kvr_arena *arena, const struct kvr_message *message,
                           kvr_pb_frame *frame);
kvr_status kvr_get_session(const struct kvr_get *get, const kvr_pb_frame *frame,
                           struct kvr_message *message);
kvr_status kvr_put_transfer(struct kvr_arena *arena, const struct kvr_message *message,
                            kvr_pb_frame *frame);
kvr_status kvr_get_transfer(const struct kvr_get *get, const kvr_pb_frame *frame,
                            struct kvr_message *message);
kvr_status kvr_put_proof(struct kvr_arena *arena, const struct kvr_message *message,
                         kvr_pb_frame *frame);
kvr_status kvr_get_proof(const struct kvr_get *get, const kvr_pb_frame *frame,
                         struct kvr_message *message);
kvr_status kvr_get_digest_mode(const struct kvr_get *get, uint32_t in, kvr_digest_mode *ret_mode);

/* Takes and initialises one protobuf struct; returns KVR_NO_MEMORY from the function around it. */
#define KVR_PUT_NEW(arena, pointer, init)                                                          \
    do {                                                                                           \
        (pointer) = kvr_arena_take((arena), 1, sizeof(*(pointer)));                                \
        if ((pointer) == NULL)                                                                     \
            return KVR_NO_MEMORY;                                                                  \
        init(pointer);                                                                             \
    } while (0)

#define KVR_TRY(call)                                                                              \
    do {                                                                                           \
        kvr_status try_status = (call);                                                            \
        if (try_status != KVR_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

#endif
