/* Problems that keep the scheduler from its work, for /healthz, /readyz, the metrics and the log.
 *
 * The part that meets a problem sets it, and clears it when it is over. The log has both, once. Any
 * thread: a lock of its own. */
#ifndef KVR_SCHEDULER_HEALTH_H
#define KVR_SCHEDULER_HEALTH_H

#include "base/clock.h"
#include "base/status.h"

/* What follows from a problem. */
typedef enum health_effect {
    HEALTH_NOTED,   /* an operator should read it; both paths answer 200 */
    HEALTH_UNREADY, /* /readyz answers 503 */
    HEALTH_FAILING, /* the scheduler stores nothing: /healthz answers 503 too */
} health_effect;

/* X(symbol, name, effect, what it is, what to do). What to do has one %s, for the database. */
#define HEALTH_LIST(X)                                                                             \
    X(HEALTH_DISK_FULL, "disk_full", HEALTH_FAILING, "no report can be stored: the disk is full",  \
      "free space on the disk of %s; agents keep their events until then")                         \
    X(HEALTH_LOCKED, "database_locked", HEALTH_FAILING,                                            \
      "no report can be stored: another program has locked the database",                          \
      "end the program that has %s open; one scheduler alone may write to it")                     \
    X(HEALTH_GONE, "database_gone", HEALTH_FAILING,                                                \
      "no report can be stored: the database does not answer",                                     \
      "look at the database %s, and at the network between; agents keep their events until then")  \
    X(HEALTH_MISSING, "database_missing", HEALTH_FAILING,                                          \
      "no report is stored: the database's file was removed, or another is in its place",          \
      "put %s back, or start the scheduler again: it begins a new one")                            \
    X(HEALTH_DAMAGED, "database_damaged", HEALTH_FAILING,                                          \
      "no report can be stored: the database is damaged",                                          \
      "start the scheduler again: it sets %s aside and begins a new one")                          \
    X(HEALTH_COMMITS, "commits_failed", HEALTH_FAILING, "no report can be stored",                 \
      "look at the disk of %s, its mount and its rights")                                          \
    X(HEALTH_LAGGING, "ingest_lagging", HEALTH_UNREADY,                                            \
      "reports wait longer than agents should have to wait",                                       \
      "look at the load of this host and at the disk of %s")                                       \
    X(HEALTH_BOUND, "database_bound", HEALTH_NOTED,                                                \
      "the database is larger than --database-bytes, and no ended transfer is left to remove",     \
      "raise --database-bytes: sums over time, the audit log and live transfers fill %s")          \
    X(HEALTH_STOPPING, "stopping", HEALTH_UNREADY, "the scheduler is shutting down",               \
      "wait for its next start (%s)")

#define HEALTH_SYMBOL(symbol, name, failing, text, next) symbol,
typedef enum health_problem { HEALTH_LIST(HEALTH_SYMBOL) HEALTH_END } health_problem;

struct health_facts {
    const char *name;
    health_effect effect;
    const char *text, *next;
};
const struct health_facts *health_facts(health_problem problem);

struct health_entry {
    health_problem problem;
    int64_t since_ns;              /* wall */
    char detail[KVR_DETAIL_BYTES]; /* what the database said, or "" */
    char next[KVR_DETAIL_BYTES];
};

struct health_view {
    int count;
    struct health_entry entries[HEALTH_END];
    uint64_t failed; /* rounds of reports that were not stored, since the start */
};

struct health;

struct health *health_open(const char *database); /* how people find it; NULL: no memory */
struct health *health_close(struct health *health);

/* A round of reports was stored: what kept rounds from it is over. */
void health_stored(struct health *health);
/* A round was not stored, because of that. */
void health_failed(struct health *health, health_problem problem, const char *detail);
/* That problem is there, or is over. */
void health_set(struct health *health, health_problem problem, const char *detail);
void health_clear(struct health *health, health_problem problem);
void health_look(struct health *health, struct health_view *ret_view);
/* The gravest effect; HEALTH_NOTED also without any problem. */
health_effect health_worst(const struct health_view *view);

#endif
