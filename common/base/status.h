/* Status codes: one list makes the enum, the names and the texts.
 *
 * KVR_OK is 0; KVR_AGAIN is positive, because back-pressure is no failure; failures are negative.
 * A number that an older version used is not given to another failure: -29 and -31 are free for
 * ever. Any thread; nothing here keeps state. */
#ifndef KVR_BASE_STATUS_H
#define KVR_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

/*  X(symbol, value, name, text): the name is what JSON, metrics and events carry. */
#define KVR_STATUS_LIST(X)                                                                         \
    X(KVR_OK, 0, "ok", "no error")                                                                 \
    X(KVR_AGAIN, 1, "again", "no room at this moment: try again after progress")                   \
    X(KVR_INVALID, -1, "invalid", "an argument is outside what is allowed")                        \
    X(KVR_NO_MEMORY, -2, "no_memory", "a pool or the memory given is used up")                     \
    X(KVR_NOT_FOUND, -3, "not_found", "nothing is known under that id or name")                    \
    X(KVR_EXISTS, -4, "exists", "that id or name is in use")                                       \
    X(KVR_TOO_LARGE, -5, "too_large", "larger than the limit")                                     \
    X(KVR_UNSUPPORTED, -6, "unsupported", "the provider or this build cannot do it")               \
    X(KVR_SYSTEM, -7, "system", "the operating system refused")                                    \
    X(KVR_TIMED_OUT, -8, "timed_out", "no answer within the time allowed")                         \
    X(KVR_MALFORMED, -9, "malformed", "bytes from outside that cannot be decoded")                 \
    X(KVR_VERSION, -10, "version", "no protocol version that both sides speak")                    \
    X(KVR_STALE, -11, "stale", "names an older generation, attempt or epoch")                      \
    X(KVR_CANCELLED, -20, "cancelled", "cancelled by the engine")                                  \
    X(KVR_EXPIRED, -21, "expired", "its lease or deadline ended")                                  \
    X(KVR_NO_SOURCE, -22, "no_source", "no source published this request in time")                 \
    X(KVR_INCOMPATIBLE, -23, "incompatible", "the two engines' caches do not match")               \
    X(KVR_PLAN_MISMATCH, -24, "plan", "both sides computed different plans")                       \
    X(KVR_DIGEST_MISMATCH, -25, "digest", "delivered bytes differ from the source's")              \
    X(KVR_ABORTED, -26, "aborted", "the source engine gave up the request")                        \
    X(KVR_FULL, -27, "full", "the agent's pools cannot hold this request")                         \
    X(KVR_REVOKED, -28, "revoked", "the source took its pages back")                               \
    X(KVR_UNKNOWN_TRANSFER, -30, "unknown", "the peer holds nothing under this transfer")          \
    X(KVR_DRAINING, -32, "draining", "the agent is shutting down and takes no new work")           \
    X(KVR_COPY_FAILED, -33, "copy_failed", "a copy out of or into device memory failed")           \
    X(KVR_RAIL_FAILED, -40, "rail_failed", "a network card or its link failed")                    \
    X(KVR_EPOCH_ENDED, -41, "epoch_ended", "the endpoint was replaced")                            \
    X(KVR_NO_RAIL, -42, "no_rail", "no rail can reach the peer")                                   \
    X(KVR_TOO_SLOW, -43, "too_slow", "the rail moves far less than the other rails")               \
    X(KVR_PEER_LOST, -50, "peer_lost", "the other agent died or cannot be reached")                \
    X(KVR_PEER_RESTARTED, -51, "peer_restarted", "the other agent restarted")                      \
    X(KVR_REFUSED, -52, "refused", "the other side refused, and said why")                         \
    X(KVR_NOT_AUTHORIZED, -53, "not_authorized", "it has not shown that it may have this")         \
    X(KVR_ENGINE_LOST, -60, "engine_lost", "the engine process ended")                             \
    X(KVR_AGENT_LOST, -61, "agent_lost", "the agent process ended")                                \
    X(KVR_INTERNAL, -99, "internal", "a promise inside kvrail was broken: please report it")

typedef enum kvr_status {
#define X(symbol, value, name, text) symbol = (value),
    KVR_STATUS_LIST(X)
#undef X
} kvr_status;

/* A failing function of ours must be looked at. */
#define KVR_MUST_CHECK __attribute__((warn_unused_result))

/* Returns the status of `call` from the function around it, unless that is KVR_OK. Where something
 * must be undone first, an `if` stands instead. */
#define KVR_TRY(call)                                                                              \
    do {                                                                                           \
        kvr_status try_status = (call);                                                            \
        if (try_status != KVR_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

const char *kvr_status_name(kvr_status status); /* "peer_lost"; "?" for an unknown value */
const char *kvr_status_text(kvr_status status); /* the sentence of the list */
kvr_status kvr_status_from_name(const char *name, bool *ret_known);
bool kvr_status_known(int value); /* for values read from outside */

#define KVR_DETAIL_BYTES 240

/* What failed, where, with which value: the same record feeds the log, the event and the page. */
struct kvr_error {
    kvr_status status;
    int os_errno;                  /* 0 when the operating system was not involved */
    int provider_code;             /* libfabric's or a provider's own number, 0 if none */
    const char *where;             /* a literal: "fabric", "channel" … */
    char detail[KVR_DETAIL_BYTES]; /* a sentence for people: what to do about it */
};

/* Fills *error (may be NULL) and returns status, so that a failing path is one line. */
kvr_status kvr_error_set(struct kvr_error *error, kvr_status status, const char *where,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same with errno's text appended. */
kvr_status kvr_error_system(struct kvr_error *error, const char *where, int os_errno,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
