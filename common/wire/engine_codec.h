/* Shared by the codecs of requests and notices: packing, and a decoder with bounded memory.
 * The files that include this are the only ones that know engine.proto. */
#ifndef KVR_WIRE_ENGINE_CODEC_H
#define KVR_WIRE_ENGINE_CODEC_H

#include "base/proto.h"
#include "wire/engine.pb-c.h"
#include "wire/engine_message.h"

#define PB(message) Kvrail__Engine__##message
#define BODY(name)  KVRAIL__ENGINE__ENGINE_PACKET__BODY_##name

KVR_MUST_CHECK kvr_status kvr_engine_pack(const PB(EnginePacket) * packet, uint8_t *buffer,
                                          size_t capacity, size_t *ret_bytes);

/* The decoded packet lives in the decoder until the next one. */
KVR_MUST_CHECK kvr_status kvr_engine_unpack(struct kvr_engine_decoder *decoder,
                                            const uint8_t *packet, size_t bytes,
                                            PB(EnginePacket) * *ret_packet,
                                            struct kvr_error *error);

/* Memory beside it, aligned to 16 bytes; `self` is the decoder. NULL: it is used up. */
void *kvr_engine_take(void *self, size_t bytes);

/* Returns KVR_MALFORMED with that sentence. */
kvr_status kvr_engine_malformed(struct kvr_error *error, const char *what);

#endif
