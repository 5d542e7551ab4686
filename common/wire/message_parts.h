/* Inside of the control protocol's coding, shared by message*.c; no other file includes it. A put_
 * fills protobuf structs from plain values, its get_ twin checks and turns them back; both take
 * their arrays from one arena. */
#ifndef KVR_WIRE_MESSAGE_PARTS_H
#define KVR_WIRE_MESSAGE_PARTS_H

#include "base/proto.h"
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

/* What the body of the frame that is being encoded points to. */
union kvr_pb_body {
    Kvrail__Control__Hello hello;
    Kvrail__Control__Seen seen;
    Kvrail__Control__Regions regions;
    Kvrail__Control__Want want;
    Kvrail__Control__Skip skip;
    Kvrail__Control__Pages pages;
    Kvrail__Control__Plan plan;
    Kvrail__Control__Grant grant;
    Kvrail__Control__Final final;
    Kvrail__Control__Tail tail;
    Kvrail__Control__Quiet quiet;
    Kvrail__Control__Room room;
    Kvrail__Control__Missing missing;
    Kvrail__Control__RailLost rail_lost;
    Kvrail__Control__EpochEnded epoch_ended;
    Kvrail__Control__Sender sender;
    Kvrail__Control__SenderKnown sender_known;
    Kvrail__Control__Digest digest;
    Kvrail__Control__Probe probe;
    Kvrail__Control__Reason reason;
};

/* Everything a get_ needs beside its input. */
struct kvr_get {
    struct kvr_arena *arena;
    struct kvr_error *error;
};
kvr_status kvr_get_malformed(const struct kvr_get *get, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What a kvr_geometry_get_ said: KVR_OK when that is nothing. */
kvr_status kvr_get_checked(const struct kvr_get *get, const char *wrong);
/* Zeroed memory for a list of `count` entries of `each` bytes. NULL, and *get->error names the
 * list: it has more entries than `max`, or memory is used up. */
void *kvr_get_list(const struct kvr_get *get, const char *name, size_t count, size_t max,
                   size_t each);
/* Names that must be equal byte for byte: printable UTF-8, or refused. */
kvr_status kvr_get_name(const struct kvr_get *get, const char *field, const char *text,
                        size_t capacity, char *ret_text);

/* message_values.c */
kvr_status kvr_put_limits(struct kvr_arena *arena, const struct kvr_write_limits *in,
                          kvr_pb_limits **ret_limits);
void kvr_get_limits(const kvr_pb_limits *in, struct kvr_write_limits *out);
kvr_status kvr_put_rank(struct kvr_arena *arena, const struct kvr_rank *rank,
                        kvr_pb_rank **ret_rank);
kvr_status kvr_put_rail(struct kvr_arena *arena, const struct kvr_rail_address *in,
                        kvr_pb_rail **ret_rail);
kvr_status kvr_put_rails(struct kvr_arena *arena, const struct kvr_rail_address *rails,
                         uint32_t count, kvr_pb_rail ***ret_rails);
kvr_status kvr_get_rail(const struct kvr_get *get, const kvr_pb_rail *in,
                        struct kvr_rail_address *out);
kvr_status kvr_get_rails(const struct kvr_get *get, size_t count, kvr_pb_rail **in,
                         const struct kvr_rail_address **ret_rails, uint32_t *ret_count);
/* Runs of pages or of chunks: (first, count) pairs. */
kvr_status kvr_put_runs(struct kvr_arena *arena, const void *runs, uint32_t count,
                        kvr_pb_runs **ret_runs);
kvr_status kvr_get_runs(const struct kvr_get *get, const kvr_pb_runs *in, const void **ret_runs,
                        uint32_t *ret_count);

kvr_status kvr_put_reason(struct kvr_arena *arena, const struct kvr_msg_reason *in,
                          Kvrail__Control__Reason *out);
void kvr_get_reason(const Kvrail__Control__Reason *in, struct kvr_msg_reason *out);
kvr_status kvr_get_digest_mode(const struct kvr_get *get, uint32_t in, kvr_digest_mode *ret_mode);

/* Each fills the body from the message, or the message from frame->body. KVR_INVALID: the message
 * breaks a limit. */
kvr_status kvr_put_session(struct kvr_arena *arena, const struct kvr_message *message,
                           union kvr_pb_body *body);
kvr_status kvr_get_session(const struct kvr_get *get, const kvr_pb_frame *frame,
                           struct kvr_message *message);
kvr_status kvr_put_transfer(struct kvr_arena *arena, const struct kvr_message *message,
                            union kvr_pb_body *body);
kvr_status kvr_get_transfer(const struct kvr_get *get, const kvr_pb_frame *frame,
                            struct kvr_message *message);

/* Takes `count` zeroed elements; returns KVR_NO_MEMORY from the function around it. */
#define KVR_PUT_LIST(arena, pointer, count)                                                        \
    do {                                                                                           \
        (pointer) = kvr_arena_take((arena), (count), sizeof(*(pointer)));                          \
        if ((pointer) == NULL)                                                                     \
            return KVR_NO_MEMORY;                                                                  \
    } while (0)

/* Takes and initialises one protobuf struct, as KVR_PUT_LIST does. */
#define KVR_PUT_NEW(arena, pointer, init)                                                          \
    do {                                                                                           \
        KVR_PUT_LIST(arena, pointer, 1);                                                           \
        init(pointer);                                                                             \
    } while (0)

/* As KVR_PUT_LIST, of a list that was decoded. */
#define KVR_GET_LIST(get, pointer, name, count, max)                                               \
    do {                                                                                           \
        (pointer) = kvr_get_list((get), (name), (count), (max), sizeof(*(pointer)));               \
        if ((pointer) == NULL)                                                                     \
            return KVR_MALFORMED;                                                                  \
    } while (0)

#endif
