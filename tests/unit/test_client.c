/* Goal: libkvrail keeps its promises to an engine: calls that cannot be right are refused with a
 * sentence, and every publish and fetch ends in exactly one terminal event.
 * Method: the library against a scripted agent in a thread. */
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"
#include "tests/support/client_case.h"
#include "tests/support/test_secret.h"

static void open_is_answered_or_refused(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_identity nobody = {
        .size = sizeof(struct kvrail_identity), .tp_size = 0, .pp_size = 1};
    struct kvrail_error error;

    (void)state;
    assert_string_equal(kvrail_agent_name(engine), "scripted");
    assert_string_equal(kvrail_agent_address(engine), "scripted:1");
    assert_true(event_fd_is_quiet(engine));
    kvrail_close(engine);
    kvrail_close(NULL);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_CANCELLED);

    assert_int_equal(scripted_open(&agent, "stranger", 10000, &engine, &error),
                     KVRAIL_INCOMPATIBLE);
    assert_string_equal(error.detail, "model is 'tiny', not 'ours'");
    assert_int_equal(kvrail_open("/nowhere/agent", &nobody, 10, &engine, &error), KVRAIL_SYSTEM);
    assert_non_null(strstr(error.detail, "/nowhere/agent"));
    assert_int_equal(kvrail_open("", &nobody, 10, &engine, NULL), KVRAIL_INVALID);
    assert_int_equal(kvrail_open(agent.path, &nobody, 10, &engine, &error), KVRAIL_INVALID);
    assert_non_null(strstr(error.detail, "tp 0 of 0"));
}

/* One packet too many waits at a listener that never accepts. */
static int full_listener(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 0), 0);
    do
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    assert_int_equal(errno, EAGAIN);
    return listener;
}

static void *close_later(void *listener)
{
    usleep(50000);
    close(*(int *)listener);
    return NULL;
}

/* The longest timeout really waits: only the listener's end finishes it. */
static void longest_timeout_waits(void **state)
{
    struct kvrail_identity me = {
        .size = sizeof(struct kvrail_identity), .name = "engine", .tp_size = 1, .pp_size = 1};
    struct kvrail *engine;
    struct kvrail_error error;
    char path[64];
    int listener;
    pthread_t closer;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/kvrail-full-%d", (int)getpid());
    listener = full_listener(path);
    assert_int_equal(kvrail_open(path, &me, 10, &engine, &error), KVRAIL_TIMED_OUT);
    assert_non_null(strstr(error.detail, path));
    assert_int_equal(pthread_create(&closer, NULL, close_later, &listener), 0);
    assert_int_equal(kvrail_open(path, &me, UINT32_MAX, &engine, &error), KVRAIL_SYSTEM);
    assert_int_equal(error.os_errno, ECONNREFUSED);
    pthread_join(closer, NULL);
    unlink(path);
}

static void region_comes_and_goes(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = small_region("kv");
    struct kvrail_memory memory;
    uint32_t first, second;

    (void)state;
    assert_int_equal(region.bytes, 2 * 2 * 5 * 16 * 3 * 128);
    assert_int_equal(region.layer_stride, region.bytes / 2);
    assert_int_equal(kvrail_memory_create("kv", region.bytes, &memory, NULL), KVRAIL_OK);
    assert_true(memory.bytes >= region.bytes);
    assert_int_equal(ftruncate(memory.fd, 0), -1);
    region.fd = memory.fd;
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &first), KVRAIL_OK);
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &second), KVRAIL_OK);
    assert_int_not_equal(first, second);
    assert_int_equal(kvrail_region_drop(engine, first), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_REGION_GONE, first);
    assert_int_equal(kvrail_region_drop(engine, first), KVRAIL_NOT_FOUND);
    kvrail_memory_destroy(&memory);
    kvrail_memory_destroy(&memory);
    kvrail_close(engine);
}

static void region_without_seal_is_refused(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = small_region("loose");
    uint32_t id;

    (void)state;
    region.fd = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(region.fd, (off_t)region.bytes), 0);
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "F_SEAL_SHRINK"));
    assert_int_equal(fcntl(region.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_OK);
    region.bytes += 4096;
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "memfd has"));
    close(region.fd);
    region.fd = open("/proc/self/exe", O_RDONLY);
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "not a memfd"));
    close(region.fd);
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "is not open"));
    region.fd = -1;
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_INVALID);
    assert_int_equal(agent.record->regions, 1);
    kvrail_close(engine);
}

static kvrail_status add(struct kvrail *engine, const struct kvrail_region *region)
{
    uint32_t id;

    return kvrail_region_add(engine, region, 10000, &id);
}

/* A region in another's memory brings no descriptor. An agent that says nothing of it is too old,
 * and so for states with one page a request. */
static void region_may_need_a_newer_agent(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = small_region("kv"), other = region, one_page = region;
    const char *detail = kvrail_last_error(engine)->detail;
    struct kvrail_memory memory;

    (void)state;
    assert_int_equal(kvrail_memory_create("kv", region.bytes, &memory, NULL), KVRAIL_OK);
    region.fd = one_page.fd = memory.fd;
    other.fd = -1;
    other.memory_of = 1;
    one_page.page_tokens = 0;
    assert_int_equal(add(engine, &other), KVRAIL_NOT_FOUND); /* there is none yet */
    assert_int_equal(add(engine, &region), KVRAIL_OK);
    assert_int_equal(add(engine, &other), KVRAIL_OK);
    assert_int_equal(add(engine, &one_page), KVRAIL_OK);
    assert_int_equal(agent.record->regions, 3);
    engine->abilities = 0;
    assert_int_equal(add(engine, &other), KVRAIL_UNSUPPORTED);
    assert_non_null(strstr(detail, "knows no regions in the memory of others (memory_of)"));
    assert_int_equal(add(engine, &one_page), KVRAIL_UNSUPPORTED);
    assert_non_null(strstr(detail, "knows no states with one page a request (page_tokens 0)"));
    assert_int_equal(add(engine, &region), KVRAIL_OK);
    assert_int_equal(agent.record->regions, 4);
    kvrail_close(engine);
    kvrail_memory_destroy(&memory);
}

/* Events that arrive during the call are not lost, and the event descriptor shows them. */
static void region_wait_keeps_events(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = small_region("slow");
    struct kvrail_memory memory;
    struct kvrail_event event;
    kvrail_handle handle;
    uint32_t id, page = 3;

    (void)state;
    assert_int_equal(kvrail_memory_create(NULL, region.bytes, &memory, NULL), KVRAIL_OK);
    region.fd = memory.fd;
    handle = scripted_target(engine, "whole");
    assert_int_equal(kvrail_target_pages(engine, handle, 0, &page, 1), KVRAIL_OK);
    assert_int_equal(kvrail_region_add(engine, &region, 200, &id), KVRAIL_TIMED_OUT);
    assert_event(engine, KVRAIL_EVENT_ACCEPTED, handle);
    assert_event(engine, KVRAIL_EVENT_LAYER_IN, handle);
    assert_event(engine, KVRAIL_EVENT_TAIL_IN, handle);
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.kind, KVRAIL_EVENT_DONE);
    assert_int_equal(event.bytes, 77);
    assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    assert_true(event_fd_is_quiet(engine));
    kvrail_memory_destroy(&memory);
    kvrail_close(engine);
}

/* The router chooses names: an unprintable name is refused, and the connection's other requests go
 * on. */
static void unprintable_names_are_refused(void **state)
{
    static const char *const names[] = {"a\nb", "\x7f", "\xff", "a\xc3", "\xed\xa0\x80"};
    struct kvrail_identity me = {
        .size = sizeof(struct kvrail_identity), .tp_size = 1, .pp_size = 1};
    struct kvrail *engine = scripted_engine(&agent, "engine"), *other;
    struct kvrail_source_address from = {.size = sizeof(struct kvrail_source_address),
                                         .agent = "host:1"};
    struct kvrail_region region = small_region("kv");
    struct kvrail_error error;
    kvrail_handle handle;
    uint32_t id;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct kvrail_source_options source = {
            .size = sizeof(struct kvrail_source_options), .request = names[i], .tokens = 1};
        struct kvrail_target_options target = {.size = sizeof(struct kvrail_target_options),
                                               .request = names[i],
                                               .tokens = 1,
                                               .sources = &from,
                                               .source_count = 1,
                                               .secret = TEST_SECRET};

        assert_int_equal(kvrail_source_open(engine, &source, &handle), KVRAIL_INVALID);
        assert_non_null(strstr(kvrail_last_error(engine)->detail, "printable"));
        assert_int_equal(kvrail_target_open(engine, &target, &handle), KVRAIL_INVALID);
        target.request = "good";
        from.agent = names[i];
        assert_int_equal(kvrail_target_open(engine, &target, &handle), KVRAIL_INVALID);
        region.name = names[i];
        assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_INVALID);
        me.name = names[i];
        assert_int_equal(kvrail_open(agent.path, &me, 10000, &other, &error), KVRAIL_INVALID);
        assert_non_null(strstr(error.detail, "printable"));
    }
    handle = scripted_source(engine, "d\xc3\xa9j\xc3\xa0 vu \xf0\x9f\x98\x80");
    assert_int_equal(kvrail_source_end(engine, handle, KVRAIL_OK), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_SOURCE_FREE, handle);
    kvrail_close(engine);
}

static void source_lives_and_ends(void **state)
{
    static uint32_t ids[20000]; /* three packets */
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_event event;
    kvrail_handle source = scripted_source(engine, "req");
    uint64_t sum = 0;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++)
        sum += ids[i] = i * 7919;
    assert_int_equal(kvrail_source_pages(engine, source, 0, ids, 20000), KVRAIL_OK);
    assert_int_equal(kvrail_source_pages(engine, source, 0, ids, 1), KVRAIL_OK);
    assert_int_equal(kvrail_source_pages(engine, source, KVRAIL_GROUPS_MAX, ids, 1),
                     KVRAIL_INVALID);
    assert_int_equal(kvrail_source_pages(engine, source, 0, ids, (1u << 20) + 1), KVRAIL_TOO_LARGE);
    assert_int_equal(kvrail_target_pages(engine, source, 0, ids, 1), KVRAIL_NOT_FOUND);
    assert_int_equal(kvrail_source_watch(engine, source, 0, 0, 0, 32), KVRAIL_OK);
    assert_int_equal(kvrail_source_watch(engine, source, 0, 0, 16, 64), KVRAIL_INVALID);
    assert_int_equal(kvrail_source_watch(engine, source, 0, 0, 32, 65), KVRAIL_INVALID);
    assert_int_equal(kvrail_source_watch(engine, source, 512, 0, 32, 64), KVRAIL_INVALID);
    assert_int_equal(kvrail_source_watch(engine, source, 0, 2, 32, 64), KVRAIL_OK);
    assert_int_equal(kvrail_source_tail(engine, source, ids, KVRAIL_TAIL_BYTES_MAX + 1),
                     KVRAIL_TOO_LARGE);
    assert_int_equal(kvrail_source_tail(engine, source, ids, KVRAIL_TAIL_BYTES_MAX), KVRAIL_OK);
    assert_int_equal(kvrail_source_tail(engine, source, ids, 1), KVRAIL_EXISTS);
    assert_int_equal(kvrail_renew(engine, source, 1000), KVRAIL_OK);
    assert_int_equal(kvrail_source_end(engine, source, KVRAIL_AGAIN), KVRAIL_INVALID);
    assert_int_equal(kvrail_source_end(engine, source, KVRAIL_OK), KVRAIL_OK);
    assert_int_equal(kvrail_source_end(engine, source, KVRAIL_OK), KVRAIL_INVALID);
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.kind, KVRAIL_EVENT_SOURCE_FREE);
    assert_int_equal(event.terminal, 1);
    assert_int_equal(event.bytes, 20001);
    assert_int_equal(agent.record->id_sum, sum + ids[0]);
    assert_false(agent.record->out_of_order);
    assert_int_equal(kvrail_renew(engine, source, 1000), KVRAIL_NOT_FOUND);
    assert_int_equal(kvrail_source_end(engine, source, KVRAIL_OK), KVRAIL_NOT_FOUND);
    kvrail_close(engine);
}

static void word_only_grows_and_rings_a_sleeper(void **state)
{
    struct kvrail *engine;
    kvrail_handle source;

    (void)state;
    engine = scripted_engine(&agent, "awake");
    assert_int_equal(kvrail_ready(engine, 0, 5), KVRAIL_OK);
    assert_int_equal(kvrail_ready(engine, 0, 4), KVRAIL_INVALID);
    assert_int_equal(kvrail_ready(engine, 0, 5), KVRAIL_OK);
    assert_int_equal(kvrail_ready(engine, KVRAIL_WORDS_MAX, 1), KVRAIL_INVALID);
    source = scripted_source(engine, "req");
    assert_int_equal(kvrail_source_watch(engine, source, 0, 0, 0, 16), KVRAIL_OK);
    assert_int_equal(kvrail_why(engine, source), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_WHY, source);
    assert_int_equal(agent.record->word0, 5);
    assert_int_equal(agent.record->rung, 0);
    kvrail_close(engine);

    atomic_store(&agent.record->sleepy, true);
    engine = scripted_engine(&agent, "asleep");
    assert_int_equal(kvrail_ready(engine, 511, 1), KVRAIL_OK);
    assert_int_equal(kvrail_why(engine, 1), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_WHY, 1);
    assert_int_equal(agent.record->rung, 1);
    kvrail_close(engine);
}

static void *raise_words(void *engine)
{
    for (uint64_t value = 1; value <= 10000; value++)
        (void)kvrail_ready(engine, 0, value);
    return NULL;
}

static void words_rise_from_any_thread(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_event event;
    kvrail_handle source;
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, raise_words, engine), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    source = scripted_source(engine, "req");
    assert_int_equal(kvrail_source_watch(engine, source, 0, 0, 0, 16), KVRAIL_OK);
    assert_int_equal(kvrail_source_end(engine, source, KVRAIL_ABORTED), KVRAIL_OK);
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.status, KVRAIL_ABORTED);
    assert_string_equal(event.status_name, "aborted");
    assert_int_equal(agent.record->word0, 10000);
    kvrail_close(engine);
}

static void target_hears_layers_tail_and_end(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_target_options bad = {.size = sizeof(struct kvrail_target_options),
                                        .request = "r",
                                        .tokens = 1,
                                        .skip_tokens = 2,
                                        .secret = TEST_SECRET};
    struct kvrail_event event;
    uint32_t ids[4] = {4, 3, 2, 1};
    kvrail_handle target;

    (void)state;
    assert_int_equal(kvrail_target_open(engine, &bad, &target), KVRAIL_INVALID);
    bad.skip_tokens = 0;
    assert_int_equal(kvrail_target_open(engine, &bad, &target), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "sources"));
    target = scripted_target(engine, "whole");
    assert_int_equal(kvrail_target_pages(engine, target, 0, ids, 4), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_ACCEPTED, target);
    assert_event(engine, KVRAIL_EVENT_LAYER_IN, target);
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.kind, KVRAIL_EVENT_TAIL_IN);
    assert_int_equal(event.payload_bytes, 16);
    assert_memory_equal(event.payload, "{\"script\": true}", 16);
    assert_event(engine, KVRAIL_EVENT_DONE, target);
    assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    assert_int_equal(kvrail_cancel(engine, target, KVRAIL_CANCELLED), KVRAIL_OK);
    assert_int_equal(agent.record->cancels, 0);
    kvrail_close(engine);
}

static void a_group_is_skipped_before_its_pages(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle target = scripted_target(engine, "hold");
    uint32_t id = 3;

    (void)state;
    assert_int_equal(kvrail_target_skip(engine, 12345, 1, 0), KVRAIL_NOT_FOUND);
    assert_int_equal(kvrail_target_skip(engine, target, KVRAIL_GROUPS_MAX, 0), KVRAIL_INVALID);
    assert_int_equal(kvrail_target_skip(engine, target, 1, UINT64_MAX), KVRAIL_INVALID);
    assert_int_equal(kvrail_target_skip(engine, target, 1, 0), KVRAIL_OK);
    assert_int_equal(kvrail_target_pages(engine, target, 0, &id, 1), KVRAIL_OK);
    assert_int_equal(kvrail_target_skip(engine, target, 1, 0), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "pages of group 0 were given"));
    kvrail_close(engine);
}

static void cancel_is_idempotent_and_ends_once(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle held = scripted_target(engine, "hold");
    kvrail_handle raced = scripted_target(engine, "race");
    struct kvrail_event event;

    (void)state;
    assert_int_equal(kvrail_cancel(engine, 12345, KVRAIL_CANCELLED), KVRAIL_OK);
    assert_int_equal(kvrail_cancel(engine, 0, KVRAIL_CANCELLED), KVRAIL_OK);
    assert_int_equal(kvrail_cancel(engine, held, KVRAIL_OK), KVRAIL_INVALID);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kvrail_cancel(engine, held, KVRAIL_CANCELLED), KVRAIL_OK);
        assert_int_equal(kvrail_cancel(engine, raced, KVRAIL_EXPIRED), KVRAIL_OK);
    }
    assert_event(engine, KVRAIL_EVENT_CANCELLED, held);
    assert_event(engine, KVRAIL_EVENT_DONE, raced);
    assert_int_equal(kvrail_why(engine, raced), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_WHY, raced); /* and no second end before it */
    assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    assert_int_equal(agent.record->cancels, 2);
    kvrail_close(engine);
}

/* Handles are reused again and again; two requests never share a name. */
static void handles_are_bounded_and_never_repeat(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_source_options options = {
        .size = sizeof(struct kvrail_source_options), .request = "many", .tokens = 1};
    static kvrail_handle handles[KVRAIL_HANDLES_MAX];
    kvrail_handle next;
    struct kvrail_event event;
    kvrail_status status;

    (void)state;
    for (uint32_t i = 0; i < KVRAIL_HANDLES_MAX; i++) {
        do {
            status = kvrail_source_open(engine, &options, &handles[i]);
        } while (status == KVRAIL_AGAIN && kvrail_poll(engine, &event, 1) == 0);
        assert_int_equal(status, KVRAIL_OK);
    }
    assert_int_equal(kvrail_source_open(engine, &options, &next), KVRAIL_AGAIN);
    assert_int_equal(kvrail_source_end(engine, handles[7], KVRAIL_OK), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_SOURCE_FREE, handles[7]);
    assert_int_equal(kvrail_source_open(engine, &options, &next), KVRAIL_OK);
    for (uint32_t i = 0; i < KVRAIL_HANDLES_MAX; i++)
        assert_true(handles[i] != next);
    kvrail_close(engine);
}

static void status_names_are_the_wires(void **state)
{
    (void)state;
    assert_string_equal(kvrail_status_name(KVRAIL_PEER_LOST), "peer_lost");
    assert_string_equal(kvrail_status_name(-12345), "?");
    assert_true(strlen(kvrail_status_text(KVRAIL_FULL)) > 10);
    assert_string_equal(kvrail_event_name(KVRAIL_EVENT_SOURCE_FREE), "source_free");
    assert_true(strlen(kvrail_version()) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_timeout_waits),
        cmocka_unit_test_setup_teardown(open_is_answered_or_refused, start_thread, stop),
        cmocka_unit_test_setup_teardown(unprintable_names_are_refused, start_thread, stop),
        cmocka_unit_test_setup_teardown(region_comes_and_goes, start_thread, stop),
        cmocka_unit_test_setup_teardown(region_without_seal_is_refused, start_thread, stop),
        cmocka_unit_test_setup_teardown(region_may_need_a_newer_agent, start_thread, stop),
        cmocka_unit_test_setup_teardown(region_wait_keeps_events, start_thread, stop),
        cmocka_unit_test_setup_teardown(source_lives_and_ends, start_thread, stop),
        cmocka_unit_test_setup_teardown(word_only_grows_and_rings_a_sleeper, start_thread, stop),
        cmocka_unit_test_setup_teardown(words_rise_from_any_thread, start_thread, stop),
        cmocka_unit_test_setup_teardown(target_hears_layers_tail_and_end, start_thread, stop),
        cmocka_unit_test_setup_teardown(a_group_is_skipped_before_its_pages, start_thread, stop),
        cmocka_unit_test_setup_teardown(cancel_is_idempotent_and_ends_once, start_thread, stop),
        cmocka_unit_test_setup_teardown(handles_are_bounded_and_never_repeat, start_thread, stop),
        cmocka_unit_test(status_names_are_the_wires),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
