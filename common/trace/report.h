/* What an agent posts to the scheduler, as plain values.
 *
 * One body of POST /ingest/v1/events is one protobuf `Report` of events.proto; report.c is the only
 * file that knows protobuf. A report carries events, facts about the agent, both, or neither (then
 * it only says that the agent lives). The answer is a `ReportAnswer`.
 *
 * The events of one boot of an agent are numbered 1, 2, 3 …; a report names the number of its first
 * one and the rest follow without a gap, so that a report that comes twice changes nothing. A
 * report that begins after a number that the agent still holds (`sequence_held`) came out of order
 * and is refused; what the agent dropped leaves a gap that is accepted.
 *
 * Protobuf messages written one after the other are one message, in which the later scalar wins.
 * So a report that waited in a spool is sent as it is. An encoded report follows it that carries
 * only the fields that have changed since (dropped, sequence_held, sequence_made, facts).
 *
 * Any thread; nothing here keeps state. */
#ifndef KVR_TRACE_REPORT_H
#define KVR_TRACE_REPORT_H

#include <stddef.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/pair_states.h"
#include "base/status.h"
#include "base/types.h"
#include "trace/event.h"
#include "trace/geometry.h"
#include "trace/traits.h"

#define KVR_REPORT_EVENTS_MAX   1000
#define KVR_REPORT_BYTES_MAX    (4u << 20) /* of one body */
#define KVR_VERSION_BYTES       48
#define KVR_PROVIDER_BYTES      32  /* "efa-direct+local" */
#define KVR_SCHEDULER_BYTES     272 /* "host:port" of a scheduler, NUL included */
#define KVR_AGENT_OPTIONS_BYTES 1000

/* X(symbol, name, what it says) */
#define KVR_RAIL_STATE_LIST(X)                                                                     \
    X(KVR_RAIL_UP, "up", "carries writes")                                                         \
    X(KVR_RAIL_DOWN, "down", "its card, link or endpoint failed")                                  \
    X(KVR_RAIL_RECYCLING, "recycling", "its endpoint is being replaced")

typedef enum kvr_rail_state { KVR_RAIL_STATE_LIST(KVR_SYMBOL) KVR_RAIL_STATE_END } kvr_rail_state;

const char *kvr_rail_state_name(kvr_rail_state state);
bool kvr_rail_state_from_name(const char *name, kvr_rail_state *ret_state); /* false: unknown */

/* Totals since the agent started. X(symbol, name, what it says); the name is the metric's, without
 * prefix and _total. A new one needs a line here and nothing else. */
#define KVR_COUNTER_LIST(X)                                                                        \
    X(KVR_COUNTER_STALE_WRITES, "stale_writes", "Writes that arrived for an idle slot.")           \
    X(KVR_COUNTER_EPOCHS_ENDED, "epochs_ended", "Rail endpoints replaced.")                        \
    X(KVR_COUNTER_PAIRS_SILENT, "rail_pairs_silent",                                               \
      "Times that a pair of rails was given up because its writes were silent.")                   \
    X(KVR_COUNTER_PAIRS_SLOW, "rail_pairs_slow",                                                   \
      "Times that a pair of rails was given up because it was far slower than others.")            \
    X(KVR_COUNTER_PAIRS_FAILED, "rail_pairs_failed",                                               \
      "Times that a pair of rails was given up because its writes failed.")                        \
    X(KVR_COUNTER_RAIL_STRANGERS, "rail_strangers",                                                \
      "Packets to rails' ports of others than peers, which kvrail-filter refused.")                \
    X(KVR_COUNTER_FILTERS_LOST, "filters_lost", "Times that kvrail-filter stopped answering.")     \
    X(KVR_COUNTER_CQ_ERRORS, "cq_errors", "Error entries read from completion queues.")            \
    X(KVR_COUNTER_HANDSHAKE_FAILURES, "handshake_failures", "Peers refused at hello.")             \
    X(KVR_COUNTER_PEERS_LOST, "peers_lost", "Peers that fell silent and were fenced.")             \
    X(KVR_COUNTER_ENGINES_LOST, "engines_lost", "Engines that ended without saying so.")           \
    X(KVR_COUNTER_LEASES_EXPIRED, "leases_expired", "Publishes with a lease that ended unused.")   \
    X(KVR_COUNTER_WANTS_UNPROVEN, "wants_unproven", "WANTs without the secret of the request.")    \
    X(KVR_COUNTER_WANTS_OTHERS, "wants_of_other_tenants", "WANTs of another tenant.")              \
    X(KVR_COUNTER_TENANTS_REFUSED, "tenants_refused",                                              \
      "Opens for a tenant that is not the engine's.")                                              \
    X(KVR_COUNTER_DIGEST_MISMATCHES, "digest_mismatches", "Transfers with bytes that differed.")   \
    X(KVR_COUNTER_SKIPPED_BYTES, "skipped_bytes", "Bytes not moved: the target had the prefix.")   \
    X(KVR_COUNTER_GPU_BYTES, "gpu_taken_bytes", "Memory of GPUs taken for the agent itself.")      \
    X(KVR_COUNTER_HELLOS_LIMITED, "hellos_limited", "Connections put off: too many begin.")        \
    X(KVR_COUNTER_YOUNG_CLOSED, "young_closed",                                                    \
      "Connections without a HELLO closed because their host had the most of them.")               \
    X(KVR_COUNTER_HANDSHAKES_WAITED, "handshake_steps_delayed",                                    \
      "Steps of TLS handshakes that waited for a later turn of the loop.")                         \
    X(KVR_COUNTER_NOTICES_DROPPED, "notices_dropped", "Of peers and rails, unread by an engine.")  \
    X(KVR_COUNTER_WANTS_REFUSED, "wants_refused", "WANTs without a publish that had no room.")     \
    X(KVR_COUNTER_ENGINES_REFUSED, "engines_refused", "Processes that may not attach.")            \
    X(KVR_COUNTER_QUOTA_REQUESTS, "quota_requests_refused", "Opens beyond an engine's quota.")     \
    X(KVR_COUNTER_QUOTA_MEMORY, "quota_memory_refused", "Regions beyond an engine's quota.")       \
    X(KVR_COUNTER_MEMORY_FAULTS, "memory_faults", "Pages of engines that were gone when touched.") \
    X(KVR_COUNTER_ABSENCES, "absences", "Times that the agent did not run for a second or more.")  \
    X(KVR_COUNTER_RECORDS_DROPPED, "records_dropped",                                              \
      "Spans or page tables of transfers that were asked for and not sent.")                       \
    X(KVR_COUNTER_ANSWERS_REFUSED, "scheduler_answers_refused",                                    \
      "Answers to reports that acknowledged events that were never made.")                         \
    X(KVR_COUNTER_SCHEDULER_CHANGES, "scheduler_changes",                                          \
      "Times that an agent's reports went to another scheduler than before.")                      \
    X(KVR_COUNTER_TLS_SESSIONS, "tls_sessions", "Sessions with peers over TLS.")                   \
    X(KVR_COUNTER_TLS_NO_CERTIFICATE, "tls_no_certificate", "Refused: no certificate.")            \
    X(KVR_COUNTER_TLS_UNKNOWN_CA, "tls_unknown_ca", "Refused: a certificate of another CA.")       \
    X(KVR_COUNTER_TLS_EXPIRED, "tls_expired", "Refused: certificate expired or not yet valid.")    \
    X(KVR_COUNTER_TLS_REVOKED, "tls_revoked", "Refused: a revoked certificate.")                   \
    X(KVR_COUNTER_TLS_PURPOSE, "tls_purpose", "Refused: certificate for another purpose.")         \
    X(KVR_COUNTER_TLS_NO_IDENTITY, "tls_no_identity", "Refused: certificate names no program.")    \
    X(KVR_COUNTER_TLS_FLEET, "tls_fleet", "Refused: certificate of another fleet.")                \
    X(KVR_COUNTER_TLS_ROLE, "tls_role", "Refused: certificate with the wrong role.")               \
    X(KVR_COUNTER_TLS_NAME, "tls_name", "Refused: another name than in the certificate.")          \
    X(KVR_COUNTER_TLS_PROTOCOL, "tls_protocol", "Refused: no TLS 1.3, or malformed.")              \
    X(KVR_COUNTER_TLS_PLAIN, "tls_plain", "Refused: one side has no TLS.")                         \
    X(KVR_COUNTER_TLS_CUT, "tls_cut", "TLS handshakes that were not finished.")                    \
    X(KVR_COUNTER_TLS_FLOOD, "tls_flood", "Ended: too many messages about keys or tickets.")       \
    X(KVR_COUNTER_TLS_BY_PEER, "tls_by_peer", "Peers that refused this agent's certificate.")      \
    X(KVR_COUNTER_TLS_RELOADS, "tls_reloads", "Certificates read anew.")                           \
    X(KVR_COUNTER_TLS_BAD_RELOADS, "tls_bad_reloads", "Changed certificates that cannot be used.") \
    X(KVR_COUNTER_TLS_EXPIRY, "tls_certificate_expiry_seconds",                                    \
      "When the agent's certificate ends, in seconds of 1970.")                                    \
    X(KVR_COUNTER_SLOTS, "slots", "Slots in use; all others rest.")                                \
    X(KVR_COUNTER_SLOTS_LIMIT, "slots_limit", "Slots that may be in use at once.")

typedef enum kvr_counter { KVR_COUNTER_LIST(KVR_SYMBOL) KVR_COUNTER_END } kvr_counter;

/* The last ones are no totals: their value is that of now. */
static inline bool kvr_counter_is_gauge(kvr_counter counter)
{
    return counter >= KVR_COUNTER_TLS_EXPIRY;
}

const char *kvr_counter_name(kvr_counter counter);
const char *kvr_counter_text(kvr_counter counter);

/* Of one rail, since the agent started, or now (gauges). X(symbol, name, gauge, unit, what it
 * says); the name is the metric's, without prefix and _total; unit is what one is, in the metric's.
 * A new one needs a line here, and code that fills it in. */
#define KVR_RAIL_COUNTER_LIST(X)                                                                   \
    X(KVR_RAIL_BATCHES, "batches", false, 1, "Doorbells: writes a doorbell are a batch.")          \
    X(KVR_RAIL_REFUSALS, "refusals", false, 1,                                                     \
      "Posts that the provider had no room for (EAGAIN).")                                         \
    X(KVR_RAIL_IN_FLIGHT, "in_flight_writes", true, 1, "Writes posted and not completed.")         \
    X(KVR_RAIL_WINDOW, "window_writes", true, 1, "Writes that may be in flight.")                  \
    X(KVR_RAIL_POST_TIME, "post_seconds", false, 1e-9, "Spent in posting.")                        \
    X(KVR_RAIL_COMPLETION_TIME, "completion_seconds", false, 1e-9,                                 \
      "From post to completion, of all writes: its rate is the mean number in flight.")            \
    X(KVR_RAIL_SPIN_TIME, "thread_spin_seconds", false, 1e-9,                                      \
      "The rail's thread polled and nothing moved; the same for all rails of a group.")            \
    X(KVR_RAIL_SLEEP_TIME, "thread_sleep_seconds", false, 1e-9,                                    \
      "The rail's thread slept; the same for all rails of a group.")                               \
    X(KVR_RAIL_CPU_TIME, "thread_cpu_seconds", false, 1e-9,                                        \
      "CPU time of the rail's thread; the same for all rails of a group.")                         \
    X(KVR_RAIL_CONNECTIONS, "connections", true, 1,                                                \
      "Pairs that the rail has written over, each a connection of the provider's.")                \
    X(KVR_RAIL_CLOSED, "connections_closed", false, 1,                                             \
      "Connections that rested and were closed, because there were more than --connections.")      \
    X(KVR_RAIL_IDLE_SLOT, "idle_slot_writes", false, 1,                                            \
      "Writes that arrived for a slot without a transfer: a stranger, or a bug.")                  \
    X(KVR_RAIL_WRONG_TAG, "wrong_tag_writes", false, 1,                                            \
      "Writes that arrived with another tag than their GRANT's: a stranger, or a bug.")            \
    X(KVR_RAIL_WRONG_CHUNK, "wrong_chunk_writes", false, 1,                                        \
      "Writes that arrived for a chunk that the transfer does not have.")

typedef enum kvr_rail_counter {
    KVR_RAIL_COUNTER_LIST(KVR_SYMBOL) KVR_RAIL_COUNTER_END
} kvr_rail_counter;

struct kvr_rail_counter_facts {
    const char *name;
    bool gauge;
    double unit;
    const char *text;
};
const struct kvr_rail_counter_facts *kvr_rail_counter_facts(kvr_rail_counter counter);

/* Of one tenant, as above. Only configured tenants are reported, so that labels are bounded. */
#define KVR_TENANT_COUNTER_LIST(X)                                                                 \
    X(KVR_TENANT_REQUESTS, "requests", true, 1,                                                    \
      "Publishes (prefill) or fetches (decode) of a tenant that have not ended.")                  \
    X(KVR_TENANT_REQUESTS_LIMIT, "requests_limit", true, 1,                                        \
      "Its --tenant-publishes or --tenant-fetches; 0: any number.")                                \
    X(KVR_TENANT_REQUESTS_REFUSED, "requests_refused", false, 1,                                   \
      "Requests of a tenant beyond that.")                                                         \
    X(KVR_TENANT_BYTES, "bytes", true, 1, "Of the pages that a tenant's publishes hold.")          \
    X(KVR_TENANT_BYTES_LIMIT, "bytes_limit", true, 1, "Its --tenant-bytes; 0: any number.")        \
    X(KVR_TENANT_BYTES_REFUSED, "bytes_refused", false, 1,                                         \
      "Publishes of a tenant that failed because their pages went beyond that.")                   \
    X(KVR_TENANT_WEIGHT, "weight", true, 1, "A tenant's share of the rails: its --tenant-weight.") \
    X(KVR_TENANT_POSTED, "posted_bytes", false, 1, "Posted for a tenant.")

typedef enum kvr_tenant_counter {
    KVR_TENANT_COUNTER_LIST(KVR_SYMBOL) KVR_TENANT_COUNTER_END
} kvr_tenant_counter;

const struct kvr_rail_counter_facts *kvr_tenant_counter_facts(kvr_tenant_counter counter);

struct kvr_tenant_facts {
    char name[KVR_NAME_BYTES];
    uint64_t counters[KVR_TENANT_COUNTER_END];
};

struct kvr_rail_snapshot {
    char name[KVR_NAME_BYTES]; /* the card's, as libfabric shows it */
    char provider[KVR_PROVIDER_BYTES];
    char address[KVR_ADDRESS_BYTES]; /* for people: "127.0.0.1:40123" */
    uint32_t epoch;
    uint32_t group; /* the rail group that it belongs to */
    kvr_rail_state state;
    uint64_t speed_bps;     /* bits per second of the link; 0: unknown */
    uint64_t bytes, writes; /* since the agent's start: posted (prefill) or landed (decode) */
    uint64_t counters[KVR_RAIL_COUNTER_END];
    struct kvr_rail_traits traits;
};

struct kvr_engine_facts {
    char name[KVR_NAME_BYTES];
    struct kvr_rank rank;
    char model[KVR_NAME_BYTES];
    uint32_t region_count;
    uint64_t region_bytes;
    char geometry[KVR_GEOMETRY_BYTES]; /* "": an older agent */
};

/* About 30 KiB: keep it static, not on a small stack. Entries beyond the counts are not read. */
struct kvr_agent_facts {
    kvr_role role;                   /* KVR_ROLE_SOURCE is a prefill-agent */
    char version[KVR_VERSION_BYTES]; /* KVRAIL_VERSION */
    char host[KVR_NAME_BYTES];
    uint32_t pid;
    char listen[KVR_AGENT_ADDRESS_BYTES]; /* prefill: where peers dial, "HOST:PORT" */
    char provider[KVR_PROVIDER_BYTES];
    uint32_t transfers_live;
    uint32_t peers_up;
    uint32_t peers_warm; /* prefill: of them, those to which pairs of rails have carried bytes */
    bool drained;        /* the scheduler asked it to take no new requests */
    bool secure;         /* its peers prove an identity: it runs without --insecure */
    char scheduler[KVR_SCHEDULER_BYTES];   /* that takes its reports; "": none does, or not known */
    char options[KVR_AGENT_OPTIONS_BYTES]; /* at its start, by kvr_options_given; "": not known */
    uint64_t counters[KVR_COUNTER_END];
    uint32_t rail_count, engine_count, gone_count, tenant_count;
    struct kvr_rail_snapshot rails[KVR_RAILS_MAX];
    /* First engine_count that are attached, then gone_count that have gone a short time ago. */
    struct kvr_engine_facts engines[KVR_ENGINES_MAX];
    struct kvr_tenant_facts tenants[KVR_TENANTS_MAX];
    struct kvr_host_traits traits;
};

/* A pair of rails, as its source knows it. */
#define KVR_PAIR_DETAIL_BYTES 160
struct kvr_pair_facts {
    uint32_t rail;        /* of the agent that reports */
    uint32_t target_rail; /* of the peer */
    kvr_pair_state state; /* KVR_PAIR_STATE_END: one that only a newer agent knows */
    uint64_t bytes;       /* that came through, since the session began */
    kvr_ns state_ns;      /* so long it is in that state; 0: an older agent does not say */
    uint32_t breaks;   /* how often it came into doubt, or broke without, since the session began */
    uint32_t renewals; /* endpoints of either end that were replaced, since then */
    char detail[KVR_PAIR_DETAIL_BYTES]; /* a sentence where the state needs one, or "" */
};

/* The pairs with some peers: of each peer all. About 200 KiB: keep it static. Entries beyond the
 * counts are not read. */
#define KVR_REPORT_PEERS_MAX 128
#define KVR_REPORT_PAIRS_MAX 1024
struct kvr_report_pairs {
    uint32_t peer_count, pair_count;
    struct kvr_peer_pairs {
        char peer[KVR_NAME_BYTES];
        uint32_t pair_first, pair_count; /* of `pairs`; without any, the peer has none */
    } peers[KVR_REPORT_PEERS_MAX];
    struct kvr_pair_facts pairs[KVR_REPORT_PAIRS_MAX];
};

struct kvr_report {
    char agent[KVR_NAME_BYTES];
    uint64_t boot;                 /* random per start of the agent, as in hello */
    uint64_t sequence_first;       /* number of events[0]; without events 0 */
    uint64_t sequence_held;        /* oldest number that the agent still holds; 0: sequence_first */
    uint64_t dropped;              /* events that this boot of the agent lost, so far */
    kvr_ns anchor_at, anchor_wall; /* one moment on the monotonic and on the wall clock */
    const struct kvr_agent_facts *facts;  /* NULL: not in this report */
    const struct kvr_report_pairs *pairs; /* NULL: not in this report */
    const struct kvr_event *events;
    uint32_t event_count;
    bool leaving;          /* the agent is going in good order: it is stopped, not lost */
    uint64_t orders_taken; /* the orders up to this number need not come again; 0: none */
    /* The last number that this boot has given to an event, so that a scheduler that believes in a
     * later one knows that it was deceived; 0: not said. */
    uint64_t sequence_made;
};

/* X(symbol, name, what it asks of an agent: the first two of one that holds a published request,
 * the third of a transfer's target, the others of any) */
#define KVR_ORDER_LIST(X)                                                                          \
    X(KVR_ORDER_ABANDON, "abandon", "no target will come: let go of it")                           \
    X(KVR_ORDER_RENEW, "renew", "its target comes later: hold it so much longer")                  \
    X(KVR_ORDER_CANCEL, "cancel", "end the fetch of this transfer")                                \
    X(KVR_ORDER_DRAIN, "drain", "take no new requests from engines")                               \
    X(KVR_ORDER_RESUME, "resume", "take them again")                                               \
    X(KVR_ORDER_RECORD, "record", "send the page tables of all transfers for so long")

typedef enum kvr_order_kind { KVR_ORDER_LIST(KVR_SYMBOL) KVR_ORDER_KIND_END } kvr_order_kind;

const char *kvr_order_name(kvr_order_kind kind);
kvr_order_kind kvr_order_from_name(const char *name); /* KVR_ORDER_KIND_END: unknown */

/* What the scheduler wants of an agent. It comes with every answer until the agent has taken it, so
 * an order does nothing the second time that it did not do the first. */
struct kvr_order {
    uint64_t number; /* grows from order to order */
    kvr_order_kind kind;
    char request[KVR_REQUEST_BYTES]; /* the last three: the agent's name, for older agents */
    uint32_t attempt;
    kvr_ns lease_ns;   /* renew, record: from now on */
    uint64_t transfer; /* cancel */
};

#define KVR_ORDERS_MAX 16 /* in one answer; more come with the next */

struct kvr_report_answer {
    uint64_t acknowledged; /* last number of that boot that is committed: forget up to here */
    uint32_t order_count;
    struct kvr_order orders[KVR_ORDERS_MAX]; /* by number */
};

/* Encodes into malloc'ed bytes that the caller frees. KVR_TOO_LARGE, KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status kvr_report_encode(const struct kvr_report *report, uint8_t **ret_bytes,
                                            size_t *ret_size);
/* Decodes into malloc'ed memory, with facts, events and pairs; free with kvr_report_free.
 * KVR_MALFORMED names the field that is wrong: text that is too long, a role or a rail state that
 * is none, more entries than limits.h allows, no agent name. What cannot be printed (no UTF-8,
 * control characters) becomes '?'. What only a newer agent can mean is kept: an event of an unknown
 * kind has KVR_EVENT_KIND_END, an unknown outcome is KVR_INTERNAL. */
KVR_MUST_CHECK kvr_status kvr_report_decode(const uint8_t *bytes, size_t size,
                                            struct kvr_report **ret_report,
                                            struct kvr_error *error);
struct kvr_report *kvr_report_free(struct kvr_report *report); /* returns NULL */

#define KVR_REPORT_ANSWER_BYTES (16 + KVR_ORDERS_MAX * (KVR_REQUEST_BYTES + 64))
/* Returns the bytes written into `bytes`. */
size_t kvr_report_answer_encode(const struct kvr_report_answer *answer,
                                uint8_t bytes[KVR_REPORT_ANSWER_BYTES]);
/* KVR_MALFORMED: no answer, too many orders, or one that names no request. An order of a kind that
 * only a newer scheduler knows has KVR_ORDER_KIND_END. */
KVR_MUST_CHECK kvr_status kvr_report_answer_decode(const uint8_t *bytes, size_t size,
                                                   struct kvr_report_answer *ret_answer);

/* The wall time of an event of this report. */
static inline kvr_ns kvr_report_wall(const struct kvr_report *report, kvr_ns at)
{
    return report->anchor_wall + (at - report->anchor_at);
}

#endif
