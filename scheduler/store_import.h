/* A SQLite database's history, moved into PostgreSQL: kvrail-scheduler --import.
 *
 * Transfers go in the order of their mention, some hundred in a transaction, with the place that
 * was reached. An import that was cut off goes on there. Rows that are there already stay. Ids
 * become times, so rows come into the partitions of their time. Other schedulers may use the
 * database. A signal (the place's stop_fd)
 * ends it between two transactions. */
#ifndef KVR_SCHEDULER_STORE_IMPORT_H
#define KVR_SCHEDULER_STORE_IMPORT_H

#include "scheduler/store.h"

/* file: ".../kvrail.db", which no scheduler uses; it is brought to this version first. Writes what
 * was moved to stdout. KVR_INVALID: counts differ afterwards. */
KVR_MUST_CHECK kvr_status import_run(const char *file, const struct store_place *to,
                                     struct kvr_error *error);

#endif
