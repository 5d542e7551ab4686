/* The end of an agent with the engines that started it: they hold a named pipe open, and the kernel
 * closes it with them, however they end. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_state.h"

/* False: no process holds the other end. Nothing need be written; what is, is thrown away. */
static bool is_held(int fd)
{
    char bytes[256];
    ssize_t got;

    do
        got = read(fd, bytes, sizeof(bytes));
    while (got > 0 || (got < 0 && errno == EINTR));
    return got < 0;
}

static void on_pipe(uv_poll_t *poll, int status, int events)
{
    struct kvr_agent *agent = poll->data;

    (void)status;
    (void)events;
    if (is_held(agent->lifeline.fd))
        return;
    uv_poll_stop(poll);
    if (!agent->draining)
        agent_drain(agent, "no engine holds --lifeline");
}

static kvr_status watch(struct kvr_agent *agent, int fd, struct kvr_error *error)
{
    const char *path = agent->config->lifeline;
    struct stat state;

    if (fstat(fd, &state) != 0 || !S_ISFIFO(state.st_mode))
        return kvr_error_set(error, KVR_INVALID, "start", "--lifeline %s is no named pipe: mkfifo",
                             path);
    if (!is_held(fd))
        return kvr_error_set(error, KVR_SYSTEM, "start",
                             "no process holds --lifeline %s open: leave the option away for an "
                             "agent that no engine starts",
                             path);
    if (uv_poll_init(&agent->loop, &agent->lifeline.poll, fd) != 0)
        return kvr_error_set(error, KVR_SYSTEM, "start", "--lifeline %s cannot be watched", path);
    agent->lifeline.fd = fd;
    agent->lifeline.watched = true;
    agent->lifeline.poll.data = agent;
    uv_poll_start(&agent->lifeline.poll, UV_READABLE, on_pipe);
    return KVR_OK;
}

kvr_status agent_lifeline_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const char *path = agent->config->lifeline;
    kvr_status status;
    int fd;

    if (path[0] == '\0')
        return KVR_OK;
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return kvr_error_system(error, "start", errno, "--lifeline %s cannot be opened", path);
    status = watch(agent, fd, error);
    if (status != KVR_OK)
        close(fd);
    return status;
}

static void on_closed(uv_handle_t *handle)
{
    struct kvr_agent *agent = handle->data;

    close(agent->lifeline.fd);
}

void agent_lifeline_close(struct kvr_agent *agent)
{
    if (agent->lifeline.watched)
        uv_close((uv_handle_t *)&agent->lifeline.poll, on_closed);
}
