/* Reports the agent's events to a scheduler, and never makes the agent wait.
 *
 * Events go through a bounded ring to a thread of the reporter's own, which batches them (at most
 * 250 ms, at most KVR_REPORT_EVENTS_MAX) and posts them over HTTP. Reports that the scheduler has
 * not acknowledged are kept: first in memory, past a bound in a spool on disk, in order. Past the
 * spool's bound the oldest go, and are counted as dropped. A spool left by an earlier start of the
 * same agent is sent first.
 *
 * Of several schedulers one gets the reports (report/schedulers.h). What it did not acknowledge
 * goes to the next one. A post that waits for a connection fails after 2 s there, and after 3 s
 * where there is only one scheduler; a post without an answer fails after 5 s.
 *
 * The scheduler's orders come with its answers. While a source holds a request, a post is due every
 * second, so that an order never waits longer.
 *
 * kvr_reporter_open, _close and _stats: the thread that owns the agent. The sink, _facts, _pairs
 * and _orders: one thread, the loop thread; none blocks on disk or network. */
#ifndef KVR_AGENT_REPORTER_H
#define KVR_AGENT_REPORTER_H

#include "agent/report/schedulers.h"
#include "base/status.h"
#include "tls/tls_options.h"
#include "trace/event.h"
#include "trace/report.h"

struct kvr_reporter;

struct kvr_reporter_options {
    /* "HOST:PORT", "[::1]:9470"; the first NULL ends them. Without any, events are only counted. */
    const char *schedulers[KVR_SCHEDULERS_MAX];
    const char *agent;     /* this agent's name; unique among the agents of a scheduler */
    uint64_t boot;         /* random per start: the one that hello names */
    const char *state_dir; /* exists; the spool lies here. NULL: no spool, memory only */
    /* With a certificate reports go over TLS 1.3 and show it; the scheduler must have one that
     * leads to the CA and has its host's name. The files are read again for each connection. NULL,
     * or without a certificate: plain HTTP. */
    const struct kvr_tls_config *tls;
    /* 0 takes the default. */
    size_t memory_bytes_max; /* unacknowledged, in memory: 4 MiB */
    size_t spool_bytes_max;  /* unacknowledged, on disk: 256 MiB */
    uint32_t close_ms;       /* how long close tries to hand over the rest: 2,000 */
};

struct kvr_reporter_stats {
    uint64_t emitted;      /* events given to the sink */
    uint64_t acknowledged; /* events that the scheduler has committed, of earlier boots too */
    uint64_t dropped;      /* events lost: ring or spool full, refused for good, or: */
    uint64_t
        unrecorded; /* spans and page tables that were asked for, of events that went without */
    uint64_t spool_lost;      /* of those, that the disk did not give back; at least */
    char spool_lost_file[48]; /* from which, the last time: a name in state_dir */
    uint64_t posts, posts_failed;
    uint64_t answers_refused; /* that acknowledged events that were never made */
    /* Schedulers are "HOST:PORT", until kvr_reporter_close. */
    const char *scheduler; /* that took the last report, or the first one; NULL: none is given */
    uint64_t scheduler_changes;
    const char *scheduler_left; /* by the last change; NULL: there was none */
    char left_for[KVR_DETAIL_BYTES];
    bool connected;           /* the last post was answered */
    kvr_ns failing_since;     /* no post was answered since then; 0: none has failed */
    const char *failure_from; /* the scheduler that failed last */
    char failure[KVR_DETAIL_BYTES];
};

/* Every string of options is copied. Fails on an unusable address, name or state_dir; a scheduler
 * that does not answer is no failure. */
KVR_MUST_CHECK kvr_status kvr_reporter_open(const struct kvr_reporter_options *options,
                                            struct kvr_reporter **ret_reporter,
                                            struct kvr_error *error);
/* Flushes up to close_ms; the rest stays in the spool for the next start. NULL is fine; returns
 * NULL. */
struct kvr_reporter *kvr_reporter_close(struct kvr_reporter *reporter);

struct kvr_event_sink kvr_reporter_sink(struct kvr_reporter *reporter);

/* Takes a snapshot, about once a second. It is copied and sent when it differs from the last one,
 * and every 2 s as a sign of life of the calling thread: an agent with a hanging loop is shown as
 * lost. */
void kvr_reporter_facts(struct kvr_reporter *reporter, const struct kvr_agent_facts *facts);

/* Takes what is known of the pairs of rails with some peers. It is copied, and sent with the next
 * post that the scheduler takes. */
void kvr_reporter_pairs(struct kvr_reporter *reporter, const struct kvr_report_pairs *pairs);

/* Takes the orders that have come since the last call, at most KVR_ORDERS_MAX; returns how many.
 * The next post confirms that they were taken; the scheduler repeats orders without that. */
uint32_t kvr_reporter_orders(struct kvr_reporter *reporter,
                             struct kvr_order orders[KVR_ORDERS_MAX]);

void kvr_reporter_stats(struct kvr_reporter *reporter, struct kvr_reporter_stats *ret_stats);

#endif
