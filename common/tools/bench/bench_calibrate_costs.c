#include "tools/bench/bench_calibrate_costs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memfd.h"
#include "fabric/fabric_provider.h"
#include "fabric/region.h"
#include "tools/bench/bench_stats.h"

#define POOL_BYTES  (64u << 20)
#define LARGE_BYTES (1u << 20) /* the agents' largest write */
#define LARGE_COUNT 8u         /* on their way: half a window, as an agent has to one peer */
#define SMALL_BYTES 4096u
#define BATCH       32u            /* writes of one doorbell, as the agents' */
#define WARM_NS     (500 * KVR_MS) /* what a rail lets through at once is gone by then */
#define STEADY_NS   (2 * KVR_S)
#define LATE_NS     (10 * KVR_S)
#define PINGS       64u /* a round */
#define TRIES       100u
#define COMPLETIONS 16u
#define IDLE_LOOKS  1024u /* between two looks at the conductor */

/* Written by the target alone. */
struct calibrate_shared {
    _Atomic uint64_t arrived;
    _Atomic kvr_ns arrived_at; /* of the last one */
};

/* From one end to the other. */
struct letter {
    bool good;
    uint8_t address[KVR_ADDRESS_BYTES];
    uint32_t address_bytes;
    struct kvr_remote_key key;
};

struct end {
    struct kvr_fabric fabric;
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
    struct kvr_region *region;
    struct kvr_remote_key remote; /* source: of the target's pool */
    uint64_t peer, posted, finished;
    bool failed;
};

static bool failed(const char *what, const struct kvr_error *error)
{
    fprintf(stderr, "kvrail bench calibrate: %s: %s\n", what, error->detail);
    return false;
}

static bool end_open(struct end *end, const char *provider, const char *rail)
{
    struct kvr_region_layout layout = {.region = 1, .bytes = POOL_BYTES};
    struct kvr_rail_options wanted = {.acknowledge = true, .congestion = "auto"}; /* as agents */
    struct kvr_error error = {0};
    int fd;

    kvr_fabric_of(provider, &end->fabric);
    snprintf(wanted.provider, sizeof(wanted.provider), "%s", provider);
    snprintf(wanted.name, sizeof(wanted.name), "%s", rail);
    if (end->fabric.ops->rail_open(end->fabric.self, &wanted, &end->rail, &error) != KVR_OK ||
        end->fabric.ops->endpoint_open(end->rail, &end->endpoint, &error) != KVR_OK ||
        kvr_memfd_create("kvrail-costs", POOL_BYTES, "calibrate", &fd, &error) != KVR_OK ||
        kvr_region_open_memfd(&end->fabric, &end->rail, 1, &layout, fd, 0, true, KVR_REMOTE_ALWAYS,
                              &end->region, &error) != KVR_OK)
        return failed(rail, &error);
    memset(end->region->base, 1, POOL_BYTES);
    return true;
}

static void end_close(struct end *end)
{
    const struct kvr_fabric_ops *ops = end->fabric.ops;

    if (end->endpoint != NULL) {
        ops->endpoint_stop(end->endpoint);
        ops->endpoint_close(end->endpoint);
    }
    kvr_region_release(&end->fabric, end->region);
    if (end->rail != NULL)
        ops->rail_close(end->rail);
}

static bool letter_send(const struct end *end, bool good, int socket)
{
    struct letter letter = {.good = good};

    if (good) {
        end->fabric.ops->endpoint_address(end->endpoint, letter.address, &letter.address_bytes);
        letter.key = end->region->keys[0];
    }
    return send(socket, &letter, sizeof(letter), MSG_NOSIGNAL) == (ssize_t)sizeof(letter);
}

/* False: the other end has none, or is none that this one takes. */
static bool letter_take(struct end *end, int socket)
{
    struct kvr_error error = {0};
    struct letter letter;

    if (recv(socket, &letter, sizeof(letter), 0) != (ssize_t)sizeof(letter) || !letter.good)
        return false;
    end->remote = letter.key;
    return end->fabric.ops->peer_insert(end->endpoint, letter.address, letter.address_bytes,
                                        &end->peer, &error) == KVR_OK ||
           failed("the other end", &error);
}

/* ---- the target ------------------------------------------------------------------------------ */

static bool enter(const char *path)
{
    int space;

    if (path[0] == '\0')
        return true;
    space = open(path, O_RDONLY | O_CLOEXEC);
    if (space >= 0 && setns(space, CLONE_NEWNET) == 0)
        return true;
    fprintf(stderr, "kvrail bench calibrate: --target-netns %s: %s\n", path, strerror(errno));
    return false;
}

static bool conductor_is_gone(int socket)
{
    char byte;

    return recv(socket, &byte, 1, MSG_DONTWAIT) == 0;
}

static void count_arrivals(const struct end *end, struct calibrate_shared *shared, int socket)
{
    struct kvr_completion completions[COMPLETIONS];
    unsigned idle = 0;

    while (idle < IDLE_LOOKS || !conductor_is_gone(socket)) {
        unsigned count = end->fabric.ops->poll(end->endpoint, completions, COMPLETIONS);
        uint64_t arrived = 0;

        for (unsigned i = 0; i < count; i++)
            arrived += completions[i].kind == KVR_COMPLETION_ARRIVED;
        idle = idle >= IDLE_LOOKS ? 0 : idle + 1;
        if (arrived > 0) {
            atomic_store(&shared->arrived_at, kvr_clock_now());
            atomic_fetch_add(&shared->arrived, arrived);
        } else if (count == 0) {
            (void)sched_yield();
        }
    }
}

static void serve(void *self, int socket)
{
    struct calibrate_costs *costs = self;
    struct end end = {.rail = NULL};
    bool good;
    char byte;

    if (recv(socket, &byte, 1, 0) != 1) /* nothing is opened before it is needed */
        return;
    good = enter(costs->target_netns) && end_open(&end, costs->provider, costs->target_rail);
    if (letter_send(&end, good, socket) && good && letter_take(&end, socket))
        count_arrivals(&end, costs->shared, socket);
    if (end.fabric.ops != NULL)
        end_close(&end);
}

/* ---- the source ------------------------------------------------------------------------------ */

static kvr_status post(struct end *end, uint64_t bytes, bool more)
{
    uint64_t slot = end->posted % (POOL_BYTES / LARGE_BYTES) * LARGE_BYTES;
    struct kvr_fabric_piece piece = {.local = end->region->base + slot,
                                     .memory = end->region->memory[0],
                                     .remote = end->remote.base + slot,
                                     .key = end->remote.key,
                                     .bytes = bytes};
    struct kvr_fabric_write write = {.pieces = &piece,
                                     .piece_count = 1,
                                     .peer = end->peer,
                                     .immediate = 1,
                                     .context = end->posted,
                                     .more = more,
                                     .acknowledged = !more}; /* and with it those before */
    kvr_status status = end->fabric.ops->write(end->endpoint, &write);

    end->posted += status == KVR_OK;
    end->failed = end->failed || (status != KVR_OK && status != KVR_AGAIN);
    return status;
}

static void look(struct end *end)
{
    struct kvr_completion completions[COMPLETIONS];
    unsigned count = end->fabric.ops->poll(end->endpoint, completions, COMPLETIONS);

    for (unsigned i = 0; i < count; i++) {
        end->failed = end->failed || completions[i].kind == KVR_COMPLETION_FAILED;
        end->finished += completions[i].kind == KVR_COMPLETION_WRITTEN;
    }
}

/* Until all that was posted is at the target. */
static bool drain(struct end *end, const struct calibrate_shared *shared)
{
    kvr_ns until = kvr_clock_now() + LATE_NS;

    while ((end->finished < end->posted || atomic_load(&shared->arrived) < end->posted) &&
           !end->failed && kvr_clock_now() < until)
        look(end);
    return !end->failed && end->finished == end->posted &&
           atomic_load(&shared->arrived) == end->posted;
}

/* Keeps large writes on their way until then. */
static void stream(struct end *end, kvr_ns until)
{
    while (!end->failed && kvr_clock_now() < until) {
        while (end->posted - end->finished < LARGE_COUNT && post(end, LARGE_BYTES, false) == KVR_OK)
            ;
        look(end);
    }
}

/* From one arrival to a later one: neither the beginning nor a queue at the end counts. */
static bool measure_rail(struct end *end, const struct calibrate_shared *shared, uint64_t *ret_bps)
{
    uint64_t first, last;
    kvr_ns first_at, last_at;

    stream(end, kvr_clock_now() + WARM_NS);
    first = atomic_load(&shared->arrived);
    first_at = atomic_load(&shared->arrived_at);
    stream(end, kvr_clock_now() + STEADY_NS);
    last = atomic_load(&shared->arrived);
    last_at = atomic_load(&shared->arrived_at);
    if (!drain(end, shared) || last_at <= first_at)
        return false;
    *ret_bps =
        (uint64_t)((double)(last - first) * LARGE_BYTES * 8 * 1e9 / (double)(last_at - first_at));
    return true;
}

/* Of a batch that the rail took without a pause. */
static bool measure_write(struct end *end, const struct calibrate_shared *shared, double *ret_ns)
{
    for (unsigned tries = 0; tries < TRIES; tries++) {
        kvr_ns began = kvr_clock_now();
        bool paused = false;

        for (unsigned count = 0; count < BATCH && !end->failed;) {
            bool taken = post(end, SMALL_BYTES, count + 1 < BATCH) == KVR_OK;

            count += taken;
            paused = paused || !taken;
            if (!taken)
                look(end);
        }
        *ret_ns = (double)(kvr_clock_now() - began) / BATCH;
        if (!drain(end, shared))
            return false;
        if (!paused)
            return true;
    }
    return false;
}

static bool measure_latency(struct end *end, const struct calibrate_shared *shared, double *ret_ns)
{
    double times[PINGS];

    for (unsigned i = 0; i < PINGS; i++) {
        kvr_ns began = kvr_clock_now();

        while (post(end, sizeof(uint64_t), false) != KVR_OK && !end->failed)
            look(end);
        if (!drain(end, shared))
            return false;
        times[i] = (double)(atomic_load(&shared->arrived_at) - began);
    }
    *ret_ns = bench_spread_of(times, PINGS).median;
    return true;
}

static bool measure(struct end *end, const struct calibrate_shared *shared, uint64_t rounds,
                    struct kvr_calibration_costs *ret_costs)
{
    double writes[BENCH_ROUNDS_MAX], latencies[BENCH_ROUNDS_MAX];

    for (uint64_t round = 0; round < rounds; round++)
        if (!measure_write(end, shared, &writes[round]) ||
            !measure_latency(end, shared, &latencies[round]))
            return false;
    ret_costs->write_ns = (kvr_ns)(bench_spread_of(writes, rounds).median + 0.5);
    ret_costs->latency_ns = (kvr_ns)(bench_spread_of(latencies, rounds).median + 0.5);
    return measure_rail(end, shared, &ret_costs->rail_bps);
}

bool calibrate_costs_open(struct calibrate_costs *costs)
{
    void *shared = mmap(NULL, sizeof(*costs->shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        perror("kvrail bench calibrate: mmap");
        return false;
    }
    costs->shared = shared;
    return bench_child_start(&costs->child, "target", serve, costs);
}

bool calibrate_costs_measure(struct calibrate_costs *costs, uint64_t rounds,
                             struct kvr_calibration_costs *ret_costs)
{
    struct end end = {.rail = NULL};
    int socket = costs->child.socket;
    bool good = end_open(&end, costs->provider, costs->rail) &&
                send(socket, "", 1, MSG_NOSIGNAL) == 1 && letter_take(&end, socket) &&
                letter_send(&end, true, socket);

    if (good) {
        good = measure(&end, costs->shared, rounds, ret_costs);
        if (!good)
            fprintf(stderr,
                    "kvrail bench calibrate: writes from rail %s to rail %s fail, or are late\n",
                    costs->rail, costs->target_rail);
    }
    end_close(&end);
    return good;
}

void calibrate_costs_close(struct calibrate_costs *costs)
{
    bench_child_stop(&costs->child);
    (void)munmap(costs->shared, sizeof(*costs->shared));
}
