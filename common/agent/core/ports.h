/* The ways out of the pure state machines (outbound, inbound): what they decide leaves through
 * these calls, which only enqueue. The agent gives real ones, the simulator its own. */
#ifndef KVR_AGENT_PORTS_H
#define KVR_AGENT_PORTS_H

#include "agent/core/region_set.h"
#include "rail_group/rail_group.h"
#include "trace/event.h"
#include "wire/engine_message.h"
#include "wire/message.h"

/* After a stage could not be opened: until it is tried again. */
#define KVR_STAGE_RETRY_NS (30 * KVR_S)

struct kvr_ports {
    void *self;
    /* To a peer. KVR_AGAIN: its queue is full; try again after the machine's peer_writable. */
    kvr_status (*send)(void *self, uint32_t peer, const struct kvr_message *message);
    /* The target's only: the peer of "host:port", dialed when it is new. */
    kvr_status (*dial)(void *self, const char *address, uint32_t *ret_peer,
                       struct kvr_error *error);
    /* Ends the session with this peer, because its promises can no longer be trusted. The machine's
     * peer_lost follows. */
    void (*hang_up)(void *self, uint32_t peer, kvr_status status, const char *detail);
    /* To an engine; dropped when it is gone. */
    void (*notify)(void *self, uint32_t engine, const struct kvr_notice *notice);
    /* To the rail thread. Never refused: messages beyond the ring's room are kept in order. */
    void (*command)(void *self, const struct kvr_group_message *message);
    /* No job can touch the pages of this engine's region `number` any more: unmap and unregister
     * its memory, unless another region lies there. */
    void (*region_done)(void *self, struct kvr_region *region, uint32_t number);
    /* Registers every region of the set on another rail group's rails too. The machine's
     * `registered` follows with this id, never from within the call; NULL: there is one group. */
    void (*region_register)(void *self, const struct kvr_region_set *set, uint32_t group,
                            uint64_t id);
    /* Gives every region of the set a stage, where it is host memory that has none, so that
     * transfers can have their fragments copied. `registered` follows as above. NULL: cannot be. */
    void (*region_stage)(void *self, const struct kvr_region_set *set, uint64_t id);
    /* Nothing refers to this engine any more: its shared page may go, its index be used again. */
    void (*engine_done)(void *self, uint32_t engine);
    /* The tenants of ours that this peer's certificate serves, a bit each. NULL: all, because there
     * are no certificates. */
    uint32_t (*peer_tenants)(void *self, uint32_t peer);
    /* The rails of ours that peers may write to, with their epochs now; returns how many. */
    uint32_t (*rails)(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX]);
    /* The source's; NULL: our rails copy by themselves, all of them. The engine's own words, one
     * for each transfer of this agent (wire/revocation_words.h), until engine_done. */
    _Atomic uint64_t *(*revocation_words)(void *self, uint32_t engine);
    /* The source's, before the first REGIONS of this engine to the peer: offers it the engine's
     * words (wire/revocation_offer.h), and returns their number for REGIONS; never 0. */
    uint64_t (*revocation_words_offer)(void *self, uint32_t engine, uint32_t peer);
    /* The target's; NULL: our rails copy by themselves. Word `number` of the words `words` of an
     * engine of that peer, until it is given back; NULL: the peer shows none. */
    const _Atomic uint64_t *(*revocation_word_take)(void *self, uint32_t peer, uint64_t words,
                                                    uint32_t number);
    void (*revocation_word_return)(void *self, const _Atomic uint64_t *word);
    /* The target's: that engine of the peer is gone, or the peer. Words that were taken stay. */
    void (*revocation_words_forget)(void *self, uint32_t peer, uint64_t words);
    /* The target's: registers memory on a rail with grant_keys, unless its thread is at work there
     * (KVR_AGAIN). NULL: never. */
    kvr_status (*memory_open)(void *self, uint32_t rail, const struct kvr_memory_span *span,
                              struct kvr_memory **ret_memory, struct kvr_error *error);
    /* 64 bits that cannot be guessed. */
    uint64_t (*random)(void *self);
    struct kvr_event_sink events;
};

#endif
