/* Goal: no engine can hurt an agent or another engine. Garbage, silence, death and unread notices
 * end that engine alone, with a sentence, and the handler hears of each end exactly once. Method: a
 * scripted agent; raw sockets that send packets libkvrail never would; processes that die. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/client_case.h"
#include "tests/support/raw_engine.h"

static void assert_refused(int fd, kvr_status why, const char *words)
{
    struct kvr_notice notice;

    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_REFUSED);
    assert_int_equal(notice.status, why);
    if (strstr(notice.detail, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, notice.detail);
}

static void assert_closed(int fd)
{
    struct kvr_notice notice;

    assert_int_equal(raw_notice(fd, &notice), KVR_PEER_LOST);
    close(fd);
}

/* ---- attaching ------------------------------------------------------------------------------- */

static void garbage_before_attach_is_refused(void **state)
{
    struct kvrail *other = scripted_engine(&agent, "other");
    struct kvr_request request = {.kind = KVR_REQ_WHY};
    int fd = raw_connect(agent.path);

    (void)state;
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n", 16, 0), 16);
    assert_refused(fd, KVR_MALFORMED, "EnginePacket");
    assert_closed(fd);
    fd = raw_connect(agent.path);
    raw_send(fd, &request, NULL);
    assert_refused(fd, KVR_MALFORMED, "attach must be the first");
    assert_closed(fd);
    close(raw_connect(agent.path)); /* a probe that sends nothing */

    assert_int_equal(kvrail_why(other, 1), KVRAIL_OK);
    assert_int_equal(scripted_event(other, &(struct kvrail_event){0}), 1);
    assert_int_equal(agent.record->downs, 0);
    kvrail_close(other);
}

static void silence_before_attach_ends(void **state)
{
    int fd = raw_connect(agent.path);
    kvr_ns begin = kvr_clock_now();

    (void)state;
    assert_refused(fd, KVR_TIMED_OUT, "5 s");
    assert_true(kvr_clock_now() - begin > 4 * KVR_S);
    assert_closed(fd);
}

/* An agent without a core for a while finds the time over and an attach that came in time. */
static void an_attach_that_came_in_time_is_taken(void **state)
{
    struct kvrail *other = scripted_engine(&agent, "other");
    struct kvr_notice notice;
    int fd = raw_connect(agent.path);

    (void)state;
    assert_int_equal(kvrail_why(other, 1), KVRAIL_OK); /* the newcomer is accepted by then */
    assert_int_equal(scripted_event(other, &(struct kvrail_event){0}), 1);
    scripted_target(other, "nap");
    assert_true(scripted_reached(&agent.record->targets, 1));
    raw_attach(fd);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_ATTACHED);
    close(fd);
    kvrail_close(other);
}

static void garbage_after_attach_ends_that_engine(void **state)
{
    struct kvrail *other = scripted_engine(&agent, "other");
    static uint8_t large[KVR_PACKET_BYTES_MAX + 100];
    struct kvr_notice notice;
    int fd = raw_connect(agent.path);

    (void)state;
    raw_attach(fd);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_ATTACHED);
    assert_int_equal(send(fd, large, sizeof(large), 0), sizeof(large));
    assert_refused(fd, KVR_MALFORMED, "64 KiB");
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_MALFORMED);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_DETACHED);
    assert_closed(fd);

    fd = raw_connect(agent.path);
    raw_attach(fd);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    raw_attach(fd);
    assert_refused(fd, KVR_MALFORMED, "only the first");
    close(fd);
    assert_true(scripted_reached(&agent.record->downs, 2));
    assert_int_equal(agent.record->ups, 3);
    kvrail_close(other);
}

static void descriptors_where_none_belong_are_closed(void **state)
{
    struct kvr_request request = {.kind = KVR_REQ_WHY};
    struct kvr_packet_fds fds = {.count = 1};
    struct kvr_notice notice;
    int ends[2], fd = raw_connect(agent.path);
    char byte;

    (void)state;
    raw_attach(fd);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(pipe(ends), 0);
    fds.fds[0] = ends[1];
    raw_send(fd, &request, &fds);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_WHY);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the agent's copy is closed too */
    close(ends[0]);

    request = (struct kvr_request){.kind = KVR_REQ_REGION_ADD};
    request.region.layout.region = 9;
    raw_send(fd, &request, NULL);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_REGION_GONE);
    assert_int_equal(notice.handle, 9);
    assert_int_equal(notice.status, KVR_INVALID);
    assert_non_null(strstr(notice.detail, "descriptors"));
    close(fd);
}

/* ---- a process that is no engine --------------------------------------------------------------
 */

static int ask_pairs(void)
{
    struct kvr_request request = {.kind = KVR_REQ_PAIRS};
    int fd = raw_connect(agent.path);

    raw_send(fd, &request, NULL);
    return fd;
}

static void assert_detached(int fd, kvr_status status)
{
    struct kvr_notice notice;

    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_DETACHED);
    assert_int_equal(notice.status, status);
    assert_closed(fd);
}

/* More than the socket holds, more often than there are places for engines. */
static void pairs_are_told_to_whoever_may_attach(void **state)
{
    struct kvr_notice notice;

    (void)state;
    assert_detached(ask_pairs(), KVR_UNSUPPORTED);
    atomic_store(&agent.record->pairs, 40);
    for (unsigned i = 0; i < KVR_ENGINES_MAX + 5; i++) {
        int fd = ask_pairs();

        for (unsigned k = 0; k < 40; k++) {
            assert_int_equal(raw_notice(fd, &notice), KVR_OK);
            assert_int_equal(notice.kind, KVR_NOTICE_PAIRS);
        }
        assert_detached(fd, KVR_OK);
    }
    assert_int_equal(agent.record->ups, 0);
    assert_int_equal(agent.record->downs, 0);
}

static void pairs_are_no_request_of_an_engine(void **state)
{
    struct kvr_request request = {.kind = KVR_REQ_PAIRS};
    struct kvr_notice notice;
    int fd = raw_connect(agent.path);

    (void)state;
    raw_attach(fd);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    raw_send(fd, &request, NULL);
    assert_refused(fd, KVR_MALFORMED, "only the first");
    close(fd);
}

/* Those that never read the answer hold no place for long, nor does an answer that is too large. */
static void pairs_do_not_wait_for_the_deaf(void **state)
{
    struct kvr_notice notice;
    kvr_status status;
    int deaf[KVR_ENGINES_MAX], fd;

    (void)state;
    atomic_store(&agent.record->pairs, 40);
    for (unsigned i = 0; i < KVR_ENGINES_MAX; i++)
        deaf[i] = ask_pairs();
    kvrail_close(scripted_engine(&agent, "other"));
    for (unsigned i = 0; i < KVR_ENGINES_MAX; i++)
        close(deaf[i]);
    atomic_store(&agent.record->pairs, 200); /* 12 MB */
    fd = ask_pairs();
    while ((status = raw_notice(fd, &notice)) == KVR_OK)
        assert_int_not_equal(notice.kind, KVR_NOTICE_DETACHED); /* it was not whole */
    assert_int_equal(status, KVR_PEER_LOST);
    close(fd);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void engine_process_dies(void **state)
{
    struct kvrail *other = scripted_engine(&agent, "other");
    int status;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        struct kvrail *engine = scripted_engine(&agent, "mortal");

        scripted_target(engine, "hold");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_ENGINE_LOST);
    assert_non_null(strstr(agent.record->down_detail, "ended or closed"));
    assert_int_equal(agent.record->targets, 1); /* its last request was read */
    assert_int_equal(kvrail_why(other, 1), KVRAIL_OK);
    assert_int_equal(scripted_event(other, &(struct kvrail_event){0}), 1);
    kvrail_close(other);
}

/* A worker that was forked from the engine keeps the socket open. */
static void engine_dies_while_a_child_holds_its_socket(void **state)
{
    int hold;

    (void)state;
    scripted_engine_with_child(&agent, &hold);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_ENGINE_LOST);
    close(hold);
}

/* Sends pages until the agent has closed the socket: the agent takes longer to read them than this
 * side to send them. */
static void talk_on(int fd)
{
    static const uint32_t ids[KVR_PAGES_PER_PACKET];
    static uint8_t packet[KVR_PACKET_BYTES_MAX];
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_PAGES,
                                  .pages = {.ids = ids, .id_count = KVR_PAGES_PER_PACKET}};
    size_t bytes;

    alarm(20);
    if (fcntl(fd, F_SETFL, 0) == 0 &&
        kvr_request_encode(&request, packet, sizeof(packet), &bytes) == KVR_OK)
        while (send(fd, packet, bytes, MSG_NOSIGNAL) >= 0)
            continue;
}

/* Workers outlive the engine and never fall silent: there is always one more packet to read. */
static void engine_dies_while_its_children_talk(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        int fd = raw_connect(agent.path);

        raw_attach(fd);
        for (int i = 0; i < 12; i++)
            if (fork() == 0) {
                talk_on(fd);
                _exit(0);
            }
        usleep(200000); /* gives all of them time to send */
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_ENGINE_LOST);
}

/* The next event that the agent sent. On a busy machine its thread may get no core for so long that
 * the library says so in between. */
static int sent_event(struct kvrail *engine, struct kvrail_event *event)
{
    int got;

    do
        got = scripted_event(engine, event);
    while (got == 1 &&
           (event->kind == KVRAIL_EVENT_AGENT_SILENT || event->kind == KVRAIL_EVENT_AGENT_BACK));
    return got;
}

static void deaf_engine_is_given_up_without_a_lie(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "deaf");
    struct kvrail *other = scripted_engine(&agent, "other");
    kvrail_handle target = scripted_target(engine, "flood");
    struct kvrail_event event;
    uint64_t layers = 0;

    (void)state;
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_FULL);
    assert_int_equal(kvrail_why(other, 1), KVRAIL_OK);
    assert_int_equal(scripted_event(other, &event), 1);

    while (sent_event(engine, &event) == 1 && event.kind == KVRAIL_EVENT_LAYER_IN) {
        if (event.bytes != layers++)
            fail_msg("a notice was lost in the middle");
    }
    assert_true(layers > 1000);
    assert_int_equal(event.kind, KVRAIL_EVENT_REFUSED);
    assert_int_equal(sent_event(engine, &event), 1);
    assert_int_equal(event.kind, KVRAIL_EVENT_FAILED);
    assert_int_equal(event.handle, target);
    assert_int_equal(event.status, KVRAIL_FULL);
    assert_int_equal(sent_event(engine, &event), KVRAIL_FULL);
    kvrail_close(engine);
    kvrail_close(other);
}

/* Whatever other agents do, an engine that is slow to read keeps its connection. Its own notices
 * pass those that wait, and those are few. */
static void a_slow_engine_is_not_given_up_for_news(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "slow reader");
    struct kvrail_event event = {.kind = 0};
    kvrail_handle target;
    uint32_t before = 0, after = 0;

    (void)state;
    (void)scripted_target(engine, "old news");
    target = scripted_target(engine, "whole");
    assert_int_equal(kvrail_target_pages(engine, target, 0, (uint32_t[]){1}, 1), KVRAIL_OK);
    while (atomic_load(&agent.record->ids) == 0) /* ctest's time bounds it */
        usleep(1000);
    assert_int_equal(atomic_load(&agent.record->downs), 0);
    while (sent_event(engine, &event) == 1 && event.kind == KVRAIL_EVENT_PEER_UP)
        before++;
    while (event.kind != KVRAIL_EVENT_DONE)
        assert_int_equal(sent_event(engine, &event), 1);
    assert_int_equal(event.handle, target);
    while (strcmp(event.name, "p399999") != 0) {
        assert_int_equal(sent_event(engine, &event), 1);
        after++;
    }
    assert_true(before > 0 && before < 100000);
    assert_in_range(after, 1, 256);
    kvrail_close(engine);
}

/* Layers of one fetch that arrive in one turn of the loop and follow each other become one event.
 */
static void layers_are_told_together(void **state)
{
    static const uint32_t told[][3] = {{0, 4, 16}, {5, 2, 16}, {7, 1, 32}};
    struct kvrail *engine = scripted_engine(&agent, "layers");
    kvrail_handle target = scripted_target(engine, "layers");
    struct kvrail_event event;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(scripted_event(engine, &event), 1);
        assert_int_equal(event.kind, KVRAIL_EVENT_LAYER_IN);
        assert_int_equal(event.handle, target);
        assert_int_equal(event.layer_first, told[i][0]);
        assert_int_equal(event.layer_count, told[i][1]);
        assert_int_equal(event.token_end, told[i][2]);
    }
    kvrail_close(engine);
}

/* ---- indexes --------------------------------------------------------------------------------- */

static void engines_are_bounded_and_indexes_age(void **state)
{
    struct kvrail *engines[KVR_ENGINES_MAX], *more;
    struct kvrail_error error;

    (void)state;
    for (int i = 0; i < KVR_ENGINES_MAX; i++)
        engines[i] = scripted_engine(&agent, "one of many");
    assert_int_equal(scripted_open(&agent, "one too many", 10000, &more, &error), KVRAIL_FULL);
    assert_non_null(strstr(error.detail, "64 engines"));
    kvrail_close(engines[5]);
    assert_true(scripted_reached(&agent.record->downs, 1));
    kvrail_close(engines[3]);
    assert_true(scripted_reached(&agent.record->downs, 2));
    engines[5] = scripted_engine(&agent, "next");
    assert_int_equal(agent.record->engine_last, 5);
    engines[3] = scripted_engine(&agent, "next");
    assert_int_equal(agent.record->engine_last, 3);
    for (int i = 0; i < KVR_ENGINES_MAX; i++)
        kvrail_close(engines[i]);
    assert_true(scripted_reached(&agent.record->downs, KVR_ENGINES_MAX + 2));
}

/* Engines that have gone, and still hold every index. */
static void keep_all(void)
{
    atomic_store(&agent.record->keep, true);
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++) {
        struct kvrail *engine = scripted_engine(&agent, "kept");

        assert_int_equal(agent.record->engine_last, i);
        kvrail_close(engine);
        assert_true(scripted_reached(&agent.record->downs, i + 1));
    }
}

static void index_is_kept_until_release(void **state)
{
    kvrail_status status = KVRAIL_TIMED_OUT;
    struct kvrail_error error;
    struct kvrail *engine;

    (void)state;
    keep_all();
    /* Tries until the agent has answered at all. */
    for (uint32_t ms = 50; status == KVRAIL_TIMED_OUT && ms < 10000; ms *= 2)
        status = scripted_open(&agent, "one too many", ms, &engine, &error);
    assert_int_equal(status, KVRAIL_FULL);
    assert_non_null(strstr(error.detail, "64 of them have ended"));
}

static void *let_go_later(void *unused)
{
    usleep(50000);
    scripted_agent_let_go(&agent);
    return unused;
}

/* All ranks of a host restart while the agent still lets their predecessors go. */
static void newcomer_waits_for_those_who_leave(void **state)
{
    pthread_t thread;

    (void)state;
    keep_all();
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, NULL), 0);
    kvrail_close(scripted_engine(&agent, "newcomer"));
    pthread_join(thread, NULL);
    assert_true(scripted_reached(&agent.record->downs, KVR_ENGINES_MAX + 1));
}

/* ---- the path -------------------------------------------------------------------------------- */

static kvr_status open_and_close(const char *path, struct kvr_error *error)
{
    struct kvr_engine_handler handler = {0};
    struct kvr_engine_port *port;
    uv_loop_t loop;
    kvr_status status;

    assert_int_equal(uv_loop_init(&loop), 0);
    status = kvr_engine_port_open(&loop, path, "second", &handler, &port, error);
    if (status == KVR_OK) {
        assert_int_equal(access(path, F_OK), 0);
        kvr_engine_port_close(port);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return status;
}

static void live_socket_is_not_taken(void **state)
{
    struct kvr_error error;
    struct stat file;

    (void)state;
    assert_int_equal(stat(agent.path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_int_equal(open_and_close(agent.path, &error), KVR_EXISTS);
    assert_non_null(strstr(error.detail, "live process"));
    kvrail_close(scripted_engine(&agent, "still served"));
}

static void stale_socket_is_replaced(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct kvr_error error;
    char path[100];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)state;
    snprintf(path, sizeof(path), "/tmp/kvrail-stale-%d", (int)getpid());
    memcpy(address.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    assert_int_equal(open_and_close(path, &error), KVR_OK);
    assert_int_equal(access(path, F_OK), -1);

    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(open_and_close(path, &error), KVR_EXISTS);
    assert_non_null(strstr(error.detail, "not a socket"));
    unlink(path);
    assert_int_equal(open_and_close("/nowhere/at/all", &error), KVR_SYSTEM);
    assert_int_equal(open_and_close("", &error), KVR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(garbage_before_attach_is_refused, start_thread, stop),
        cmocka_unit_test_setup_teardown(silence_before_attach_ends, start_thread, stop),
        cmocka_unit_test_setup_teardown(an_attach_that_came_in_time_is_taken, start_thread, stop),
        cmocka_unit_test_setup_teardown(garbage_after_attach_ends_that_engine, start_thread, stop),
        cmocka_unit_test_setup_teardown(descriptors_where_none_belong_are_closed, start_thread,
                                        stop),
        cmocka_unit_test_setup_teardown(pairs_are_told_to_whoever_may_attach, start_thread, stop),
        cmocka_unit_test_setup_teardown(pairs_are_no_request_of_an_engine, start_thread, stop),
        cmocka_unit_test_setup_teardown(pairs_do_not_wait_for_the_deaf, start_thread, stop),
        cmocka_unit_test_setup_teardown(engine_process_dies, start_thread, stop),
        cmocka_unit_test_setup_teardown(engine_dies_while_a_child_holds_its_socket, start_thread,
                                        stop),
        cmocka_unit_test_setup_teardown(engine_dies_while_its_children_talk, start_thread, stop),
        cmocka_unit_test_setup_teardown(deaf_engine_is_given_up_without_a_lie, start_thread, stop),
        cmocka_unit_test_setup_teardown(layers_are_told_together, start_thread, stop),
        cmocka_unit_test_setup_teardown(a_slow_engine_is_not_given_up_for_news, start_thread, stop),
        cmocka_unit_test_setup_teardown(engines_are_bounded_and_indexes_age, start_thread, stop),
        cmocka_unit_test_setup_teardown(index_is_kept_until_release, start_thread, stop),
        cmocka_unit_test_setup_teardown(newcomer_waits_for_those_who_leave, start_thread, stop),
        cmocka_unit_test_setup_teardown(live_socket_is_not_taken, start_thread, stop),
        cmocka_unit_test(stale_socket_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
