/* Other threads ring a doorbell, and a loop answers. One answer may stand for any number of rings.
 * The answer sees all that a thread did before its ring. */
#ifndef KVR_AGENT_DOORBELL_H
#define KVR_AGENT_DOORBELL_H

#include <uv.h>

#include "base/status.h"

struct kvr_doorbell {
    uv_poll_t poll;
    int fd; /* an eventfd */
    void (*answer)(void *self);
    void *self;
};

kvr_status kvr_doorbell_open(struct kvr_doorbell *doorbell, uv_loop_t *loop,
                             void (*answer)(void *self), void *self, struct kvr_error *error);
/* From any thread, from open until release. */
void kvr_doorbell_ring(struct kvr_doorbell *doorbell);
/* The loop answers no more rings. Called on the loop. A doorbell of zeros was never opened: nothing
 * happens. */
void kvr_doorbell_close(struct kvr_doorbell *doorbell);
/* After close, when the loop has ended and no thread rings. */
void kvr_doorbell_release(struct kvr_doorbell *doorbell);

#endif
