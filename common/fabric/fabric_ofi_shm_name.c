/* The name of a shm endpoint that was closed before everybody it spoke to had looked it up.
 *
 * The first word to a peer is our endpoint's name, put into the peer's queue. The peer looks the
 * name up when it next moves, and libfabric 1.17 there reads through a null pointer when it is
 * gone. So the file of such an endpoint keeps its name over the closing, marked so that nobody
 * takes it for a living one, until every peer that still moves has looked. */
#include "fabric/fabric_ofi_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAMES_MAX  64
#define NAME_BYTES (KVR_ADDRESS_BYTES + 32)
#define LAST_NS    (30 * KVR_S)   /* who has not moved for so long is lost */
#define LEAST_NS   (200 * KVR_MS) /* who idles has moved by then */

struct name {
    char path[NAME_BYTES];
    kvr_ns since;
    int file; /* held, as the endpoint did; -1: none */
};

static struct {
    pthread_mutex_t lock;
    struct name list[NAMES_MAX]; /* the oldest first */
    unsigned count;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void drop_oldest(void)
{
    (void)unlink(kept.list[0].path);
    if (kept.list[0].file >= 0)
        close(kept.list[0].file);
    kept.count--;
    memmove(&kept.list[0], &kept.list[1], kept.count * sizeof(kept.list[0]));
}

static bool is_unanswered(const struct kvr_endpoint *endpoint)
{
    for (unsigned i = 0; i < OFI_SHM_PEERS; i++) {
        if (endpoint->peers[i].asked && !endpoint->peers[i].answered)
            return true;
    }
    return false;
}

bool ofi_shm_keep_name(const struct kvr_endpoint *endpoint)
{
    return is_unanswered(endpoint) &&
           ofi_shm_watch_keep_name(endpoint->own_watch, endpoint->shm_file,
                                   ofi_shm_name((const char *)endpoint->address));
}

void ofi_shm_name_kept(const struct kvr_endpoint *endpoint)
{
    kvr_ns now = kvr_clock_now();
    struct name *name;

    ofi_shm_mark_ended(endpoint->own_watch);
    pthread_mutex_lock(&kept.lock);
    while (kept.count > 0 && (kept.count == NAMES_MAX || now - kept.list[0].since > LAST_NS))
        drop_oldest();
    name = &kept.list[kept.count++];
    snprintf(name->path, sizeof(name->path), "/dev/shm/%s",
             ofi_shm_name((const char *)endpoint->address));
    name->since = now;
    name->file = fcntl(endpoint->shm_file, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&kept.lock);
}

void ofi_shm_drop_names(void)
{
    const struct timespec least = {.tv_nsec = (long)LEAST_NS};

    pthread_mutex_lock(&kept.lock);
    if (kept.count > 0 && kvr_clock_now() - kept.list[kept.count - 1].since < LEAST_NS)
        nanosleep(&least, NULL);
    while (kept.count > 0)
        drop_oldest();
    pthread_mutex_unlock(&kept.lock);
}
