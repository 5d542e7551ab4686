/* PostgreSQL: threads wait for the server, with a bound. A server that is there and does not
 * answer, because its disk hangs or its processes are stopped, must not hold a thread for ever. */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "scheduler/store_postgres.h"

#define CANCEL_NS (2 * KVR_S) /* the server has that long to end a query past its deadline */

static kvr_ns until_of(const struct store_postgres *store)
{
    kvr_ns now = kvr_clock_now(), deadline = store->base.deadline;

    if (store->patience == KVR_NEVER)
        return KVR_NEVER;
    if (!store->reader || deadline == 0)
        return now + store->patience;
    return (deadline > now ? deadline : now) + CANCEL_NS;
}

static int milliseconds(kvr_ns until)
{
    kvr_ns now = kvr_clock_now();

    if (until == KVR_NEVER)
        return -1;
    return until > now ? (int)((until - now) / KVR_MS) + 1 : 0;
}

/* libpq finds the connection closed, and each later call fails. */
static void give_up(struct store_postgres *store)
{
    store->silent = true;
    (void)shutdown(PQsocket(store->connection), SHUT_RDWR);
    while (PQstatus(store->connection) == CONNECTION_OK && PQconsumeInput(store->connection) == 1 &&
           PQisBusy(store->connection) != 0)
        continue;
}

const char *store_postgres_gave_up(const struct store_postgres *store)
{
    if (store->stopped)
        return "a signal ended the program before the server had answered";
    return store->silent ? "the server does not answer" : NULL;
}

/* What was sent leaves meanwhile. */
static void await(struct store_postgres *store)
{
    kvr_ns until = until_of(store);
    int stop_fd = until == KVR_NEVER && store->stop_fd != 0 ? store->stop_fd : -1;

    while (PQstatus(store->connection) == CONNECTION_OK) {
        int left = PQflush(store->connection);
        struct pollfd waits[] = {{.fd = PQsocket(store->connection),
                                  .events = (short)(left > 0 ? POLLIN | POLLOUT : POLLIN)},
                                 {.fd = stop_fd, .events = POLLIN}};

        if (PQisBusy(store->connection) == 0)
            return;
        if (poll(waits, 2, milliseconds(until)) == 0 && milliseconds(until) == 0) {
            give_up(store);
            return;
        }
        if (waits[1].revents != 0) {
            store->stopped = true;
            give_up(store);
            return;
        }
        if (PQconsumeInput(store->connection) != 1)
            return;
    }
}

PGresult *store_postgres_result(struct store_postgres *store)
{
    await(store);
    return PQgetResult(store->connection);
}

PGresult *store_postgres_ask_plain(struct store_postgres *store, const char *sql)
{
    PGresult *result, *last = NULL;

    if (PQsendQuery(store->connection, sql) != 1)
        return NULL;
    while ((result = store_postgres_result(store)) != NULL) {
        PQclear(last);
        last = result;
    }
    return last;
}
