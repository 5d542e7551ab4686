/* The name of a shm endpoint that ended before everybody it spoke to had looked it up.
 *
 * The first word to a peer is our endpoint's name, put into the peer's queue. The peer looks the
 * name up when it next moves, and libfabric 1.17 there reads through a null pointer when it is
 * gone. So the name of such an endpoint is never away: before closing it becomes that of a
 * stand-in, which is the file's first page and as long, but else empty, and is marked so that
 * nobody takes it for a living one. It stays until every peer that still moves has looked. What a
 * killed process left, which may have spoken just before, is replaced likewise by the one that
 * cleans up. */
#include "fabric/fabric_ofi_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMES_MAX  64
#define NAME_BYTES (KVR_ADDRESS_BYTES + 32)
#define LAST_NS    (30 * KVR_S)   /* who has not moved for so long is lost */
#define LEAST_NS   (200 * KVR_MS) /* who idles has moved by then */

struct name {
    char path[NAME_BYTES];
    kvr_ns since;
    int file; /* the stand-in, held as the endpoint's was */
};

static struct {
    pthread_mutex_t lock;
    struct name list[NAMES_MAX]; /* the oldest first */
    unsigned count;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void drop_oldest(void)
{
    (void)unlink(kept.list[0].path);
    close(kept.list[0].file);
    kept.count--;
    memmove(&kept.list[0], &kept.list[1], kept.count * sizeof(kept.list[0]));
}

static void hold(const char *path, int stand_in)
{
    struct name *name;

    pthread_mutex_lock(&kept.lock);
    if (kept.count == NAMES_MAX)
        drop_oldest();
    name = &kept.list[kept.count++];
    snprintf(name->path, sizeof(name->path), "%s", path);
    name->since = kvr_clock_now();
    name->file = stand_in;
    pthread_mutex_unlock(&kept.lock);
}

/* What whoever looks the name up reads, and room for what he writes. */
static bool fill(int stand_in, int file)
{
    uint8_t header[OFI_SHM_HEADER_BYTES];
    struct stat status;

    if (fstat(file, &status) != 0 || pread(file, header, sizeof(header), 0) != sizeof(header) ||
        (header[0] != OFI_SHM_LAYOUT_KNOWN && header[0] != OFI_SHM_LAYOUT_ENDED))
        return false;
    header[0] = OFI_SHM_LAYOUT_ENDED;
    return pwrite(stand_in, header, sizeof(header), 0) == sizeof(header) &&
           ftruncate(stand_in, status.st_size) == 0 &&
           fchmod(stand_in, S_ISVTX | S_IRUSR | S_IWUSR) == 0;
}

bool ofi_shm_replace(const char *name, int file)
{
    char path[NAME_BYTES], aside[NAME_BYTES];
    int stand_in;

    snprintf(path, sizeof(path), "/dev/shm/%s", name);
    snprintf(aside, sizeof(aside), "/dev/shm/%s%s", name, OFI_SHM_ASIDE);
    stand_in = open(aside, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (stand_in < 0)
        return false;
    if (flock(stand_in, LOCK_EX | LOCK_NB) == 0 && fill(stand_in, file) &&
        rename(aside, path) == 0) {
        hold(path, stand_in);
        return true;
    }
    (void)unlink(aside);
    close(stand_in);
    return false;
}

static bool is_unanswered(const struct kvr_endpoint *endpoint)
{
    for (unsigned i = 0; i < OFI_SHM_PEERS; i++) {
        if (endpoint->peers[i].asked && !endpoint->peers[i].answered)
            return true;
    }
    return false;
}

void ofi_shm_before_close(const struct kvr_endpoint *endpoint)
{
    const char *name = ofi_shm_name((const char *)endpoint->address);

    if (is_unanswered(endpoint) && ofi_shm_replace(name, endpoint->shm_file))
        ofi_shm_watch_keep_name(endpoint->own_watch, endpoint->shm_file, name);
}

void ofi_shm_drop_old_names(kvr_ns now)
{
    pthread_mutex_lock(&kept.lock);
    while (kept.count > 0 && now - kept.list[0].since > LAST_NS)
        drop_oldest();
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
