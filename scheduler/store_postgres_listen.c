#include "scheduler/store_listen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "scheduler/store_postgres.h"

#define TRY_AGAIN_MS 1000
#define LOOK_MS      10000 /* at the connection, when nothing is heard */

struct store_listener {
    struct store_place place; /* its texts are the options', which outlive it */
    int64_t own;              /* what this scheduler says with a commit */
    void (*heard)(void *self);
    void *self;
    struct store *store; /* NULL: there is no connection */
    pthread_t thread;
    int end; /* an eventfd: the thread ends */
    _Atomic bool ending;
};

/* True: it is ending. */
static bool rest(struct store_listener *listener, int ms)
{
    struct pollfd end = {.fd = listener->end, .events = POLLIN};

    (void)poll(&end, 1, ms);
    return atomic_load(&listener->ending);
}

static bool begin(struct store_listener *listener)
{
    struct kvr_error error;
    PGresult *result;
    bool begun;

    if (store_open_reader(&listener->place, &listener->store, &error) != KVR_OK) {
        listener->store = NULL;
        return false;
    }
    result = store_postgres_ask(store_postgres(listener->store), "LISTEN " STORE_POSTGRES_CHANNEL);
    begun = result != NULL;
    PQclear(result);
    if (!begun)
        listener->store = store_close(listener->store);
    return begun;
}

/* False: the connection is lost. *ret_heard: another scheduler has committed. */
static bool listen_once(struct store_listener *listener, bool *ret_heard)
{
    struct store_postgres *store = store_postgres(listener->store);
    struct pollfd waits[] = {{.fd = PQsocket(store->connection), .events = POLLIN},
                             {.fd = listener->end, .events = POLLIN}};
    PGnotify *notify;

    (void)poll(waits, 2, LOOK_MS);
    *ret_heard = false;
    if (PQconsumeInput(store->connection) != 1)
        return false;
    while ((notify = PQnotifies(store->connection)) != NULL) {
        *ret_heard |= strtoll(notify->extra, NULL, 10) != listener->own;
        PQfreemem(notify);
    }
    return PQstatus(store->connection) == CONNECTION_OK;
}

static void *listener_main(void *self)
{
    struct store_listener *listener = self;
    bool heard;

    while (!atomic_load(&listener->ending)) {
        if (listener->store == NULL) {
            if (!begin(listener)) {
                (void)rest(listener, TRY_AGAIN_MS);
                continue;
            }
            listener->heard(listener->self); /* they may have committed meanwhile */
        }
        if (!listen_once(listener, &heard))
            listener->store = store_close(listener->store);
        else if (heard)
            listener->heard(listener->self);
    }
    listener->store = store_close(listener->store);
    return NULL;
}

kvr_status store_listen(const struct store_place *place, struct store *writer,
                        void (*heard)(void *self), void *self, struct store_listener **ret_listener,
                        struct kvr_error *error)
{
    struct store_listener *listener;
    int failed;

    *ret_listener = NULL;
    if (place->url == NULL)
        return KVR_OK;
    listener = calloc(1, sizeof(*listener));
    if (listener == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the listener");
    *listener = (struct store_listener){
        .place = *place, .own = store_postgres(writer)->me, .heard = heard, .self = self};
    listener->end = eventfd(0, EFD_CLOEXEC);
    failed = listener->end < 0
                 ? errno
                 : kvr_thread_start("listener", listener_main, listener, &listener->thread);
    if (failed != 0) {
        if (listener->end >= 0)
            close(listener->end);
        free(listener);
        return kvr_error_system(error, "store", failed, "no thread for the listener");
    }
    *ret_listener = listener;
    return KVR_OK;
}

struct store_listener *store_listen_end(struct store_listener *listener)
{
    uint64_t one = 1;

    if (listener == NULL)
        return NULL;
    atomic_store(&listener->ending, true);
    (void)!write(listener->end, &one, sizeof(one));
    pthread_join(listener->thread, NULL);
    close(listener->end);
    free(listener);
    return NULL;
}
