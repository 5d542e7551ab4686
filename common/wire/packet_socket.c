#include "wire/packet_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* As much as any message can bring: one that is cut off is so for want of descriptors. */
#define SCM_FDS_MAX 253

union control {
    char bytes[CMSG_SPACE(SCM_FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

static void attach_fds(struct msghdr *message, union control *control,
                       const struct kvr_packet_fds *fds)
{
    size_t bytes = fds->count * sizeof(int);

    memset(control, 0, CMSG_SPACE(bytes));
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(bytes);
    control->align.cmsg_level = SOL_SOCKET;
    control->align.cmsg_type = SCM_RIGHTS;
    control->align.cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(&control->align), fds->fds, bytes);
}

kvr_status kvr_packet_send(int socket, const uint8_t *packet, size_t bytes,
                           const struct kvr_packet_fds *fds)
{
    struct iovec vector = {.iov_base = (void *)(uintptr_t)packet, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    union control control;
    ssize_t sent;

    if (fds != NULL && fds->count > 0)
        attach_fds(&message, &control, fds);
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return KVR_OK;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM ||
        errno == ETOOMANYREFS)
        return KVR_AGAIN;
    return errno == EMSGSIZE ? KVR_TOO_LARGE : KVR_PEER_LOST;
}

#define SEND_BUFFER_MIN 4608 /* no socket has less (SOCK_MIN_SNDBUF) */
#define PACKET_OVERHEAD 32   /* of it, beside a packet's bytes */

kvr_status kvr_packet_check(int socket, size_t bytes, struct kvr_error *error)
{
    int buffer = 0;
    socklen_t size = sizeof(buffer);

    if (bytes + PACKET_OVERHEAD <= SEND_BUFFER_MIN ||
        getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, &size) != 0 ||
        bytes + PACKET_OVERHEAD <= (size_t)buffer)
        return KVR_OK;
    return kvr_error_set(error, KVR_TOO_LARGE, "packet",
                         "a packet of %zu bytes is larger than the socket takes at once, which has "
                         "a send buffer of %d bytes: raise net.core.wmem_default to 131072",
                         bytes, buffer);
}

static kvr_status collect_fds(struct msghdr *message, struct kvr_packet_fds *fds)
{
    kvr_status status = (message->msg_flags & MSG_CTRUNC) == 0 ? KVR_OK : KVR_FULL;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        size_t count;

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
            if (fds->count < KVR_PACKET_FDS_MAX) {
                fds->fds[fds->count++] = fd;
                continue;
            }
            close(fd);
            status = KVR_MALFORMED;
        }
    }
    return (message->msg_flags & MSG_TRUNC) == 0 ? status : KVR_MALFORMED;
}

/* A peer that closed with our packets unread leaves one ECONNRESET before what it sent. */
static ssize_t receive_message(int socket, struct msghdr *message)
{
    for (int tries = 0;; tries++) {
        ssize_t received = recvmsg(socket, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (received >= 0 || tries > 100)
            return received;
        if (errno != EINTR && errno != ECONNRESET)
            return received;
    }
}

/* Linux looks for a packet, and then whether the peer has closed. A peer that sends its last packet
 * and closes between the two looks gone, and the packet lies there. */
static ssize_t receive_last(int socket, struct msghdr *message, union control *control)
{
    ssize_t received = receive_message(socket, message);

    if (received != 0 || message->msg_controllen != 0)
        return received;
    message->msg_controllen = sizeof(control->bytes);
    received = receive_message(socket, message);
    if (received >= 0)
        return received;
    message->msg_controllen = 0;
    return 0;
}

kvr_status kvr_packet_receive(int socket, uint8_t *packet, size_t capacity, size_t *ret_bytes,
                              struct kvr_packet_fds *ret_fds)
{
    struct iovec vector = {.iov_base = packet, .iov_len = capacity};
    union control control;
    struct msghdr message = {
        .msg_iov = &vector,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t received = receive_last(socket, &message, &control);
    kvr_status status;

    ret_fds->count = 0;
    if (received < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? KVR_AGAIN : KVR_PEER_LOST;
    status = collect_fds(&message, ret_fds);
    if (status != KVR_OK) {
        kvr_packet_fds_close(ret_fds);
        return status;
    }
    if (received == 0 && ret_fds->count == 0)
        return KVR_PEER_LOST;
    *ret_bytes = (size_t)received;
    return KVR_OK;
}

void kvr_packet_fds_close(struct kvr_packet_fds *fds)
{
    while (fds->count > 0)
        close(fds->fds[--fds->count]);
}
