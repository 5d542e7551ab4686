#include "tools/replay/replay_processes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/replay/replay_engine.h"

static const char *const roles[REPLAY_ROLES] = {"source", "target"};

static kvr_role role_of(const struct replay_router *router, uint32_t at)
{
    return router->setup->agents.items[at].role;
}

/* Never returns. The engine ends with its router, whatever ends that. */
static void be_engine(struct replay_router *router, uint32_t at, int socket)
{
    bool source = role_of(router, at) == KVR_ROLE_SOURCE;

    signal(SIGINT, SIG_IGN); /* the router hears of it, and cancels */
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, source ? "replay-source" : "replay-target");
    for (uint32_t i = 0; i < router->engine_count; i++)
        if (i != at && router->engines[i].socket >= 0)
            close(router->engines[i].socket);
    _exit(source ? replay_source_run(router->setup, at, socket)
                 : replay_target_run(router->setup, at, socket));
}

bool replay_process_start(struct replay_router *router, uint32_t at)
{
    struct replay_engine_process *engine = &router->engines[at];
    int sockets[2];

    *engine = (struct replay_engine_process){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        perror("kvrail replay: socketpair");
        return false;
    }
    fflush(NULL);
    engine->pid = fork();
    if (engine->pid == 0) {
        close(sockets[0]);
        be_engine(router, at, sockets[1]);
    }
    close(sockets[1]);
    engine->socket = sockets[0];
    if (engine->pid > 0)
        return true;
    perror("kvrail replay: fork");
    return false;
}

bool replay_processes_start(struct replay_router *router)
{
    uint32_t count = replay_agent_count(&router->setup->agents);

    while (router->engine_count < count)
        if (!replay_process_start(router, router->engine_count++))
            return false;
    return true;
}

/* A reader of the file would wait for ever. */
bool replay_processes_write(const struct replay_router *router, FILE *pids)
{
    if (pids == NULL)
        return true;
    for (uint32_t i = 0; i < router->engine_count; i++)
        fprintf(pids, "%s %d\n", roles[role_of(router, i)], (int)router->engines[i].pid);
    if (fclose(pids) == 0)
        return true;
    fprintf(stderr, "kvrail replay: %s cannot be written: %s\n", router->setup->options.pid_file,
            strerror(errno));
    return false;
}

void replay_process_kill(struct replay_router *router, uint32_t at)
{
    struct replay_engine_process *engine = &router->engines[at];

    if (engine->pid <= 0)
        return;
    kill(engine->pid, SIGKILL); /* one that has ended is not hurt */
    (void)waitpid(engine->pid, NULL, 0);
    engine->pid = 0;
}

void replay_processes_end(struct replay_router *router)
{
    for (uint32_t i = 0; i < router->engine_count; i++) {
        if (router->engines[i].socket >= 0)
            close(router->engines[i].socket);
        replay_process_kill(router, i);
    }
}
