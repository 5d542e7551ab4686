/* Landed words: the agent raises a word of the shared page as layers of a fetch land, so that a
 * decode stream can wait for them without a thread. */
#include "client/client.h"

#include <stdlib.h>
#include <time.h>

static void raise_to(const struct kvrail *client, uint32_t word, uint64_t value)
{
    _Atomic uint64_t *landed = &client->page->landed[word];
    uint64_t was = atomic_load(landed);

    while (was < value && !atomic_compare_exchange_weak(landed, &was, value))
        continue;
}

void client_landed_fail(const struct kvrail *client, const struct client_handle *entry)
{
    if (entry->watched)
        raise_to(client, entry->landed_word, entry->landed_base + KVR_LANDED_FAILED);
}

kvrail_status kvrail_target_watch(struct kvrail *connection, kvrail_handle target, uint32_t word,
                                  uint64_t base)
{
    struct kvr_request request = {.kind = KVR_REQ_WATCH, .handle = target};
    kvrail_status status;
    struct client_handle *entry = client_entry(connection, target, CLIENT_TARGET, &status);

    if (entry == NULL)
        return status;
    if (word >= KVR_WORDS_MAX || base > UINT64_MAX / 2 || base < kvrail_landed(connection, word))
        return client_fail(connection, KVR_INVALID,
                           "word %u is not below %d, or base %llu is below the word's value", word,
                           KVR_WORDS_MAX, (unsigned long long)base);
    if (entry->watched)
        return client_fail(connection, KVR_EXISTS, "word %u announces this fetch's layers already",
                           entry->landed_word);
    request.watch = (struct kvr_req_watch){.word = word, .base = base};
    status = client_send(connection, &request);
    if (status != KVRAIL_OK)
        return status;
    entry->watched = true;
    entry->landed_word = word;
    entry->landed_base = base;
    return KVRAIL_OK;
}

uint64_t kvrail_landed(const struct kvrail *connection, uint32_t word)
{
    return word < KVR_WORDS_MAX ? atomic_load(&connection->page->landed[word]) : 0;
}

#ifdef KVRAIL_HAVE_CUDA

#include "client/client_gpu.h"

#define LOOK_NS 20000 /* how often a host function looks */

static uint64_t landed_address(const struct kvrail *client)
{
    return client->page_on_device + offsetof(struct kvr_shared_page, landed);
}

kvrail_status kvrail_landed_on_device(struct kvrail *connection, uint64_t *ret_address)
{
    const struct kvr_cuda *cuda;
    kvrail_status status = client_cuda(connection, &cuda);

    if (status == KVRAIL_OK)
        status =
            client_cuda_check(connection, cuda, client_lend_page(connection, cuda), CLIENT_LEND);
    if (status == KVRAIL_OK)
        *ret_address = landed_address(connection);
    return status;
}

static void CUDA_CB wait_by_host(void *self)
{
    struct client_host_call *wait = self;
    struct timespec pause = {.tv_nsec = LOOK_NS};

    while (kvrail_landed(wait->client, wait->word) < wait->value)
        nanosleep(&pause, NULL);
    free(wait);
}

/* After the wait the GPU must see the bytes that cards wrote before the word rose. Where the GPU
 * can, a flush follows the wait. */
static unsigned wait_flags(const struct kvr_cuda *cuda)
{
    CUdevice device;
    int can = 0;

    if (cuda->CtxGetDevice(&device) != CUDA_SUCCESS ||
        cuda->DeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, device) !=
            CUDA_SUCCESS ||
        !can)
        return CU_STREAM_WAIT_VALUE_GEQ;
    return CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH;
}

static kvrail_status queue_wait(struct kvrail *client, const struct kvr_cuda *cuda, uint32_t word,
                                uint64_t value, CUstream stream, kvrail_store *ret_by)
{
    CUresult code = client_lend_page(client, cuda);
    kvrail_status status;

    if (code == CUDA_SUCCESS)
        code = cuda->StreamWaitValue64(
            stream, landed_address(client) + word * sizeof(client->page->landed[0]), value,
            wait_flags(cuda));
    if (code == CUDA_SUCCESS) {
        *ret_by = KVRAIL_STORE_GPU;
        return KVRAIL_OK;
    }
    if (code != CUDA_ERROR_NOT_SUPPORTED)
        return client_cuda_check(client, cuda, code, "to wait for layers in stream order");
    status = client_queue_by_host(cuda, stream, wait_by_host,
                                  &(struct client_host_call){client, word, value});
    if (status == KVRAIL_OK)
        *ret_by = KVRAIL_STORE_HOST;
    return status;
}

kvrail_status kvrail_landed_on_stream(struct kvrail *connection, uint32_t word, uint64_t value,
                                      void *stream, kvrail_store *ret_by)
{
    kvrail_store by = KVRAIL_STORE_GPU;
    const struct kvr_cuda *cuda;
    kvrail_status status = client_cuda(connection, &cuda);

    if (status != KVRAIL_OK)
        return status;
    if (word >= KVR_WORDS_MAX)
        return client_fail(connection, KVR_INVALID, "word %u is not below %d", word, KVR_WORDS_MAX);
    status = client_uncaptured(connection, cuda, stream,
                               "Let a kernel of the graph wait (kvrail_landed_on_device)");
    if (status == KVRAIL_OK)
        status = queue_wait(connection, cuda, word, value, stream, &by);
    if (status == KVRAIL_OK && ret_by != NULL)
        *ret_by = by;
    return status;
}

#else

kvrail_status kvrail_landed_on_device(struct kvrail *connection, uint64_t *ret_address)
{
    (void)ret_address;
    return client_fail(connection, KVR_UNSUPPORTED, CLIENT_NO_CUDA);
}

kvrail_status kvrail_landed_on_stream(struct kvrail *connection, uint32_t word, uint64_t value,
                                      void *stream, kvrail_store *ret_by)
{
    (void)word, (void)value, (void)stream, (void)ret_by;
    return client_fail(connection, KVR_UNSUPPORTED, CLIENT_NO_CUDA);
}

#endif
