/* Goal: no file makes an importer of traces read past its end, leak or take memory without bound,
 * and every accepted request keeps the promises of trace_file.h. Method: each file is read as every
 * format; one that begins as a compressed one is. */
#include <stdint.h>
#include <stdlib.h>

#include "trace/trace_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void leave_out(void *self, const char *sentence)
{
    (void)self;
    if (sentence[0] == '\0')
        abort();
}

static void read_as(kvr_trace_format format, const uint8_t *data, size_t size)
{
    struct kvr_error error = {0};
    struct kvr_trace_wrong wrong = {.say = leave_out};
    struct kvr_trace trace;

    kvr_trace_init(&trace);
    if (kvr_trace_read_bytes(data, size, "fuzz", format, 1000, size % 2 == 0 ? &wrong : NULL,
                             &trace, &error) == KVR_OK) {
        if (trace.request_count == 0 || trace.requests[0].at != 0)
            abort();
        for (uint32_t i = 0; i < trace.request_count; i++) {
            const struct kvr_trace_request *request = &trace.requests[i];
            uint32_t blocks =
                (request->input_tokens + KVR_TRACE_BLOCK_TOKENS - 1) / KVR_TRACE_BLOCK_TOKENS;

            if (request->input_tokens == 0 || request->block_count != blocks ||
                request->block_first + blocks > trace.block_count)
                abort();
        }
    } else if (error.detail[0] == '\0') {
        abort();
    }
    kvr_trace_done(&trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int format = 0; format < KVR_TRACE_FORMAT_END; format++)
        read_as((kvr_trace_format)format, data, size);
    return 0;
}
