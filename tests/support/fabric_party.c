#include "tests/support/fabric_party.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fabric_party_side.h"

#define CONTROL_FD 3
#define SHARED_FD  4

unsigned party_patience(void)
{
    const char *patience = getenv("KVRAIL_PATIENCE");
    int factor = patience != NULL ? atoi(patience) : 1;

    return factor > 0 ? (unsigned)factor : 1;
}

void party_main(int argc, char **argv)
{
    struct party party = {.side = 1};
    struct party_command command = {.verb = PARTY_OPEN};

    if (argc < 2 || strcmp(argv[1], "--party") != 0)
        return;
    party.shared =
        mmap(NULL, sizeof(*party.shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    assert(party.shared != MAP_FAILED);
    kvr_fabric_of(party.shared->provider, &party.fabric);
    while (command.verb != PARTY_QUIT) {
        struct party_answer answer;
        ssize_t got = recv(CONTROL_FD, &command, sizeof(command), MSG_DONTWAIT);

        if (got == sizeof(command)) {
            answer = party_run(&party, &command);
            if (send(CONTROL_FD, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
                break;
        } else if (got == 0 || (got < 0 && errno != EAGAIN)) {
            break;
        } else if (party.rail_count > 0) {
            party_step(&party);
        }
    }
    party_close_rails(&party);
    exit(0);
}

/* A new process image without the descriptors of this one: libfabric's sockets carry no CLOEXEC,
 * and a child that holds them would keep dead connections alive. */
static void spawn(struct party *party)
{
    int sockets[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0)
        abort();
    party->child = fork();
    assert(party->child >= 0);
    if (party->child == 0) {
        char *const arguments[] = {(char *)"party", (char *)"--party", NULL};
        int control = dup(sockets[1]), shared = dup(party->shared_fd);

        /* Both are above the two places, which may be in use. */
        control = dup2(control, 100);
        shared = dup2(shared, 101);
        dup2(control, CONTROL_FD);
        dup2(shared, SHARED_FD);
        close_range(SHARED_FD + 1, ~0u, 0);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(sockets[1]);
    party->control = sockets[0];
}

struct party_answer party_do(struct party *party, int side, const struct party_command *command)
{
    struct party_answer answer = {.status = KVR_PEER_LOST};
    kvr_ns deadline = kvr_clock_now() + party_step_ns();

    if (side == 0)
        return party_run(party, command);
    if (send(party->control, command, sizeof(*command), MSG_NOSIGNAL) < 0)
        return answer;
    while (kvr_clock_now() < deadline) {
        ssize_t got = recv(party->control, &answer, sizeof(answer), MSG_DONTWAIT);

        if (got == (ssize_t)sizeof(answer) || got == 0)
            return answer;
        party_step(party);
    }
    answer.status = KVR_TIMED_OUT;
    return answer;
}

bool party_wait(struct party *party, const _Atomic uint64_t *counter, uint64_t value,
                uint32_t wait_ms)
{
    kvr_ns deadline = kvr_clock_now() + party_patience() * wait_ms * KVR_MS;

    while (*counter < value) {
        if (kvr_clock_now() > deadline)
            return false;
        party_step(party);
    }
    return true;
}

static void must(struct party_answer answer, const char *what)
{
    if (answer.status == KVR_OK)
        return;
    fprintf(stderr, "%s: %s %s\n", what, kvr_status_name(answer.status), answer.detail);
    abort();
}

void party_revive(struct party *party)
{
    struct party_command open = {.verb = PARTY_OPEN, .rail_count = party->rail_count};

    memset(&party->shared->sides[1], 0, sizeof(party->shared->sides[1]));
    spawn(party);
    must(party_do(party, 1, &open), "the child opens its rails");
}

struct party *party_open(const char *provider, uint32_t rail_count)
{
    const struct kvr_rail_options options = {.inline_bytes = 0};

    return party_open_with(provider, rail_count, &options);
}

struct party *party_open_with(const char *provider, uint32_t rail_count,
                              const struct kvr_rail_options *options)
{
    struct party *party = calloc(1, sizeof(*party));
    struct party_command command = {.verb = PARTY_OPEN, .rail_count = rail_count};

    assert(party != NULL);
    kvr_fabric_of(provider, &party->fabric);
    party->shared_fd = memfd_create("party", 0);
    if (ftruncate(party->shared_fd, sizeof(*party->shared)) != 0)
        abort();
    party->shared =
        mmap(NULL, sizeof(*party->shared), PROT_READ | PROT_WRITE, MAP_SHARED, party->shared_fd, 0);
    assert(party->shared != MAP_FAILED);
    strcpy(party->shared->provider, provider);
    party->shared->inline_bytes = options->inline_bytes;
    party->shared->acknowledge = options->acknowledge;
    must(party_run(party, &command), "the test opens its rails");
    party_revive(party);
    command.verb = PARTY_CONNECT;
    must(party_run(party, &command), "the test connects");
    must(party_do(party, 1, &command), "the child connects");
    return party;
}

void party_freeze(struct party *party)
{
    kill(party->child, SIGSTOP);
}

void party_thaw(struct party *party)
{
    kill(party->child, SIGCONT);
}

void party_kill(struct party *party)
{
    kill(party->child, SIGKILL);
    waitpid(party->child, NULL, 0);
    close(party->control);
    party->child = 0;
}

void party_close(struct party *party)
{
    struct party_command quit = {.verb = PARTY_QUIT};

    if (party->child != 0) {
        (void)party_do(party, 1, &quit);
        close(party->control);
        waitpid(party->child, NULL, 0);
    }
    party_close_rails(party);
    munmap(party->shared, sizeof(*party->shared));
    close(party->shared_fd);
    free(party);
}

struct party_shared *party_shared(struct party *party)
{
    return party->shared;
}

struct kvr_rail *party_rail(struct party *party, uint32_t rail)
{
    return party->rails[rail];
}
