#include "tests/support/fabric_party_side.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/connection_count.h"
#include "tests/support/fabric_party_bytes.h"

#define SETTLE_NS KVR_S

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

kvr_ns party_step_ns(void)
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

static void arrived(struct party *party, uint32_t rail, uint64_t immediate)
{
    struct party_side *side = own(party);

    side->last_immediate = immediate;
    side->arrived_on[rail]++;
    if (side->bits[immediate % PARTY_BITS]++ > 0)
        side->repeated++;
    if (side->check_arrivals &&
        party_wrong_bytes(party->bytes, &side->expected,
                          (uint32_t)(immediate - side->expected.first_immediate)) > 0)
        side->wrong++;
    side->arrived++; /* last: the thread that waits for it reads the others then */
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
            .local = party->bytes + party_place_source(command, i, j),
            .memory = party->memory[rail],
            .remote = key->base + party_place_target(command, i, j),
            .key = command->wrong_key ? key->key ^ 0x5555 : key->key,
            .bytes = party_piece_bytes(command),
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

unsigned party_step(struct party *party)
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
    if (moved == 0) /* the other party may need this core */
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
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
        options.inline_bytes = party->shared->inline_bytes;
        options.acknowledge = party->shared->acknowledge;
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

/* As rail_group does it, no address goes while writes to it are on their way; where a provider
 * keeps them for ever, after a while. */
static void settle_writes(struct party *party)
{
    kvr_ns end = kvr_clock_now() + SETTLE_NS;

    while (party->in_flight > 0 && kvr_clock_now() < end)
        party_step(party);
}

/* As an agent does: later, where the rail has something of that connection under way. */
static kvr_status hang_up(struct party *party, uint32_t rail)
{
    kvr_ns deadline = kvr_clock_now() + party_step_ns() / 2;
    kvr_status status;

    do {
        status = party->fabric.ops->peer_close(party->endpoints[rail], &party->peers[rail]);
        if (status == KVR_AGAIN)
            party_step(party);
    } while (status == KVR_AGAIN && kvr_clock_now() < deadline);
    return status;
}

static kvr_status do_connect(struct party *party, bool remove_last, struct kvr_error *error)
{
    const struct kvr_fabric_ops *ops = party->fabric.ops;
    kvr_status status = KVR_OK;

    if (party->connected)
        settle_writes(party);

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
    kvr_ns deadline = kvr_clock_now() + party_step_ns() / 2;
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
        party_step(party);
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
        party_step(party);
    }
    return cpu_us() - before;
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

struct party_answer party_run(struct party *party, const struct party_command *command)
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
        party_fill(party->bytes, command);
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
            answer.value += party_wrong_bytes(party->bytes, command, i);
        break;
    case PARTY_HANG_UP:
        settle_writes(party);
        for (uint32_t r = 0; r < party->rail_count; r++)
            answer.status = hang_up(party, r);
        break;
    case PARTY_COUNT:
        answer.value = connection_count(party->shared->provider);
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
        answer.value = party_digest(party->bytes);
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

void party_close_rails(struct party *party)
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
