/* Both decoders of the engine socket: no input may crash them, and an accepted packet must encode
 * and decode to the same again. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "wire/engine_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kvr_engine_decoder *decoders[2];
static uint8_t packets[2][KVR_PACKET_BYTES_MAX];

static void check_request(const uint8_t *data, size_t size)
{
    struct kvr_request first, second;
    struct kvr_error error;
    size_t bytes[2];

    if (kvr_request_decode(decoders[0], data, size, &first, &error) != KVR_OK)
        return;
    if (kvr_request_encode(&first, packets[0], sizeof(packets[0]), &bytes[0]) != KVR_OK)
        return; /* our encoding of a packet from a more compact encoder may exceed the limit */
    if (kvr_request_decode(decoders[1], packets[0], bytes[0], &second, &error) != KVR_OK)
        assert(!"what was encoded cannot be decoded");
    if (kvr_request_encode(&second, packets[1], sizeof(packets[1]), &bytes[1]) != KVR_OK)
        assert(!"what was decoded cannot be encoded");
    assert(bytes[0] == bytes[1] && memcmp(packets[0], packets[1], bytes[0]) == 0);
}

static void check_notice(const uint8_t *data, size_t size)
{
    struct kvr_notice notice;
    struct kvr_error error;
    size_t bytes;

    if (kvr_notice_decode(decoders[0], data, size, &notice, &error) != KVR_OK)
        return;
    if (kvr_notice_encode(&notice, packets[0], sizeof(packets[0]), &bytes) != KVR_OK)
        return;
    if (kvr_notice_decode(decoders[1], packets[0], bytes, &notice, &error) != KVR_OK)
        assert(!"what was encoded cannot be decoded");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int i = 0; i < 2; i++) {
        if (decoders[i] == NULL)
            decoders[i] = kvr_engine_decoder_open();
    }
    check_request(data, size);
    check_notice(data, size);
    return 0;
}
