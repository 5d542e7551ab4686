/* kvrail-filter: its options, and its end. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/account.h"
#include "base/log.h"
#include "base/options.h"
#include "base/version.h"
#include "filter/filter_server.h"

struct config {
    char socket[PATH_MAX];
    char rail_ports[16];
    struct kvr_option_list users;
};

static const struct kvr_option options[] = {
    {.name = "socket",
     .section = "filter",
     .value = "PATH",
     .fallback = KVR_FILTER_SOCKET,
     KVR_OPTION_STRING(struct config, socket),
     .help = "Unix socket where agents attach, as their --rail-filter names it."},
    {.name = "user",
     .section = "filter",
     .value = "USER",
     .fallback = "kvrail",
     .max = FILTER_USERS_MAX,
     KVR_OPTION_LIST(struct config, users),
     .help = "A user that runs agents, by name or number. Repeat for every one. Over "
             "loopback the rails of an agent are reached by the users of the agents that are "
             "attached."},
    {.name = "rail-ports",
     .section = "filter",
     .value = "FIRST-LAST",
     KVR_OPTION_STRING(struct config, rail_ports),
     .help = "Ports that agents may close before a rail listens there: those of their "
             "--rail-ports, and no other program's. Without it a rail's port is open to all for "
             "the moment between its opening and its rule, and agents with --rail-ports are "
             "refused."},
};

static const struct kvr_command command = {
    .name = "kvrail-filter",
    .description =
        "Keeps strangers from the ports of the rails: it holds the table `inet kvrail` of this\n"
        "network namespace's packet filter, as the agents with --rail-filter ask. A rail's port\n"
        "then is reached by authenticated peers alone; over loopback by the users of agents. It\n"
        "needs the capability CAP_NET_ADMIN and nothing else, and agents need none.",
    KVR_OPTION_ROWS(options),
    .footer = "When an agent ends, its rules go; when this program ends, in any way, all go.\n"
              "`nft list table inet kvrail` shows them, with counters of refused packets.",
};

static bool ports_find(const char *text, struct filter_server_options *server)
{
    unsigned long first, last;
    char *end;

    if (text[0] == '\0')
        return true;
    first = strtoul(text, &end, 10);
    if (*end != '-')
        return false;
    last = strtoul(end + 1, &end, 10);
    server->first = (uint16_t)first;
    server->last = (uint16_t)last;
    return *end == '\0' && first >= 1024 && first <= last && last <= UINT16_MAX;
}

/* Agents that start after this unit find its socket: systemd's own protocol, sd_notify(3). */
static void ready_tell(void)
{
    static const char word[] = "READY=1";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    int fd;

    if (path == NULL || path[0] != '/' || strlen(path) >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)!sendto(fd, word, sizeof(word) - 1, MSG_NOSIGNAL, (const struct sockaddr *)&address,
                  sizeof(address));
    close(fd);
}

int main(int argc, char **argv)
{
    static struct config config;
    struct filter_server_options server_options = {.socket = config.socket};
    struct filter_server *server = NULL;
    struct kvr_error error = {0};
    sigset_t signals;
    kvr_status status;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    for (uint32_t i = 0; i < config.users.count; i++) {
        if (!kvr_user_find(config.users.items[i], &server_options.users[i]))
            return kvr_options_refuse(&command, "--user %s: this host has no such user",
                                      config.users.items[i]);
        server_options.user_count++;
    }
    if (!ports_find(config.rail_ports, &server_options))
        return kvr_options_refuse(
            &command, "--rail-ports %s: two ports from 1024 on are to stand there, as in 9500-9599",
            config.rail_ports);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    status = filter_server_open(&server_options, &server, &error);
    if (status == KVR_OK) {
        kvr_log_info("kvrail-filter %s is ready: agents at %s", KVRAIL_VERSION, config.socket);
        ready_tell();
        status = filter_server_run(server, &signals, &error);
    }
    if (status != KVR_OK)
        kvr_log_error("kvrail-filter: %s", error.detail);
    filter_server_close(server);
    kvr_log_flush();
    if (status == KVR_INVALID)
        return KVR_EXIT_USAGE;
    return status == KVR_OK ? 0 : 1;
}
