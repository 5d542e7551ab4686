/* What every codec between plain values and protobuf-c's structs needs. A message's codec lists
 * once the fields that both structs have under one name, and copies that list in both directions:
 *
 *     #define SEEN_FIELDS(X) X(session) X(seen)
 *
 *     static void put_seen(const struct kvr_msg_seen *in, Kvrail__Control__Seen *out)
 *     {
 *         kvrail__control__seen__init(out);
 *         SEEN_FIELDS(KVR_PROTO_COPY)
 *     } */
#ifndef KVR_BASE_PROTO_H
#define KVR_BASE_PROTO_H

#include <protobuf-c/protobuf-c.h>

/* In a function that calls the two structs `in` and `out`. */
#define KVR_PROTO_COPY(field)        out->field = in->field;
/* Of a list X(member, field) of what the value and the protobuf struct call differently. */
#define KVR_PROTO_PUT(member, field) out->field = in->member;
#define KVR_PROTO_GET(member, field) out->member = in->field;

/* protobuf-c's structs are not const, but it never writes through the pointers of what it packs. */
static inline char *kvr_proto_text(const char *borrowed)
{
    return (char *)(uintptr_t)borrowed;
}

static inline ProtobufCBinaryData kvr_proto_bytes(const void *borrowed, size_t count)
{
    return (ProtobufCBinaryData){.len = count, .data = (uint8_t *)(uintptr_t)borrowed};
}

#endif
