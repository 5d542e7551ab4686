/* Frames out of a stream of bytes: a 4-byte big-endian length, then that many bytes. Pure; the
 * buffer is the caller's. Bytes may come one at a time; nothing is copied but the rest of a read
 * that ends inside a frame. */
#ifndef KVR_WIRE_FRAME_H
#define KVR_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

#define KVR_FRAME_HEADER_BYTES 4
/* Room for one frame of the largest size and a read behind it. */
#define KVR_FRAME_BUFFER_BYTES (KVR_FRAME_BYTES_MAX + 65536u)

struct kvr_frame_parser {
    uint8_t *buffer; /* KVR_FRAME_BUFFER_BYTES, borrowed */
    size_t taken;    /* bytes of frames that were handed out */
    size_t filled;   /* bytes that have come */
};

void kvr_frame_parser_init(struct kvr_frame_parser *parser, uint8_t *buffer);
/* Where the next bytes belong; *ret_bytes is never 0. Frames handed out before are overwritten. */
uint8_t *kvr_frame_parser_room(struct kvr_frame_parser *parser, size_t *ret_bytes);
void kvr_frame_parser_filled(struct kvr_frame_parser *parser, size_t bytes);
/* KVR_OK and the next frame (borrowed until the next room()), KVR_AGAIN when it is not all there,
 * KVR_MALFORMED with the length in *ret_bytes when it is larger than KVR_FRAME_BYTES_MAX. */
KVR_MUST_CHECK kvr_status kvr_frame_parser_next(struct kvr_frame_parser *parser,
                                                const uint8_t **ret_frame, size_t *ret_bytes);

void kvr_frame_header(uint32_t frame_bytes, uint8_t header[KVR_FRAME_HEADER_BYTES]);

#endif
