/* A GPU's copy engine, emulated: host memory behind asynchronous copies that take time, come in any
 * order, fail, and die with their engine. For tests, the simulator, and agents on hosts without a
 * GPU (a test-only option). It reads no clock: time is what copy and poll are told, so that the
 * same calls and the same seed give the same bytes on every machine. (A move, which its caller
 * waits for, sleeps for the latency.)
 *
 * A copy moves half of its pieces when it begins and the rest when it ends: who looks at the bytes
 * before the completion sees some of them. */
#ifndef KVR_DEVICE_DEVICE_EMULATED_H
#define KVR_DEVICE_DEVICE_EMULATED_H

#include "device/device.h"

struct kvr_device_emulated_options {
    uint64_t seed;
    kvr_ns latency_ns;      /* of each copy, at least; a tenth of them take up to four times that */
    uint64_t bytes_per_us;  /* of all copies together; 0: no limit */
    uint32_t fail_promille; /* copies that fail half done */
    uint32_t copies_max;    /* 1 … KVR_DEVICE_COPIES_MAX; 0: all of them */
    bool blind;             /* it sees no neighbour's memory */
    /* Told of every piece just before it is moved; may be NULL. */
    void (*moving)(void *self, kvr_device_way way, const struct kvr_device_piece *piece);
    void (*failing)(void *self); /* a copy was chosen to fail; may be NULL */
    void *self;
};

KVR_MUST_CHECK kvr_status
kvr_device_emulated_open(const struct kvr_device_emulated_options *options,
                         struct kvr_device **ret_device, struct kvr_error *error);
/* Where a piece lies in host memory. */
uint8_t *kvr_device_emulated_address(const struct kvr_device_piece *piece);
/* When poll has something to do next; KVR_NEVER: nothing is under way. */
kvr_ns kvr_device_emulated_next(const struct kvr_device *device);
/* Its engine died: what is under way for it fails, and later copies too. Any thread. */
void kvr_device_emulated_lose(struct kvr_device_memory *memory);

#endif
