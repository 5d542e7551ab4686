/* The contract between kvrail and a device that holds an engine's pages outside of host memory.
 *
 *   device   one GPU as this process reaches it, or a substitute: imports memory, copies
 *   memory   an imported region of an engine; released before its device closes
 *   copy     many pieces between memory and host bytes, by one call; asynchronous, one completion
 *
 * An accepted copy has exactly one completion, whatever happens. Until then the device may read and
 * write all of its pieces; afterwards none. Its pieces are moved in any order. If the copy fails,
 * any part of them may have been moved. Copies may overtake each other.
 *
 * Threads: import, release, pin and unpin from any thread; copy, poll and move from one thread, the
 * rail group's. Only open, import, pin, move and close may block. */
#ifndef KVR_DEVICE_DEVICE_H
#define KVR_DEVICE_DEVICE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/extents.h"
#include "base/status.h"
#include "base/types.h"

#define KVR_DEVICE_PIECES_MAX KVR_STAGED_PIECES_MAX /* pieces of one copy */
#define KVR_DEVICE_COPIES_MAX 64                    /* copies accepted and not completed */

struct kvr_device;
struct kvr_device_memory;

typedef enum kvr_device_kind {
    KVR_DEVICE_MAPPED, /* memory of this process at `address`: host memory or the memory of a GPU.
                          The caller owns it until release */
    KVR_DEVICE_MEMFD,  /* host memory by descriptor */
    KVR_DEVICE_DMABUF, /* device memory by dmabuf descriptor */
    KVR_DEVICE_IPC,    /* device memory by the 64-byte handle of CUDA */
    KVR_DEVICE_VMM,    /* device memory by the POSIX descriptor of a VMM allocation */
} kvr_device_kind;

struct kvr_device_dmabuf {
    int fd;
    uint64_t offset; /* of byte 0 of the region */
};

/* The memory that an engine gave. Descriptors are borrowed for the call. */
struct kvr_device_import {
    kvr_device_kind kind;
    int fd;
    struct kvr_extents *extents; /* VMM: several allocations, in place of fd; NULL: one */
    void *address;
    uint8_t ipc[64];
    uint64_t offset; /* of byte 0 of the region, in the memory of the descriptor, of the handle or
                        of the first extent */
    uint64_t bytes;
    const struct kvr_device_dmabuf *dmabuf; /* the owner's, of the same memory; NULL: none */
    bool for_cards; /* cards may take a dmabuf: the owner's, or one that the device makes */
    bool neighbour; /* only a source of moves: any GPU that this GPU reaches may hold it */
};

/* The ways to register the memory with a network card, without a copy. */
struct kvr_device_hint {
    bool addressable; /* `address` is a device pointer of this process (FI_HMEM) */
    uint64_t address; /* of byte 0 of the region */
    int dmabuf;       /* FI_MR_DMABUF; belongs to the memory; -1: none */
    uint64_t dmabuf_offset;
    int32_t ordinal;    /* of the device */
    bool not_for_cards; /* the driver says that cards may not reach it */
};

typedef enum kvr_device_way {
    KVR_DEVICE_GATHER,  /* from memory to host bytes */
    KVR_DEVICE_SCATTER, /* from host bytes to memory */
} kvr_device_way;

struct kvr_device_piece {
    struct kvr_device_memory *memory;
    uint64_t offset; /* in the memory */
    uint8_t *host;   /* inside pinned host bytes */
    uint64_t bytes;
};

/* Between two memories of one device; the source may be a neighbour's memory. */
struct kvr_device_move {
    struct kvr_device_memory *source, *target;
    uint64_t source_offset, target_offset, bytes;
};

struct kvr_device_copied {
    uint64_t token;
    kvr_status status; /* KVR_OK, or why bytes may be missing */
};

struct kvr_device_ops {
    const char *name; /* "host", "emulated", "cuda" */
    /* INVALID with a sentence when descriptor, offset and size do not fit together, UNSUPPORTED for
     * a kind that this device cannot import. */
    kvr_status (*import)(struct kvr_device *device, const struct kvr_device_import *import,
                         struct kvr_device_memory **ret_memory, struct kvr_error *error);
    void (*release)(struct kvr_device *device, struct kvr_device_memory *memory);
    struct kvr_device_hint (*hint)(const struct kvr_device_memory *memory);

    /* Host bytes that copies may name become page-locked and known to the device. */
    kvr_status (*pin)(struct kvr_device *device, void *base, uint64_t bytes,
                      struct kvr_error *error);
    void (*unpin)(struct kvr_device *device, void *base);

    /* KVR_AGAIN: no room for another copy. INVALID: a piece lies outside its memory, or there are
     * no pieces or too many. KVR_COPY_FAILED: the device takes no more copies. With each of these
     * the device accepts no piece. The pieces are borrowed for the call. */
    kvr_status (*copy)(struct kvr_device *device, kvr_ns now, kvr_device_way way,
                       const struct kvr_device_piece *pieces, uint32_t piece_count, uint64_t token);
    /* Completions, at most `capacity`. */
    unsigned (*poll)(struct kvr_device *device, kvr_ns now, struct kvr_device_copied *ret_copied,
                     unsigned capacity);
    /* Moves pieces, in any order, and waits for them: at the return no move is under way. INVALID:
     * a piece lies outside its memory. COPY_FAILED: any part may have been moved. No pieces is
     * fine. */
    kvr_status (*move)(struct kvr_device *device, const struct kvr_device_move *pieces,
                       uint32_t piece_count);
    /* Where `order` is FLUSHED; else it may be NULL. What cards had written to the device's memory
     * before the call is visible to the device afterwards. The thread of copies. Microseconds. */
    kvr_status (*flush)(struct kvr_device *device);
    /* Waits for copies under way. The device's memories were released before. */
    void (*close)(struct kvr_device *device);
};

/* The head of every device. */
struct kvr_device {
    const struct kvr_device_ops *ops;
    int32_t ordinal; /* -1: host memory */
    /* A copy should not be much larger: the call itself makes the copy, and its caller waits. 0:
     * copies are asynchronous. */
    uint64_t copy_bytes;
    kvr_write_order order;   /* of writes of cards to the device's memory */
    struct kvr_error slower; /* KVR_OK, or why copies take a slower way than this build has; for the
                                program to log */
    uint64_t held_bytes;     /* of the GPU's memory, for this process alone: about; 0: not known */
    const char *copier;      /* what makes copies, for the program to log; NULL: nothing to say */
};

/* The head of every memory. */
struct kvr_device_memory {
    uint64_t bytes;
};

/* The number of copies that are worth having under way. */
static inline uint32_t kvr_device_copies(const struct kvr_device *device)
{
    return device->copy_bytes != 0 ? 2 : KVR_DEVICE_COPIES_MAX;
}

static inline void kvr_device_close(struct kvr_device *device) /* NULL is fine */
{
    if (device != NULL)
        device->ops->close(device);
}

/* False: a piece lies outside its memory, or there are no pieces or too many. */
static inline bool kvr_device_pieces_fit(const struct kvr_device_piece *pieces,
                                         uint32_t piece_count)
{
    for (uint32_t i = 0; i < piece_count; i++)
        if (pieces[i].bytes > pieces[i].memory->bytes ||
            pieces[i].offset > pieces[i].memory->bytes - pieces[i].bytes)
            return false;
    return piece_count > 0 && piece_count <= KVR_DEVICE_PIECES_MAX;
}

/* False: a piece lies outside its memory. */
static inline bool kvr_device_moves_fit(const struct kvr_device_move *pieces, uint32_t piece_count)
{
    for (uint32_t i = 0; i < piece_count; i++)
        if (pieces[i].bytes > pieces[i].source->bytes ||
            pieces[i].bytes > pieces[i].target->bytes ||
            pieces[i].source_offset > pieces[i].source->bytes - pieces[i].bytes ||
            pieces[i].target_offset > pieces[i].target->bytes - pieces[i].bytes)
            return false;
    return true;
}

/* Host memory as a device: the call makes the copy, and the next poll reports it. Small pieces of
 * host memory are gathered with this device, and the cost of a copy is measured with it. */
KVR_MUST_CHECK kvr_status kvr_device_host_open(struct kvr_device **ret_device,
                                               struct kvr_error *error);

#endif
