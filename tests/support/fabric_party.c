#include "tests/support/fabric_party.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"

#define CONTROL_FD 3
#define SHARED_FD  4

struct party {
    struct kvr_fabric fabric;
    struct party_shared *shared;
    int shared_fd;
    int side;
    uint32_t rail_count;
    struct kvr_rail *rails[PARTY_RAILS];
    struct kvr_endpoint *endpoints[PARTY_RAILS];
    struct kvr_memory *memory[PARTY_RAILS];
    uint64_t peers[PARTY_RAILS];
    bool connected;
    uint8_t *bytes;
    int bytes_fd;
    struct party_command stream; /* count > 0: goes on */
    uint32_t stream_next;
    uint64_t in_flight;
    /* the test's process */
    pid_t child;
    int control;
};

unsigned party_patience(void)
{
    const char *patience = getenv("KVRAIL_PATIENCE");
    int factor = patience != NULL ? atoi(patience) : 1;

    return factor > 0 ? (unsigned)factor : 1;
}

void party_rail_name(const char *provider, int side, uint32_t rail, char ret_name[KVR_NAME_BYTES])
{
    const char *names = getenv("KVRAIL_PARTY_RAILS");

    ret_name[0] = '\0';
    if (names == NULL)
        names = strcmp(provider, "tcp") == 0 ? "127.0.0.1,127.0.0.2 127.0.0.1,127.0.0.2" : "";
    names += side == 0 ? 0 : strcspn(names, " ");
    names += strspn(names, " ");
    for (uint32_t i = 0; i < rail; i++) {
        names += strcspn(names, ", ");
        names += *names == ',';
    }
    snprintf(ret_name, KVR_NAME_BYTES, "%.*s", (int)strcspn(names, ", "), names);
}

static kvr_ns step_ns(void)
{
    return party_patience() * PARTY_WAIT_S * KVR_S;
}

static struct party_side *own(struct party *party)
{
    return &party->shared->sides[party->side];
}

static const struct party_side *other(const struct party *party)
{
    return &party->shared->sides[1 - party->side];
}

static uint64_t pattern(uint64_t seed, uint64_t word)
{
    return kvr_mix64(seed * 0x9e3779b97f4a7c15u + word);
}

/* Piece j of write i lies at these places; the target's run backwards, so that a write to the place
 * it came from is not right by chance. Pieces are multiples of 8 bytes or a whole write. */
static uint64_t piece_bytes(const struct party_command *command)
{
    return command->bytes / command->pieces;
}

static uint64_t place_source(const struct party_command *command, uint32_t i, uint32_t j)
{
    uint64_t stride = (piece_bytes(command) + 7) & ~7ull;

    if (command->pieces > 1)
        stride *= 2; /* so that they do not touch */
    return ((uint64_t)i * command->pieces + j) % (PARTY_BYTES / stride) * stride;
}

static uint64_t place_target(const struct party_command *command, uint32_t i, uint32_t j)
{
    uint64_t stride = (piece_bytes(command) + 7) & ~7ull, places = PARTY_BYTES / stride;

    if (command->one_target)
        return (places / command->pieces - 1 - i % (places / command->pieces)) * command->pieces *
                   stride +
               j * stride;
    return (places - 1 - ((uint64_t)i * command->pieces + j) % places) * stride;
}

/* Bytes of write i that are not what the other side's memory holds at their source. */
static uint64_t wrong_bytes(const struct party *party, const struct party_command *command,
                            uint32_t i)
{
    uint64_t wrong = 0, length = piece_bytes(command);

    for (uint32_t j = 0; j < command->pieces; j++) {
        const uint8_t *at = party->bytes + place_target(command, i, j);
        uint64_t word = place_source(command, i, j) / 8;

        for (uint64_t k = 0; k < length; k += 8, word++) {
            uint64_t value = pattern(command->seed, word);
            uint64_t part = length - k < 8 ? length - k : 8;

            wrong += memcmp(at + k, &value, part) != 0;
        }
    }
    return wrong;
}

static void arrived(struct party *party, uint32_t rail, uint32_t immediate)
{
    struct party_side *side = own(party);

    side->last_immediate = immediate;
    side->arrived_on[rail]++;
    if (side->bits[immediate % PARTY_BITS]++ > 0)
        side->repeated++;
    if (side->check_arrivals &&
        wrong_bytes(party, &side->expected, immediate - side->expected.first_immediate) > 0)
        side->wrong++;
    side->arrived++; /* last: whoever waits for it reads the others then */
}

static void completed(struct party *party, uint32_t rail, const struct kvr_completion *completion)
{
    struct party_side *side = own(party);

    if (completion->kind == KVR_COMPLETION_ARRIVED) {
        arrived(party, rail, completion->immediate);
        return;
    }
    if (!completion->has_context) {
        side->queue_errors++;
        return;
    }
    if (completion->kind == KVR_COMPLETION_WRITTEN)
        side->written++;
    else
        side->failed++;
    if (party->in_flight > 0)
        party->in_flight--;
}

static unsigned poll_endpoint(struct party *party, uint32_t rail, struct kvr_endpoint *endpoint)
{
    struct kvr_completion completions[32];
    unsigned count = party->fabric.ops->poll(endpoint, completions, 32);

    for (unsigned i = 0; i < count; i++)
        completed(party, rail, &completions[i]);
    return count;
}

static kvr_status write_one(struct party *party, const struct party_command *command, uint32_t i,
                            uint32_t rail)
{
    struct kvr_fabric_piece pieces[KVR_IOV_MAX] = {0};
    const struct kvr_remote_key *key = &other(party)->keys[rail];
    struct kvr_fabric_write write = {
        .pieces = pieces,
        .piece_count = command->pieces,
        .peer = party->peers[rail],
        .immediate = command->first_immediate + i,
        .context = (uint64_t)i + 1,
    };
    kvr_status status;

    for (uint32_t j = 0; j < command->pieces; j++)
        pieces[j] = (struct kvr_fabric_piece){
            .local = party->bytes + place_source(command, i, j),
            .memory = party->memory[rail],
            .remote = key->base + place_target(command, i, j),
            .key = command->wrong_key ? key->key ^ 0x5555 : key->key,
            .bytes = piece_bytes(command),
        };
    status = party->fabric.ops->write(party->endpoints[rail], &write);
    if (status == KVR_OK) {
        own(party)->accepted++;
        party->in_flight++;
    } else if (status == KVR_AGAIN) {
        own(party)->again++;
    }
    return status;
}

static unsigned step(struct party *party)
{
    unsigned moved = 0;

    for (uint32_t r = 0; r < party->rail_count; r++)
        moved += poll_endpoint(party, r, party->endpoints[r]);
    for (unsigned i = 0; i < 8 && party->stream.count > 0 && party->rail_count > 0; i++) {
        uint32_t rail = party->stream_next % party->rail_count;

        if (write_one(party, &party->stream, party->stream_next, rail) != KVR_OK)
            break;
        party->stream_next++;
        moved++;
    }
    if (moved == 0)
        sched_yield();
    return moved;
}

/* As an engine has it. */
static void memory_open(struct party *party)
{
    party->bytes_fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(party->bytes_fd, PARTY_BYTES) != 0 ||
        fcntl(party->bytes_fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        abort();
    party->bytes = mmap(NULL, PARTY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, party->bytes_fd, 0);
    assert(party->bytes != MAP_FAILED);
}

static kvr_status do_open(struct party *party, uint32_t rail_count, struct kvr_error *error)
{
    const struct kvr_fabric_ops *ops = party->fabric.ops;
    struct party_side *side = own(party);
    struct kvr_memory_span span = {.bytes = PARTY_BYTES, .local = true, .remote = true};
    kvr_status status = KVR_OK;

    memory_open(party);
    span.base = party->bytes;
    span.fd = party->bytes_fd;
    assert(rail_count <= PARTY_RAILS);
    for (uint32_t r = 0; r < rail_count && status == KVR_OK; r++) {
        struct kvr_rail_options options = {0};

        strcpy(options.provider, party->shared->provider);
        party_rail_name(options.provider, party->side, r, options.name);
        status = ops->rail_open(party->fabric.self, &options, &party->rails[r], error);
        if (status == KVR_OK)
            status = ops->memory_register(party->rails[r], &span, &party->memory[r], error);
        if (status == KVR_OK)
            status = ops->endpoint_open(party->rails[r], &party->endpoints[r], error);
        if (status != KVR_OK)
            return status;
        side->keys[r] = ops->memory_key(party->memory[r]);
        side->addresses[r].epoch = 1;
        ops->endpoint_address(party->endpoints[r], side->addresses[r].address,
                              &side->addresses[r].bytes);
        party->rail_count = side->rail_count = r + 1;
    }
    return status;
}

static kvr_status do_connect(struct party *party, bool remove_last, struct kvr_error *error)
{
    const struct kvr_fabric_ops *ops = party->fabric.ops;
    kvr_status status = KVR_OK;

    for (uint32_t r = 0; r < party->rail_count && status == KVR_OK; r++) {
        const struct kvr_rail_address *address = &other(party)->addresses[r];
        uint64_t before = party->peers[r];

        if (party->connected && !remove_last)
            ops->peer_remove(party->endpoints[r], before);
        status = ops->peer_insert(party->endpoints[r], address->address, address->bytes,
                                  &party->peers[r], error);
        if (party->connected && remove_last)
            ops->peer_remove(party->endpoints[r], before);
    }
    party->connected = true;
    return status;
}

static void do_post(struct party *party, const struct party_command *command,
                    struct party_answer *answer)
{
    struct party_side *side = own(party);
    uint64_t accepted = side->accepted, written = side->written, failed = side->failed;
    kvr_ns deadline = kvr_clock_now() + step_ns() / 2;
    uint32_t next = 0;

    assert(party->rail_count > 0);
    while ((next < command->count || party->in_flight > 0) && kvr_clock_now() < deadline) {
        uint32_t rail = command->rail < PARTY_RAILS ? command->rail : next % party->rail_count;
        kvr_status status = KVR_AGAIN;

        if (next < command->count)
            status = write_one(party, command, next, rail);
        if (status == KVR_OK) {
            next++;
            continue;
        }
        if (status != KVR_AGAIN) {
            answer->status = status;
            break;
        }
        step(party);
    }
    answer->accepted = (uint32_t)(side->accepted - accepted);
    answer->written = (uint32_t)(side->written - written);
    answer->failed = (uint32_t)(side->failed - failed);
    if (answer->status == KVR_OK && (next < command->count || party->in_flight > 0))
        answer->status = KVR_TIMED_OUT;
}

/* As rail_group does it: successor, stop, read empty, close. */
static kvr_status do_recycle(struct party *party, uint32_t rail, struct kvr_error *error)
{
    const struct kvr_fabric_ops *ops = party->fabric.ops;
    struct kvr_endpoint *successor = NULL, *old = party->endpoints[rail];
    struct kvr_rail_address *address = &own(party)->addresses[rail];
    kvr_status status = ops->endpoint_open(party->rails[rail], &successor, error);

    if (status != KVR_OK)
        return status;
    ops->endpoint_stop(old);
    while (poll_endpoint(party, rail, old) > 0)
        ;
    ops->endpoint_close(old);
    party->in_flight = 0; /* of a party with one rail in such a test */
    party->connected = false;
    party->endpoints[rail] = successor;
    address->epoch++;
    ops->endpoint_address(successor, address->address, &address->bytes);
    return KVR_OK;
}

static uint64_t do_digest(const struct party *party)
{
    uint64_t hash = 0;

    for (uint64_t i = 0; i < PARTY_BYTES; i += 8) {
        uint64_t word;

        memcpy(&word, party->bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
    }
    return hash;
}

static uint64_t cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static uint64_t do_idle(struct party *party, uint32_t milliseconds)
{
    const struct kvr_fabric_ops *ops = party->fabric.ops;
    kvr_ns deadline = kvr_clock_now() + milliseconds * KVR_MS;
    uint64_t before = cpu_us();

    while (kvr_clock_now() < deadline) {
        struct pollfd fds[PARTY_RAILS];
        bool sleep = true, blind = false;

        for (uint32_t r = 0; r < party->rail_count; r++) {
            fds[r] =
                (struct pollfd){.fd = ops->endpoint_wait_fd(party->endpoints[r]), .events = POLLIN};
            blind |= fds[r].fd < 0;
            sleep &= ops->endpoint_may_sleep(party->endpoints[r]);
        }
        if (sleep)
            poll(fds, party->rail_count, blind ? 10 : 100);
        step(party);
    }
    return cpu_us() - before;
}

/* As far as the `count` writes reach; all of it where there are none. */
static void do_fill(struct party *party, const struct party_command *command)
{
    uint64_t end = PARTY_BYTES;

    if (command->count > 0) {
        uint64_t places = (uint64_t)command->count * command->pieces;
        uint64_t reach = places * 2 * (piece_bytes(command) + 7);

        end = reach < PARTY_BYTES ? reach : PARTY_BYTES;
    }
    for (uint64_t i = 0; i < end / 8; i++) {
        uint64_t word = pattern(command->seed, i);

        memcpy(party->bytes + 8 * i, &word, 8);
    }
}

static void do_clear(struct party *party)
{
    struct party_side *side = own(party);

    memset(party->bytes, 0, PARTY_BYTES);
    for (uint32_t i = 0; i < PARTY_BITS; i++)
        side->bits[i] = 0;
    side->arrived = side->repeated = side->wrong = 0;
    side->arrived_on[0] = side->arrived_on[1] = 0;
}

static struct party_answer run(struct party *party, const struct party_command *command)
{
    struct party_answer answer = {.status = KVR_OK};
    struct kvr_error error = {0};

    switch (command->verb) {
    case PARTY_OPEN:
        answer.status = do_open(party, command->rail_count, &error);
        break;
    case PARTY_CONNECT:
    case PARTY_RECONNECT:
        answer.status = do_connect(party, command->verb == PARTY_RECONNECT, &error);
        break;
    case PARTY_FILL:
        do_fill(party, command);
        break;
    case PARTY_CLEAR:
        do_clear(party);
        break;
    case PARTY_POST:
        do_post(party, command, &answer);
        break;
    case PARTY_STREAM:
        party->stream = *command;
        break;
    case PARTY_VERIFY:
        for (uint32_t i = 0; i < command->count; i++)
            answer.value += wrong_bytes(party, command, i);
        break;
    case PARTY_RECYCLE:
        answer.status = do_recycle(party, command->rail, &error);
        break;
    case PARTY_RELEASE:
        for (uint32_t r = 0; r < party->rail_count; r++) {
            party->fabric.ops->memory_release(party->memory[r]);
            party->memory[r] = NULL;
        }
        break;
    case PARTY_DIGEST:
        answer.value = do_digest(party);
        break;
    case PARTY_IDLE:
        answer.value = do_idle(party, command->count);
        break;
    case PARTY_QUIT:
        break;
    }
    memcpy(answer.detail, error.detail, sizeof(answer.detail));
    return answer;
}

static void close_rails(struct party *party)
{
    const struct kvr_fabric_ops *ops = party->fabric.ops;

    for (uint32_t r = 0; r < party->rail_count; r++) {
        ops->endpoint_stop(party->endpoints[r]);
        ops->endpoint_close(party->endpoints[r]);
        ops->memory_release(party->memory[r]);
        ops->rail_close(party->rails[r]);
    }
    party->rail_count = 0;
    if (party->bytes == NULL)
        return;
    munmap(party->bytes, PARTY_BYTES);
    close(party->bytes_fd);
}

void party_main(int argc, char **argv)
{
    struct party party = {.side = 1};
    struct party_command command = {.verb = PARTY_OPEN};

    if (argc < 2 || strcmp(argv[1], "--party") != 0)
        return;
    kvr_fabric_ofi(&party.fabric);
    party.shared =
        mmap(NULL, sizeof(*party.shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    assert(party.shared != MAP_FAILED);
    while (command.verb != PARTY_QUIT) {
        struct party_answer answer;
        ssize_t got = recv(CONTROL_FD, &command, sizeof(command), MSG_DONTWAIT);

        if (got == sizeof(command)) {
            answer = run(&party, &command);
            if (send(CONTROL_FD, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
                break;
        } else if (got == 0 || (got < 0 && errno != EAGAIN)) {
            break;
        } else if (party.rail_count > 0) {
            step(&party);
        }
    }
    close_rails(&party);
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
    kvr_ns deadline = kvr_clock_now() + step_ns();

    if (side == 0)
        return run(party, command);
    if (send(party->control, command, sizeof(*command), MSG_NOSIGNAL) < 0)
        return answer;
    while (kvr_clock_now() < deadline) {
        ssize_t got = recv(party->control, &answer, sizeof(answer), MSG_DONTWAIT);

        if (got == (ssize_t)sizeof(answer) || got == 0)
            return answer;
        step(party);
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
        step(party);
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
    struct party *party = calloc(1, sizeof(*party));
    struct party_command command = {.verb = PARTY_OPEN, .rail_count = rail_count};

    assert(party != NULL);
    kvr_fabric_ofi(&party->fabric);
    party->shared_fd = memfd_create("party", 0);
    if (ftruncate(party->shared_fd, sizeof(*party->shared)) != 0)
        abort();
    party->shared =
        mmap(NULL, sizeof(*party->shared), PROT_READ | PROT_WRITE, MAP_SHARED, party->shared_fd, 0);
    assert(party->shared != MAP_FAILED);
    strcpy(party->shared->provider, provider);
    must(run(party, &command), "the test opens its rails");
    party_revive(party);
    command.verb = PARTY_CONNECT;
    must(run(party, &command), "the test connects");
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
    close_rails(party);
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
