#include "scheduler/changes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct changes {
    _Atomic bool wanted, lost;
    _Atomic int64_t until;
    pthread_mutex_t lock;
    uint32_t oldest; /* by lock, as the next one: where the next one goes, if all is full */
    struct changes_taken kept;
};

struct changes *changes_open(void)
{
    struct changes *changes = calloc(1, sizeof(*changes));

    if (changes != NULL)
        pthread_mutex_init(&changes->lock, NULL);
    return changes;
}

struct changes *changes_close(struct changes *changes)
{
    if (changes != NULL)
        pthread_mutex_destroy(&changes->lock);
    free(changes);
    return NULL;
}

static void forget(struct changes *changes)
{
    changes->kept.count = 0;
    changes->kept.left_out = 0;
    changes->oldest = 0;
}

void changes_want(struct changes *changes, bool wanted)
{
    pthread_mutex_lock(&changes->lock);
    atomic_store(&changes->wanted, wanted);
    if (!wanted)
        forget(changes);
    pthread_mutex_unlock(&changes->lock);
}

static struct change *place_of(struct changes *changes, uint64_t id)
{
    struct changes_taken *kept = &changes->kept;
    struct change *oldest = &kept->list[changes->oldest];

    for (uint32_t i = 0; i < kept->count; i++)
        if (kept->list[i].transfer.id == id)
            return &kept->list[i];
    if (kept->count < CHANGES_MAX)
        return &kept->list[kept->count++];
    changes->oldest = (changes->oldest + 1) % CHANGES_MAX;
    kept->left_out++;
    return oldest;
}

void changes_put(struct changes *changes, const struct transfer *transfer, bool removed)
{
    if (!atomic_load(&changes->wanted))
        return;
    pthread_mutex_lock(&changes->lock);
    *place_of(changes, transfer->id) = (struct change){removed, *transfer};
    pthread_mutex_unlock(&changes->lock);
}

bool changes_wanted(struct changes *changes)
{
    return atomic_load(&changes->wanted);
}

void changes_set_until(struct changes *changes, int64_t wall_ns)
{
    atomic_store(&changes->until, wall_ns);
}

int64_t changes_until(struct changes *changes)
{
    return atomic_load(&changes->until);
}

void changes_lose(struct changes *changes)
{
    atomic_store(&changes->lost, true);
}

bool changes_were_lost(struct changes *changes)
{
    return atomic_exchange(&changes->lost, false);
}

void changes_take(struct changes *changes, struct changes_taken *ret_taken)
{
    pthread_mutex_lock(&changes->lock);
    ret_taken->count = changes->kept.count;
    ret_taken->left_out = changes->kept.left_out;
    for (uint32_t i = 0; i < ret_taken->count; i++)
        ret_taken->list[i] = changes->kept.list[i];
    forget(changes);
    pthread_mutex_unlock(&changes->lock);
}
