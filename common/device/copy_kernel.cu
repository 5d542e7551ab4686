/* Moves many pieces by one launch: block (x, y) moves every y-th slice of pieces x, x + gridDim.x,
 * …
 *
 * Either end may be pinned host memory or the GPU's own; the addresses decide. Where both ends have
 * the same place within 16 bytes, on all pages, whole 16-byte words move, several at once. */
#include "copy_kernel.h"

template <typename word>
static __device__ void copy_words(const char *from, char *to, unsigned long long count)
{
    const word *source = reinterpret_cast<const word *>(from);
    word *target = reinterpret_cast<word *>(to);
    unsigned long long i = threadIdx.x;

    for (; i + 3 * KVR_COPY_THREADS < count; i += 4 * KVR_COPY_THREADS) {
        word a = source[i], b = source[i + KVR_COPY_THREADS], c = source[i + 2 * KVR_COPY_THREADS],
             d = source[i + 3 * KVR_COPY_THREADS];

        target[i] = a;
        target[i + KVR_COPY_THREADS] = b;
        target[i + 2 * KVR_COPY_THREADS] = c;
        target[i + 3 * KVR_COPY_THREADS] = d;
    }
    for (; i < count; i += KVR_COPY_THREADS)
        target[i] = source[i];
}

/* Bytes up to the next multiple of the word, then words, then the remaining bytes. */
template <typename word>
static __device__ void copy_aligned(const char *from, char *to, unsigned long long bytes)
{
    unsigned long long head = (0ull - reinterpret_cast<unsigned long long>(from)) % sizeof(word);
    unsigned long long words;

    if (head > bytes)
        head = bytes;
    words = (bytes - head) / sizeof(word);
    copy_words<char>(from, to, head);
    copy_words<word>(from + head, to + head, words);
    head += words * sizeof(word);
    copy_words<char>(from + head, to + head, bytes - head);
}

static __device__ void copy_slice(const char *from, char *to, unsigned long long bytes)
{
    unsigned long long apart = reinterpret_cast<unsigned long long>(from) ^
                               reinterpret_cast<unsigned long long>(to);

    if (apart % 16 == 0)
        copy_aligned<uint4>(from, to, bytes);
    else if (apart % 4 == 0)
        copy_aligned<unsigned int>(from, to, bytes);
    else
        copy_words<char>(from, to, bytes);
}

extern "C" __global__ void __launch_bounds__(KVR_COPY_THREADS)
    kvr_copy_pieces(const struct kvr_copy_piece *pieces, unsigned int piece_count)
{
    for (unsigned int i = blockIdx.x; i < piece_count; i += gridDim.x) {
        struct kvr_copy_piece piece = pieces[i];

        for (unsigned long long at = (unsigned long long)blockIdx.y * KVR_COPY_SLICE_BYTES;
             at < piece.bytes; at += (unsigned long long)gridDim.y * KVR_COPY_SLICE_BYTES) {
            unsigned long long bytes = piece.bytes - at;

            if (bytes > KVR_COPY_SLICE_BYTES)
                bytes = KVR_COPY_SLICE_BYTES;
            copy_slice(reinterpret_cast<const char *>(piece.from) + at,
                       reinterpret_cast<char *>(piece.to) + at, bytes);
        }
    }
}
