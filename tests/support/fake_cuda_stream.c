/* Streams, events and copies. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_cuda.h"

/* ---- streams ------------------------------------------------------------------------------- */

struct work {
    struct work *next;
    struct {
        uint64_t from, to, bytes;
    } piece;
    CUhostFn host;
    void *data;
    uint64_t *word, value;
    const uint64_t *until; /* it is at least value */
    struct CUevent_st *event;
};

struct CUstream_st {
    struct work *first, *last;
};

struct CUevent_st {
    struct CUstream_st *stream; /* it was recorded there and not reached; NULL */
    bool asked;
};

static CUresult queue(CUstream stream, const struct work *work)
{
    struct work *copy = malloc(sizeof(*copy));

    if (fake_context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *copy = *work;
    copy->next = NULL;
    if (stream->last != NULL)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    return CUDA_SUCCESS;
}

/* Up to a word that is still too small, unless `waits`. */
static void run(CUstream stream, bool waits)
{
    while (stream->first != NULL) {
        struct work *work = stream->first;

        while (work->until != NULL &&
               __atomic_load_n(work->until, __ATOMIC_SEQ_CST) < work->value) {
            if (!waits)
                return;
            usleep(100);
        }
        stream->first = work->next;
        if (work->next == NULL)
            stream->last = NULL;
        if (work->host != NULL)
            work->host(work->data);
        else if (work->word != NULL)
            __atomic_store_n(work->word, work->value, __ATOMIC_SEQ_CST);
        else if (work->event != NULL)
            work->event->stream = NULL;
        else if (work->until == NULL)
            memcpy((void *)(uintptr_t)work->piece.to, (const void *)(uintptr_t)work->piece.from,
                   work->piece.bytes);
        free(work);
    }
}

CUresult fake_StreamCreate(CUstream *ret, unsigned flags)
{
    (void)flags;
    *ret = calloc(1, sizeof(**ret));
    return fake_context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_StreamSynchronize(CUstream stream)
{
    run(stream, true);
    return CUDA_SUCCESS;
}

CUresult fake_StreamDestroy(CUstream stream)
{
    run(stream, true);
    free(stream);
    return CUDA_SUCCESS;
}

CUresult fake_queue_copy(CUstream stream, uint64_t from, uint64_t to, uint64_t bytes)
{
    struct work work = {.piece = {.from = from, .to = to, .bytes = bytes}};

    return queue(stream, &work);
}

CUresult fake_MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return fake_is_device(to, bytes) ? fake_queue_copy(stream, (uintptr_t)from, to, bytes)
                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return fake_is_device(from, bytes) ? fake_queue_copy(stream, from, (uintptr_t)to, bytes)
                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return fake_is_device(from, bytes) && fake_is_device(to, bytes)
               ? fake_queue_copy(stream, from, to, bytes)
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_StreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    (void)stream;
    *ret = getenv("FAKE_CUDA_CAPTURING") != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                 : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult fake_StreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags)
{
    struct work work = {.word = (uint64_t *)(uintptr_t)address, .value = value};

    (void)flags;
    if (getenv("FAKE_CUDA_NO_MEMORY_OPERATIONS") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    return queue(stream, &work);
}

CUresult fake_StreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags)
{
    struct work work = {.until = (const uint64_t *)(uintptr_t)address, .value = value};

    if (getenv("FAKE_CUDA_NO_MEMORY_OPERATIONS") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~(unsigned)CU_STREAM_WAIT_VALUE_FLUSH) != CU_STREAM_WAIT_VALUE_GEQ)
        return CUDA_ERROR_INVALID_VALUE;
    return queue(stream, &work);
}

CUresult fake_LaunchHostFunc(CUstream stream, CUhostFn host, void *data)
{
    struct work work = {.host = host, .data = data};

    return queue(stream, &work);
}

CUresult fake_EventCreate(CUevent *ret, unsigned flags)
{
    (void)flags;
    *ret = calloc(1, sizeof(**ret));
    return CUDA_SUCCESS;
}

CUresult fake_EventRecord(CUevent event, CUstream stream)
{
    struct work work = {.event = event};

    event->stream = stream;
    event->asked = false;
    return queue(stream, &work);
}

CUresult fake_EventQuery(CUevent event)
{
    if (event->stream == NULL)
        return CUDA_SUCCESS;
    if (event->asked)
        run(event->stream, false);
    event->asked = true;
    return event->stream == NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult fake_EventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}
