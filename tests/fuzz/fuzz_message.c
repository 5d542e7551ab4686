/* Any bytes as a frame: refused, or a message that encodes to a frame which decodes to the same. */
#include <assert.h>
#include <stdlib.h>

#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kvr_message_decoder *decoder, *second;
    static uint8_t frame[2 * KVR_FRAME_BYTES_MAX], again[2 * KVR_FRAME_BYTES_MAX];
    struct kvr_message message, copy;
    struct kvr_error error;
    size_t bytes, bytes_again;

    if (decoder == NULL) {
        decoder = kvr_message_decoder_open();
        second = kvr_message_decoder_open();
    }
    if (kvr_message_decode(decoder, data, size, &message, &error) != KVR_OK) {
        assert(error.status == KVR_MALFORMED && error.detail[0] != '\0');
        return 0;
    }
    /* An accepted message keeps every limit, so it can be sent on. */
    if (kvr_message_encode(&message, frame, sizeof(frame), &bytes) != KVR_OK)
        abort();
    if (bytes > KVR_FRAME_BYTES_MAX)
        return 0;
    if (kvr_message_decode(second, frame, bytes, &copy, &error) != KVR_OK)
        abort();
    if (kvr_message_encode(&copy, again, sizeof(again), &bytes_again) != KVR_OK)
        abort();
    if (bytes != bytes_again || memcmp(frame, again, bytes) != 0)
        abort();
    return 0;
}
