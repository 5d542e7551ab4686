/* What can break, as schedulers keep it and traces name it. Any thread. */
#ifndef KVR_TRACE_FAULTS_H
#define KVR_TRACE_FAULTS_H

#include "base/names.h"

/* X(symbol, name, what it says). A database and traces keep the names. */
#define KVR_FAULT_LIST(X)                                                                          \
    X(KVR_FAULT_RAIL_DOWN, "rail_down", "the card, the link or the endpoint of a rail failed")     \
    X(KVR_FAULT_RAIL_RENEWED, "rail_renewed",                                                      \
      "the endpoint of a rail was replaced; amount: how often")                                    \
    X(KVR_FAULT_RAIL_DOUBTED, "rail_doubted",                                                      \
      "writes of a rail to a peer failed or were silent; amount: pairs of rails, at first")        \
    X(KVR_FAULT_RAIL_SLOW, "rail_slow",                                                            \
      "a rail delivered far less to a peer than others; amount: pairs of rails, at first")         \
    X(KVR_FAULT_RAIL_UNREACHABLE, "rail_unreachable",                                              \
      "a rail reached rails of a peer no more; amount: pairs of rails, at first")                  \
    X(KVR_FAULT_AGENT_SILENT, "agent_silent", "an agent did not report")                           \
    X(KVR_FAULT_AGENT_ENDED, "agent_ended",                                                        \
      "an agent ended without saying so, and was started again")                                   \
    X(KVR_FAULT_AGENT_ABSENT, "agent_absent",                                                      \
      "an agent did not run for a second or more; amount: how often")                              \
    X(KVR_FAULT_PEER_LOST, "peer_lost", "peers of an agent fell silent; amount: how many")         \
    X(KVR_FAULT_ENGINE_ENDED, "engine_ended",                                                      \
      "engines of an agent ended without saying so; amount: how many")                             \
    X(KVR_FAULT_MEMORY, "memory_fault",                                                            \
      "pages of engines were gone when an agent touched them; amount: how many")                   \
    X(KVR_FAULT_FILTER_LOST, "filter_lost", "kvrail-filter stopped answering; amount: how often")  \
    X(KVR_FAULT_SCHEDULER_ABSENT, "scheduler_absent", "no scheduler took reports")                 \
    X(KVR_FAULT_MORE, "more", "amount: so many more began in one report, and are not kept")

typedef enum kvr_fault_kind { KVR_FAULT_LIST(KVR_SYMBOL) KVR_FAULT_KIND_END } kvr_fault_kind;

const char *kvr_fault_name(kvr_fault_kind kind);
const char *kvr_fault_text(kvr_fault_kind kind);

#endif
