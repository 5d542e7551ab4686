#include "scheduler/health.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define HEALTH_ROW(symbol, name, effect, text, next) {name, effect, text, next},
static const struct health_facts facts[] = {HEALTH_LIST(HEALTH_ROW)};

struct health {
    pthread_mutex_t lock;
    char database[KVR_DETAIL_BYTES];
    bool there[HEALTH_END];
    struct health_entry entries[HEALTH_END]; /* where the problem is there */
    uint64_t failed;
};

const struct health_facts *health_facts(health_problem problem)
{
    return &facts[problem];
}

struct health *health_open(const char *database)
{
    struct health *health = calloc(1, sizeof(*health));

    if (health == NULL)
        return NULL;
    pthread_mutex_init(&health->lock, NULL);
    snprintf(health->database, sizeof(health->database), "%s", database);
    return health;
}

struct health *health_close(struct health *health)
{
    if (health != NULL)
        pthread_mutex_destroy(&health->lock);
    free(health);
    return NULL;
}

/* ---- under the lock ---- */

static void say_next(const struct health *health, health_problem problem,
                     char next[KVR_DETAIL_BYTES])
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(next, KVR_DETAIL_BYTES, facts[problem].next, health->database);
#pragma GCC diagnostic pop
}

static void set(struct health *health, health_problem problem, const char *detail)
{
    struct health_entry *entry = &health->entries[problem];

    snprintf(entry->detail, sizeof(entry->detail), "%s", detail);
    if (health->there[problem])
        return;
    health->there[problem] = true;
    entry->problem = problem;
    entry->since_ns = (int64_t)kvr_clock_wall();
    say_next(health, problem, entry->next);
    if (problem == HEALTH_STOPPING)
        return; /* an operator asked for it */
    kvr_log(facts[problem].effect == HEALTH_FAILING ? KVR_LOG_ERROR : KVR_LOG_WARNING,
            "%s%s%s%s: %s", facts[problem].text, detail[0] != '\0' ? " (" : "", detail,
            detail[0] != '\0' ? ")" : "", entry->next);
}

static void clear(struct health *health, health_problem problem)
{
    if (!health->there[problem])
        return;
    health->there[problem] = false;
    kvr_log_info("%s is over", facts[problem].name);
}

/* ---- what the parts say ---- */

void health_stored(struct health *health)
{
    pthread_mutex_lock(&health->lock);
    for (int problem = 0; problem < HEALTH_END; problem++)
        if (facts[problem].effect == HEALTH_FAILING)
            clear(health, (health_problem)problem);
    pthread_mutex_unlock(&health->lock);
}

void health_failed(struct health *health, health_problem problem, const char *detail)
{
    pthread_mutex_lock(&health->lock);
    health->failed++;
    set(health, problem, detail);
    pthread_mutex_unlock(&health->lock);
}

void health_set(struct health *health, health_problem problem, const char *detail)
{
    pthread_mutex_lock(&health->lock);
    set(health, problem, detail);
    pthread_mutex_unlock(&health->lock);
}

void health_clear(struct health *health, health_problem problem)
{
    pthread_mutex_lock(&health->lock);
    clear(health, problem);
    pthread_mutex_unlock(&health->lock);
}

void health_look(struct health *health, struct health_view *ret_view)
{
    ret_view->count = 0;
    pthread_mutex_lock(&health->lock);
    for (int problem = 0; problem < HEALTH_END; problem++)
        if (health->there[problem])
            ret_view->entries[ret_view->count++] = health->entries[problem];
    ret_view->failed = health->failed;
    pthread_mutex_unlock(&health->lock);
}

health_effect health_worst(const struct health_view *view)
{
    health_effect worst = HEALTH_NOTED;

    for (int i = 0; i < view->count; i++)
        if (facts[view->entries[i].problem].effect > worst)
            worst = facts[view->entries[i].problem].effect;
    return worst;
}
