/* A GPU's copy engine, emulated: host memory behind asynchronous copies that take time, complete in
 * any order, fail, and die with their engine. For tests, the simulator, and agents on hosts without
 * a GPU (a test-only option). The device reads no clock. Its time is the argument of copy and poll,
 * so the same calls and the same seed give the same bytes on every machine. (A move sleeps for the
 * latency, because its caller waits for it.)
 *
 * A copy moves half of its pieces when it begins and the rest when it ends. A reader that does not
 * wait for the completion sees only some of them. */
#ifndef KVR_DEVICE_DEVICE_EMULATED_H
#define KVR_DEVICE_DEVICE_EMULATED_H

#include "device/device.h"

struct kvr_device_emulated_options {
    uint64_t seed;
    kvr_ns latency_ns;      /* of each copy, at least; a tenth of them take up to four times that */
    uint64_t bytes_per_us;  /* of all copies together; 0: no limit */
    uint32_t fail_promille; /* copies that fail half done */
    uint32_t copies_max;    /* 1 … KVR_DEVICE_COPIES_MAX; 0: all of them */
    bool blind;             /* the device sees no neighbour's memory */
    /* Called for every piece just before the piece is moved; may be NULL. */
    void (*moving)(void *self, kvr_device_way way, const struct kvr_device_piece *piece);
    void (*failing)(void *self); /* a copy was chosen to fail; may be NULL */
    void *self;
};

KVR_MUST_CHECK kvr_status
kvr_device_emulated_open(const struct kvr_device_emulated_options *options,
                         struct kvr_device **ret_device, struct kvr_error *error);
/* The place of a piece in host memory. */
uint8_t *kvr_device_emulated_address(const struct kvr_device_piece *piece);
/* The time at which poll has something to do next; KVR_NEVER: no copy is under way. */
kvr_ns kvr_device_emulated_next(const struct kvr_device *device);
/* The engine died: copies under way for its memory fail, and so do later copies. Any thread. */
void kvr_device_emulated_lose(struct kvr_device_memory *memory);

#endif
