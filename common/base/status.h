/* Status codes: one list makes the enum, the names, the texts and the table of recoveries.
 *
 * KVR_OK is 0; KVR_AGAIN is positive, because back-pressure is no failure; failures are negative.
 * Each failure has a scope: the largest thing that is permanently affected. Whoever recovers looks
 * at the scope, never at single codes. Any thread; nothing here keeps state. */
#ifndef KVR_BASE_STATUS_H
#define KVR_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

typedef enum kvr_scope {
    KVR_SCOPE_NONE,     /* nothing is broken */
    KVR_SCOPE_CALL,     /* only this call: the caller gave something that cannot be used */
    KVR_SCOPE_TRANSFER, /* one transfer ends with this reason */
    KVR_SCOPE_RAIL,     /* the endpoint of one rail must be replaced */
    KVR_SCOPE_PEER,     /* the session with one peer must be fenced */
    KVR_SCOPE_ENGINE,   /* one engine is gone */
    KVR_SCOPE_AGENT,    /* this process cannot go on */
} kvr_scope;

/*  X(symbol, value, name, scope, text): the name is what JSON, metrics and events carry. */
#define KVR_STATUS_LIST(X)                                                                         \
    X(KVR_OK, 0, "ok", NONE, "no error")                                                           \
    X(KVR_AGAIN, 1, "again", NONE, "no room at this moment: try again after progress")             \
    X(KVR_INVALID, -1, "invalid", CALL, "an argument is outside what is allowed")                  \
    X(KVR_NO_MEMORY, -2, "no_memory", CALL, "a pool or the memory given is used up")               \
    X(KVR_NOT_FOUND, -3, "not_found", CALL, "nothing is known under that id or name")              \
    X(KVR_EXISTS, -4, "exists", CALL, "that id or name is in use")                                 \
    X(KVR_TOO_LARGE, -5, "too_large", CALL, "larger than the limit")                               \
    X(KVR_UNSUPPORTED, -6, "unsupported", CALL, "the provider or this build cannot do it")         \
    X(KVR_SYSTEM, -7, "system", CALL, "the operating system refused")                              \
    X(KVR_TIMED_OUT, -8, "timed_out", CALL, "no answer within the time allowed")                   \
    X(KVR_MALFORMED, -9, "malformed", PEER, "bytes from outside that cannot be decoded")           \
    X(KVR_VERSION, -10, "version", PEER, "no protocol version that both sides speak")              \
    X(KVR_STALE, -11, "stale", TRANSFER, "names an older generation, attempt or epoch")            \
    X(KVR_CANCELLED, -20, "cancelled", TRANSFER, "cancelled by the engine")                        \
    X(KVR_EXPIRED, -21, "expired", TRANSFER, "its lease or deadline ended")                        \
    X(KVR_NO_SOURCE, -22, "no_source", TRANSFER, "no source published this request in time")       \
    X(KVR_INCOMPATIBLE, -23, "incompatible", TRANSFER, "the two engines' caches do not match")     \
    X(KVR_PLAN_MISMATCH, -24, "plan", TRANSFER, "both sides computed different plans")             \
    X(KVR_DIGEST_MISMATCH, -25, "digest", TRANSFER, "delivered bytes differ from the source's")    \
    X(KVR_ABORTED, -26, "aborted", TRANSFER, "the source engine gave up the request")              \
    X(KVR_FULL, -27, "full", TRANSFER, "the agent's pools cannot hold this request")               \
    X(KVR_REVOKED, -28, "revoked", TRANSFER, "the source took its pages back")                     \
    X(KVR_SIBLING, -29, "sibling", TRANSFER, "another transfer of the same fetch failed")          \
    X(KVR_UNKNOWN_TRANSFER, -30, "unknown", TRANSFER,                                              \
      "the peer holds nothing under this transfer")                                                \
    X(KVR_NOT_READY, -31, "not_ready", TRANSFER, "needs what this version cannot recover yet")     \
    X(KVR_DRAINING, -32, "draining", TRANSFER, "the agent is shutting down and takes no new work") \
    X(KVR_COPY_FAILED, -33, "copy_failed", TRANSFER, "a copy out of or into device memory failed") \
    X(KVR_RAIL_FAILED, -40, "rail_failed", RAIL, "a network card or its link failed")              \
    X(KVR_EPOCH_ENDED, -41, "epoch_ended", RAIL, "the endpoint was replaced")                      \
    X(KVR_NO_RAIL, -42, "no_rail", TRANSFER, "no rail can reach the peer")                         \
    X(KVR_PEER_LOST, -50, "peer_lost", PEER, "the other agent died or cannot be reached")          \
    X(KVR_PEER_RESTARTED, -51, "peer_restarted", PEER, "the other agent restarted")                \
    X(KVR_REFUSED, -52, "refused", PEER, "the other side refused, and said why")                   \
    X(KVR_ENGINE_LOST, -60, "engine_lost", ENGINE, "the engine process ended")                     \
    X(KVR_AGENT_LOST, -61, "agent_lost", ENGINE, "the agent process ended")                        \
    X(KVR_INTERNAL, -99, "internal", AGENT, "a promise inside kvrail was broken: please report it")

typedef enum kvr_status {
#define X(symbol, value, name, scope, text) symbol = (value),
    KVR_STATUS_LIST(X)
#undef X
} kvr_status;

/* A failing function of ours must be looked at. */
#define KVR_MUST_CHECK __attribute__((warn_unused_result))

const char *kvr_status_name(kvr_status status); /* "peer_lost"; "?" for an unknown value */
const char *kvr_status_text(kvr_status status); /* the sentence of the list */
kvr_scope kvr_status_scope(kvr_status status);
kvr_status kvr_status_from_name(const char *name, bool *ret_known);
bool kvr_status_known(int value); /* for values read from outside */

#define KVR_DETAIL_BYTES 240

/* What failed, where, with which value: the same record feeds the log, the event and the page. */
struct kvr_error {
    kvr_status status;
    int os_errno;                  /* 0 when the operating system was not involved */
    int provider_code;             /* libfabric's or a provider's own number, 0 if none */
    const char *where;             /* a literal: "fabric", "channel" … */
    char detail[KVR_DETAIL_BYTES]; /* a sentence for the person who must act */
};

/* Fills *error (may be NULL) and returns status, so that a failing path is one line. */
kvr_status kvr_error_set(struct kvr_error *error, kvr_status status, const char *where,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same with errno's text appended. */
kvr_status kvr_error_system(struct kvr_error *error, const char *where, int os_errno,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
