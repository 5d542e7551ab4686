/* Goal: no file makes an importer of traces read past its end, leak or take memory without bound,
 * and every accepted request keeps the promises of trace_file.h. Method: each file is read as every
 * format. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/trace_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(kvr_trace_format format, const uint8_t *data, size_t size)
{
    struct kvr_error error = {0};
    struct kvr_trace trace;
    FILE *stream;

    if (size == 0 || (stream = fmemopen((void *)(uintptr_t)data, size, "r")) == NULL)
        return;
    kvr_trace_init(&trace);
    if (kvr_trace_read_stream(stream, "fuzz", format, 1000, &trace, &error) == KVR_OK) {
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
    fclose(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_as(KVR_TRACE_MOONCAKE, data, size);
    read_as(KVR_TRACE_AZURE, data, size);
    read_as(KVR_TRACE_BURSTGPT, data, size);
    return 0;
}
