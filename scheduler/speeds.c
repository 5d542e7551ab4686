#include "scheduler/speeds.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SETS          4096u /* a power of two */
#define WAYS          4u
/* Of the newest transfer in the figure. A slow one may have shared its rails with others. */
#define WEIGHT_FASTER 0.5
#define WEIGHT_SLOWER 0.05

struct pair {
    char source[KVR_NAME_BYTES], target[KVR_NAME_BYTES]; /* empty: free */
    struct speeds_figures figures;
};

struct speeds {
    pthread_mutex_t lock;
    struct pair pairs[SETS][WAYS];
};

struct speeds *speeds_open(void)
{
    struct speeds *speeds = calloc(1, sizeof(*speeds));

    if (speeds != NULL)
        pthread_mutex_init(&speeds->lock, NULL);
    return speeds;
}

struct speeds *speeds_close(struct speeds *speeds)
{
    if (speeds != NULL)
        pthread_mutex_destroy(&speeds->lock);
    free(speeds);
    return NULL;
}

static struct pair *set_of(struct speeds *speeds, const char *source, const char *target)
{
    XXH64_hash_t hash = XXH64(target, strlen(target), XXH64(source, strlen(source), 0));

    return speeds->pairs[hash & (SETS - 1)];
}

static struct pair *find(struct speeds *speeds, const char *source, const char *target)
{
    struct pair *set = set_of(speeds, source, target);

    for (uint32_t way = 0; way < WAYS; way++)
        if (strcmp(set[way].source, source) == 0 && strcmp(set[way].target, target) == 0)
            return &set[way];
    return NULL;
}

static struct pair *find_or_add(struct speeds *speeds, const char *source, const char *target)
{
    struct pair *set = set_of(speeds, source, target);
    struct pair *pair = find(speeds, source, target), *oldest = set;

    if (pair != NULL)
        return pair;
    for (uint32_t way = 1; way < WAYS; way++)
        if (set[way].figures.measured_ns < oldest->figures.measured_ns)
            oldest = &set[way];
    memset(oldest, 0, sizeof(*oldest));
    strcpy(oldest->source, source);
    strcpy(oldest->target, target);
    return oldest;
}

static void follow(double *value, double newest)
{
    if (*value == 0)
        *value = newest;
    else
        *value += (newest > *value ? WEIGHT_FASTER : WEIGHT_SLOWER) * (newest - *value);
}

/* Every layer was ready when the target's pages were known. */
static bool unhindered(const struct transfer *transfer)
{
    const int64_t *at_ns = transfer->sides[KVR_ROLE_SOURCE].at_ns;

    return at_ns[STAGE_LAST_READY] != 0 && at_ns[STAGE_LAST_READY] <= at_ns[STAGE_GRANTED];
}

void speeds_take(struct speeds *speeds, const struct transfer *transfer, int64_t wall_ns)
{
    const struct transfer_side *source = &transfer->sides[KVR_ROLE_SOURCE];
    const struct transfer_side *target = &transfer->sides[KVR_ROLE_TARGET];
    int64_t ns = target->at_ns[STAGE_LAST_LAND] - target->at_ns[STAGE_GRANTED];
    uint64_t tokens = transfer->tokens - transfer->skip_tokens;
    struct speeds_figures *figures;
    double speed;

    if (source->agent[0] == '\0' || target->agent[0] == '\0' || target->at_ns[STAGE_GRANTED] == 0 ||
        ns <= 0 || transfer->bytes < SPEEDS_BYTES_MIN)
        return;
    speed = (double)transfer->bytes * 1e9 / (double)ns;
    pthread_mutex_lock(&speeds->lock);
    figures = &find_or_add(speeds, source->agent, target->agent)->figures;
    if (unhindered(transfer) || speed > figures->bytes_per_second)
        follow(&figures->bytes_per_second, speed);
    if (transfer->tokens > transfer->skip_tokens)
        follow(&figures->bytes_per_token, (double)transfer->bytes / (double)tokens);
    figures->transfers++;
    figures->measured_ns = wall_ns;
    pthread_mutex_unlock(&speeds->lock);
}

bool speeds_of(struct speeds *speeds, const char *source, const char *target,
               struct speeds_figures *ret_figures)
{
    const struct pair *pair;

    pthread_mutex_lock(&speeds->lock);
    pair = find(speeds, source, target);
    if (pair != NULL)
        *ret_figures = pair->figures;
    pthread_mutex_unlock(&speeds->lock);
    return pair != NULL;
}
