#include "wire/frame.h"

#include <assert.h>
#include <string.h>

void kvr_frame_parser_init(struct kvr_frame_parser *parser, uint8_t *buffer)
{
    *parser = (struct kvr_frame_parser){.buffer = buffer};
}

uint8_t *kvr_frame_parser_room(struct kvr_frame_parser *parser, size_t *ret_bytes)
{
    if (parser->taken > 0) {
        parser->filled -= parser->taken;
        memmove(parser->buffer, parser->buffer + parser->taken, parser->filled);
        parser->taken = 0;
    }
    /* The rest is less than one frame, or next() has returned KVR_MALFORMED and reading has ended.
     */
    assert(parser->filled < KVR_FRAME_BUFFER_BYTES);
    *ret_bytes = KVR_FRAME_BUFFER_BYTES - parser->filled;
    return parser->buffer + parser->filled;
}

void kvr_frame_parser_filled(struct kvr_frame_parser *parser, size_t bytes)
{
    assert(bytes <= KVR_FRAME_BUFFER_BYTES - parser->filled);
    parser->filled += bytes;
}

kvr_status kvr_frame_parser_next(struct kvr_frame_parser *parser, const uint8_t **ret_frame,
                                 size_t *ret_bytes)
{
    const uint8_t *at = parser->buffer + parser->taken;
    size_t come = parser->filled - parser->taken, bytes;

    if (come < KVR_FRAME_HEADER_BYTES)
        return KVR_AGAIN;
    bytes = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
    if (bytes > KVR_FRAME_BYTES_MAX) {
        *ret_bytes = bytes;
        return KVR_MALFORMED;
    }
    if (come - KVR_FRAME_HEADER_BYTES < bytes)
        return KVR_AGAIN;
    parser->taken += KVR_FRAME_HEADER_BYTES + bytes;
    *ret_frame = at + KVR_FRAME_HEADER_BYTES;
    *ret_bytes = bytes;
    return KVR_OK;
}

void kvr_frame_header(uint32_t frame_bytes, uint8_t header[KVR_FRAME_HEADER_BYTES])
{
    header[0] = (uint8_t)(frame_bytes >> 24);
    header[1] = (uint8_t)(frame_bytes >> 16);
    header[2] = (uint8_t)(frame_bytes >> 8);
    header[3] = (uint8_t)frame_bytes;
}
