#include "tools/bench/bench_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/interrupt.h"

#define END_TRIES 300 /* of 10 ms */

bool bench_child_start(struct bench_child *child, const char *role, bench_child_main *run,
                       void *self)
{
    pid_t parent = getpid();
    int sockets[2];

    child->role = role;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        perror("kvrail bench: socketpair");
        return false;
    }
    (void)fflush(NULL);
    child->pid = fork();
    if (child->pid < 0) {
        perror("kvrail bench: fork");
        child->pid = 0;
        close(sockets[0]);
        close(sockets[1]);
        return false;
    }
    if (child->pid == 0) {
        /* The conductor ends it; ^C reaches the whole group and must not end it half-way. */
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_DFL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(sockets[0]);
        if (getppid() == parent)
            run(self, sockets[1]);
        _exit(0);
    }
    close(sockets[1]);
    child->socket = sockets[0];
    return true;
}

static void await_end(pid_t pid)
{
    int tries = 0;

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (++tries == END_TRIES)
            (void)kill(pid, SIGKILL);
        (void)poll(NULL, 0, 10);
    }
}

void bench_process_stop(pid_t *pid)
{
    if (*pid != 0 && kill(*pid, SIGTERM) == 0)
        await_end(*pid);
    *pid = 0;
}

void bench_child_stop(struct bench_child *child)
{
    if (child->pid == 0)
        return;
    (void)shutdown(child->socket, SHUT_RDWR); /* later children have the descriptor too */
    close(child->socket);
    await_end(child->pid);
    child->pid = 0;
}

static bool complain(const struct bench_child *child, const char *what)
{
    fprintf(stderr, "kvrail bench: the %s %s\n", child->role, what);
    return false;
}

bool bench_child_result(struct bench_child *child, kvr_ns timeout, struct bench_result *ret_result)
{
    struct pollfd descriptor = {.fd = child->socket, .events = POLLIN};
    ssize_t got;
    int ready = poll(&descriptor, 1, (int)(timeout / KVR_MS));

    if (interrupts() > 0)
        return complain(child, "is stopped: interrupted");
    if (ready <= 0)
        return complain(child, "does not answer");
    got = recv(child->socket, ret_result, sizeof(*ret_result), 0);
    if (got != (ssize_t)sizeof(*ret_result))
        return complain(child, "ended by itself");
    return ret_result->failed ? complain(child, ret_result->problem) : true;
}

bool bench_child_order(struct bench_child *child, const struct bench_order *order)
{
    return send(child->socket, order, sizeof(*order), MSG_NOSIGNAL) == (ssize_t)sizeof(*order) ||
           complain(child, "has ended");
}

static bool order_take(int socket, struct bench_order *ret_order)
{
    ssize_t got;

    do {
        got = recv(socket, ret_order, sizeof(*ret_order), 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(*ret_order);
}

static bool result_send(int socket, const struct bench_result *result)
{
    return send(socket, result, sizeof(*result), MSG_NOSIGNAL) == (ssize_t)sizeof(*result);
}

void bench_child_serve(int socket, struct bench_result *result, bench_child_turn *turn, void *self)
{
    struct bench_order order;

    while (result_send(socket, result) && !result->failed && order_take(socket, &order)) {
        *result = (struct bench_result){0};
        turn(self, &order, result);
    }
}

void bench_problem(struct bench_result *result, const char *format, ...)
{
    va_list arguments;

    if (result->failed)
        return; /* the first one is the cause */
    result->failed = true;
    va_start(arguments, format);
    vsnprintf(result->problem, sizeof(result->problem), format, arguments);
    va_end(arguments);
}

kvr_ns bench_cpu_time(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (kvr_ns)used.tv_sec * KVR_S + (kvr_ns)used.tv_nsec;
}

void bench_sleep(kvr_ns time)
{
    const struct timespec pause = {.tv_sec = (time_t)(time / KVR_S),
                                   .tv_nsec = (long)(time % KVR_S)};

    (void)nanosleep(&pause, NULL);
}
