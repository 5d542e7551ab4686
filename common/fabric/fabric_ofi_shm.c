/* What the shm provider needs around it.
 *
 * 1. Before libfabric 1.20 each endpoint's file in /dev/shm holds a spin lock that both sides take,
 * the owner for as long as it copies. A process that is killed meanwhile leaves it taken, and
 * whoever writes to it next spins for ever inside the provider. So a thread watches the processes
 * of all peers: the lock of a dead one is opened, and its peers are told apart from the living. A
 * lock of our own that a dead writer took shows as a call that does not come back; it is opened
 * too. Where the layout of the file is not the one that is known, nothing is touched.
 *
 * 2. A writer that closes its endpoint does not give back what it has borrowed of the target's
 * queue, and the table of peers only grows. The same thread sees an endpoint of ours wear out; the
 * poll tells it as an error that names no write, and the rail gets a new epoch.
 *
 * Files that are left behind are in fabric_ofi_shm_file.c, names that must outlive their endpoint
 * in fabric_ofi_shm_name.c. */
#include "fabric/fabric_ofi_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WATCHES_MAX  512
#define TICK_MS      250
#define WORN_LOOKS   4 /* a second */
#define TICK_DEAD_MS 1
#define DEAD_QUICK_NS                                                                              \
    (10 * KVR_S) /* how long a dead peer's lock is looked at every millisecond                     \
                  */

/* The beginning of the provider's file. */
struct shm_header {
    uint8_t version, reserved;
    uint16_t flags;
    int32_t pid;
    uint8_t cma[4];
    uint32_t share; /* 256 over the number of peers that the endpoint has met */
    void *base;
    pthread_spinlock_t lock;
    int32_t signal;
    void *map;
    uint64_t total_bytes, credits, sar_credits, queue_offset;
    uint64_t response_offset, inject_offset, sar_offset, peer_offset;
    uint64_t name_offset; /* of the name that closing takes away */
};
_Static_assert(offsetof(struct shm_header, lock) == 24, "as the provider lays it out");
_Static_assert(offsetof(struct shm_header, queue_offset) == 64, "as the provider lays it out");
_Static_assert(offsetof(struct shm_header, name_offset) == 104, "as the provider lays it out");

/* The queue of commands in the same file. */
struct shm_queue {
    uint64_t size, mask, read, written;
};

struct ofi_shm_watch {
    pid_t pid;
    int pidfd;                     /* -1: our own */
    const _Atomic uint64_t *calls; /* our own: odd while the endpoint's thread is in the provider */
    uint64_t calls_seen;
    struct shm_header *header;     /* NULL: its lock is not ours to touch */
    const struct shm_queue *queue; /* our own: NULL where its credits cannot be counted */
    bool lock_seen_taken;
    unsigned worn_looks;
    kvr_ns looked_at, dead_since;
    _Atomic bool dead, worn;
};

static struct {
    pthread_mutex_t life; /* taken before `lock`, while the thread is started or ended */
    pthread_mutex_t lock; /* the list */
    struct ofi_shm_watch *watches[WATCHES_MAX];
    unsigned count;
    pthread_t thread;
    int wake_fd;
    bool stop;
} shm = {.life = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* True when somebody holds it at this moment. */
static bool taken(struct shm_header *header)
{
    if (pthread_spin_trylock(&header->lock) != 0)
        return true;
    pthread_spin_unlock(&header->lock);
    return false;
}

/* Held in two looks a millisecond apart: living writers hold it far shorter. */
static void look_at_dead(struct ofi_shm_watch *watch)
{
    bool now_taken = watch->header != NULL && taken(watch->header);

    if (now_taken && watch->lock_seen_taken)
        pthread_spin_unlock(&watch->header->lock);
    watch->lock_seen_taken = now_taken;
}

/* Nothing waits in the queue, but most of what writers may put there is lent out: to writers that
 * are gone and never give it back. Or the table of peers, which only grows, is half full. */
static void look_for_wear(struct ofi_shm_watch *watch)
{
    const struct shm_queue *queue = watch->queue;
    bool worn;

    if (queue == NULL)
        return;
    worn = watch->header->share == 1 ||
           (queue->read == queue->written && watch->header->credits < queue->size / 2);
    watch->worn_looks = worn ? watch->worn_looks + 1 : 0;
    if (watch->worn_looks >= WORN_LOOKS)
        atomic_store_explicit(&watch->worn, true, memory_order_relaxed);
}

/* One call that lasted from one look to the next while the lock was taken both times. */
static void look_at_own(struct ofi_shm_watch *watch, kvr_ns now)
{
    uint64_t calls = atomic_load(watch->calls);
    bool now_taken, stuck;

    if (watch->header == NULL || now - watch->looked_at < TICK_MS * KVR_MS)
        return;
    now_taken = calls % 2 == 1 && taken(watch->header);
    stuck = now_taken && watch->lock_seen_taken && calls == watch->calls_seen;
    if (stuck)
        pthread_spin_unlock(&watch->header->lock);
    watch->lock_seen_taken = now_taken && !stuck;
    watch->calls_seen = calls;
    watch->looked_at = now;
    look_for_wear(watch);
}

static bool has_died(const struct ofi_shm_watch *watch)
{
    struct pollfd fd = {.fd = watch->pidfd, .events = POLLIN};

    return watch->pidfd >= 0 && poll(&fd, 1, 0) > 0;
}

/* Returns how long the thread may wait until the next look. */
static int look(struct pollfd *ret_fds, nfds_t *ret_count)
{
    kvr_ns now = kvr_clock_now();
    nfds_t count = 1;
    int wait_ms = TICK_MS;

    for (unsigned i = 0; i < shm.count; i++) {
        struct ofi_shm_watch *watch = shm.watches[i];

        if (watch->calls != NULL) {
            look_at_own(watch, now);
            continue;
        }
        if (!watch->dead && has_died(watch)) {
            watch->dead_since = now;
            watch->dead = true;
        }
        if (!watch->dead) {
            ret_fds[count++] = (struct pollfd){.fd = watch->pidfd, .events = POLLIN};
            continue;
        }
        look_at_dead(watch);
        if (now - watch->dead_since < DEAD_QUICK_NS)
            wait_ms = TICK_DEAD_MS;
    }
    ret_fds[0] = (struct pollfd){.fd = shm.wake_fd, .events = POLLIN};
    *ret_count = count;
    return wait_ms;
}

static void *run(void *unused)
{
    static struct pollfd fds[WATCHES_MAX + 1];

    (void)unused;
    for (;;) {
        eventfd_t woken;
        nfds_t count;
        int wait_ms;

        pthread_mutex_lock(&shm.lock);
        if (shm.stop) {
            pthread_mutex_unlock(&shm.lock);
            return NULL;
        }
        wait_ms = look(fds, &count);
        pthread_mutex_unlock(&shm.lock);
        ofi_shm_drop_old_names(kvr_clock_now());
        if (poll(fds, count, wait_ms) > 0 && (fds[0].revents & POLLIN) != 0)
            (void)eventfd_read(shm.wake_fd, &woken);
    }
}

/* NULL: not there, then *ret_gone is true, or not laid out as is known. */
static struct shm_header *map_header(const char *name, pid_t pid, bool *ret_gone)
{
    int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    struct shm_header *header = MAP_FAILED;
    struct stat status;

    *ret_gone = fd < 0 && errno == ENOENT; /* or it is marked as such, below */
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && status.st_size >= OFI_SHM_HEADER_BYTES)
        header = mmap(NULL, OFI_SHM_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (header == MAP_FAILED)
        return NULL;
    if (header->version == OFI_SHM_LAYOUT_KNOWN && header->pid == pid)
        return header;
    *ret_gone = header->version == OFI_SHM_LAYOUT_ENDED;
    munmap(header, OFI_SHM_HEADER_BYTES);
    return NULL;
}

/* Of an endpoint of ours that nobody has written to: where its numbers are as they must be. */
static const struct shm_queue *find_queue(const struct shm_header *header)
{
    const struct shm_queue *queue;

    if (header == NULL || header->queue_offset > OFI_SHM_HEADER_BYTES - sizeof(*queue))
        return NULL;
    queue = (const struct shm_queue *)(const void *)((const char *)header + header->queue_offset);
    return queue->size > 1 && queue->mask == queue->size - 1 && header->credits == queue->size &&
                   queue->read == queue->written
               ? queue
               : NULL;
}

static kvr_status start_thread(void)
{
    shm.stop = false;
    shm.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (shm.wake_fd < 0)
        return KVR_SYSTEM;
    if (pthread_create(&shm.thread, NULL, run, NULL) != 0) {
        close(shm.wake_fd);
        return KVR_SYSTEM;
    }
    (void)pthread_setname_np(shm.thread, "kvr-shm");
    return KVR_OK;
}

static kvr_status join_watches(struct ofi_shm_watch *watch)
{
    kvr_status status = KVR_OK;

    pthread_mutex_lock(&shm.life);
    if (shm.count == WATCHES_MAX)
        status = KVR_NO_MEMORY;
    else if (shm.count == 0)
        status = start_thread();
    if (status == KVR_OK) {
        pthread_mutex_lock(&shm.lock);
        shm.watches[shm.count++] = watch;
        pthread_mutex_unlock(&shm.lock);
        (void)eventfd_write(shm.wake_fd, 1);
    }
    pthread_mutex_unlock(&shm.life);
    return status;
}

static void leave_watches(const struct ofi_shm_watch *watch)
{
    pthread_mutex_lock(&shm.life);
    pthread_mutex_lock(&shm.lock);
    for (unsigned i = 0; i < shm.count; i++) {
        if (shm.watches[i] == watch)
            shm.watches[i] = shm.watches[--shm.count];
    }
    shm.stop = shm.count == 0;
    pthread_mutex_unlock(&shm.lock);
    if (shm.stop) {
        (void)eventfd_write(shm.wake_fd, 1);
        pthread_join(shm.thread, NULL);
        close(shm.wake_fd);
    }
    pthread_mutex_unlock(&shm.life);
}

static void release(struct ofi_shm_watch *watch)
{
    if (watch->pidfd >= 0)
        close(watch->pidfd);
    if (watch->header != NULL)
        munmap(watch->header, OFI_SHM_HEADER_BYTES);
    free(watch);
}

const char *ofi_shm_name(const char *address)
{
    const char *scheme = strstr(address, "://");

    return scheme != NULL ? scheme + 3 : address;
}

void ofi_shm_watch_keep_name(const struct ofi_shm_watch *own_watch, int file, const char *name)
{
    struct shm_header *header = own_watch != NULL ? own_watch->header : NULL;
    size_t bytes = strlen(name) + 1;
    char found[KVR_ADDRESS_BYTES];

    if (header == NULL || bytes > sizeof(found) ||
        pread(file, found, bytes, (off_t)header->name_offset) != (ssize_t)bytes ||
        memcmp(found, name, bytes) != 0)
        return;
    header->name_offset += bytes - 1; /* its end: an empty name, which nothing has */
}

kvr_status ofi_shm_watch_open(const char *address, const _Atomic uint64_t *own_calls,
                              struct ofi_shm_watch **ret_watch)
{
    const char *name = ofi_shm_name(address);
    struct ofi_shm_watch *watch;
    kvr_status status;
    bool gone;
    int pid;

    /* Another kind of name: nothing is known about its process, nothing is watched. */
    *ret_watch = NULL;
    if (sscanf(name, "%d:", &pid) != 1 || pid <= 0)
        return KVR_OK;
    watch = calloc(1, sizeof(*watch));
    if (watch == NULL)
        return KVR_NO_MEMORY;
    watch->pid = pid;
    watch->calls = own_calls;
    watch->pidfd = own_calls != NULL ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (own_calls == NULL && watch->pidfd < 0) {
        status = errno == ESRCH ? KVR_PEER_LOST : KVR_SYSTEM;
        free(watch);
        return status;
    }
    watch->header = map_header(name, pid, &gone);
    watch->queue = own_calls != NULL ? find_queue(watch->header) : NULL;
    status = gone ? KVR_PEER_LOST : join_watches(watch);
    if (status != KVR_OK)
        release(watch);
    else
        *ret_watch = watch;
    return status;
}

bool ofi_shm_watch_dead(const struct ofi_shm_watch *watch)
{
    return watch != NULL && atomic_load_explicit(&watch->dead, memory_order_relaxed);
}

bool ofi_shm_watch_worn(const struct ofi_shm_watch *watch)
{
    return watch != NULL && atomic_load_explicit(&watch->worn, memory_order_relaxed);
}

void ofi_shm_watch_close(struct ofi_shm_watch *watch)
{
    if (watch == NULL)
        return;
    leave_watches(watch);
    /* A writer that still waits for the lock of an endpoint that was just closed must get away. */
    if (watch->calls != NULL && watch->header != NULL && taken(watch->header))
        pthread_spin_unlock(&watch->header->lock);
    release(watch);
}
