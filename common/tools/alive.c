/* `kvrail alive`: whether an agent answers at its engine socket; for probes of containers. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/options.h"
#include "tools/tool.h"
#include "wire/engine_message.h"
#include "wire/packet_socket.h"

#define EXIT_SILENT 75

struct alive_options {
    kvr_ns timeout;
    struct kvr_option_list sockets;
};

static const struct kvr_option options[] = {
    {.name = "timeout",
     .section = "probe",
     .fallback = "2s",
     .min = KVR_MS,
     .max = 60 * KVR_S,
     KVR_OPTION_DURATION(struct alive_options, timeout),
     .help = "How long the answer may take."},
};

static const struct kvr_exit_code exit_codes[] = {
    {EXIT_SILENT, "the agent does not answer"},
    {0, NULL},
};

static const struct kvr_command command = {
    .name = "kvrail alive",
    .description =
        "Asks an agent at its engine socket whether it lives, and waits for the answer. The\n"
        "agent's loop gives it, so an agent that hangs or is stopped gives none. It attaches no\n"
        "engine, and needs no scheduler. It runs as the agent's user, or as root.",
    KVR_OPTION_ROWS(options),
    .arguments = "SOCKET",
    .arguments_offset = offsetof(struct alive_options, sockets),
    .arguments_min = 1,
    .arguments_max = 1,
    .exit_codes = exit_codes,
};

static kvr_status reach(const char *path, int *ret_socket, struct kvr_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (path[0] == '\0' || strlen(path) >= sizeof(address.sun_path))
        return kvr_error_set(error, KVR_INVALID, "alive",
                             "the socket's path must have 1 to %zu bytes",
                             sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kvr_error_system(error, "alive", errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        kvr_status status = kvr_error_system(error, "alive", errno, "no agent can be reached");

        close(fd);
        return status;
    }
    *ret_socket = fd;
    return KVR_OK;
}

/* A first packet that is no ATTACH: every agent answers that it refuses it. */
static kvr_status ask(int fd, struct kvr_error *error)
{
    struct kvr_request request = {.kind = KVR_REQ_DETACH};
    uint8_t packet[64];
    size_t bytes;

    KVR_TRY(kvr_request_encode(&request, packet, sizeof(packet), &bytes));
    if (kvr_packet_send(fd, packet, bytes, NULL) == KVR_OK)
        return KVR_OK;
    return kvr_error_set(error, KVR_PEER_LOST, "alive", "the agent closed the connection");
}

static kvr_status hear(int fd, kvr_ns timeout, struct kvr_error *error)
{
    static uint8_t packet[KVR_PACKET_BYTES_MAX];
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    struct kvr_packet_fds fds;
    kvr_status status;
    size_t bytes;

    if (poll(&readable, 1, (int)(timeout / KVR_MS)) == 0)
        return kvr_error_set(error, KVR_TIMED_OUT, "alive",
                             "the agent took the connection and did not answer: it hangs, or is "
                             "stopped");
    status = kvr_packet_receive(fd, packet, sizeof(packet), &bytes, &fds);
    if (status != KVR_OK)
        return kvr_error_set(error, KVR_PEER_LOST, "alive",
                             "the agent closed the connection without an answer");
    kvr_packet_fds_close(&fds);
    return KVR_OK;
}

int tool_alive_main(int argc, char **argv)
{
    struct alive_options config = {0};
    kvr_ns begin = kvr_clock_now();
    struct kvr_error error = {0};
    kvr_status status;
    int exit_status, fd = -1;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    status = reach(config.sockets.items[0], &fd, &error);
    if (status == KVR_OK)
        status = ask(fd, &error);
    if (status == KVR_OK)
        status = hear(fd, config.timeout, &error);
    if (fd >= 0)
        close(fd);
    if (status != KVR_OK) {
        fprintf(stderr, "kvrail alive: %s: %s\n", config.sockets.items[0], error.detail);
        return status == KVR_INVALID ? 2 : EXIT_SILENT;
    }
    printf("the agent answered after %.1f ms\n", (double)(kvr_clock_now() - begin) / KVR_MS);
    return 0;
}
