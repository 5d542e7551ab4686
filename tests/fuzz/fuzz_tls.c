/* TLS on the control channel fed with bytes, at the server's or the client's side: no crash, no
 * endless loop, no plaintext without a handshake. The first byte chooses the side, the second how
 * long the pieces are. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/support/fuzz_credentials.h"
#include "tls/tls_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kvr_tls_stream_options options = {.roles = UINT32_MAX};
    struct kvr_tls_stream *stream;
    kvr_status status = KVR_AGAIN;
    size_t step, waiting;

    if (size < 2)
        return 0;
    options.server = data[0] & 1;
    options.credentials = fuzz_credentials(options.server);
    step = 1 + data[1] * (size_t)data[1];
    if (kvr_tls_stream_open(&options, &stream, NULL) != KVR_OK)
        abort();
    (void)!kvr_tls_stream_handshake(stream, NULL);
    for (size_t at = 2; at < size && status == KVR_AGAIN; at += step) {
        kvr_tls_stream_feed(stream, data + at, size - at < step ? size - at : step);
        status = kvr_tls_stream_handshake(stream, NULL);
        (void)kvr_tls_stream_output(stream, &waiting);
        assert(waiting <= KVR_TLS_OUTPUT_BYTES);
        kvr_tls_stream_sent(stream, waiting);
    }
    /* Bytes alone, without keys, never finish a handshake. */
    assert(status != KVR_OK && kvr_tls_stream_peer(stream) == NULL);
    kvr_tls_stream_close(stream);
    return 0;
}
