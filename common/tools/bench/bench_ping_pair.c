/* Pings without engines: over bare endpoints and between rail groups. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/memfd.h"
#include "fabric/fabric_provider.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_ping.h"

#define PAUSE_NS    (200 * KVR_US) /* between pings: long enough to fall asleep */
#define LATE_NS     (30 * KVR_S)   /* it never comes: no machine is so busy */
#define BLIND_NS    (50 * KVR_US)
#define SPIN_NS     (3600 * KVR_S)
#define COMPLETIONS 16

static bool failed(const char *what, const struct kvr_error *error)
{
    fprintf(stderr, "kvrail bench ping: %s: %s\n", what, error->detail);
    return false;
}

static bool stuck(const char *what)
{
    fprintf(stderr, "kvrail bench ping: %s\n", what);
    return false;
}

bool ping_pair_open(struct ping_pair *pair, const struct ping_options *options)
{
    struct kvr_region_layout layout = {.region = 1, .bytes = PING_PAGES * options->page_bytes};
    struct kvr_rail_options wanted = {0};
    struct kvr_error error = {0};

    snprintf(wanted.provider, sizeof(wanted.provider), "%s", options->provider);
    snprintf(wanted.name, sizeof(wanted.name), "%s",
             kvr_provider_find(options->provider)->default_rail);
    kvr_fabric_of(options->provider, &pair->fabric);
    for (int i = 0; i < 2; i++) {
        int fd;

        /* Both for reading and writing: the source's bytes are written here too. */
        if (pair->fabric.ops->rail_open(pair->fabric.self, &wanted, &pair->rails[i], &error) !=
                KVR_OK ||
            kvr_memfd_create("kvrail-ping", layout.bytes, "ping", &fd, &error) != KVR_OK ||
            kvr_region_open_memfd(&pair->fabric, &pair->rails[i], 1, &layout, fd, 0, true,
                                  KVR_REMOTE_ALWAYS, &pair->regions[i], &error) != KVR_OK)
            return failed("a rail", &error);
        memset(pair->regions[i]->base, i, layout.bytes);
    }
    return true;
}

void ping_pair_close(struct ping_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        kvr_region_release(&pair->fabric, pair->regions[i]);
        if (pair->rails[i] != NULL)
            pair->fabric.ops->rail_close(pair->rails[i]);
    }
}

bool ping_pair_await(struct ping_pair *pair, uint64_t expected, struct ping_sample *sample)
{
    while (atomic_load(&pair->arrivals) < expected) {
        if (kvr_clock_now() - sample->at[PING_ASKED] > LATE_NS) {
            fprintf(stderr, "kvrail bench ping: page %llu did not arrive within %u s\n",
                    (unsigned long long)expected, (unsigned)(LATE_NS / KVR_S));
            return false;
        }
        bench_sleep(PAUSE_NS / 4);
    }
    sample->at[PING_LANDED] = atomic_load(&pair->arrived_at);
    bench_sleep(PAUSE_NS);
    return true;
}

static void arrived_now(struct ping_pair *pair)
{
    atomic_store(&pair->arrived_at, kvr_clock_now());
    atomic_fetch_add(&pair->arrivals, 1);
}

/* ---- bare endpoints -------------------------------------------------------------------------- */

struct raw {
    struct ping_pair *pair;
    struct kvr_endpoint *endpoints[2];
    bool spin;
    _Atomic bool stop;
};

static void *raw_read(void *self)
{
    struct raw *raw = self;
    const struct kvr_fabric_ops *ops = raw->pair->fabric.ops;
    struct kvr_endpoint *endpoint = raw->endpoints[1];
    struct kvr_completion completions[COMPLETIONS];
    struct pollfd descriptor = {.fd = ops->endpoint_wait_fd(endpoint), .events = POLLIN};

    (void)prctl(PR_SET_TIMERSLACK, 1000ul); /* as the rail groups' threads */
    while (!atomic_load_explicit(&raw->stop, memory_order_relaxed)) {
        unsigned count = ops->poll(endpoint, completions, COMPLETIONS);

        for (unsigned i = 0; i < count; i++)
            if (completions[i].kind == KVR_COMPLETION_ARRIVED)
                arrived_now(raw->pair);
        if (count > 0 || raw->spin || !ops->endpoint_may_sleep(endpoint))
            continue;
        if (descriptor.fd >= 0)
            (void)poll(&descriptor, 1, 1);
        else
            bench_sleep(BLIND_NS);
    }
    return NULL;
}

static bool raw_write(struct raw *raw, uint64_t peer, uint64_t bytes, uint64_t number,
                      struct ping_sample *sample)
{
    const struct kvr_fabric_ops *ops = raw->pair->fabric.ops;
    struct kvr_remote_key key = raw->pair->regions[1]->keys[0];
    uint64_t at = number % PING_PAGES * bytes;
    struct kvr_fabric_piece piece = {.local = raw->pair->regions[0]->base + at,
                                     .memory = raw->pair->regions[0]->memory[0],
                                     .remote = key.base + at,
                                     .key = key.key,
                                     .bytes = bytes};
    struct kvr_fabric_write write = {
        .pieces = &piece, .piece_count = 1, .peer = peer, .immediate = 1, .context = number};
    struct kvr_completion completions[COMPLETIONS];
    kvr_ns end = kvr_clock_now() + LATE_NS;
    kvr_status status;

    do {
        (void)ops->poll(raw->endpoints[0], completions, COMPLETIONS);
        status = ops->write(raw->endpoints[0], &write);
    } while (status == KVR_AGAIN && kvr_clock_now() < end);
    sample->at[PING_POSTED] = kvr_clock_now();
    while (status == KVR_OK && ops->poll(raw->endpoints[0], completions, COMPLETIONS) == 0 &&
           kvr_clock_now() < end)
        ;
    return status == KVR_OK;
}

static bool raw_pings(struct raw *raw, const struct ping_options *options,
                      struct ping_sample *samples)
{
    uint8_t address[KVR_ADDRESS_BYTES];
    struct kvr_error error = {0};
    uint32_t bytes;
    uint64_t peer;

    raw->pair->fabric.ops->endpoint_address(raw->endpoints[1], address, &bytes);
    if (raw->pair->fabric.ops->peer_insert(raw->endpoints[0], address, bytes, &peer, &error) !=
        KVR_OK)
        return failed("the other side", &error);
    for (uint64_t i = 0; i < options->pings; i++) {
        uint64_t expected = atomic_load(&raw->pair->arrivals) + 1;

        samples[i].at[PING_ASKED] = kvr_clock_now();
        if (!raw_write(raw, peer, options->page_bytes, i + 1, &samples[i]))
            return stuck("the endpoint takes no write");
        if (!ping_pair_await(raw->pair, expected, &samples[i]))
            return false;
    }
    return true;
}

bool ping_raw(struct ping_pair *pair, const struct ping_options *options, bool spin,
              struct ping_sample *samples)
{
    struct raw raw = {.pair = pair, .spin = spin};
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct kvr_error error = {0};
    pthread_t reader;
    bool good = true;

    for (int i = 0; i < 2 && good; i++)
        if (ops->endpoint_open(pair->rails[i], &raw.endpoints[i], &error) != KVR_OK)
            good = failed("an endpoint", &error);
    if (good && pthread_create(&reader, NULL, raw_read, &raw) != 0)
        good = stuck("no thread can be started");
    if (good) {
        good = raw_pings(&raw, options, samples);
        atomic_store(&raw.stop, true);
        pthread_join(reader, NULL);
    }
    for (int i = 0; i < 2; i++) {
        if (raw.endpoints[i] == NULL)
            continue;
        ops->endpoint_stop(raw.endpoints[i]);
        ops->endpoint_close(raw.endpoints[i]);
    }
    return good;
}

/* ---- rail groups ----------------------------------------------------------------------------- */

struct groups {
    struct ping_pair *pair;
    struct kvr_group *groups[2];
    struct kvr_group_thread *threads[2];
    struct kvr_remote_region remote;
    uint64_t page_bytes;
    _Atomic uint64_t posted;
    _Atomic bool wanted; /* a page is to be posted */
    _Atomic kvr_ns seen_at, posted_at;
};

static void no_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    (void)self, (void)now, (void)message;
}

static void no_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)self, (void)now, (void)token, (void)count, (void)status;
}

static void group_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    (void)now, (void)rail, (void)epoch, (void)immediate;
    arrived_now(((struct groups *)self)->pair);
}

static void no_epoch(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    (void)self, (void)now, (void)rail, (void)epoch;
}

static bool group_work(void *self, kvr_ns now)
{
    struct groups *groups = self;
    uint64_t at = groups->posted % PING_PAGES * groups->page_bytes;
    struct kvr_group_piece piece = {.local = groups->pair->regions[0],
                                    .remote = &groups->remote,
                                    .local_offset = at,
                                    .remote_offset = at,
                                    .bytes = groups->page_bytes};
    struct kvr_group_post post = {.immediate = 1, .pieces = &piece, .piece_count = 1};
    struct kvr_pair pair;
    kvr_ns seen_at;

    (void)now;
    /* Taken before it is posted: the next may be asked for before the call returns. */
    if (!atomic_load_explicit(&groups->wanted, memory_order_acquire) ||
        !atomic_exchange(&groups->wanted, false))
        return false;
    seen_at = kvr_clock_now();
    if (kvr_group_post(groups->groups[0], &post, &pair) == KVR_OK) {
        atomic_store(&groups->posted_at, kvr_clock_now());
        atomic_store(&groups->seen_at, seen_at);
        atomic_fetch_add(&groups->posted, 1);
        return true;
    }
    atomic_store(&groups->wanted, true);
    return false;
}

static bool no_work(void *self, kvr_ns now)
{
    (void)self, (void)now;
    return false;
}

static bool may_sleep(void *self, bool asleep)
{
    return !asleep || !atomic_load(&((struct groups *)self)->wanted);
}

static bool expecting(void *self)
{
    (void)self;
    return true; /* a page may come at any time: on a rail without a descriptor look often */
}

static bool group_open(struct groups *groups, int side, bool spin)
{
    struct kvr_group_options options = {
        .fabric = &groups->pair->fabric,
        .rails = &groups->pair->rails[side],
        .rail_count = 1,
        .user = {.self = groups,
                 .command = no_command,
                 .written = no_written,
                 .arrived = group_arrived,
                 .epoch_closed = no_epoch,
                 .work = side == 0 ? group_work : no_work,
                 .may_sleep = may_sleep,
                 .expecting = expecting},
    };
    struct kvr_group_thread_options thread = {.spin_ns = spin ? SPIN_NS : 0};
    struct kvr_error error = {0};

    if (kvr_group_open(&options, &groups->groups[side], &error) != KVR_OK ||
        kvr_group_thread_start(groups->groups[side], &thread, &groups->threads[side], &error) !=
            KVR_OK)
        return failed("a rail group", &error);
    return true;
}

static bool groups_connect(struct groups *groups)
{
    static struct kvr_peer_rails rails;
    struct kvr_group_message add = {.head.kind = KVR_GROUP_PEER_ADD, .peer_rails.rails = &rails},
                             answer;
    kvr_ns end = kvr_clock_now() + LATE_NS;

    rails.rail_count = 1;
    rails.rails[0] = kvr_group_address(groups->groups[1], 0);
    groups->remote = (struct kvr_remote_region){.layout = groups->pair->regions[1]->layout,
                                                .rail_count = 1,
                                                .keys = {groups->pair->regions[1]->keys[0]}};
    if (!kvr_group_command(groups->groups[0], &add))
        return stuck("the rail group takes no command");
    kvr_group_thread_kick(groups->threads[0]);
    while (!kvr_group_event(groups->groups[0], &answer)) {
        if (kvr_clock_now() > end)
            return stuck("the rail group does not answer");
        bench_sleep(KVR_MS);
    }
    return (answer.head.kind == KVR_GROUP_PEER_ADDED && answer.peer_rails.status == KVR_OK) ||
           stuck("the two rail groups do not meet");
}

bool ping_groups(struct ping_pair *pair, const struct ping_options *options, bool spin,
                 struct ping_sample *samples)
{
    static struct groups groups;
    bool good;

    groups = (struct groups){.pair = pair, .page_bytes = options->page_bytes};
    good = group_open(&groups, 1, spin) && group_open(&groups, 0, spin) && groups_connect(&groups);
    for (uint64_t i = 0; good && i < options->pings; i++) {
        uint64_t expected = atomic_load(&pair->arrivals) + 1;

        samples[i].at[PING_ASKED] = kvr_clock_now();
        atomic_store(&groups.wanted, true);
        kvr_group_thread_kick(groups.threads[0]);
        good = ping_pair_await(pair, expected, &samples[i]);
        while (good && atomic_load(&groups.posted) <= i) /* it arrived, so the call returns */
            bench_sleep(PAUSE_NS);
        samples[i].at[PING_SEEN] = atomic_load(&groups.seen_at);
        samples[i].at[PING_POSTED] = atomic_load(&groups.posted_at);
    }
    for (int i = 0; i < 2; i++) {
        kvr_group_thread_stop(groups.threads[i]);
        kvr_group_close(groups.groups[i]);
    }
    return good;
}
