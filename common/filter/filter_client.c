#include "filter/filter_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#define ANSWER_NS KVR_S

void kvr_filter_client_close(struct kvr_filter_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    client->held = 0;
}

static kvr_status broken(struct kvr_filter_client *client, struct kvr_error *error, int os_errno)
{
    kvr_filter_client_close(client);
    return kvr_error_system(error, "filter", os_errno, "the connection to it has ended");
}

static kvr_status take(struct kvr_filter_client *client, const struct kvr_filter_message *message,
                       struct kvr_error *error)
{
    if (message->kind == KVR_FILTER_COUNT)
        client->refused = message->value;
    if (message->kind != KVR_FILTER_REFUSED)
        return KVR_OK;
    kvr_filter_client_close(client);
    return kvr_error_set(error, KVR_REFUSED, "filter", "it refuses this agent: %s",
                         kvr_filter_refusal_text(message->value));
}

/* One message. AGAIN: there is none now. */
static kvr_status receive(struct kvr_filter_client *client, struct kvr_filter_message *ret_message,
                          struct kvr_error *error)
{
    uint8_t bytes[KVR_FILTER_MESSAGE_BYTES];
    ssize_t got = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return KVR_AGAIN;
    if (got <= 0)
        return broken(client, error, got < 0 ? errno : ECONNRESET);
    if (got != (ssize_t)sizeof(bytes) || kvr_filter_decode(bytes, false, ret_message) != KVR_OK) {
        kvr_filter_client_close(client);
        return kvr_error_set(error, KVR_MALFORMED, "filter", "it says what cannot be decoded");
    }
    return take(client, ret_message, error);
}

static kvr_status wait_until(struct kvr_filter_client *client, short events, kvr_ns end,
                             struct kvr_error *error)
{
    struct pollfd polled = {.fd = client->fd, .events = events};
    kvr_ns now = kvr_clock_now();

    if (now >= end) {
        kvr_filter_client_close(client);
        return kvr_error_set(error, KVR_TIMED_OUT, "filter", "it does not answer");
    }
    (void)poll(&polled, 1, (int)((end - now) / KVR_MS) + 1);
    return KVR_OK;
}

/* DONE with that number. */
static kvr_status await(struct kvr_filter_client *client, uint64_t number, struct kvr_error *error)
{
    kvr_ns end = kvr_clock_now() + ANSWER_NS;
    struct kvr_filter_message message;

    for (;;) {
        kvr_status status = receive(client, &message, error);

        if (status == KVR_OK && message.kind == KVR_FILTER_DONE && message.value == number)
            return KVR_OK;
        if (status == KVR_AGAIN)
            status = wait_until(client, POLLIN, end, error);
        if (status != KVR_OK)
            return status;
    }
}

static kvr_status flush(struct kvr_filter_client *client, struct kvr_error *error)
{
    size_t bytes = (size_t)client->held * KVR_FILTER_MESSAGE_BYTES;
    kvr_ns end = kvr_clock_now() + ANSWER_NS;
    struct kvr_filter_message message;
    struct kvr_error why;

    client->held = 0;
    while (send(client->fd, client->packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        int failure = errno;

        if (failure != EAGAIN && failure != EINTR) {
            /* Its last word says why it hung up. */
            kvr_status status = receive(client, &message, &why);

            if (status != KVR_REFUSED)
                return broken(client, error, failure);
            *error = why;
            return status;
        }
        KVR_TRY(wait_until(client, POLLOUT, end, error));
    }
    return KVR_OK;
}

kvr_status kvr_filter_client_say(struct kvr_filter_client *client,
                                 const struct kvr_filter_message *message, struct kvr_error *error)
{
    kvr_filter_encode(message, client->packet + (size_t)client->held * KVR_FILTER_MESSAGE_BYTES);
    return ++client->held == KVR_FILTER_PACKET_MAX ? flush(client, error) : KVR_OK;
}

kvr_status kvr_filter_client_commit(struct kvr_filter_client *client, struct kvr_error *error)
{
    struct kvr_filter_message message = {.kind = KVR_FILTER_COMMIT, .value = ++client->commits};

    KVR_TRY(kvr_filter_client_say(client, &message, error));
    if (client->held > 0)
        KVR_TRY(flush(client, error));
    return await(client, client->commits, error);
}

kvr_status kvr_filter_client_open(const char *path, struct kvr_filter_client *client,
                                  struct kvr_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct kvr_filter_message hello = {.kind = KVR_FILTER_HELLO, .value = KVR_FILTER_VERSION};

    *client = KVR_FILTER_CLIENT_NONE;
    if (path[0] == '\0' || strlen(path) >= sizeof(address.sun_path))
        return kvr_error_set(error, KVR_INVALID, "filter",
                             "the path of its socket must have 1 to %zu bytes",
                             sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd < 0)
        return kvr_error_system(error, "filter", errno, "cannot make a socket");
    if (connect(client->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        kvr_status status = kvr_error_system(error, "filter", errno, "it cannot be reached");

        kvr_filter_client_close(client);
        return status;
    }
    KVR_TRY(kvr_filter_client_say(client, &hello, error));
    KVR_TRY(flush(client, error));
    return await(client, 0, error);
}

kvr_status kvr_filter_client_hear(struct kvr_filter_client *client, struct kvr_error *error)
{
    struct kvr_filter_message message;
    kvr_status status;

    for (unsigned i = 0; i < 64; i++) {
        status = receive(client, &message, error);
        if (status != KVR_OK)
            return status == KVR_AGAIN ? KVR_OK : status;
    }
    return KVR_OK;
}
