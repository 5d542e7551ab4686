/* Goal: an agent's end of the filter's socket waits a bounded time, says why it was refused, and
 * sees that the filter has gone. Method: a socket of the test's own answers, or does not. */
#include "tests/support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "filter/filter_client.h"

static char path[64];

/* Answers DONE to HELLO and to so many commits, then `last`; 0: hangs up. */
struct filter {
    int listener;
    unsigned commits;
    struct kvr_filter_message last;
    unsigned messages; /* that came */
    pthread_t thread;
};

static void answer(int fd, const struct kvr_filter_message *message)
{
    uint8_t bytes[KVR_FILTER_MESSAGE_BYTES];

    kvr_filter_encode(message, bytes);
    assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

static void *serve(void *self)
{
    uint8_t packet[KVR_FILTER_PACKET_MAX * KVR_FILTER_MESSAGE_BYTES];
    struct filter *filter = self;
    struct kvr_filter_message message;
    int fd = accept(filter->listener, NULL, NULL);
    ssize_t bytes;

    while ((bytes = recv(fd, packet, sizeof(packet), 0)) > 0) {
        for (ssize_t at = 0; at < bytes; at += KVR_FILTER_MESSAGE_BYTES) {
            assert_int_equal(kvr_filter_decode(packet + at, true, &message), KVR_OK);
            filter->messages++;
            if (message.kind == KVR_FILTER_HELLO)
                answer(fd, &(struct kvr_filter_message){.kind = KVR_FILTER_DONE});
            if (message.kind != KVR_FILTER_COMMIT)
                continue;
            if (filter->commits == 0)
                goto end;
            filter->commits--;
            answer(fd, &(struct kvr_filter_message){.kind = KVR_FILTER_COUNT, .value = 7});
            answer(fd,
                   &(struct kvr_filter_message){.kind = KVR_FILTER_DONE, .value = message.value});
        }
    }
end:
    if (filter->last.kind == KVR_FILTER_REFUSED)
        answer(fd, &filter->last);
    close(fd);
    return NULL;
}

static void start(struct filter *filter)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(path, sizeof(path), "/tmp/kvrail-filter-test.%d", (int)getpid());
    unlink(path);
    memcpy(address.sun_path, path, sizeof(path));
    filter->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(filter->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(filter->listener, 1), 0);
}

static void run(struct filter *filter)
{
    start(filter);
    assert_int_equal(pthread_create(&filter->thread, NULL, serve, filter), 0);
}

static void stop(struct filter *filter)
{
    pthread_join(filter->thread, NULL);
    close(filter->listener);
    unlink(path);
}

static const struct kvr_filter_message peer = {.kind = KVR_FILTER_PEER,
                                               .address = {4, {10, 0, 0, 7}}};

static void what_was_said_arrives_with_the_commit(void **state)
{
    struct filter filter = {.commits = 1};
    struct kvr_filter_client client;
    struct kvr_error error;

    (void)state;
    run(&filter);
    assert_int_equal(kvr_filter_client_open(path, &client, &error), KVR_OK);
    for (unsigned i = 0; i < 2 * KVR_FILTER_PACKET_MAX; i++)
        assert_int_equal(kvr_filter_client_say(&client, &peer, &error), KVR_OK);
    assert_int_equal(kvr_filter_client_commit(&client, &error), KVR_OK);
    assert_int_equal(client.refused, 7);
    kvr_filter_client_close(&client);
    stop(&filter);
    assert_int_equal(filter.messages, 2 * KVR_FILTER_PACKET_MAX + 2);
}

static void a_refusal_has_its_sentence(void **state)
{
    struct filter filter = {
        .last = {.kind = KVR_FILTER_REFUSED, .value = KVR_FILTER_REFUSAL_LISTENER}};
    struct kvr_filter_client client;
    struct kvr_error error;

    (void)state;
    run(&filter);
    assert_int_equal(kvr_filter_client_open(path, &client, &error), KVR_OK);
    assert_int_equal(kvr_filter_client_commit(&client, &error), KVR_REFUSED);
    assert_non_null(strstr(error.detail, "no socket of this agent's user"));
    assert_int_equal(client.fd, -1);
    stop(&filter);
}

static void a_filter_that_goes_is_seen(void **state)
{
    struct filter filter = {.commits = 0};
    struct kvr_filter_client client;
    struct kvr_error error;

    (void)state;
    run(&filter);
    assert_int_equal(kvr_filter_client_open(path, &client, &error), KVR_OK);
    assert_int_equal(kvr_filter_client_hear(&client, &error), KVR_OK);
    assert_int_equal(kvr_filter_client_commit(&client, &error), KVR_SYSTEM);
    stop(&filter);
    assert_int_equal(kvr_filter_client_open(path, &client, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "cannot be reached"));
}

static void a_silent_filter_is_not_waited_for_longer_than_a_second(void **state)
{
    struct filter filter = {0};
    struct kvr_filter_client client;
    struct kvr_error error;
    kvr_ns begun = kvr_clock_now();

    (void)state;
    start(&filter);
    assert_int_equal(kvr_filter_client_open(path, &client, &error), KVR_TIMED_OUT);
    assert_true(kvr_clock_now() - begun >= KVR_S);
    assert_int_equal(client.fd, -1);
    close(filter.listener);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_said_arrives_with_the_commit),
        cmocka_unit_test(a_refusal_has_its_sentence),
        cmocka_unit_test(a_filter_that_goes_is_seen),
        cmocka_unit_test(a_silent_filter_is_not_waited_for_longer_than_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
