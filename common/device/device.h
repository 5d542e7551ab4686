/* The contract between kvrail and what holds an engine's pages outside of host memory.
 *
 *   device   one GPU as this process reaches it, or what stands in for one: imports memory, copies
 *   memory   a region of an engine, imported; outlives nothing of its device
 *   copy     many pieces between memory and host bytes, by one call; asynchronous, one completion
 *
 * A copy that was accepted has exactly one completion, whatever happens. Until then the device may
 * read and write all of its pieces; afterwards none. Its pieces are moved in any order, and of one
 * that fails any part may have been moved. Copies may overtake each other.
 *
 * Threads: import, release, pin and unpin from any; copy, poll and move from one thread, the rail
 * group's. Nothing waits but open, import, pin, move and close. */
#ifndef KVR_DEVICE_DEVICE_H
#define KVR_DEVICE_DEVICE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/extents.h"
#include "base/status.h"
#include "base/types.h"

#define KVR_DEVICE_PIECES_MAX KVR_STAGED_PIECES_MAX /* of one copy */
#define KVR_DEVICE_COPIES_MAX 64                    /* accepted and not completed */

struct kvr_device;
struct kvr_device_memory;

typedef enum kvr_device_kind {
    KVR_DEVICE_MAPPED, /* memory of this process at `address`, the caller's until release: host
                          memory, or of a GPU its own */
    KVR_DEVICE_MEMFD,  /* host memory by descriptor */
    KVR_DEVICE_DMABUF, /* device memory by dmabuf descriptor */
    KVR_DEVICE_IPC,    /* device memory by the 64-byte handle of CUDA */
    KVR_DEVICE_VMM,    /* device memory by the POSIX descriptor of a VMM allocation */
} kvr_device_kind;

/* What an engine gave. Descriptors are borrowed for the call. */
struct kvr_device_import {
    kvr_device_kind kind;
    int fd;
    struct kvr_extents *extents; /* VMM: of several allocations, in place of fd; NULL: of one */
    void *address;
    uint8_t ipc[64];
    uint64_t offset; /* of byte 0 of the region in the descriptor's, the handle's or the first
                        extent's memory */
    uint64_t bytes;
    bool for_cards; /* some may take a dmabuf: make one if it can be had */
    bool neighbour; /* only moved from: it may be of any GPU that this one reaches */
};

/* How a network card could be told of the memory, without a copy. */
struct kvr_device_hint {
    bool addressable; /* `address` is a device pointer of this process (FI_HMEM) */
    uint64_t address; /* of byte 0 of the region */
    int dmabuf;       /* FI_MR_DMABUF; the memory's own; -1: none */
    uint64_t dmabuf_offset;
    int32_t ordinal; /* of the device */
};

typedef enum kvr_device_way {
    KVR_DEVICE_GATHER,  /* from memory to host bytes */
    KVR_DEVICE_SCATTER, /* from host bytes to memory */
} kvr_device_way;

struct kvr_device_piece {
    struct kvr_device_memory *memory;
    uint64_t offset; /* in it */
    uint8_t *host;   /* inside what was pinned */
    uint64_t bytes;
};

/* Between two memories of one device; the source's may be a neighbour's. */
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

    /* Host bytes that copies may name: page-locked and known to the device. */
    kvr_status (*pin)(struct kvr_device *device, void *base, uint64_t bytes,
                      struct kvr_error *error);
    void (*unpin)(struct kvr_device *device, void *base);

    /* KVR_AGAIN: no room for another copy. INVALID: a piece lies outside its memory, or there are
     * none or too many. KVR_COPY_FAILED: the device takes no copies any more. None of them is
     * accepted. The pieces are borrowed for the call. */
    kvr_status (*copy)(struct kvr_device *device, kvr_ns now, kvr_device_way way,
                       const struct kvr_device_piece *pieces, uint32_t piece_count, uint64_t token);
    /* Completions, at most `capacity`. */
    unsigned (*poll)(struct kvr_device *device, kvr_ns now, struct kvr_device_copied *ret_copied,
                     unsigned capacity);
    /* Moves pieces, in any order, and waits for them: when it returns, nothing of them is under
     * way. INVALID: a piece lies outside its memory. COPY_FAILED: any part may have been moved. No
     * piece is fine. */
    kvr_status (*move)(struct kvr_device *device, const struct kvr_device_move *pieces,
                       uint32_t piece_count);
    /* Waits for what is under way; its memories are released. */
    void (*close)(struct kvr_device *device);
};

/* The head of every device. */
struct kvr_device {
    const struct kvr_device_ops *ops;
    int32_t ordinal; /* -1: host memory */
    /* One copy should not be much larger: it is made by the call, and holds its caller up. 0: it is
     * not. */
    uint64_t copy_bytes;
};

/* The head of every memory. */
struct kvr_device_memory {
    uint64_t bytes;
};

/* How many copies are worth having under way. */
static inline uint32_t kvr_device_copies(const struct kvr_device *device)
{
    return device->copy_bytes != 0 ? 2 : KVR_DEVICE_COPIES_MAX;
}

static inline void kvr_device_close(struct kvr_device *device) /* NULL is fine */
{
    if (device != NULL)
        device->ops->close(device);
}

/* False: a piece lies outside its memory, or there are none or too many. */
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

/* The device that is host memory: a copy is made by the call, and told by the next poll. What small
 * pieces of host memory are gathered with, and the measure of what a copy costs. */
KVR_MUST_CHECK kvr_status kvr_device_host_open(struct kvr_device **ret_device,
                                               struct kvr_error *error);

#endif
