/* Goal: after start nothing is allocated, locked or logged on the way of a write, neither where it
 * leaves nor where it lands. Method: the linker puts counters before the calls that would (--wrap);
 * the source's way is the benchmark's, over the null fabric, and the target's is land on a scripted
 * one. What they count at the start proves that they count. */
#include "tests/support/check.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "decode-agent/land.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"
#include "tools/bench_post_rig.h"

static uint64_t allocations, locks, logs;

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
WRAP(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex), locks)

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
    static struct bench_post_rig rig;
    static const struct bench_post_options options = {.page_bytes = 65536,
                                                      .layers = 8,
                                                      .pages = 512,
                                                      .rails = 4,
                                                      .jobs = 3,
                                                      .pieces = 1,
                                                      .in_flight = 128};
    uint64_t writes;

    (void)state;
    count_from_here();
    assert_true(bench_post_rig_start(&rig, &options));
    assert_true(allocations > 0 && locks > 0);
    kvr_log(KVR_LOG_DEBUG, "this is counted");
    assert_int_equal(logs, 1);
    count_from_here();
    assert_true(bench_post_rig_run(&rig, 100000));
    writes = rig.writes;
    assert_nothing_counted();
    assert_true(writes >= 100000);
    bench_post_rig_stop(&rig);
}

static void nothing_on_the_way_in(void **state)
{
    static uint8_t tables[8u << 20] __attribute__((aligned(64)));
    static uint64_t bits[KVR_SLOT_CHUNKS / 64];
    static uint32_t left[SMALL_LAYERS];
    static struct land land;
    static struct bench bench;
    static struct small_side source, target;
    struct landing landing = {.set = &target.set, .slots = {1}, .slot_count = 1, .bits = bits};
    struct landing_segment segment = {.left = left};
    struct kvr_group_message open = {.kind = LAND_OPEN, .pointer = &landing},
                             add = {.kind = LAND_SEGMENT, .pointer = &segment}, message;
    struct kvr_buddy memory;
    uint32_t layers = 0;

    (void)state;
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, 1);
    small_side_init(&target, 1);
    bench_open_as(&bench, &(struct kvr_group_options){
                              .rail_count = 1, .ring_entries = 256, .user = land_user(&land)});
    land.group = bench.group;
    segment.plan = small_plan_make(&source, &target, &memory);
    count_from_here();
    assert_true(kvr_group_command(bench.group, &open) && kvr_group_command(bench.group, &add));
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++) {
        arrive(bench.rails[0].newest, 1u << 16 | chunk);
        kvr_group_step(bench.group, KVR_S);
    }
    while (kvr_group_event(bench.group, &message))
        layers += message.kind == LAND_LAYER;
    assert_nothing_counted();
    assert_int_equal(layers, SMALL_LAYERS);
    kvr_group_close(bench.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_on_the_way_out),
        cmocka_unit_test(nothing_on_the_way_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
