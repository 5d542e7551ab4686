/* Goal: a rail group pairs rails, keeps its windows, settles every accepted post exactly once, and
 * ends an epoch in the order that makes it provable. Method: a scripted fabric that completes a
 * write only when the case says so, and writes down what it was asked, in order. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/rng.h"
#include "fabric/rail_group.h"

#define RAILS     3
#define WRITES    64
#define LOG_BYTES 8192
#define TOKENS    200000

struct fake_write {
    uint64_t context, peer;
    uint32_t immediate;
    bool more;
};

struct kvr_rail {
    unsigned number;
    struct kvr_rail_facts facts;
    struct kvr_endpoint *newest;
    bool refuse_open;
};

struct kvr_endpoint {
    struct kvr_rail *rail;
    unsigned number;
    bool stopped, closed;
    kvr_status next_write; /* KVR_OK, or what every write answers */
    unsigned again_once;   /* this many writes answer AGAIN first */
    uint64_t dead_peer;    /* writes to it answer AGAIN; 0: none */
    uint64_t peers;
    struct fake_write writes[WRITES];
    unsigned write_count;
    struct kvr_completion queue[2 * WRITES];
    unsigned queue_count;
};

static struct {
    char log[LOG_BYTES];
    struct kvr_endpoint endpoints[4096];
    unsigned endpoint_count;
    bool log_inserts;
    /* the user's side */
    unsigned written_count[TOKENS];
    kvr_status written_status[TOKENS];
    unsigned arrived_count;
    uint32_t arrived_epoch;
    bool tell_arrivals;
    struct kvr_group *group;
} fake;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t used = strlen(fake.log);
    va_list list;

    va_start(list, format);
    vsnprintf(fake.log + used, LOG_BYTES - used, format, list);
    va_end(list);
}

static const struct kvr_rail_facts *fake_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

static kvr_status fake_endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                     struct kvr_error *error)
{
    struct kvr_endpoint *endpoint;

    if (rail->refuse_open)
        return kvr_error_set(error, KVR_SYSTEM, "fake", "no endpoint");
    assert_true(fake.endpoint_count < 4096);
    endpoint = &fake.endpoints[fake.endpoint_count++];
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->rail = rail;
    endpoint->number = fake.endpoint_count;
    rail->newest = endpoint;
    *ret_endpoint = endpoint;
    note("open%u ", rail->number);
    return KVR_OK;
}

static void fake_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                         uint32_t *ret_bytes)
{
    memcpy(ret_address, &endpoint->number, sizeof(endpoint->number));
    *ret_bytes = sizeof(endpoint->number);
}

static void fake_stop(struct kvr_endpoint *endpoint)
{
    assert_false(endpoint->stopped);
    endpoint->stopped = true;
    note("stop%u ", endpoint->rail->number);
}

static void fake_close(struct kvr_endpoint *endpoint)
{
    assert_true(endpoint->stopped && !endpoint->closed);
    endpoint->closed = true;
    note("close%u ", endpoint->rail->number);
}

static kvr_status fake_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error)
{
    assert_false(endpoint->stopped);
    if (bytes == 0)
        return kvr_error_set(error, KVR_INVALID, "fake", "no address");
    *ret_peer = ++endpoint->peers;
    if (fake.log_inserts)
        note("insert%u(%c) ", endpoint->rail->number, address[0]);
    return KVR_OK;
}

static void fake_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    assert_false(endpoint->stopped);
    for (unsigned i = 0; i < endpoint->write_count; i++)
        assert_true(endpoint->writes[i].peer != peer);
    if (fake.log_inserts)
        note("remove%u ", endpoint->rail->number);
}

static kvr_status fake_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    assert_false(endpoint->stopped);
    if (endpoint->next_write != KVR_OK)
        return endpoint->next_write;
    if (write->peer == endpoint->dead_peer)
        return KVR_AGAIN;
    if (endpoint->again_once > 0) {
        endpoint->again_once--;
        return KVR_AGAIN;
    }
    if (endpoint->write_count == WRITES)
        return KVR_AGAIN;
    endpoint->writes[endpoint->write_count++] =
        (struct fake_write){write->context, write->peer, write->immediate, write->more};
    return KVR_OK;
}

static unsigned fake_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                          unsigned capacity)
{
    unsigned count = endpoint->queue_count < capacity ? endpoint->queue_count : capacity;

    assert_false(endpoint->closed);
    memcpy(ret_completions, endpoint->queue, count * sizeof(*ret_completions));
    endpoint->queue_count -= count;
    memmove(endpoint->queue, endpoint->queue + count,
            endpoint->queue_count * sizeof(*ret_completions));
    return count;
}

static int fake_wait_fd(const struct kvr_endpoint *endpoint)
{
    (void)endpoint;
    return -1;
}

static bool fake_may_sleep(struct kvr_endpoint *endpoint)
{
    return endpoint->queue_count == 0;
}

static const struct kvr_fabric_ops fake_ops = {
    .rail_facts = fake_facts,
    .endpoint_open = fake_endpoint_open,
    .endpoint_address = fake_address,
    .endpoint_stop = fake_stop,
    .endpoint_close = fake_close,
    .peer_insert = fake_insert,
    .peer_remove = fake_remove,
    .write = fake_write,
    .poll = fake_poll,
    .endpoint_wait_fd = fake_wait_fd,
    .endpoint_may_sleep = fake_may_sleep,
};
static const struct kvr_fabric fake_fabric = {.ops = &fake_ops};

static void push(struct kvr_endpoint *endpoint, struct kvr_completion completion)
{
    assert_true(endpoint->queue_count < 2 * WRITES);
    endpoint->queue[endpoint->queue_count++] = completion;
}

/* Completes the i-th oldest write. */
static void finish(struct kvr_endpoint *endpoint, unsigned i, kvr_status status)
{
    assert_true(i < endpoint->write_count);
    push(endpoint, (struct kvr_completion){
                       .kind = status == KVR_OK ? KVR_COMPLETION_WRITTEN : KVR_COMPLETION_FAILED,
                       .has_context = true,
                       .context = endpoint->writes[i].context,
                       .status = status,
                   });
    endpoint->write_count--;
    memmove(endpoint->writes + i, endpoint->writes + i + 1,
            (endpoint->write_count - i) * sizeof(endpoint->writes[0]));
}

static void finish_all(struct kvr_endpoint *endpoint)
{
    while (endpoint->write_count > 0)
        finish(endpoint, 0, KVR_OK);
}

static void arrive(struct kvr_endpoint *endpoint, uint32_t immediate)
{
    push(endpoint, (struct kvr_completion){.kind = KVR_COMPLETION_ARRIVED, .immediate = immediate});
}

/* The user. */
static void user_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    (void)self;
    (void)now;
    note("command%u ", message->kind);
}

static void user_written(void *self, kvr_ns now, uint64_t token, const struct kvr_pair *pair,
                         kvr_status status)
{
    (void)self;
    (void)now;
    (void)pair;
    assert_true(token < TOKENS);
    fake.written_count[token]++;
    fake.written_status[token] = status;
    note("written%llu:%s ", (unsigned long long)token, kvr_status_name(status));
}

static void user_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint32_t immediate)
{
    (void)self;
    (void)now;
    fake.arrived_count++;
    fake.arrived_epoch = epoch;
    note("arrived%u/%u:%u ", rail, epoch, immediate);
    if (fake.tell_arrivals) {
        struct kvr_group_message message = {.kind = KVR_GROUP_KIND_USER, .id = fake.arrived_count};

        kvr_group_tell(fake.group, &message);
    }
}

static void user_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    (void)self;
    (void)now;
    note("closed%u/%u ", rail, epoch);
}

static bool user_work(void *self, kvr_ns now)
{
    (void)self;
    (void)now;
    return false;
}

static bool user_expecting(void *self)
{
    (void)self;
    return false;
}

/* A group of `rail_count` rails with the given window, and the memory to write from and to. */
struct bench {
    struct kvr_rail rails[RAILS];
    struct kvr_rail *rail_list[RAILS];
    struct kvr_group *group;
    struct kvr_region local;
    struct kvr_remote_region remote;
    struct kvr_peer_rails peer_rails[4];
    uint64_t token;
};

static void bench_open(struct bench *bench, uint32_t rail_count, uint32_t window,
                       uint32_t ring_entries)
{
    struct kvr_group_options options = {
        .fabric = &fake_fabric,
        .rails = bench->rail_list,
        .rail_count = rail_count,
        .window_writes = window,
        .ring_entries = ring_entries,
        .user = {.command = user_command,
                 .written = user_written,
                 .arrived = user_arrived,
                 .epoch_closed = user_epoch_closed,
                 .work = user_work,
                 .expecting = user_expecting},
    };
    struct kvr_error error;
    static uint8_t memory[1 << 16];

    memset(&fake, 0, sizeof(fake));
    memset(bench, 0, sizeof(*bench));
    for (unsigned i = 0; i < RAILS; i++) {
        bench->rails[i].number = i;
        bench->rails[i].facts.write = (struct kvr_write_facts){
            .pieces_local = 4, .pieces_remote = 4, .bytes_max = 1 << 20, .outstanding_max = WRITES};
        bench->rail_list[i] = &bench->rails[i];
    }
    bench->local.layout.bytes = bench->remote.layout.bytes = sizeof(memory);
    bench->local.base = memory;
    bench->local.rail_count = RAILS;
    bench->remote.rail_count = KVR_RAILS_MAX;
    assert_int_equal(kvr_group_open(&options, &bench->group, &error), KVR_OK);
    fake.group = bench->group;
    fake.log[0] = '\0';
}

static bool event(struct bench *bench, struct kvr_group_message *message)
{
    memset(message, 0, sizeof(*message));
    return kvr_group_event(bench->group, message);
}

static void command(struct bench *bench, uint32_t kind, uint32_t index, void *pointer)
{
    struct kvr_group_message message = {.kind = kind, .index = index, .pointer = pointer};

    assert_true(kvr_group_command(bench->group, &message));
    assert_true(kvr_group_step(bench->group, 1));
}

static void peer_add(struct bench *bench, uint32_t peer, uint32_t rail_count)
{
    struct kvr_group_message answer;
    struct kvr_peer_rails *rails = &bench->peer_rails[peer];

    rails->rail_count = rail_count;
    for (uint32_t i = 0; i < rail_count; i++)
        rails->rails[i] =
            (struct kvr_rail_address){.rail = i, .epoch = 1, .bytes = 1, .address = {'a' + i}};
    command(bench, KVR_GROUP_PEER_ADD, peer, rails);
    assert_true(event(bench, &answer));
    assert_int_equal(answer.kind, KVR_GROUP_PEER_ADDED);
    assert_int_equal(answer.status, KVR_OK);
    assert_ptr_equal(answer.pointer, rails);
}

static kvr_status post_bytes(struct bench *bench, uint32_t peer, uint64_t bytes, bool more,
                             struct kvr_pair *ret_pair)
{
    struct kvr_group_piece piece = {&bench->local, &bench->remote, 0, 0, bytes};
    struct kvr_group_post post = {.peer = peer,
                                  .immediate = (uint32_t)bench->token,
                                  .pieces = &piece,
                                  .piece_count = 1,
                                  .token = bench->token,
                                  .more = more};
    kvr_status status = kvr_group_post(bench->group, &post, ret_pair);

    if (status == KVR_OK)
        bench->token++;
    return status;
}

static kvr_status post(struct bench *bench, uint32_t peer, struct kvr_pair *ret_pair)
{
    return post_bytes(bench, peer, 100, false, ret_pair);
}

static void group_pairs_all_rails(void **state)
{
    static const struct {
        uint32_t here, there, pairs;
    } cases[] = {{1, 1, 1}, {3, 1, 3}, {1, 3, 3}, {3, 2, 3}, {2, 3, 3}, {3, 3, 3}, {2, 7, 7}};
    struct bench bench;

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint32_t n = cases[c].here, m = cases[c].there, seen = 0;
        bool used[RAILS][8] = {0};
        struct kvr_pair pair;

        bench_open(&bench, n, 0, 64);
        peer_add(&bench, 0, m);
        for (unsigned i = 0; i < 8 * n; i++) {
            assert_int_equal(post(&bench, 0, &pair), KVR_OK);
            assert_true(pair.rail < n && pair.target_rail < m && pair.epoch == 1);
            assert_true(pair.rail == pair.target_rail % n || pair.target_rail == pair.rail % m);
            seen += !used[pair.rail][pair.target_rail];
            used[pair.rail][pair.target_rail] = true;
        }
        assert_int_equal(seen, cases[c].pairs);
        kvr_group_close(bench.group);
    }
}

static void group_keeps_its_window(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned accepted = 0;

    (void)state;
    bench_open(&bench, 2, 8, 64);
    peer_add(&bench, 0, 2);
    while (post(&bench, 0, &pair) == KVR_OK)
        accepted++;
    /* A single peer has three quarters of each rail. */
    assert_int_equal(accepted, 12);
    assert_int_equal(kvr_group_outstanding(bench.group), 12);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    finish(bench.rails[1].newest, 3, KVR_OK);
    assert_true(kvr_group_step(bench.group, 2));
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(pair.rail, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    assert_int_equal(kvr_group_counters(bench.group, 1).writes, 7);
    assert_int_equal(kvr_group_counters(bench.group, 1).in_flight, 6);
    assert_int_equal(kvr_group_counters(bench.group, 1).bytes, 700);
    assert_false(kvr_group_step(bench.group, 3));
    kvr_group_close(bench.group);
}

static void group_gives_a_slow_rail_less(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned on[2] = {0};

    (void)state;
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    for (unsigned i = 0; i < 400; i++) {
        if (post(&bench, 0, &pair) == KVR_OK)
            on[pair.rail]++;
        finish_all(bench.rails[0].newest); /* rail 1 completes every tenth round */
        if (i % 10 == 0)
            finish_all(bench.rails[1].newest);
        kvr_group_step(bench.group, i);
    }
    assert_true(on[0] > 4 * on[1]);
    assert_true(on[1] > 10);
    kvr_group_close(bench.group);
}

static void group_rings_the_doorbell_at_the_end(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned unrung = 0;
    struct kvr_endpoint *endpoint;

    (void)state;
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(post_bytes(&bench, 0, 100, i != 19, &pair), KVR_OK);
    for (unsigned r = 0; r < 2; r++) {
        endpoint = bench.rails[r].newest;
        assert_true(endpoint->write_count > 0);
        assert_false(endpoint->writes[endpoint->write_count - 1].more);
        for (unsigned i = 0; i < endpoint->write_count; i++)
            unrung += endpoint->writes[i].more;
    }
    assert_int_equal(unrung, 18); /* one doorbell a batch of 16, one for the rest */
    /* The window's end is a batch's end. */
    while (post_bytes(&bench, 0, 100, true, &pair) == KVR_OK)
        ;
    for (unsigned r = 0; r < 2; r++) {
        endpoint = bench.rails[r].newest;
        assert_false(endpoint->writes[endpoint->write_count - 1].more);
    }
    kvr_group_close(bench.group);
    /* AGAIN in the middle of a batch: tried at once without `more`. */
    bench_open(&bench, 1, 0, 64);
    peer_add(&bench, 0, 1);
    assert_int_equal(post_bytes(&bench, 0, 100, true, &pair), KVR_OK);
    endpoint = bench.rails[0].newest;
    endpoint->again_once = 1;
    assert_int_equal(post_bytes(&bench, 0, 100, true, &pair), KVR_OK);
    assert_int_equal(endpoint->write_count, 2);
    assert_false(endpoint->writes[1].more);
    kvr_group_close(bench.group);
}

static void group_breaks_a_pair_and_heals_it(void **state)
{
    struct bench bench;
    struct kvr_pair pair, first;
    struct kvr_group_message message;
    struct kvr_rail_address successor;

    (void)state;
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    assert_int_equal(post(&bench, 0, &first), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(bench.rails[first.rail].newest->write_count, 2);
    finish(bench.rails[first.rail].newest, 0, KVR_PEER_LOST);
    finish(bench.rails[first.rail].newest, 0, KVR_PEER_LOST);
    assert_true(kvr_group_step(bench.group, 2));
    assert_int_equal(fake.written_status[0], KVR_RAIL_FAILED);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_PAIR_BROKEN);
    assert_int_equal(message.index, 0);
    assert_int_equal(message.a, first.rail);
    assert_int_equal(message.b, first.target_rail);
    assert_int_equal(message.c, 1);
    assert_int_equal(message.status, KVR_PEER_LOST);
    assert_false(event(&bench, &message)); /* once, for two failures */
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(post(&bench, 0, &pair), KVR_OK);
        assert_int_not_equal(pair.rail, first.rail);
    }
    /* The other pair refuses for good: none is left. */
    bench.rails[pair.rail].newest->next_write = KVR_PEER_LOST;
    assert_int_equal(post(&bench, 0, &pair), KVR_NO_RAIL);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_PAIR_BROKEN);
    /* The peer opened a new endpoint there; an old one does not count. */
    successor = bench.peer_rails[0].rails[first.target_rail];
    command(&bench, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_PEER_RAIL_SET);
    assert_int_equal(message.status, KVR_STALE);
    successor.epoch = 2;
    command(&bench, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_OK);
    assert_ptr_equal(message.pointer, &successor);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(pair.rail, first.rail);
    assert_int_equal(pair.epoch, 2);
    kvr_group_close(bench.group);
}

static void group_failures_of_an_ended_epoch_break_nothing(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_rail_address successor;

    (void)state;
    bench_open(&bench, 1, 0, 64);
    fake.log_inserts = true;
    peer_add(&bench, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    successor = (struct kvr_rail_address){.rail = 0, .epoch = 2, .bytes = 1, .address = {'z'}};
    command(&bench, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(event(&bench, &message));
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(pair.epoch, 2);
    finish(bench.rails[0].newest, 0, KVR_PEER_LOST); /* the write of epoch 1 */
    assert_true(kvr_group_step(bench.group, 2));
    assert_int_equal(fake.written_status[0], KVR_EPOCH_ENDED);
    assert_false(event(&bench, &message));
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    /* The old address left the table only with its last write. */
    assert_string_equal(fake.log, "insert0(a) insert0(z) remove0 written0:epoch_ended ");
    kvr_group_close(bench.group);
}

static void group_drops_a_peer(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;

    (void)state;
    bench_open(&bench, 1, 0, 64);
    fake.log_inserts = true;
    peer_add(&bench, 3, 1);
    assert_int_equal(post(&bench, 3, &pair), KVR_OK);
    command(&bench, KVR_GROUP_PEER_DROP, 3, NULL);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_PEER_DROPPED);
    assert_int_equal(message.status, KVR_OK);
    assert_int_equal(post(&bench, 3, &pair), KVR_NO_RAIL);
    command(&bench, KVR_GROUP_PEER_DROP, 3, NULL);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_NOT_FOUND);
    peer_add(&bench, 3, 1); /* the same index, while a write of the old peer is in flight */
    finish(bench.rails[0].newest, 0, KVR_OK);
    kvr_group_step(bench.group, 2);
    assert_string_equal(fake.log, "insert0(a) insert0(a) remove0 written0:ok ");
    assert_int_equal(post(&bench, 3, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

static void group_recycles_in_order(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_rail_address before, after;
    struct kvr_endpoint *old;

    (void)state;
    bench_open(&bench, 1, 0, 64);
    fake.log_inserts = true;
    peer_add(&bench, 0, 1);
    peer_add(&bench, 1, 1);
    before = kvr_group_address(bench.group, 0);
    assert_int_equal(before.epoch, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post(&bench, i & 1, &pair), KVR_OK);
    old = bench.rails[0].newest;
    /* Commands run before the queue is read, so all of these are still in it. */
    finish(old, 0, KVR_OK);          /* completed before the stop */
    finish(old, 0, KVR_RAIL_FAILED); /* failed because of it */
    arrive(old, 77);
    fake.log[0] = '\0';
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_string_equal(fake.log, "open0 stop0 written0:ok arrived0/1:77 written1:epoch_ended "
                                  "written2:epoch_ended close0 closed0/1 insert0(a) insert0(a) ");
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_RECYCLED);
    assert_int_equal(message.status, KVR_OK);
    assert_int_equal(message.a, 1);
    assert_int_equal(message.b, 2);
    after = kvr_group_address(bench.group, 0);
    assert_int_equal(after.epoch, 2);
    assert_memory_not_equal(after.address, before.address, sizeof(before.address));
    assert_int_equal(kvr_group_outstanding(bench.group), 0);
    arrive(bench.rails[0].newest, 78);
    kvr_group_step(bench.group, 3);
    assert_int_equal(fake.arrived_epoch, 2);
    assert_int_equal(kvr_group_counters(bench.group, 0).recycles, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

static void group_ends_an_epoch_without_a_successor(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;

    (void)state;
    bench_open(&bench, 1, 0, 64);
    peer_add(&bench, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    bench.rails[0].refuse_open = true;
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_string_equal(fake.log, "stop0 written0:epoch_ended close0 closed0/1 ");
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_PAIR_BROKEN);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_RECYCLED);
    assert_int_equal(message.status, KVR_SYSTEM);
    assert_int_equal(kvr_group_address(bench.group, 0).bytes, 0);
    assert_int_equal(post(&bench, 0, &pair), KVR_NO_RAIL);
    kvr_group_step(bench.group, 2);
    bench.rails[0].refuse_open = false;
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_OK);
    assert_int_equal(message.b, 3);
    assert_non_null(strstr(fake.log, "closed0/2 ")); /* or who waits for it waits for ever */
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

static void group_counts_what_it_does_not_know(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_completion late;

    (void)state;
    bench_open(&bench, 1, 0, 64);
    peer_add(&bench, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish(bench.rails[0].newest, 0, KVR_OK);
    late = bench.rails[0].newest->queue[0];
    push(bench.rails[0].newest, late); /* the same completion twice */
    kvr_group_step(bench.group, 2);
    assert_int_equal(fake.written_count[0], 1);
    assert_int_equal(kvr_group_counters(bench.group, 0).stale, 1);
    /* An error entry without a write of ours is told once an epoch. */
    for (unsigned i = 0; i < 3; i++)
        push(bench.rails[0].newest,
             (struct kvr_completion){.kind = KVR_COMPLETION_FAILED, .status = KVR_PEER_LOST});
    kvr_group_step(bench.group, 3);
    assert_true(event(&bench, &message));
    assert_int_equal(message.kind, KVR_GROUP_RAIL_ERROR);
    assert_int_equal(message.a, 1);
    assert_false(event(&bench, &message));
    assert_int_equal(kvr_group_counters(bench.group, 0).failures, 3);
    kvr_group_close(bench.group);
}

static void group_one_dead_peer_starves_nobody(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;
    unsigned living = 0;
    uint64_t again;

    (void)state;
    bench_open(&bench, 1, 16, 64);
    peer_add(&bench, 0, 1);
    peer_add(&bench, 1, 1);
    endpoint = bench.rails[0].newest;
    /* Peer 0 takes what it can and never completes. */
    while (post(&bench, 0, &pair) == KVR_OK)
        ;
    for (unsigned i = 0; i < 100; i++) {
        while (post(&bench, 1, &pair) == KVR_OK)
            living++;
        finish(endpoint, endpoint->write_count - 1, KVR_OK);
        kvr_group_step(bench.group, 10 + i);
    }
    assert_true(living >= 100);
    /* Peer 0 answers AGAIN for ever: it is asked seldom, although others complete all the time. */
    while (endpoint->write_count > 0)
        finish(endpoint, 0, KVR_OK);
    kvr_group_step(bench.group, 200);
    endpoint->dead_peer = 1;
    again = kvr_group_counters(bench.group, 0).again;
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
        assert_int_equal(post(&bench, 1, &pair), KVR_OK);
        finish(endpoint, 0, KVR_OK);
        kvr_group_step(bench.group, 300 + i * KVR_US); /* 10 ms in all */
    }
    again = kvr_group_counters(bench.group, 0).again - again;
    assert_true(again > 5 && again < 20);
    /* And it is asked again in time, with nothing else going on. */
    assert_true(kvr_group_wake_at(bench.group, KVR_S, KVR_US) <= KVR_S + KVR_GROUP_IDLE_POLL_NS);
    endpoint->dead_peer = 0;
    kvr_group_step(bench.group, 2 * KVR_S);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

/* Two links wait, each until its own time; the first one's goes by without a word of the other. */
static void group_wakes_every_link_that_waits(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;

    (void)state;
    bench_open(&bench, 1, 16, 64);
    peer_add(&bench, 0, 1);
    peer_add(&bench, 1, 1);
    endpoint = bench.rails[0].newest;
    kvr_group_step(bench.group, KVR_S);
    endpoint->again_once = 2;
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    kvr_group_step(bench.group, KVR_S + 30 * KVR_US);
    assert_int_equal(post(&bench, 1, &pair), KVR_AGAIN);
    assert_true(kvr_group_wake_at(bench.group, KVR_S, KVR_S) == KVR_S + 50 * KVR_US);
    kvr_group_step(bench.group, KVR_S + 50 * KVR_US);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 1, &pair), KVR_AGAIN);
    assert_true(kvr_group_wake_at(bench.group, KVR_S + 50 * KVR_US, KVR_S) == KVR_S + 80 * KVR_US);
    kvr_group_step(bench.group, KVR_S + 80 * KVR_US);
    assert_int_equal(post(&bench, 1, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

static void group_waits_for_a_slow_loop(void **state)
{
    struct bench bench;
    struct kvr_group_message message;
    uint64_t expected = 1, arrivals = 0;

    (void)state;
    bench_open(&bench, 2, 0, 16);
    fake.tell_arrivals = true;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 10; i++) {
            struct kvr_endpoint *endpoint = bench.rails[i % 2].newest;

            if (endpoint->queue_count < WRITES) {
                arrive(endpoint, i);
                arrivals++;
            }
        }
        kvr_group_step(bench.group, round);
    }
    assert_true(bench.rails[0].newest->queue_count > 0); /* not read: the loop is behind */
    assert_false(kvr_group_may_sleep(bench.group));
    for (unsigned round = 0; expected <= arrivals; round++) {
        assert_true(round < 10000);
        if (event(&bench, &message))
            assert_int_equal(message.id, expected++);
        else
            kvr_group_step(bench.group, 100);
    }
    assert_true(kvr_group_told(bench.group));
    assert_false(kvr_group_told(bench.group));
    kvr_group_step(bench.group, 101);
    assert_true(kvr_group_may_sleep(bench.group));
    kvr_group_close(bench.group);
}

static void group_refuses_nonsense(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_group_piece piece = {&bench.local, &bench.remote, 0, 0, 100};
    struct kvr_group_post bad = {.pieces = &piece, .piece_count = 1};
    struct kvr_peer_rails rails = {.rail_count = 2};
    struct kvr_rail *no_rail[1] = {NULL};
    struct kvr_group_options options = {.fabric = &fake_fabric, .rails = no_rail};
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_group_open(&options, &bench.group, &error), KVR_INVALID);
    bench_open(&bench, 1, 0, 64);
    peer_add(&bench, 0, 1);
    piece.remote_offset = bench.remote.layout.bytes - 99;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_INVALID);
    piece.remote_offset = UINT64_MAX - 50;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_INVALID);
    piece.remote_offset = 0;
    piece.local_offset = bench.local.layout.bytes;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_INVALID);
    piece.local_offset = 0;
    bad.piece_count = 0;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_INVALID);
    bad.piece_count = 1;
    bad.peer = 1;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_NO_RAIL);
    bad.peer = KVR_PEERS_MAX;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_NO_RAIL);
    bad.peer = 0;
    bench.rails[0].facts.write.bytes_max = 50;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_OK); /* read at open */
    bench.remote.rail_count = 0;
    assert_int_equal(kvr_group_post(bench.group, &bad, &pair), KVR_NO_RAIL);
    /* Two rails of one name, an address too long, a peer twice, a rail that is not ours. */
    command(&bench, KVR_GROUP_PEER_ADD, 1, &rails);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_INVALID);
    rails.rails[1].rail = 1;
    rails.rails[1].bytes = KVR_ADDRESS_BYTES + 1;
    command(&bench, KVR_GROUP_PEER_ADD, 1, &rails);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_INVALID);
    rails.rails[0].bytes = rails.rails[1].bytes = 1;
    command(&bench, KVR_GROUP_PEER_ADD, 0, &rails);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_EXISTS);
    command(&bench, KVR_GROUP_RECYCLE, 1, NULL);
    assert_true(event(&bench, &message));
    assert_int_equal(message.status, KVR_INVALID);
    kvr_group_close(bench.group);
}

/* One random step of one random case. */
static void random_action(struct bench *bench, struct kvr_rng *rng, uint32_t *epochs)
{
    struct kvr_endpoint *endpoint = bench->rails[kvr_rng_below(rng, RAILS)].newest;
    static struct kvr_rail_address successor;
    struct kvr_pair pair;

    switch (kvr_rng_below(rng, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        for (uint64_t i = kvr_rng_below(rng, 20); i > 0; i--)
            (void)post_bytes(bench, (uint32_t)kvr_rng_below(rng, 3), kvr_rng_below(rng, 1000),
                             i > 1, &pair);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        while (endpoint->write_count > 0 && kvr_rng_percent(rng, 80))
            finish(endpoint, (unsigned)kvr_rng_below(rng, endpoint->write_count),
                   kvr_rng_percent(rng, 95) ? KVR_OK : KVR_PEER_LOST);
        break;
    case 8:
        endpoint->again_once = (unsigned)kvr_rng_below(rng, 5);
        break;
    case 9:
        command(bench, KVR_GROUP_RECYCLE, endpoint->rail->number, NULL);
        break;
    case 10:
        successor = (struct kvr_rail_address){
            .rail = (uint32_t)kvr_rng_below(rng, 2), .epoch = ++*epochs, .bytes = 1};
        command(bench, KVR_GROUP_PEER_RAIL, (uint32_t)kvr_rng_below(rng, 3), &successor);
        break;
    default:
        command(bench, kvr_rng_percent(rng, 50) ? KVR_GROUP_PEER_DROP : KVR_GROUP_PEER_ADD, 2,
                &bench->peer_rails[2]);
    }
}

static void group_settles_every_post_once(void **state)
{
    uint64_t cases = check_cases(200, 5000);
    struct kvr_group_message message;

    (void)state;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        struct bench bench;
        struct kvr_rng rng;
        uint32_t epochs = 1;

        kvr_rng_init(&rng, seed);
        bench_open(&bench, RAILS, (uint32_t)kvr_rng_between(&rng, 1, 40), 64);
        for (uint32_t peer = 0; peer < 3; peer++)
            peer_add(&bench, peer, 2);
        for (unsigned i = 0; i < 300; i++) {
            random_action(&bench, &rng, &epochs);
            fake.log[0] = '\0';
            kvr_group_step(bench.group, i * 30 * KVR_US);
            while (event(&bench, &message))
                ;
        }
        for (uint32_t rail = 0; rail < RAILS; rail++)
            command(&bench, KVR_GROUP_RECYCLE, rail, NULL);
        assert_int_equal(kvr_group_outstanding(bench.group), 0);
        assert_true(bench.token > 0);
        for (uint64_t token = 0; token < bench.token; token++) {
            if (fake.written_count[token] != 1)
                fail_msg("seed %llu: token %llu was settled %u times", (unsigned long long)seed,
                         (unsigned long long)token, fake.written_count[token]);
        }
        for (uint32_t rail = 0; rail < RAILS; rail++)
            assert_int_equal(kvr_group_counters(bench.group, rail).in_flight, 0);
        kvr_group_close(bench.group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_pairs_all_rails),
        cmocka_unit_test(group_keeps_its_window),
        cmocka_unit_test(group_gives_a_slow_rail_less),
        cmocka_unit_test(group_rings_the_doorbell_at_the_end),
        cmocka_unit_test(group_breaks_a_pair_and_heals_it),
        cmocka_unit_test(group_failures_of_an_ended_epoch_break_nothing),
        cmocka_unit_test(group_drops_a_peer),
        cmocka_unit_test(group_recycles_in_order),
        cmocka_unit_test(group_ends_an_epoch_without_a_successor),
        cmocka_unit_test(group_counts_what_it_does_not_know),
        cmocka_unit_test(group_one_dead_peer_starves_nobody),
        cmocka_unit_test(group_wakes_every_link_that_waits),
        cmocka_unit_test(group_waits_for_a_slow_loop),
        cmocka_unit_test(group_refuses_nonsense),
        cmocka_unit_test(group_settles_every_post_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
