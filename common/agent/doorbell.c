/* An eventfd, not a uv_async_t: libuv's loop spins while another thread is inside uv_async_send. On
 * a busy host such a thread may have lost its core, and the loop then waited up to 0.5 s. */
#include "agent/doorbell.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_ring(uv_poll_t *poll, int failed, int events)
{
    struct kvr_doorbell *doorbell = poll->data;
    uint64_t rings;

    (void)failed;
    (void)events;
    if (read(doorbell->fd, &rings, sizeof(rings)) == sizeof(rings))
        doorbell->answer(doorbell->self);
}

kvr_status kvr_doorbell_open(struct kvr_doorbell *doorbell, uv_loop_t *loop,
                             void (*answer)(void *self), void *self, struct kvr_error *error)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), failed;

    if (fd < 0)
        return kvr_error_system(error, "doorbell", errno, "no doorbell for the loop (ulimit -n?)");
    failed = uv_poll_init(loop, &doorbell->poll, fd);
    if (failed != 0) {
        close(fd);
        return kvr_error_system(error, "doorbell", -failed, "the loop's doorbell is not watched");
    }
    doorbell->poll.data = doorbell;
    doorbell->fd = fd;
    doorbell->answer = answer;
    doorbell->self = self;
    uv_poll_start(&doorbell->poll, UV_READABLE, on_ring);
    return KVR_OK;
}

void kvr_doorbell_ring(struct kvr_doorbell *doorbell)
{
    uint64_t one = 1;

    (void)!write(doorbell->fd, &one, sizeof(one)); /* full: it rings already */
}

void kvr_doorbell_close(struct kvr_doorbell *doorbell)
{
    if (doorbell->answer != NULL)
        uv_close((uv_handle_t *)&doorbell->poll, NULL);
}

void kvr_doorbell_release(struct kvr_doorbell *doorbell)
{
    if (doorbell->answer != NULL)
        close(doorbell->fd);
    doorbell->answer = NULL;
}
