/* What can go wrong in a world: the list of all faults. */
#ifndef KVR_TOOLS_SIM_FAULT_H
#define KVR_TOOLS_SIM_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* X(symbol, name, mendable, what it is). Mendable: whatever it hits must still succeed, as long as
 * no session is lost. */
#define SIM_FAULT_LIST(X)                                                                          \
    X(SIM_CANCEL_SOURCE, "cancel_source", false, "the source engine cancels")                      \
    X(SIM_CANCEL_TARGET, "cancel_target", false, "the target engine cancels")                      \
    X(SIM_ABORT, "abort", false, "the source engine ends a publish with a failure")                \
    X(SIM_WRONG_PAGE, "wrong_page", false, "an engine names a page that it does not have")         \
    X(SIM_ABANDON, "abandon", false,                                                               \
      "an operator lets go of a request that waits for its targets")                               \
    X(SIM_RENEW, "renew", false, "an operator holds such a request longer, or less long")          \
    X(SIM_ENGINE_DEATH, "engine_death", false, "an engine dies; a new generation may come")        \
    X(SIM_AGENT_DEATH, "agent_death", false, "an agent dies; a new boot may come")                 \
    X(SIM_DRAIN, "drain", false, "an agent drains: nothing new, then it gives up the rest")        \
    X(SIM_AGENT_STOPPED, "agent_stopped", true, "an agent stops for a while; its cards go on")     \
    X(SIM_HANG_UP, "hang_up", false, "an agent ends a session")                                    \
    X(SIM_CONNECTION_LOST, "connection_lost", true, "a connection breaks at some byte")            \
    X(SIM_MESSAGE_LATE, "message_late", true, "bytes of the control channel come late")            \
    X(SIM_QUEUE_FULL, "queue_full", true, "a queue of the control channel is full")                \
    X(SIM_NO_MEMORY, "no_memory", false, "an agent's table memory is used up")                     \
    X(SIM_REGION_CHANGE, "region_change", false, "an engine drops a region and adds it anew")      \
    X(SIM_RAIL_LOST, "rail_lost", false, "a card is gone for a while, with all it had accepted")   \
    X(SIM_GROUP_LOST, "group_lost", false, "all cards of a rail group are gone for a while")       \
    X(SIM_RAIL_SILENCE, "rail_silence", false, "a card is not answered for a while")               \
    X(SIM_RAIL_SLOW, "rail_slow", true, "a card sends slowly for a while")                         \
    X(SIM_WRITE_FAILED, "write_failed", true, "the completion of a write is an error")             \
    X(SIM_WRITE_LOST, "write_lost", true, "a write completes, and nothing lands")                  \
    X(SIM_WRITE_CORRUPT, "write_corrupt", false, "a byte of a write is altered on its way")        \
    X(SIM_WRITE_LATE, "write_late", true, "a moment of a write comes late")                        \
    X(SIM_WRITE_TWICE, "write_twice", true, "a queue's entry comes twice")                         \
    X(SIM_COPY_FAILED, "copy_failed", false, "a copy of device memory fails half done")            \
    X(SIM_STRANGER, "stranger", true, "a program forges arrivals, or hangs up in mid write")       \
    X(SIM_PROOF, "proof", false, "a WANT proves no secret, or is replayed")                        \
    X(SIM_SCHEDULER_AWAY, "scheduler_away", true, "the scheduler takes no reports")                \
    X(SIM_WORDS, "words", true, "a source engine writes over its revocation words: others go on")  \
    X(SIM_TENANT, "tenant", false,                                                                 \
      "a target engine fetches for another tenant than its request's")                             \
    X(SIM_WAY_LOST, "way_lost", false, "a card never reaches a card, from some moment on")         \
    X(SIM_WAY_FLAPS, "way_flaps", false, "a card reaches a card now and then")                     \
    X(SIM_WAY_SLOW, "way_slow", true, "from a card to a card bytes are 20 to 1,000 times slower")  \
    X(SIM_WAY_LOSSY, "way_lossy", false, "from a card to a card one write in 2 to 50 is lost")     \
    X(SIM_WAY_MUTE, "way_mute", false, "bytes from a card to a card land, and are not answered")   \
    X(SIM_AGENT_FROZEN, "agent_frozen", false, "an agent stands still for longer than deadlines")  \
    X(SIM_ENGINE_STOPPED, "engine_stopped", false,                                                 \
      "an engine stops for a while, alone or with its agent")

typedef enum sim_fault {
#define X(symbol, name, mendable, text) symbol,
    SIM_FAULT_LIST(X)
#undef X
        SIM_FAULT_COUNT
} sim_fault;

#define SIM_FAULT_BIT(fault) (UINT64_C(1) << (fault))

const char *sim_fault_name(sim_fault fault);
uint64_t sim_faults_mendable(void); /* bits */

#endif
