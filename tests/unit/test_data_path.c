/* Goal: after the start no write allocates memory, takes a lock or logs, neither where it leaves
 * nor where it lands. Method: the linker puts counters before these calls (--wrap). The source's
 * path is the benchmark's, over the null fabric; the target's is land on a scripted fabric. Two
 * groups also write to each other over libfabric; libfabric's own calls do not count. The calls at
 * the start prove that the counters work. */
#include "tests/support/check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "decode-agent/land.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"
#include "tools/bench/bench_ping.h"
#include "tools/post_rig.h"

static _Thread_local uint64_t allocations, locks, logs; /* local has its own helper threads */

#define WRAP(type, name, parameters, arguments, counter)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        counter++;                                                                                 \
        return __real_##name arguments;                                                            \
    }
WRAP(void *, malloc, (size_t bytes), (bytes), allocations)
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes), allocations)
WRAP(void *, realloc, (void *old, size_t bytes), (old, bytes), allocations)
WRAP(void *, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes), allocations)
WRAP(void, free, (void *memory), (memory), allocations)
WRAP(void *, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
     (at, bytes, protection, flags, fd, offset), allocations)
WRAP(int, posix_memalign, (void **memory, size_t alignment, size_t bytes),
     (memory, alignment, bytes), allocations)
WRAP(char *, strdup, (const char *text), (text), allocations)
WRAP(int, munmap, (void *at, size_t bytes), (at, bytes), allocations)
WRAP(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex), locks)
WRAP(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex), locks)
WRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock), locks)
WRAP(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock), locks)
WRAP(int, pthread_spin_lock, (pthread_spinlock_t * lock), (lock), locks)
WRAP(int, sem_wait, (sem_t * semaphore), (semaphore), locks)
WRAP(int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex),
     (condition, mutex), locks)
WRAP(int, pthread_cond_signal, (pthread_cond_t * condition), (condition), locks)
WRAP(int, pthread_cond_broadcast, (pthread_cond_t * condition), (condition), locks)

void __wrap_kvr_log(kvr_log_level level, const char *format, ...);
void __wrap_kvr_log(kvr_log_level level, const char *format, ...)
{
    (void)level, (void)format;
    logs++;
}

static void count_from_here(void)
{
    allocations = locks = logs = 0;
}

static void assert_nothing_counted(void)
{
    assert_int_equal(allocations, 0);
    assert_int_equal(locks, 0);
    assert_int_equal(logs, 0);
}

static void nothing_on_the_way_out(void **state)
{
    static struct post_rig rig;
    static const struct post_rig_options options = {.page_bytes = 65536,
                                                    .layers = 8,
                                                    .pages = 512,
                                                    .rails = 4,
                                                    .jobs = 3,
                                                    .pieces = 1,
                                                    .in_flight = 128,
                                                    .spans = true};
    uint64_t writes;

    (void)state;
    count_from_here();
    assert_true(post_rig_start(&rig, &options));
    assert_true(allocations > 0 && locks > 0);
    kvr_log(KVR_LOG_DEBUG, "this is counted");
    assert_int_equal(logs, 1);
    count_from_here();
    assert_true(post_rig_run(&rig, 100000));
    writes = rig.writes;
    assert_nothing_counted();
    assert_true(writes >= 100000);
    post_rig_stop(&rig);
}

static void nothing_on_the_way_in(void **state)
{
    static uint8_t tables[8u << 20] __attribute__((aligned(64)));
    static uint64_t bits[KVR_SLOT_CHUNKS / 64];
    static uint32_t left[SMALL_LAYERS];
    static struct land land;
    static struct group_fixture fixture;
    static struct small_side source, target;
    static struct kvr_rail_span spans[KVR_RAILS_MAX];
    struct landing landing = {
        .set = &target.set, .slots = {1}, .slot_count = 1, .bits = bits, .arrived.spans = spans};
    struct landing_segment segment = {.left = left};
    const union land_message open = LAND_MESSAGE(LAND_OPEN, .opened = &landing),
                             add = LAND_MESSAGE(LAND_SEGMENT, .segment = &segment);
    struct kvr_group_message message;
    struct kvr_buddy memory;
    uint32_t layers = 0;

    (void)state;
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, 1);
    small_side_init(&target, 1);
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 1, .ring_entries = 256, .user = land_user(&land)});
    land.group = fixture.group;
    segment.plan = small_plan_make(&source, &target, &memory);
    count_from_here();
    assert_true(kvr_group_command(fixture.group, &open.any) &&
                kvr_group_command(fixture.group, &add.any));
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++) {
        arrive(fixture.rails[0].newest, 1u << 16 | chunk);
        kvr_group_step(fixture.group, KVR_S);
    }
    while (kvr_group_event(fixture.group, &message))
        layers += message.head.kind == LAND_LAYER;
    assert_nothing_counted();
    assert_int_equal(layers, SMALL_LAYERS);
    assert_int_equal(spans[0].bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES);
    kvr_group_close(fixture.group);
}

/* ---- over libfabric -------------------------------------------------------------------------- */

#define STREAM 2000u
#define WARM   64u /* writes that connect the ends first */
#define PAGE   16384u

struct writer {
    struct ping_pair pair;
    struct kvr_group *groups[2];
    struct kvr_remote_region remote;
    uint64_t posted, allowed, written, arrived;
};

static void over_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)now, (void)token;
    assert_int_equal(status, KVR_OK);
    ((struct writer *)self)->written += count;
}

static void over_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    (void)now, (void)rail, (void)epoch, (void)immediate;
    ((struct writer *)self)->arrived++;
}

static bool over_work(void *self, kvr_ns now)
{
    struct writer *writer = self;
    struct kvr_group_piece piece = {writer->pair.regions[0], &writer->remote, 0, 0, PAGE, NULL};
    struct kvr_group_post post = {.immediate = 1, .pieces = &piece, .piece_count = 1};
    struct kvr_pair pair;

    (void)now;
    while (writer->posted < writer->allowed &&
           kvr_group_post(writer->groups[0], &post, &pair) == KVR_OK)
        writer->posted++;
    return false;
}

static bool over_idle(void *self, kvr_ns now)
{
    (void)self, (void)now;
    return false;
}

static void write_until(struct writer *writer, uint64_t count)
{
    kvr_ns end = kvr_clock_now() + 20 * KVR_S;

    writer->allowed = count;
    while (writer->arrived < count || writer->written < count) {
        for (int i = 0; i < 2; i++) {
            kvr_group_step(writer->groups[i], kvr_clock_now());
            if (kvr_group_may_sleep(writer->groups[i])) /* as their threads do */
                kvr_group_awake(writer->groups[i]);
        }
        assert_true(kvr_clock_now() < end);
    }
}

static void groups_meet(struct writer *writer)
{
    static struct kvr_peer_rails rails = {.rail_count = 1};
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PEER_ADD,
                                        .peer_rails.rails = &rails};

    rails.rails[0] = kvr_group_address(writer->groups[1], 0);
    writer->remote = (struct kvr_remote_region){.layout = writer->pair.regions[1]->layout,
                                                .rail_count = 1,
                                                .keys = {writer->pair.regions[1]->keys[0]}};
    assert_true(kvr_group_command(writer->groups[0], &message));
    kvr_group_step(writer->groups[0], kvr_clock_now());
    assert_true(kvr_group_event(writer->groups[0], &message));
    assert_int_equal(message.peer_rails.status, KVR_OK);
}

static void write_over(const char *provider)
{
    static struct writer writer;
    struct ping_options options = {.page_bytes = PAGE};
    struct kvr_error error;

    writer = (struct writer){0};
    strcpy(options.provider, provider);
    assert_true(ping_pair_open(&writer.pair, &options));
    for (int i = 0; i < 2; i++) {
        struct kvr_group_options group = {.fabric = &writer.pair.fabric,
                                          .rails = &writer.pair.rails[i],
                                          .rail_count = 1,
                                          .clock = kvr_clock_now,
                                          .user = {.self = &writer,
                                                   .written = over_written,
                                                   .arrived = over_arrived,
                                                   .work = i == 0 ? over_work : over_idle}};

        assert_int_equal(kvr_group_open(&group, &writer.groups[i], &error), KVR_OK);
    }
    groups_meet(&writer);
    write_until(&writer, WARM);
    count_from_here();
    write_until(&writer, WARM + STREAM);
    assert_int_equal(allocations, 0);
    assert_int_equal(logs, 0);
    for (int i = 0; i < 2; i++)
        kvr_group_close(writer.groups[i]);
    ping_pair_close(&writer.pair);
}

/* One lock is allowed: libfabric's tcp lacks one around its registrations (ofi_lock). It is free
 * unless memory is registered at that moment. */
static void nothing_over_tcp(void **state)
{
    (void)state;
    write_over("tcp");
}

/* The rail takes a lock to look up the registration of a piece. */
static void nothing_over_local(void **state)
{
    (void)state;
    write_over("local");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_on_the_way_out),
        cmocka_unit_test(nothing_on_the_way_in),
        cmocka_unit_test(nothing_over_tcp),
        cmocka_unit_test(nothing_over_local),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
