/* Questions of the HTTP API, answered by a thread of their own: a search that takes long makes no
 * report wait.
 *
 * queries_ask: any thread. `answered` is called from the queries' thread. */
#ifndef KVR_SCHEDULER_QUERIES_H
#define KVR_SCHEDULER_QUERIES_H

#include "scheduler/api.h"

#define QUERIES_WAITING_MAX 256

struct queries;

/* The answer's body is handed over. */
typedef void queries_answered(void *self, const struct api_answer *answer);

/* Answers one question, by the queries' thread. */
typedef void queries_answer(void *self, const char *path, const struct api_query *query,
                            struct api_answer *ret_answer);

/* self: of `answer`, used by the thread only, from start to stop. */
KVR_MUST_CHECK kvr_status queries_start(queries_answer *answer, void *self,
                                        struct queries **ret_queries, struct kvr_error *error);
/* Answers the questions that wait, then ends the thread; later questions are not taken. */
void queries_stop(struct queries *queries);
struct queries *queries_close(struct queries *queries); /* after queries_stop; returns NULL */

/* path and query are borrowed until `answered`. False: too many wait, or it is stopping; then
 * `answered` is not called. */
KVR_MUST_CHECK bool queries_ask(struct queries *queries, const char *path,
                                const struct api_query *query, queries_answered *answered,
                                void *self);

#endif
