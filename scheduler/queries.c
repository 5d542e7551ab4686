#include "scheduler/queries.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

struct question {
    const char *path;
    const struct api_query *query;
    queries_answered *answered;
    void *self;
};

struct queries {
    queries_answer *answer;
    void *self; /* of it */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool stopping; /* by lock, as all below */
    struct question waiting[QUERIES_WAITING_MAX];
    unsigned first, count;
};

bool queries_ask(struct queries *queries, const char *path, const struct api_query *query,
                 queries_answered *answered, void *self)
{
    bool taken;

    pthread_mutex_lock(&queries->lock);
    taken = !queries->stopping && queries->count < QUERIES_WAITING_MAX;
    if (taken) {
        unsigned index = (queries->first + queries->count++) % QUERIES_WAITING_MAX;

        queries->waiting[index] = (struct question){path, query, answered, self};
        pthread_cond_signal(&queries->change);
    }
    pthread_mutex_unlock(&queries->lock);
    return taken;
}

/* False: nothing waits, and nothing will come. */
static bool take(struct queries *queries, struct question *ret_question)
{
    bool taken;

    pthread_mutex_lock(&queries->lock);
    while (queries->count == 0 && !queries->stopping)
        pthread_cond_wait(&queries->change, &queries->lock);
    taken = queries->count > 0;
    if (taken) {
        *ret_question = queries->waiting[queries->first];
        queries->first = (queries->first + 1) % QUERIES_WAITING_MAX;
        queries->count--;
    }
    pthread_mutex_unlock(&queries->lock);
    return taken;
}

static void *queries_main(void *self)
{
    struct queries *queries = self;
    struct question question;

    while (take(queries, &question)) {
        struct api_answer answer = {0};

        queries->answer(queries->self, question.path, question.query, &answer);
        question.answered(question.self, &answer);
    }
    return NULL;
}

kvr_status queries_start(queries_answer *answer, void *self, struct queries **ret_queries,
                         struct kvr_error *error)
{
    struct queries *queries = calloc(1, sizeof(*queries));
    int failed;

    if (queries == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "queries", "no memory for the API");
    queries->answer = answer;
    queries->self = self;
    pthread_mutex_init(&queries->lock, NULL);
    pthread_cond_init(&queries->change, NULL);
    failed = kvr_thread_start("queries", queries_main, queries, &queries->thread);
    if (failed != 0) {
        queries_close(queries);
        return kvr_error_system(error, "queries", failed, "no thread for the API");
    }
    *ret_queries = queries;
    return KVR_OK;
}

void queries_stop(struct queries *queries)
{
    pthread_mutex_lock(&queries->lock);
    queries->stopping = true;
    pthread_cond_signal(&queries->change);
    pthread_mutex_unlock(&queries->lock);
    pthread_join(queries->thread, NULL);
}

struct queries *queries_close(struct queries *queries)
{
    if (queries == NULL)
        return NULL;
    pthread_cond_destroy(&queries->change);
    pthread_mutex_destroy(&queries->lock);
    free(queries);
    return NULL;
}
