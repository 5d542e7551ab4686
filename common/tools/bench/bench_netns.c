#include "tools/bench/bench_netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/bench_child.h"

#define SCRIPT_BYTES 16384

/* What ip or tc is to do, one command a line. */
struct script {
    char text[SCRIPT_BYTES];
    size_t bytes;
};

static void add(struct script *script, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct script *script, const char *format, ...)
{
    size_t room = sizeof(script->text) - script->bytes;
    va_list arguments;
    int written;

    va_start(arguments, format);
    written = vsnprintf(script->text + script->bytes, room, format, arguments);
    va_end(arguments);
    if (written > 0 && (size_t)written < room)
        script->bytes += (size_t)written;
}

/* space: a process in the network namespace, 0: ours. True: the program ended in 0. */
static bool run(const char *program, const char *option, pid_t space, const struct script *script)
{
    char path[64];
    int input[2], status = -1;
    pid_t pid;

    if (pipe2(input, O_CLOEXEC) != 0)
        return false;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)space);
        if ((space != 0 && setns(open(path, O_RDONLY | O_CLOEXEC), CLONE_NEWNET) != 0) ||
            dup2(input[0], STDIN_FILENO) < 0)
            _exit(126);
        if (script == NULL) /* only whether it is there */
            (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        execlp(program, program, option, script != NULL ? "-" : NULL, NULL);
        _exit(127);
    }
    close(input[0]);
    if (pid > 0 && script != NULL &&
        write(input[1], script->text, script->bytes) != (ssize_t)script->bytes)
        fprintf(stderr, "kvrail bench: %s ended early\n", program);
    close(input[1]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool batch(const char *program, pid_t space, const struct script *script)
{
    if (run(program, "-batch", space, script))
        return true;
    fprintf(stderr, "kvrail bench: %s could not lay the rails\n", program);
    return false;
}

static bool file_write(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool good = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

    if (file >= 0)
        close(file);
    return good;
}

/* Makes the current user root of a user namespace. */
static bool become_root(void)
{
    char uids[64], gids[64];

    snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
    snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
           file_write("/proc/self/setgroups", "deny") && file_write("/proc/self/uid_map", uids) &&
           file_write("/proc/self/gid_map", gids);
}

/* A process in a namespace of its own, which forwards packets. */
static bool space_open(pid_t *ret_pid)
{
    int ready[2];
    char byte = 0;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return false;
    (void)fflush(NULL);
    *ret_pid = fork();
    if (*ret_pid == 0) {
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_DFL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        byte = unshare(CLONE_NEWNET) == 0 && file_write("/proc/sys/net/ipv4/ip_forward", "1");
        (void)!write(ready[1], &byte, 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (*ret_pid < 0)
        *ret_pid = 0;
    if (*ret_pid == 0 || read(ready[0], &byte, 1) != 1)
        byte = 0;
    close(ready[0]);
    return byte == 1;
}

/* One side's rails: a veth pair each, an own table of routes each, so that packets from a rail's
 * address leave over that rail. net: of their addresses; end: name of the switch's ends. */
static void side_lay(struct script *here, struct script *there, unsigned count, unsigned net,
                     char end, pid_t exchange)
{
    add(here, "link set lo up\n");
    for (unsigned i = 1; i <= count; i++) {
        add(here, "link add rail%u type veth peer name %c%u netns %d\n", i, end, i, (int)exchange);
        add(here, "address add 10.%u.%u.1/24 dev rail%u\nlink set rail%u up\n", net, i, i, i);
        add(there, "address add 10.%u.%u.254/24 dev %c%u\nlink set %c%u up\n", net, i, end, i, end,
            i);
        add(here, "route add default via 10.%u.%u.254 table %u\n", net, i, i);
        add(here, "rule add from 10.%u.%u.1 table %u\n", net, i, i);
    }
    add(here, "route add default via 10.%u.1.254\n", net);
}

static bool cables_lay(const struct bench_netns *netns, const struct bench_netns_options *options)
{
    static struct script source, target, source_ends, target_ends;

    source.bytes = target.bytes = source_ends.bytes = target_ends.bytes = 0;
    add(&source, "link add control type veth peer name control netns %d\n", (int)netns->target);
    add(&source, "address add 10.80.0.1/24 dev control\nlink set control up\n");
    add(&target, "address add 10.80.0.2/24 dev control\nlink set control up\n");
    side_lay(&source, &source_ends, options->source_count, 78, 's', netns->exchange);
    side_lay(&target, &target_ends, options->target_count, 79, 't', netns->exchange);
    return batch("ip", 0, &source) && batch("ip", netns->exchange, &source_ends) &&
           batch("ip", netns->target, &target) && batch("ip", netns->exchange, &target_ends);
}

/* What the switch gets from a rail goes to its partner alone; or to none. */
static void end_isolate(struct script *script, char end, uint32_t rail, uint32_t partner)
{
    bool source = end == 's';
    unsigned table = (source ? 101 : 201) + rail;

    add(script, "rule add iif %c%u table %u\n", end, rail + 1, table);
    add(script, "route add blackhole default table %u\n", table);
    if (partner != BENCH_RAIL_NONE)
        add(script, "route add 10.%u.%u.0/24 dev %c%u table %u\n", source ? 79 : 78, partner + 1,
            source ? 't' : 's', partner + 1, table);
}

static bool planes_isolate(const struct bench_netns *netns, const struct bench_rails *rails)
{
    static struct script exchange;

    exchange.bytes = 0;
    for (uint32_t i = 0; i < rails->source_count; i++)
        end_isolate(&exchange, 's', i, bench_rails_partner(rails, true, i));
    for (uint32_t j = 0; j < rails->target_count; j++)
        end_isolate(&exchange, 't', j, bench_rails_partner(rails, false, j));
    return batch("ip", netns->exchange, &exchange);
}

static void cap(struct script *script, const char *name, unsigned number, unsigned mbits)
{
    add(script, "qdisc add dev %s%u root tbf rate %umbit burst 256kb latency 20ms\n", name, number,
        mbits);
}

/* Both ends of every cable. */
static bool cables_cap(const struct bench_netns *netns, const struct bench_netns_options *options)
{
    static struct script source, target, exchange;

    source.bytes = target.bytes = exchange.bytes = 0;
    for (unsigned i = 1; i <= options->source_count; i++) {
        bool slow = options->slow_mbits > 0 && i == options->source_count;
        unsigned mbits = slow ? options->slow_mbits : options->rail_mbits;

        cap(&source, "rail", i, mbits);
        cap(&exchange, "s", i, mbits);
    }
    for (unsigned j = 1; j <= options->target_count; j++) {
        cap(&target, "rail", j, options->rail_mbits);
        cap(&exchange, "t", j, options->rail_mbits);
    }
    return batch("tc", 0, &source) && batch("tc", netns->target, &target) &&
           batch("tc", netns->exchange, &exchange);
}

static void rails_name(const struct bench_netns_options *options, struct bench_rails *rails)
{
    *rails = (struct bench_rails){.source_count = options->source_count,
                                  .target_count = options->target_count,
                                  .control = "10.80.0.1"};
    for (unsigned i = 0; i < options->source_count; i++)
        snprintf(rails->source[i], sizeof(rails->source[i]), "10.78.%u.1", i + 1);
    for (unsigned j = 0; j < options->target_count; j++)
        snprintf(rails->target[j], sizeof(rails->target[j]), "10.79.%u.1", j + 1);
    if (options->planes[0] == 0)
        return;
    for (unsigned i = 0; i < options->source_count; i++)
        rails->source_planes[i] = i + 1;
    memcpy(rails->target_planes, options->planes, sizeof(rails->target_planes));
}

static bool own_space(void)
{
    return unshare(CLONE_NEWNET) == 0;
}

static const struct way {
    bool (*enter)(void);
    const char *text, *refused;
} ways[] = {
    {own_space, "veth pairs in network namespaces", "network namespaces"},
    {become_root, "veth pairs in network namespaces of a user namespace", "user namespaces"},
};
#define WAYS     (sizeof(ways) / sizeof(ways[0]))
#define NO_RAILS 255 /* entered, but ip or tc could not lay them; else an errno */

static bool lay(struct bench_netns *netns, const struct bench_netns_options *options,
                struct bench_rails *ret_rails)
{
    char path[64];

    if (!space_open(&netns->target) || !space_open(&netns->exchange)) {
        fprintf(stderr, "kvrail bench: no network namespace for the target and the switch\n");
        return false;
    }
    rails_name(options, ret_rails);
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)netns->target);
    ret_rails->target_space = open(path, O_RDONLY | O_CLOEXEC);
    return ret_rails->target_space >= 0 && cables_lay(netns, options) &&
           cables_cap(netns, options) &&
           (options->planes[0] == 0 || planes_isolate(netns, ret_rails));
}

/* There is no way back from a namespace, and some machines let one in and then allow nothing there:
 * a child goes first. 0: it holds. */
static int rehearse(const struct way *way, const struct bench_netns_options *options)
{
    pid_t pid;
    int status = 0;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct bench_netns netns = {0};
        struct bench_rails rails;
        bool good;

        (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        if (!way->enter())
            _exit(errno != 0 ? errno : EPERM);
        good = lay(&netns, options, &rails);
        bench_process_stop(&netns.target);
        bench_process_stop(&netns.exchange);
        _exit(good ? 0 : NO_RAILS);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return NO_RAILS;
    return WEXITSTATUS(status);
}

static void say_refused(struct bench_netns *netns, const int why[WAYS])
{
    size_t used = (size_t)snprintf(netns->way, sizeof(netns->way), "loopback addresses, uncapped:");

    for (size_t i = 0; i < WAYS && used < sizeof(netns->way); i++)
        used += (size_t)snprintf(netns->way + used, sizeof(netns->way) - used, "%s %s: %s",
                                 i > 0 ? ";" : "", ways[i].refused,
                                 why[i] == NO_RAILS ? "ip and tc may lay no rails there"
                                 : why[i] == ENOSPC ? "none is left (user.max_user_namespaces)"
                                                    : strerror(why[i]));
}

bool bench_netns_open(struct bench_netns *netns, const struct bench_netns_options *options,
                      struct bench_rails *ret_rails)
{
    int why[WAYS] = {0};

    bench_rails_loopback(ret_rails, "tcp", options->source_count, options->target_count);
    if (!run("ip", "-V", 0, NULL) || !run("tc", "-V", 0, NULL)) {
        snprintf(netns->way, sizeof(netns->way),
                 "loopback addresses, uncapped: iproute2 (ip and tc) is not installed");
        if (options->planes[0] != 0)
            fprintf(stderr, "kvrail bench: no planes on %s\n", netns->way);
        return options->planes[0] == 0;
    }
    for (size_t i = 0; i < WAYS; i++) {
        why[i] = rehearse(&ways[i], options);
        if (why[i] != 0)
            continue;
        snprintf(netns->way, sizeof(netns->way), "%s", ways[i].text);
        return ways[i].enter() && lay(netns, options, ret_rails);
    }
    say_refused(netns, why);
    if (options->planes[0] != 0)
        fprintf(stderr, "kvrail bench: no planes on %s\n", netns->way);
    return options->planes[0] == 0;
}

void bench_netns_close(struct bench_netns *netns, struct bench_rails *rails)
{
    if (rails->target_space > 0)
        close(rails->target_space);
    bench_process_stop(&netns->target);
    bench_process_stop(&netns->exchange);
}
