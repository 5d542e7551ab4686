/* Goal: two groups on their own threads move a stream over real rails, fall asleep when idle, wake
 * up on a doorbell, and follow a recycled rail. Method: both in this process over tcp on loopback;
 * the test is the loop thread of both. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "fabric/local/fabric_local.h"
#include "fabric/ofi/fabric_ofi.h"
#include "rail_group/rail_group_thread.h"

#define RAILS       2
#define CHUNK       (16u << 10)
#define BYTES       (8u << 20)
#define COMMAND_RUN KVR_GROUP_KIND_USER

union run_command {
    struct kvr_group_message any;
    struct {
        struct kvr_group_head head;
        uint64_t writes; /* to post to peer 0 */
    };
};

struct party {
    struct kvr_fabric fabric;
    struct kvr_rail *rails[RAILS];
    struct kvr_region *region;
    struct kvr_remote_region other;
    struct kvr_group *group;
    struct kvr_group_thread *thread;
    uint8_t *memory;
    uint64_t to_post; /* rail thread */
    uint64_t posted;
    _Atomic uint64_t word, word_seen; /* as an engine's readiness word */
    _Atomic bool asleep;
    _Atomic uint64_t arrived, written, ended, closed, notified;
    int doorbell, freed; /* an engine's: it takes the number of a rail's old descriptor; -1: none */
    _Atomic bool watched;
};

static void user_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    struct party *party = self;

    (void)now;
    assert_int_equal(message->head.kind, COMMAND_RUN);
    party->to_post += ((union run_command){.any = *message}).writes;
}

static void user_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    struct party *party = self;

    (void)now;
    (void)token;
    if (status == KVR_OK)
        party->written += count;
    else
        party->ended += count;
}

static void user_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    struct party *party = self;

    (void)now;
    (void)rail;
    (void)epoch;
    (void)immediate;
    party->arrived++;
}

static void user_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    struct party *party = self;

    (void)now;
    (void)rail;
    (void)epoch;
    party->closed++;
    if (party->freed >= 0 && fcntl(party->freed, F_GETFD) < 0)
        party->watched = dup2(party->doorbell, party->freed) == party->freed &&
                         kvr_group_thread_watch(party->thread, party->freed) == KVR_OK;
}

static bool user_work(void *self, kvr_ns now)
{
    struct party *party = self;
    struct kvr_pair pair;
    bool moved = false;

    (void)now;
    party->word_seen = party->word;
    while (party->to_post > 0) {
        uint64_t offset = party->posted % (BYTES / CHUNK) * CHUNK;
        struct kvr_group_piece piece = {party->region, &party->other, offset, offset, CHUNK, NULL};
        struct kvr_group_post post = {.immediate = (uint32_t)party->posted,
                                      .pieces = &piece,
                                      .piece_count = 1,
                                      .token = party->posted,
                                      .more = party->to_post > 1};

        if (kvr_group_post(party->group, &post, &pair) != KVR_OK)
            break;
        party->to_post--;
        party->posted++;
        moved = true;
    }
    return moved;
}

static bool user_may_sleep(void *self, bool asleep)
{
    struct party *party = self;

    party->asleep = asleep;
    return party->word_seen == party->word;
}

static bool user_expecting(void *self)
{
    (void)self;
    return false;
}

static void notify(void *self)
{
    struct party *party = self;

    party->notified++;
}

/* core: NULL, or the core of the group's thread */
static void group_start(struct party *party, kvr_ns spin_ns, const int *core)
{
    struct kvr_group_options options = {.fabric = &party->fabric,
                                        .rails = party->rails,
                                        .rail_count = RAILS,
                                        .user = {.self = party,
                                                 .command = user_command,
                                                 .written = user_written,
                                                 .arrived = user_arrived,
                                                 .epoch_closed = user_epoch_closed,
                                                 .work = user_work,
                                                 .may_sleep = user_may_sleep,
                                                 .expecting = user_expecting}};
    struct kvr_group_thread_options thread = {.spin_ns = spin_ns,
                                              .cores = core,
                                              .core_count = core != NULL,
                                              .notify = notify,
                                              .notify_self = party};
    struct kvr_error error;

    assert_int_equal(kvr_group_open(&options, &party->group, &error), KVR_OK);
    assert_int_equal(kvr_group_thread_start(party->group, &thread, &party->thread, &error), KVR_OK);
}

static void rails_open(struct party *party, const char *provider, const char *const *names)
{
    struct kvr_error error;

    for (int i = 0; i < RAILS; i++) {
        struct kvr_rail_options rail = {0};

        strcpy(rail.provider, provider);
        strcpy(rail.name, names[i]);
        assert_int_equal(party->fabric.ops->rail_open(NULL, &rail, &party->rails[i], &error),
                         KVR_OK);
    }
}

static void party_start_on(struct party *party, kvr_ns spin_ns, const int *core)
{
    static const char *const names[RAILS] = {"127.0.0.1", "127.0.0.2"};
    struct kvr_region_layout layout = {.bytes = BYTES};
    struct kvr_error error;

    memset(party, 0, sizeof(*party));
    party->freed = -1;
    kvr_fabric_ofi(&party->fabric);
    party->memory = calloc(1, BYTES);
    rails_open(party, "tcp", names);
    assert_int_equal(kvr_region_open_mapped(&party->fabric, party->rails, RAILS, &layout,
                                            party->memory, true, KVR_REMOTE_ALWAYS, &party->region,
                                            &error),
                     KVR_OK);
    group_start(party, spin_ns, core);
}

/* Nothing can be posted there; each endpoint has a descriptor of its own. */
static void party_start_local(struct party *party)
{
    static const char *const names[RAILS] = {"", ""};

    memset(party, 0, sizeof(*party));
    kvr_fabric_local(&party->fabric);
    rails_open(party, KVR_FABRIC_LOCAL, names);
    group_start(party, 0, NULL);
}

static void party_start(struct party *party, kvr_ns spin_ns)
{
    party_start_on(party, spin_ns, NULL);
}

static void party_stop(struct party *party)
{
    kvr_group_thread_stop(party->thread);
    kvr_group_close(party->group);
    kvr_region_release(&party->fabric, party->region);
    for (int i = 0; i < RAILS; i++)
        party->fabric.ops->rail_close(party->rails[i]);
    free(party->memory);
}

static void command(struct party *party, struct kvr_group_message message)
{
    assert_true(kvr_group_command(party->group, &message));
    kvr_group_thread_kick(party->thread);
}

static void command_run(struct party *party, uint64_t writes)
{
    union run_command run = {.head.kind = COMMAND_RUN, .writes = writes};

    command(party, run.any);
}

static void command_recycle(struct party *party, uint32_t rail)
{
    command(party,
            (struct kvr_group_message){.head.kind = KVR_GROUP_RECYCLE, .recycle.rail = rail});
}

/* The next event, within a bound. */
static struct kvr_group_message event(struct party *party)
{
    struct kvr_group_message message = {0};
    kvr_ns deadline = kvr_clock_now() + 10 * KVR_S;

    while (!kvr_group_event(party->group, &message)) {
        assert_true(kvr_clock_now() < deadline);
        usleep(100);
    }
    return message;
}

static void connect_as(struct party *party, struct party *other, uint32_t peer)
{
    static struct kvr_peer_rails rails[2];
    static int next;
    struct kvr_peer_rails *mine = &rails[next++ % 2];

    mine->rail_count = RAILS;
    party->other.rail_count = RAILS;
    party->other.layout = other->region->layout;
    for (uint32_t i = 0; i < RAILS; i++) {
        mine->rails[i] = kvr_group_address(other->group, i);
        party->other.keys[i] = other->region->keys[i];
    }
    command(party, (struct kvr_group_message){.head.kind = KVR_GROUP_PEER_ADD,
                                              .peer_rails = {.peer = peer, .rails = mine}});
    assert_int_equal(event(party).peer_rails.status, KVR_OK);
}

static void connect_to(struct party *party, struct party *other)
{
    connect_as(party, other, 0);
}

static bool reaches(_Atomic uint64_t *counter, uint64_t value)
{
    kvr_ns deadline = kvr_clock_now() + 20 * KVR_S;

    while (*counter < value) {
        if (kvr_clock_now() > deadline)
            return false;
        usleep(200);
    }
    return true;
}

static void threads_move_a_stream(void **state)
{
    static struct party source, target;

    (void)state;
    party_start(&source, 20 * KVR_US);
    party_start(&target, 20 * KVR_US);
    connect_to(&source, &target);
    memset(source.memory, 0x5a, BYTES);
    command_run(&source, 5000);
    assert_true(reaches(&target.arrived, 5000));
    assert_true(reaches(&source.written, 5000));
    assert_memory_equal(source.memory, target.memory, BYTES);
    assert_true(source.notified >= 1);
    for (uint32_t i = 0; i < RAILS; i++)
        assert_true(kvr_group_counters(source.group, i).writes > 500);
    party_stop(&source);
    party_stop(&target);
}

static uint64_t thread_cpu(const struct party *party)
{
    return kvr_group_thread_counters(party->thread).cpu_ns;
}

/* Waits until neither thread has woken for a while: all work has ended. */
static void await_sleep(const struct party *one, const struct party *other)
{
    uint64_t last = 0, wakeups = 1;

    for (unsigned i = 0; i < 100 && wakeups != last; i++) {
        last = wakeups;
        usleep(200000);
        wakeups = kvr_group_thread_counters(one->thread).wakeups +
                  kvr_group_thread_counters(other->thread).wakeups;
    }
}

/* With a hundred peers as with one. */
static void threads_sleep_when_idle(void **state)
{
    static struct party source, target;
    uint64_t before, wakeups;

    (void)state;
    party_start(&source, 20 * KVR_US);
    party_start(&target, 20 * KVR_US);
    for (uint32_t peer = 0; peer < 100; peer++)
        connect_as(&source, &target, peer);
    command_run(&source, 1000); /* connections exist, and have been used */
    assert_true(reaches(&target.arrived, 1000));
    await_sleep(&source, &target);
    before = thread_cpu(&source) + thread_cpu(&target);
    wakeups = kvr_group_thread_counters(source.thread).wakeups;
    usleep(1000000);
    assert_true(kvr_group_thread_counters(source.thread).wakeups - wakeups < 20);
    assert_true(before > 0);
    assert_true(thread_cpu(&source) + thread_cpu(&target) - before < 20 * KVR_MS);
    party_stop(&source);
    party_stop(&target);
}

/* After each progress the thread polls for the given time and no longer, and then sleeps. */
static void threads_spin_at_most_so_long(void **state)
{
    static const kvr_ns spins[] = {0, 3 * KVR_MS};
    enum { KICKS = 10 };

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        static struct party party;
        struct kvr_group_thread_counters before, after;
        unsigned kicks = 0;

        party_start(&party, spins[i]);
        usleep(20000);
        before = kvr_group_thread_counters(party.thread);
        do { /* a thread may be late where others have the cores */
            command_run(&party, 0);
            usleep(20000);
            kicks++;
            after = kvr_group_thread_counters(party.thread);
        } while (kicks < KICKS || (after.wakeups - before.wakeups < KICKS && kicks < 50 * KICKS));
        assert_true(after.wakeups - before.wakeups >= KICKS / 2);
        /* Once more where the thread had not even begun. */
        assert_true(after.spin_ns - before.spin_ns <= (kicks + 1) * spins[i]);
        assert_true(spins[i] == 0 || after.spin_ns > before.spin_ns);
        party_stop(&party);
    }
}

static uint64_t own_cpu(void)
{
    struct timespec cpu;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (uint64_t)cpu.tv_sec * KVR_S + (uint64_t)cpu.tv_nsec;
}

/* On one core with a thread that always has work, it takes much less than half of the core. */
static void threads_that_spin_leave_the_core_to_others(void **state)
{
    static struct party party;
    int core = sched_getcpu();
    cpu_set_t before, one;
    uint64_t spun, worked;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    party_start_on(&party, 60 * KVR_S, &core);
    CPU_ZERO(&one);
    CPU_SET((unsigned)core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    usleep(20000); /* both are there */
    spun = thread_cpu(&party);
    worked = own_cpu();
    while (own_cpu() - worked < 300 * KVR_MS)
        ;
    assert_true(thread_cpu(&party) - spun < 100 * KVR_MS);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    party_stop(&party);
}

/* What an engine does: store, then ring if the agent sleeps. No store may be missed. */
static void threads_wake_for_an_engine(void **state)
{
    static struct party party;
    int fd = eventfd(0, EFD_NONBLOCK);

    (void)state;
    party_start(&party, 0);
    assert_int_equal(kvr_group_thread_watch(party.thread, fd), KVR_OK);
    for (uint64_t i = 1; i <= 3000; i++) {
        kvr_ns deadline = kvr_clock_now() + 5 * KVR_S;

        party.word = i;
        if (party.asleep)
            assert_int_equal(eventfd_write(fd, 1), 0);
        while (party.word_seen != i)
            assert_true(kvr_clock_now() < deadline);
        if (i % 3 == 0)
            usleep(50);
    }
    kvr_group_thread_unwatch(party.thread, fd);
    close(fd);
    party_stop(&party);
}

/* An engine may attach while a rail is recycled. Its doorbell then gets the number of the rail's
 * old descriptor. */
static void a_doorbell_with_a_rails_old_number_is_heard(void **state)
{
    static struct party party;
    kvr_ns deadline;

    (void)state;
    party_start_local(&party);
    party.doorbell = eventfd(0, EFD_NONBLOCK);
    party.freed = kvr_group_wait_fd(party.group, 0);
    assert_true(party.freed >= 0);
    command_recycle(&party, 0);
    assert_int_equal(event(&party).head.kind, KVR_GROUP_RECYCLED);
    assert_true(party.watched);
    usleep(20000); /* until it sleeps */
    party.word = 1;
    assert_int_equal(eventfd_write(party.doorbell, 1), 0);
    deadline = kvr_clock_now() + 5 * KVR_S;
    while (party.word_seen != 1)
        assert_true(kvr_clock_now() < deadline);
    close(party.freed);
    close(party.doorbell);
    party_stop(&party);
}

static void threads_follow_a_recycled_rail(void **state)
{
    static struct party source, target;
    struct kvr_group_message message;
    uint64_t settled = 0;

    (void)state;
    party_start(&source, 20 * KVR_US);
    party_start(&target, 20 * KVR_US);
    connect_to(&source, &target);
    for (unsigned round = 1; round <= 10; round++) {
        static struct kvr_rail_address successor;
        uint64_t arrived;

        command_run(&source, 500);
        command_recycle(&target, round % RAILS);
        do {
            message = event(&target); /* errors of the torn connection may come before */
        } while (message.head.kind != KVR_GROUP_RECYCLED);
        assert_int_equal(message.recycled.status, KVR_OK);
        assert_int_equal(target.closed, round);
        successor = kvr_group_address(target.group, message.recycled.rail);
        assert_int_equal(successor.epoch, message.recycled.epoch);
        command_recycle(&source, message.recycled.rail);
        command(&source, (struct kvr_group_message){.head.kind = KVR_GROUP_PEER_RAIL,
                                                    .peer_rail.address = &successor});
        do {
            message = event(&source);
        } while (message.head.kind != KVR_GROUP_PEER_RAIL_SET);
        assert_int_equal(message.peer_rail.status, KVR_OK);
        /* Every post settles, one way or the other; and the new epochs carry new ones. */
        settled += 500;
        for (unsigned i = 0; i < 10000 && source.written + source.ended < settled; i++)
            usleep(1000);
        assert_int_equal(source.written + source.ended, settled);
        arrived = target.arrived;
        command_run(&source, 100);
        settled += 100;
        assert_true(reaches(&target.arrived, arrived + 100));
        for (unsigned i = 0; i < 10000 && source.written + source.ended < settled; i++)
            usleep(1000);
    }
    party_stop(&source);
    party_stop(&target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_move_a_stream),
        cmocka_unit_test(threads_sleep_when_idle),
        cmocka_unit_test(threads_spin_at_most_so_long),
        cmocka_unit_test(threads_that_spin_leave_the_core_to_others),
        cmocka_unit_test(threads_wake_for_an_engine),
        cmocka_unit_test(a_doorbell_with_a_rails_old_number_is_heard),
        cmocka_unit_test(threads_follow_a_recycled_rail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
