/* Goal: a scheduler reaches its database of PostgreSQL by what its owner gives it, and keeps the
 * password to itself.
 * Method: servers of this test's own, which speak the first words of the protocol, and a real one
 * (tests/support/postgres.sh). */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/store_case.h"

/* ---- the URL ---- */

static void a_password_in_the_url_is_refused(void **state)
{
    static const char *const urls[] = {"postgresql://kvrail:hunter2@localhost/kvrail",
                                       "postgresql://localhost/kvrail?password=hunter2",
                                       "host=localhost password=hunter2"};
    struct kvr_error error;
    struct store *store;

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        const struct store_place place = {.url = urls[i]};

        assert_int_equal(store_open_writer(&place, &store, &error), KVR_INVALID);
        assert_non_null(strstr(error.detail, "--database-password-file"));
        assert_null(strstr(error.detail, "hunter2"));
    }
}

/* Each that does not answer is waited for. */
static void many_hosts_are_refused(void **state)
{
    const struct store_place place = {.url = "postgresql://a,b,c,d,e/kvrail"};
    struct kvr_error error;
    struct store *store;

    (void)state;
    assert_int_equal(store_open_writer(&place, &store, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "names 5 hosts"));
}

static void a_server_that_is_not_there_is_said(void **state)
{
    const struct store_place place = {.url = "postgresql://127.0.0.1:1/kvrail?sslmode=disable"};
    struct kvr_error error;
    struct store *store;

    (void)state;
    assert_int_equal(store_open_writer(&place, &store, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "cannot reach the database postgresql://127.0.0.1:1"));
}

/* Says to one client that it has no TLS. */
static void *plain_server(void *self)
{
    int listening = *(int *)self, client = accept(listening, NULL, NULL);
    char asked[8];

    if (recv(client, asked, sizeof(asked), MSG_WAITALL) == (ssize_t)sizeof(asked))
        (void)send(client, "N", 1, MSG_NOSIGNAL);
    while (recv(client, asked, sizeof(asked), 0) > 0)
        continue;
    close(client);
    return NULL;
}

/* Asks one client for its password, and keeps the length of the answer. */
struct asking {
    int listening;
    uint32_t length;
};

static void *asking_server(void *self)
{
    static const char ask[] = {'R', 0, 0, 0, 8, 0, 0, 0, 3};
    struct asking *asking = self;
    int client = accept(asking->listening, NULL, NULL);
    char said[4096];
    uint32_t length;

    (void)recv(client, said, sizeof(said), 0);
    (void)send(client, ask, sizeof(ask), MSG_NOSIGNAL);
    if (recv(client, said, 5, MSG_WAITALL) == 5) {
        memcpy(&length, said + 1, sizeof(length));
        asking->length = ntohl(length) - 5; /* the length itself, and the end of the text */
    }
    close(client);
    return NULL;
}

static int listen_somewhere(char url[128])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof(at);

    assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listening, 4), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &length), 0);
    snprintf(url, 128, "postgresql://127.0.0.1:%d/kvrail", ntohs(at.sin_port));
    return listening;
}

/* As tokens are that clouds give for passwords. */
static void a_long_password_is_read_whole(void **state)
{
    const struct fixture *fixture = *state;
    char url[128], plain[160], file[FOLDER_BYTES + 16];
    struct asking asking = {.listening = listen_somewhere(url)};
    struct store_place place;
    struct store *store;
    pthread_t thread;
    FILE *stream;

    snprintf(plain, sizeof(plain), "%s?sslmode=disable", url);
    snprintf(file, sizeof(file), "%s/password", fixture->folder);
    stream = fopen(file, "w");
    assert_non_null(stream);
    for (int i = 0; i < 2000; i++)
        fputc('x', stream);
    fputc('\n', stream);
    fclose(stream);
    place = (struct store_place){.url = plain, .password_file = file};
    assert_int_equal(pthread_create(&thread, NULL, asking_server, &asking), 0);
    assert_int_equal(store_open_writer(&place, &store, NULL), KVR_SYSTEM);
    pthread_join(thread, NULL);
    close(asking.listening);
    assert_int_equal(asking.length, 2000);
}

/* Over TCP the server must prove its name, unless the URL says otherwise. */
static void tls_is_asked_for(void **state)
{
    char url[128];
    int listening = listen_somewhere(url);
    struct store_place place;
    struct kvr_error error;
    struct store *store;
    pthread_t thread;

    (void)state;
    place = (struct store_place){.url = url};
    assert_int_equal(pthread_create(&thread, NULL, plain_server, &listening), 0);
    assert_int_equal(store_open_writer(&place, &store, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "does not support SSL"));
    pthread_join(thread, NULL);
    close(listening);
}

/* ---- roles ---- */

/* The owner of a database has made the schema for the scheduler's role. The role may do no more,
 * and its defaults are others: with its timeout a statement that waits would be cancelled. */
static void a_role_with_its_schema_alone_is_enough(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct kvr_error error;
    struct store_place place;
    char url[512];

    store_execute(fixture, "DROP SCHEMA kvrail CASCADE");
    store_execute(fixture, "DROP ROLE IF EXISTS narrow");
    store_execute(fixture, "CREATE ROLE narrow LOGIN");
    store_execute(fixture, "ALTER ROLE narrow SET default_transaction_isolation = 'serializable'");
    store_execute(fixture, "ALTER ROLE narrow SET statement_timeout = '1s'");
    store_execute(fixture, "ALTER ROLE narrow SET standard_conforming_strings = off");
    store_execute(fixture, "ALTER ROLE narrow SET search_path = nowhere");
    store_execute(fixture, "ALTER ROLE narrow SET TimeZone = 'Asia/Kathmandu'");
    store_execute(fixture, "REVOKE ALL ON SCHEMA public FROM PUBLIC");
    store_execute(fixture, "CREATE SCHEMA kvrail AUTHORIZATION narrow");
    snprintf(url, sizeof(url), "%s&user=narrow", fixture->place.url);
    place = (struct store_place){.url = url};
    if (store_open_writer(&place, &store, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    store_execute(fixture, "CREATE FUNCTION kvrail.wait() RETURNS trigger LANGUAGE plpgsql AS "
                           "'BEGIN PERFORM pg_sleep(1.2); RETURN NULL; END'");
    store_execute(fixture, "CREATE TRIGGER wait BEFORE INSERT ON kvrail.positions "
                           "EXECUTE FUNCTION kvrail.wait()");
    assert_true(store_begin(store) && store_set_position(store, "decode-0", 7, 1, WALL) &&
                store_commit(store));
    store_close(store);
    store_execute(fixture, "DROP OWNED BY narrow CASCADE");
    store_execute(fixture, "DROP ROLE narrow");
}

/* ---- starting and stopping ---- */

static void *tell_to_stop(void *self)
{
    const uint64_t one = 1;

    usleep(300000);
    assert_int_equal(write(*(int *)self, &one, sizeof(one)), sizeof(one));
    return NULL;
}

/* Another scheduler brings the database to a new version, which takes long. */
static void a_signal_ends_a_start_that_waits(void **state)
{
    struct fixture *fixture = *state;
    struct store_place place = fixture->place;
    PGconn *other = PQconnectdb(place.url);
    kvr_ns begin = kvr_clock_now();
    struct kvr_error error;
    struct store *store;
    pthread_t thread;

    place.stop_fd = eventfd(0, EFD_CLOEXEC);
    PQclear(PQexec(other, "SELECT pg_advisory_lock(8170170170170170)"));
    assert_int_equal(pthread_create(&thread, NULL, tell_to_stop, &place.stop_fd), 0);
    assert_int_equal(store_open_writer(&place, &store, &error), KVR_CANCELLED);
    assert_non_null(strstr(error.detail, "a signal ended"));
    assert_true(kvr_clock_now() - begin < 60 * KVR_S);
    pthread_join(thread, NULL);
    PQfinish(other);
    close(place.stop_fd);
    place.stop_fd = 0;
    assert_int_equal(store_open_writer(&place, &store, &error), KVR_OK);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_password_in_the_url_is_refused),
        WITH_STORE(many_hosts_are_refused),
        WITH_STORE(a_server_that_is_not_there_is_said),
        WITH_STORE(a_long_password_is_read_whole),
        WITH_STORE(tls_is_asked_for),
        WITH_STORE(a_signal_ends_a_start_that_waits),
        WITH_STORE(a_role_with_its_schema_alone_is_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
