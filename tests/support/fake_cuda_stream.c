/* Streams, events and copies. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
    const uint64_t *until;            /* it is at least value */
    struct CUevent_st *event, *after; /* it is reached here; or has to be before */
    uint64_t number;                  /* the how manyeth recording of that event */
    uint64_t not_before;              /* microseconds */
};

struct CUstream_st {
    struct work *first, *last;
    bool awaits; /* another is run for it */
};

struct CUevent_st {
    struct CUstream_st *stream; /* where it was recorded last */
    uint64_t recorded, reached; /* times */
    bool asked;
};

/* Without a stream it is the default one. */
static CUstream stream_of(CUstream stream)
{
    static struct CUstream_st unnamed;

    return stream != NULL ? stream : &unnamed;
}

static uint64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* FAKE_CUDA_BUSY_US: how long another process keeps the GPU from each piece of work. */
static uint64_t turn_us(void)
{
    const char *busy = getenv("FAKE_CUDA_BUSY_US");

    return busy != NULL ? now_us() + strtoull(busy, NULL, 10) : 0;
}

static CUresult queue(CUstream stream, const struct work *work)
{
    struct work *copy;
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    stream = stream_of(stream);
    copy = malloc(sizeof(*copy));
    *copy = *work;
    copy->next = NULL;
    copy->not_before = turn_us();
    if (stream->last != NULL)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    return CUDA_SUCCESS;
}

/* The comparison goes round: a word is not below values that are far above it. */
static bool is_below(const struct work *work)
{
    return (int64_t)(__atomic_load_n(work->until, __ATOMIC_SEQ_CST) - work->value) < 0;
}

static void call(const struct work *work)
{
    fake_in_host_function = true;
    work->host(work->data);
    fake_in_host_function = false;
}

/* Up to a word that is still too small, unless `waits`. */
static void run(CUstream stream, bool waits)
{
    /* A stream that waits for another continues when that one runs. */
    while (stream->first != NULL && !stream->awaits) {
        struct work *work = stream->first;

        if (work->after != NULL && work->after->reached < work->number) {
            stream->awaits = true;
            run(work->after->stream, waits);
            stream->awaits = false;
            if (work->after->reached < work->number)
                return;
        }
        while (work->not_before > 0 && now_us() < work->not_before)
            if (!waits)
                return; /* else it spins, as a driver does */
        while (work->until != NULL && is_below(work)) {
            if (!waits)
                return;
            usleep(100);
        }
        stream->first = work->next;
        if (work->next == NULL)
            stream->last = NULL;
        if (work->host != NULL)
            call(work);
        else if (work->word != NULL)
            __atomic_store_n(work->word, work->value, __ATOMIC_SEQ_CST);
        else if (work->event != NULL)
            work->event->reached = work->number;
        else if (work->until == NULL && work->after == NULL)
            memcpy((void *)(uintptr_t)work->piece.to, (const void *)(uintptr_t)work->piece.from,
                   work->piece.bytes);
        free(work);
    }
}

CUresult fake_StreamCreate(CUstream *ret, unsigned flags)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (flags != CU_STREAM_NON_BLOCKING && flags != CU_STREAM_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = calloc(1, sizeof(**ret));
    return CUDA_SUCCESS;
}

CUresult fake_StreamSynchronize(CUstream stream)
{
    CUresult code = fake_ready();

    if (code == CUDA_SUCCESS)
        run(stream_of(stream), true);
    return code;
}

CUresult fake_StreamDestroy(CUstream stream)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
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

#if CUDA_VERSION >= 12080

/* FAKE_CUDA_REFUSES_BATCHES: after the first copy. */
CUresult fake_MemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *firsts,
                               size_t attribute_count, size_t *ret_failed, CUstream stream)
{
    CUresult code = CUDA_SUCCESS;

    if (count == 0 || attribute_count != 1 || firsts[0] != 0 || stream == NULL ||
        attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && code == CUDA_SUCCESS; i++) {
        *ret_failed = i;
        if (bytes[i] == 0 ||
            (!fake_is_device(from[i], bytes[i]) && !fake_is_device(to[i], bytes[i])))
            return CUDA_ERROR_INVALID_VALUE;
        code = i > 0 && getenv("FAKE_CUDA_REFUSES_BATCHES") != NULL
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : fake_queue_copy(stream, from[i], to[i], bytes[i]);
    }
    return code;
}

#endif

CUresult fake_StreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    (void)stream;
    *ret = getenv("FAKE_CUDA_CAPTURING") != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                 : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

/* A word that the GPU sees; NULL: it does not, or the word is not aligned. */
static uint64_t *word_at(CUdeviceptr address)
{
    return address % sizeof(uint64_t) == 0 ? (uint64_t *)(void *)fake_seen(address, 8) : NULL;
}

CUresult fake_StreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags)
{
    struct work work = {.word = word_at(address), .value = value};

    if (getenv("FAKE_CUDA_NO_MEMORY_OPERATIONS") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (work.word == NULL || (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return queue(stream, &work);
}

CUresult fake_StreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags)
{
    struct work work = {.until = word_at(address), .value = value};

    if (getenv("FAKE_CUDA_NO_MEMORY_OPERATIONS") != NULL ||
        ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0 && getenv("FAKE_CUDA_FLUSHES") == NULL))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (work.until == NULL ||
        (flags & ~(unsigned)CU_STREAM_WAIT_VALUE_FLUSH) != CU_STREAM_WAIT_VALUE_GEQ)
        return CUDA_ERROR_INVALID_VALUE;
    return queue(stream, &work);
}

CUresult fake_LaunchHostFunc(CUstream stream, CUhostFn host, void *data)
{
    struct work work = {.host = host, .data = data};

    return host != NULL ? queue(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_EventCreate(CUevent *ret, unsigned flags)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if ((flags & ~(unsigned)(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = calloc(1, sizeof(**ret));
    return CUDA_SUCCESS;
}

CUresult fake_EventRecord(CUevent event, CUstream stream)
{
    struct work work = {.event = event, .number = event->recorded + 1};
    CUresult code = queue(stream, &work);

    if (code == CUDA_SUCCESS) {
        event->recorded++;
        event->stream = stream_of(stream);
        event->asked = false;
    }
    return code;
}

/* Waits for the work that was recorded so far. */
CUresult fake_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    struct work work = {.after = event, .number = event->recorded};

    return flags == 0 ? queue(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_EventQuery(CUevent event)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS || event->reached == event->recorded)
        return code;
    if (event->asked)
        run(event->stream, false);
    event->asked = true;
    return event->reached == event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult fake_EventDestroy(CUevent event)
{
    free(event);
    return fake_started();
}
