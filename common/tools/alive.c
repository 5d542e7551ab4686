/* `kvrail alive`: whether an agent answers at its engine socket; for probes of containers. */
#include <stdio.h>
#include <unistd.h>

#include "base/options.h"
#include "tools/agent_ask.h"
#include "tools/tool.h"

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

int tool_alive_main(int argc, char **argv)
{
    static uint8_t packet[KVR_PACKET_BYTES_MAX];
    struct alive_options config = {0};
    kvr_ns begin = kvr_clock_now();
    struct kvr_error error = {0};
    kvr_status status;
    int exit_status, fd = -1;
    size_t bytes;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    /* A first packet that is no ATTACH: every agent answers that it refuses it. */
    status = agent_ask(config.sockets.items[0], KVR_REQ_DETACH, &fd, &error);
    if (status == KVR_OK)
        status = agent_hear(fd, config.timeout, packet, &bytes, &error);
    if (fd >= 0)
        close(fd);
    if (status != KVR_OK) {
        fprintf(stderr, "kvrail alive: %s: %s\n", config.sockets.items[0], error.detail);
        return status == KVR_INVALID ? 2 : EXIT_SILENT;
    }
    printf("the agent answered after %.1f ms\n", (double)(kvr_clock_now() - begin) / KVR_MS);
    return 0;
}
