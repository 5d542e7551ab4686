/* Goal: a stream is cut into the same frames, however its bytes come. Method: the first byte gives
 * the sizes of the reads; the frames are compared with those of the whole stream at once. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next frame of the whole stream. False: there is none, or it is too large. */
static bool expected_next(const uint8_t *data, size_t size, size_t *at, size_t *ret_bytes)
{
    const uint8_t *header = data + *at;

    if (size - *at < KVR_FRAME_HEADER_BYTES)
        return false;
    *ret_bytes = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 |
                 (size_t)header[3];
    if (*ret_bytes > KVR_FRAME_BYTES_MAX || *ret_bytes > size - *at - KVR_FRAME_HEADER_BYTES)
        return false;
    *at += KVR_FRAME_HEADER_BYTES + *ret_bytes;
    return true;
}

/* Takes all frames that are there. False: the stream ends in a frame that is too large. */
static bool take(struct kvr_frame_parser *parser, const uint8_t *data, size_t size, size_t *at)
{
    const uint8_t *frame;
    size_t bytes, wanted;
    kvr_status status;

    while ((status = kvr_frame_parser_next(parser, &frame, &bytes)) == KVR_OK) {
        assert(expected_next(data, size, at, &wanted));
        assert(bytes == wanted && memcmp(frame, data + *at - bytes, bytes) == 0);
    }
    assert(status == KVR_AGAIN || (status == KVR_MALFORMED && bytes > KVR_FRAME_BYTES_MAX));
    return status == KVR_AGAIN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t buffer[KVR_FRAME_BUFFER_BYTES];
    struct kvr_frame_parser parser;
    size_t at = 0, given = 0, step, unread;
    bool goes_on = true;

    if (size == 0)
        return 0;
    step = (size_t)data[0] + 1;
    data++;
    size--;
    kvr_frame_parser_init(&parser, buffer);
    while (given < size && goes_on) {
        size_t room, count = size - given < step ? size - given : step;
        uint8_t *memory = kvr_frame_parser_room(&parser, &room);

        assert(room > 0 && memory >= buffer && memory + room <= buffer + sizeof(buffer));
        count = count < room ? count : room;
        memcpy(memory, data + given, count);
        kvr_frame_parser_filled(&parser, count);
        given += count;
        goes_on = take(&parser, data, size, &at);
    }
    if (goes_on)
        assert(!expected_next(data, size, &at, &unread));
    return 0;
}
