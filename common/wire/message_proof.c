/* Messages that prove something: hashes of bytes, and that a session still holds. */
#include "wire/message_parts.h"

static kvr_status put_digest(struct kvr_arena *arena, const struct kvr_msg_digest *digest,
                             Kvrail__Control__Digest **ret_digest)
{
    Kvrail__Control__Digest *out;

    if (digest->value_count > KVR_DIGESTS_PER_MESSAGE)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__digest__init);
    out->chunk_first = digest->chunk_first;
    out->chunk_count = digest->chunk_count;
    out->values = (uint64_t *)digest->values; /* packing only reads it */
    out->n_values = digest->value_count;
    *ret_digest = out;
    return KVR_OK;
}

static kvr_status get_digest(const struct kvr_get *get, const Kvrail__Control__Digest *in,
                             struct kvr_msg_digest *ret_digest)
{
    if (in->n_values > KVR_DIGESTS_PER_MESSAGE)
        return kvr_get_malformed(get, "values has %zu entries: at most %d are allowed",
                                 in->n_values, KVR_DIGESTS_PER_MESSAGE);
    *ret_digest = (struct kvr_msg_digest){.chunk_first = in->chunk_first,
                                          .chunk_count = in->chunk_count,
                                          .values = in->values,
                                          .value_count = (uint32_t)in->n_values};
    return KVR_OK;
}

kvr_status kvr_get_digest_mode(const struct kvr_get *get, uint32_t in, kvr_digest_mode *ret_mode)
{
    if (in > KVR_DIGEST_FULL)
        return kvr_get_malformed(get, "digest is %u: at most %d is known", in, KVR_DIGEST_FULL);
    *ret_mode = (kvr_digest_mode)in;
    return KVR_OK;
}

kvr_status kvr_put_proof(struct kvr_arena *arena, const struct kvr_message *message,
                         kvr_pb_frame *frame)
{
    if (message->kind == KVR_MSG_DIGEST)
        return put_digest(arena, &message->digest, &frame->digest);
    KVR_PUT_NEW(arena, frame->probe, kvrail__control__probe__init);
    frame->probe->token = message->probe.token;
    return KVR_OK;
}

kvr_status kvr_get_proof(const struct kvr_get *get, const kvr_pb_frame *frame,
                         struct kvr_message *message)
{
    if (message->kind == KVR_MSG_DIGEST)
        return get_digest(get, frame->digest, &message->digest);
    message->probe.token = frame->probe->token;
    return KVR_OK;
}
