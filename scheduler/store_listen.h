/* Waits for commits of other schedulers of the same database, so that what they changed is shown at
 * once. PostgreSQL's LISTEN, over a connection and in a thread of its own. */
#ifndef KVR_SCHEDULER_STORE_LISTEN_H
#define KVR_SCHEDULER_STORE_LISTEN_H

#include "scheduler/store.h"

struct store_listener;

/* writer: that of this scheduler, which is not heard. `heard` is called from the listener's thread:
 * another scheduler has committed, or may have while there was no connection. *ret_listener NULL:
 * with SQLite there is nothing to hear. A database that does not answer is no failure: the listener
 * tries again each second. */
KVR_MUST_CHECK kvr_status store_listen(const struct store_place *place, struct store *writer,
                                       void (*heard)(void *self), void *self,
                                       struct store_listener **ret_listener,
                                       struct kvr_error *error);
struct store_listener *store_listen_end(struct store_listener *listener); /* returns NULL */

#endif
