/* Goal: a region over more allocations than one packet has descriptors reaches the agent whole. An
 * incomplete region, or one that the agent may not hold, is refused with a sentence, and no
 * descriptor stays behind. Method: memfds for allocations, the library against a scripted agent in
 * a thread, and packets that the library would not send; the process's descriptors are counted. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/memfd.h"
#include "tests/support/client_case.h"
#include "tests/support/descriptors.h"
#include "tests/support/raw_engine.h"

#define PAGE  4096u
#define COUNT 300u

static struct kvrail_allocation allocations[COUNT];

/* The agent's thread closes its descriptors a moment later. */
static void assert_descriptors(uint32_t wanted)
{
    uint32_t count = descriptors();

    for (int i = 0; i < 2000 && count != wanted; i++) {
        usleep(1000);
        count = descriptors();
    }
    assert_int_equal(count, wanted);
}

static struct kvrail_region region_over(uint32_t count)
{
    struct kvrail_region region = small_region("spread");

    region.memory = KVRAIL_MEMORY_CUDA_VMM;
    region.fd = -1;
    region.device = 0;
    region.allocation_count = count;
    region.allocations = allocations;
    region.fd_offset = 512;
    region.bytes = (uint64_t)count * PAGE - 1024;
    return region;
}

static int make_allocations(int failed)
{
    for (uint32_t i = 0; i < COUNT && failed == 0; i++) {
        allocations[i].size = sizeof(allocations[i]);
        allocations[i].bytes = PAGE;
        failed = kvr_memfd_create("allocation", PAGE, "test", &allocations[i].fd, NULL) != KVR_OK;
    }
    return failed;
}

static int setup(void **state)
{
    return make_allocations(start_thread(state));
}

static int setup_process(void **state)
{
    return make_allocations(start_process(state));
}

static int teardown(void **state)
{
    for (uint32_t i = 0; i < COUNT; i++)
        close(allocations[i].fd);
    return stop(state);
}

static void every_descriptor_arrives(void **state)
{
    static const uint32_t counts[] = {2, KVR_PACKET_FDS_MAX, KVR_PACKET_FDS_MAX + 1,
                                      2 * KVR_PACKET_FDS_MAX, COUNT};
    struct kvrail *engine = scripted_engine(&agent, "engine");
    uint32_t before = descriptors(), id;

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct kvrail_region region = region_over(counts[i]);

        assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_OK);
        assert_int_equal(agent.record->extents, counts[i]);
        assert_descriptors(before);
    }
    kvrail_close(engine);
}

/* An answer proves that the agent has read all earlier packets. */
static void agent_answers(struct kvrail *engine)
{
    struct kvrail_event event;

    assert_int_equal(kvrail_why(engine, 1), KVRAIL_OK);
    do
        assert_int_equal(scripted_event(engine, &event), 1);
    while (event.kind != KVRAIL_EVENT_WHY);
}

static void refused(struct kvrail *engine, const struct kvrail_region *region, kvrail_status why,
                    const char *sentence)
{
    uint32_t before = descriptors(), id;

    assert_int_equal(kvrail_region_add(engine, region, 10000, &id), why);
    if (strstr(kvrail_last_error(engine)->detail, sentence) == NULL)
        fail_msg("'%s' is not in '%s'", sentence, kvrail_last_error(engine)->detail);
    agent_answers(engine);
    assert_descriptors(before);
}

static void what_cannot_be_is_refused(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_over(COUNT);
    int good = allocations[200].fd;
    uint32_t id;

    (void)state;
    region.bytes += PAGE;
    refused(engine, &region, KVRAIL_INVALID, "end in the last of 300 allocations");
    region = region_over(COUNT);
    region.allocation_count = KVRAIL_ALLOCATIONS_MAX + 1;
    refused(engine, &region, KVRAIL_TOO_LARGE, "16384 are the most: make them larger (PyTorch:");
    region = region_over(COUNT);
    region.memory = KVRAIL_MEMORY_DMABUF;
    refused(engine, &region, KVRAIL_INVALID, "only CUDA_VMM");
    region = region_over(COUNT);
    region.fd = good;
    refused(engine, &region, KVRAIL_INVALID, "which has none");
    region = region_over(COUNT);
    allocations[200].fd = -1; /* in the second packet: the first is forgotten */
    refused(engine, &region, KVRAIL_INVALID, "descriptor -1 of allocation 200 is not open");
    allocations[200].fd = good;
    allocations[7].bytes = 100;
    refused(engine, &region, KVRAIL_INVALID, "allocation 7 of the region has 100 bytes");
    allocations[7].bytes = PAGE;
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_OK);
    assert_int_equal(agent.record->regions, 1);
    kvrail_close(engine);
}

/* An agent in a process of its own, which may not open more files. */
static void an_agent_says_that_it_may_not_hold_them(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_over(COUNT);
    struct rlimit low = {.rlim_cur = 160, .rlim_max = 160};

    (void)state;
    assert_int_equal(prlimit(agent.pid, RLIMIT_NOFILE, &low, NULL), 0);
    refused(engine, &region, KVRAIL_FULL, "lies over 300 allocations, a descriptor each, and in");
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "RLIMIT_NOFILE allows 160"));
    region = region_over(100);
    refused(engine, &region, KVRAIL_FULL,
            "lies over 100 allocations"); /* other parts of the agent need some too */
    kvrail_close(engine);
}

/* ---- packets that the library does not send -----------------------------------------------------
 */

static int attached(void)
{
    int socket = raw_connect(agent.path);
    struct kvr_notice notice;

    raw_attach(socket);
    assert_int_equal(raw_notice(socket, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_ATTACHED);
    return socket;
}

static void say(int socket, uint32_t region, uint32_t first, uint32_t total, uint32_t said,
                uint32_t sent)
{
    uint64_t bytes[KVR_PACKET_FDS_MAX];
    struct kvr_request request = {
        .kind = KVR_REQ_REGION_EXTENTS,
        .extents = {.region = region, .first = first, .total = total, .bytes = bytes, said}};
    struct kvr_packet_fds fds = {.count = sent};

    for (uint32_t i = 0; i < KVR_PACKET_FDS_MAX; i++) {
        bytes[i] = PAGE;
        fds.fds[i] = allocations[i].fd;
    }
    raw_send(socket, &request, &fds);
}

static void add(int socket, uint32_t region, uint32_t count, const char *sentence)
{
    struct kvr_request request = {.kind = KVR_REQ_REGION_ADD};
    struct kvr_notice notice;

    request.region.memory = KVR_MEMORY_CUDA_VMM;
    request.region.layout.region = region;
    request.region.layout.bytes = (uint64_t)count * PAGE;
    request.region.extent_count = count;
    raw_send(socket, &request, NULL);
    do
        assert_int_equal(raw_notice(socket, &notice), KVR_OK);
    while (notice.kind == KVR_NOTICE_LAYER_IN);
    assert_int_equal(notice.handle, region);
    if (sentence == NULL) {
        assert_int_equal(notice.kind, KVR_NOTICE_REGION_READY);
        return;
    }
    assert_int_equal(notice.kind, KVR_NOTICE_REGION_GONE);
    assert_int_equal(notice.status, KVR_INVALID);
    if (strstr(notice.detail, sentence) == NULL)
        fail_msg("'%s' is not in '%s'", sentence, notice.detail);
}

static void packets_that_do_not_follow_are_refused(void **state)
{
    int engine = attached();
    uint32_t before = descriptors();

    (void)state;
    add(engine, 1, 4, "lies over 4 allocations, and descriptors of 0 came");
    say(engine, 2, 0, 4, 3, 3);
    add(engine, 2, 4, "descriptors of 3 came");
    say(engine, 3, 0, 4, 4, 4);
    add(engine, 4, 4, "descriptors of 0 came"); /* of another region */
    add(engine, 3, 4, "descriptors of 0 came"); /* it was dropped with that region */
    say(engine, 5, 0, 4, 2, 2);
    say(engine, 5, 3, 4, 1, 1);
    add(engine, 5, 4, "allocations 3 to 4 of 4 of region 5");
    say(engine, 6, 0, 4, 4, 3);
    add(engine, 6, 4, "with 3 descriptors");
    say(engine, 7, 0, 4, 3, 3);
    say(engine, 7, 3, 5, 1, 1);
    add(engine, 7, 4, "of 5 of region 7");
    say(engine, 8, 0, 2, 3, 3);
    add(engine, 8, 2, "behind 0 of 2 of region 8");
    say(engine, 9, 0, KVR_EXTENTS_MAX, 2, 2);
    say(engine, 9, 0, 2, 2, 2); /* begins anew */
    add(engine, 9, 2, NULL);
    say(engine, 10, 0, 4, 3, 3);
    say(engine, 11, 3, 4, 1, 1);
    add(engine, 10, 4, "of region 11");
    assert_descriptors(before);
    say(engine, 12, 0, 4, 3, 3);
    assert_descriptors(before + 3); /* kept, as the engine may send more */
    say(engine, 12, 0, 0, 0, 0);
    assert_descriptors(before);
    close(engine);
}

static void an_engine_that_goes_takes_them_along(void **state)
{
    uint32_t before = descriptors();
    int engine = attached();

    (void)state;
    say(engine, 1, 0, COUNT, KVR_PACKET_FDS_MAX, KVR_PACKET_FDS_MAX);
    close(engine);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_descriptors(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_descriptor_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_agent_says_that_it_may_not_hold_them, setup_process,
                                        teardown),
        cmocka_unit_test_setup_teardown(packets_that_do_not_follow_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_engine_that_goes_takes_them_along, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
