/* Why a TLS session does not begin, or ends. Each reason has a counter of the agent, in this order
 * (trace/report.h). */
#ifndef KVR_TLS_REFUSAL_H
#define KVR_TLS_REFUSAL_H

#include "base/names.h"

/* X(symbol, name, what it says) */
#define KVR_TLS_REFUSAL_LIST(X)                                                                    \
    X(KVR_TLS_NO_CERTIFICATE, "no_certificate", "it showed no certificate")                        \
    X(KVR_TLS_UNKNOWN_CA, "unknown_ca", "its certificate does not lead to the CA of --tls-ca")     \
    X(KVR_TLS_EXPIRED, "expired", "its certificate is expired, or not yet valid")                  \
    X(KVR_TLS_REVOKED, "revoked", "its certificate is revoked")                                    \
    X(KVR_TLS_PURPOSE, "purpose", "its certificate is not for this side of a connection")          \
    X(KVR_TLS_NO_IDENTITY, "no_identity", "its certificate names no program")                      \
    X(KVR_TLS_FLEET, "fleet", "its certificate is of another fleet")                               \
    X(KVR_TLS_ROLE, "role", "its certificate has a role that may not do this")                     \
    X(KVR_TLS_NAME, "name", "it calls itself otherwise than its certificate does")                 \
    X(KVR_TLS_PROTOCOL, "protocol", "it does not speak TLS 1.3")                                   \
    X(KVR_TLS_PLAIN, "plain", "it does not speak TLS at all")                                      \
    X(KVR_TLS_CUT, "cut", "it ended or fell silent during the handshake")                          \
    X(KVR_TLS_FLOOD, "flood", "it sent too many messages about keys or tickets")                   \
    X(KVR_TLS_BY_PEER, "by_peer", "it refused this agent's certificate")

typedef enum kvr_tls_refusal {
    KVR_TLS_REFUSAL_LIST(KVR_SYMBOL) KVR_TLS_REFUSAL_END /* none */
} kvr_tls_refusal;

const char *kvr_tls_refusal_text(kvr_tls_refusal refusal); /* what it says */

#endif
