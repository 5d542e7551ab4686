/* Writes of cards to a GPU that sees them after a flush alone: the flush comes before every event
 * that announces bytes. The agent flushes before it raises landed words and sends such notices; but
 * CUDA names the context that owns the memory, and that is the engine's. */
#include "client/client.h"

#include <stdio.h>

#ifdef KVRAIL_HAVE_CUDA

#include "client/client_gpu.h"

kvr_write_order client_flush_open(struct kvrail *client, int32_t ordinal)
{
    const struct kvr_cuda *cuda;
    kvr_write_order order;
    CUcontext context;
    CUdevice device;

    if (kvr_cuda_open(&cuda, NULL) != KVR_OK || cuda->DeviceGet(&device, ordinal) != CUDA_SUCCESS)
        return KVR_ORDER_UNKNOWN;
    order = kvr_cuda_write_order(cuda, device);
    if (order != KVR_ORDER_FLUSHED || client->flush_context != NULL)
        return order;
    if (cuda->DevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return KVR_ORDER_NONE;
    client->flush_context = context;
    client->flush_device = device;
    return order;
}

static kvr_status flush(const struct kvrail *client, struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUcontext before = NULL;
    kvr_status status;

    KVR_TRY(kvr_cuda_open(&cuda, error));
    (void)cuda->CtxGetCurrent(&before);
    KVR_TRY(kvr_cuda_check(cuda, cuda->CtxSetCurrent(client->flush_context), error,
                           "to use the GPU's context"));
    status = kvr_cuda_flush_writes(cuda, error);
    (void)cuda->CtxSetCurrent(before);
    return status;
}

void client_flush_close(struct kvrail *client)
{
    const struct kvr_cuda *cuda;

    if (client->flush_context != NULL && kvr_cuda_open(&cuda, NULL) == KVR_OK)
        (void)cuda->DevicePrimaryCtxRelease(client->flush_device);
    client->flush_context = NULL;
}

#else

kvr_write_order client_flush_open(struct kvrail *client, int32_t ordinal)
{
    (void)client, (void)ordinal;
    return KVR_ORDER_UNKNOWN;
}

static kvr_status flush(const struct kvrail *client, struct kvr_error *error)
{
    (void)client, (void)error;
    return KVR_OK;
}

void client_flush_close(struct kvrail *client)
{
    (void)client;
}

#endif

static bool announces(kvr_notice_kind kind)
{
    return kind == KVR_NOTICE_LAYER_IN || kind == KVR_NOTICE_DONE || kind == KVR_NOTICE_FAILED ||
           kind == KVR_NOTICE_CANCELLED || kind == KVR_NOTICE_EXPIRED;
}

bool client_flush_before(struct kvrail *client, struct kvr_notice *notice)
{
    const struct client_handle *entry;
    struct kvr_error error;

    if (client->flush_context == NULL || !announces(notice->kind))
        return true;
    entry = client_find(client, notice->handle);
    if (entry == NULL || flush(client, &error) == KVR_OK)
        return true;
    if (notice->kind == KVR_NOTICE_LAYER_IN)
        return false;
    if (notice->kind == KVR_NOTICE_DONE) {
        notice->kind = KVR_NOTICE_FAILED;
        notice->status = KVR_COPY_FAILED;
        snprintf(notice->detail, sizeof(notice->detail), "%s", error.detail);
    }
    notice->token_first = entry->skip_tokens;
    notice->token_end = entry->tokens;
    return true;
}
