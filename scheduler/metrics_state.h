/* Shared by the files of the metrics alone. The lock guards everything. */
#ifndef KVR_SCHEDULER_METRICS_STATE_H
#define KVR_SCHEDULER_METRICS_STATE_H

#include <pthread.h>

#include "scheduler/metrics.h"

/* Phases, each by the clock of one agent: X(symbol, name, role, from, to) */
#define PHASE_LIST(X)                                                                              \
    X(PHASE_MATCH, "match", KVR_ROLE_TARGET, STAGE_OPENED, STAGE_MATCHED)                          \
    X(PHASE_GRANT, "grant", KVR_ROLE_TARGET, STAGE_MATCHED, STAGE_GRANTED)                         \
    X(PHASE_QUEUE, "queue", KVR_ROLE_SOURCE, STAGE_GRANTED, STAGE_FIRST_POST)                      \
    X(PHASE_POST, "post", KVR_ROLE_SOURCE, STAGE_FIRST_POST, STAGE_LAST_POST)                      \
    X(PHASE_WIRE, "wire", KVR_ROLE_TARGET, STAGE_FIRST_LAND, STAGE_LAST_LAND)                      \
    X(PHASE_DRAIN, "drain", KVR_ROLE_SOURCE, STAGE_LAST_POST, STAGE_ENDED)                         \
    X(PHASE_EXPOSED, "exposed", KVR_ROLE_SOURCE, STAGE_LAST_READY, STAGE_ENDED)                    \
    X(PHASE_TOTAL, "total", KVR_ROLE_TARGET, STAGE_OPENED, STAGE_ENDED)

enum phase { PHASE_LIST(KVR_SYMBOL) PHASE_END };

struct metrics_phase {
    const char *name;
    kvr_role role;
    transfer_stage from, to;
};
extern const struct metrics_phase metrics_phases[PHASE_END];

#define METRICS_BOUNDS 19
extern const double metrics_bounds[METRICS_BOUNDS]; /* of the buckets, seconds */

struct metrics_histogram {
    uint64_t buckets[METRICS_BOUNDS + 1]; /* the last: beyond every bound */
    double sum;
    struct exposition_exemplar exemplars[METRICS_BOUNDS + 1];
};

/* Every status, as the reason why a transfer ended. */
enum {
#define X(symbol, value, name, text) REASON_##symbol,
    KVR_STATUS_LIST(X)
#undef X
        REASONS
};
struct metrics_reason {
    kvr_status status;
    const char *name;
};
extern const struct metrics_reason metrics_reasons[REASONS];

#define RECENT 4096
struct metrics_recent {
    int64_t ended_ns, total_ns, wire_ns;
};

#define RATE_SECONDS (METRICS_SECONDS + 4)

struct metrics {
    pthread_mutex_t lock;
    kvr_ns started;
    uint64_t ended[2][REASONS]; /* by role */
    uint64_t whole[REASONS];    /* transfers, each once */
    struct metrics_histogram durations[PHASE_END], commits;
    uint64_t paths[2][KVR_PATH_END]; /* done transfers that moved bytes, by role */
    uint64_t bytes, retries, events, reports_refused, reports_contradicted;
    uint64_t absences;
    struct {
        uint64_t used, bound; /* bytes */
        uint64_t removed[METRICS_REMOVED_END];
    } database;
    struct http_counts http; /* the lock does not guard it */
    int64_t certificate_expiry;
    bool insecure;
    uint64_t states[STATE_END], held;
    int64_t oldest_ns; /* wall: when the oldest live transfer was opened; 0: there is none */
    int64_t newest_event_ns;
    struct speeds *speeds;
    struct metrics_recent recent[RECENT];
    uint64_t recent_count;
    struct {
        int64_t second;
        double bytes;
    } rate[RATE_SECONDS];
};

#endif
