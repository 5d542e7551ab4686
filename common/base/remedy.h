/* Where to look when a transfer ended badly, and what a person should do: a table, not ifs. Pure.
 */
#ifndef KVR_BASE_REMEDY_H
#define KVR_BASE_REMEDY_H

#include "base/names.h"
#include "base/status.h"

/* X(symbol, name, what it was) */
#define KVR_SCOPE_LIST(X)                                                                          \
    X(KVR_SCOPE_REQUEST, "request", "this request, or how the router led it")                      \
    X(KVR_SCOPE_ENGINE, "engine", "an engine, its cache or its GPU")                               \
    X(KVR_SCOPE_AGENT, "agent", "one agent, its limits or its version")                            \
    X(KVR_SCOPE_PEER, "peer", "the way to the other agent, or that agent")                         \
    X(KVR_SCOPE_RAIL, "rail", "a card, its link or the network behind it")                         \
    X(KVR_SCOPE_KVRAIL, "kvrail", "kvrail itself")

typedef enum kvr_scope { KVR_SCOPE_LIST(KVR_SYMBOL) } kvr_scope;

const char *kvr_scope_name(kvr_scope scope);
kvr_scope kvr_remedy_scope(kvr_status status);
const char *kvr_remedy_act(kvr_status status); /* a sentence without its end */

#endif
