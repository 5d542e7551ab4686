/* Readiness words that a GPU raises: by kernels, and in the order of a stream. */
#include "client/client.h"

#include <stdlib.h>

#ifdef KVRAIL_HAVE_CUDA

#include "client/client_gpu.h"

kvrail_status client_cuda(struct kvrail *client, const struct kvr_cuda **ret_cuda)
{
    kvrail_status status = client_usable(client);
    struct kvr_error reason;

    if (status != KVRAIL_OK)
        return status;
    return kvr_cuda_open(ret_cuda, &reason) == KVR_OK
               ? KVRAIL_OK
               : client_fail(client, reason.status, "%s", reason.detail);
}

kvrail_status client_cuda_check(struct kvrail *client, const struct kvr_cuda *cuda, CUresult code,
                                const char *what)
{
    struct kvr_error reason;

    return kvr_cuda_check(cuda, code, &reason, what) == KVR_OK
               ? KVRAIL_OK
               : client_fail(client, reason.status, "%s", reason.detail);
}

kvrail_status client_queue_by_host(const struct kvr_cuda *cuda, CUstream stream, CUhostFn run,
                                   const struct client_host_call *call)
{
    struct client_host_call *own = malloc(sizeof(*own));
    kvrail_status status;

    if (own == NULL)
        return client_fail(call->client, KVR_NO_MEMORY, "no memory for a host function");
    *own = *call;
    status = client_cuda_check(call->client, cuda, cuda->LaunchHostFunc(stream, run, own),
                               "a host function in the stream");
    if (status != KVRAIL_OK)
        free(own);
    return status;
}

CUresult client_lend_page(struct kvrail *client, const struct kvr_cuda *cuda)
{
    CUdeviceptr address = 0;
    CUresult code;

    if (client->page_on_device != 0)
        return CUDA_SUCCESS;
    code = cuda->MemHostRegister(client->page, sizeof(*client->page),
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (code != CUDA_SUCCESS)
        return code;
    code = cuda->MemHostGetDevicePointer(&address, client->page, 0);
    if (code != CUDA_SUCCESS) {
        (void)cuda->MemHostUnregister(client->page);
        return code;
    }
    client->page_on_device = address;
    (void)cuda->CtxGetCurrent((CUcontext *)&client->page_context);
    return CUDA_SUCCESS;
}

kvrail_status client_uncaptured(struct kvrail *client, const struct kvr_cuda *cuda, CUstream stream,
                                const char *advice)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    kvrail_status status = client_cuda_check(
        client, cuda, cuda->StreamIsCapturing(stream, &capture), "the state of a stream");

    if (status != KVRAIL_OK || capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return status;
    return client_fail(client, KVR_UNSUPPORTED,
                       "the stream is captured: each launch of the graph would name the same "
                       "value, and a word only grows. %s",
                       advice);
}

/* Announces to the agent that a word may rise without a ring of the doorbell. */
static CUresult lend_words(struct kvrail *client, const struct kvr_cuda *cuda)
{
    CUresult code = client_lend_page(client, cuda);

    if (code != CUDA_SUCCESS || client->streamed)
        return code;
    client->streamed = true;
    atomic_store(&client->page->streamed, 1);
    client_ring(client);
    return CUDA_SUCCESS;
}

static uint64_t words_address(const struct kvrail *client)
{
    return client->page_on_device + offsetof(struct kvr_shared_page, words);
}

kvrail_status kvrail_words_on_device(struct kvrail *connection, uint64_t *ret_address)
{
    const struct kvr_cuda *cuda;
    kvrail_status status = client_cuda(connection, &cuda);

    if (status == KVRAIL_OK)
        status = client_cuda_check(connection, cuda, lend_words(connection, cuda), CLIENT_LEND);
    if (status == KVRAIL_OK)
        *ret_address = words_address(connection);
    return status;
}

static void CUDA_CB store_by_host(void *self)
{
    struct client_host_call *store = self;

    (void)kvrail_ready(store->client, store->word,
                       store->value); /* fails only if the agent has ended */
    free(store);
}

static kvrail_status queue_store(struct kvrail *client, const struct kvr_cuda *cuda, uint32_t word,
                                 uint64_t value, CUstream stream, kvrail_store *ret_store)
{
    CUresult code = lend_words(client, cuda);
    kvrail_status status;

    if (code == CUDA_SUCCESS)
        code = cuda->StreamWriteValue64(
            stream, words_address(client) + word * sizeof(client->page->words[0]), value,
            CU_STREAM_WRITE_VALUE_DEFAULT);
    if (code == CUDA_SUCCESS) {
        *ret_store = KVRAIL_STORE_GPU;
        return KVRAIL_OK;
    }
    if (code != CUDA_ERROR_NOT_SUPPORTED)
        return client_cuda_check(client, cuda, code, "to store a readiness word in stream order");
    status = client_queue_by_host(cuda, stream, store_by_host,
                                  &(struct client_host_call){client, word, value});
    if (status == KVRAIL_OK)
        *ret_store = KVRAIL_STORE_HOST;
    return status;
}

kvrail_status kvrail_ready_on_stream(struct kvrail *connection, uint32_t word, uint64_t value,
                                     void *stream, kvrail_store *ret_store)
{
    kvrail_store store = KVRAIL_STORE_GPU;
    const struct kvr_cuda *cuda;
    kvrail_status status = client_usable(connection);

    if (status != KVRAIL_OK)
        return status;
    if (word >= KVR_WORDS_MAX || value < atomic_load(&connection->page->words[word]))
        return client_fail(connection, KVR_INVALID, "word %u is one of %d and only grows", word,
                           KVR_WORDS_MAX);
    status = client_cuda(connection, &cuda);
    if (status == KVRAIL_OK)
        status = client_uncaptured(connection, cuda, stream,
                                   "Let a kernel of the graph raise it (kvrail_words_on_device)");
    if (status == KVRAIL_OK)
        status = queue_store(connection, cuda, word, value, stream, &store);
    if (status == KVRAIL_OK && ret_store != NULL)
        *ret_store = store;
    return status;
}

/* The thread that closes need not be one that uses the GPU: the page is taken back in the context
 * that was current when it was lent. */
void client_words_close(struct kvrail *client)
{
    const struct kvr_cuda *cuda;
    CUcontext current = NULL;

    if (client->page_on_device == 0 || kvr_cuda_open(&cuda, NULL) != KVR_OK)
        return;
    (void)cuda->CtxGetCurrent(&current);
    if (cuda->CtxSetCurrent(client->page_context) == CUDA_SUCCESS)
        (void)cuda->MemHostUnregister(client->page);
    (void)cuda->CtxSetCurrent(current);
}

#else

kvrail_status kvrail_words_on_device(struct kvrail *connection, uint64_t *ret_address)
{
    (void)ret_address;
    return client_fail(connection, KVR_UNSUPPORTED, CLIENT_NO_CUDA);
}

kvrail_status kvrail_ready_on_stream(struct kvrail *connection, uint32_t word, uint64_t value,
                                     void *stream, kvrail_store *ret_store)
{
    (void)word, (void)value, (void)stream, (void)ret_store;
    return client_fail(connection, KVR_UNSUPPORTED, CLIENT_NO_CUDA);
}

void client_words_close(struct kvrail *client)
{
    (void)client;
}

#endif
