#include "tools/replay/replay_message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

bool replay_send(int socket, const struct replay_message *message)
{
    ssize_t sent;

    do {
        sent = send(socket, message, sizeof(*message), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof(*message);
}

int replay_receive(int socket, struct replay_message *ret_message)
{
    ssize_t got;

    do {
        got = recv(socket, ret_message, sizeof(*ret_message), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof(*ret_message))
        return 1;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

int replay_wait(struct pollfd *descriptors, unsigned count, kvr_ns wake_at)
{
    kvr_ns now = kvr_clock_now(), wait = wake_at > now ? wake_at - now : 0;
    struct timespec timeout = {(time_t)(wait / KVR_S), (long)(wait % KVR_S)};

    return ppoll(descriptors, count, wake_at == KVR_NEVER ? NULL : &timeout, NULL);
}

void replay_say(int socket, replay_message_kind kind, int status, const char *format, ...)
{
    struct replay_message message = {.kind = kind, .status = status};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message.text, sizeof(message.text), format, arguments);
    va_end(arguments);
    (void)replay_send(socket, &message);
}
