/* Random control messages, and whether two are equal in everything but their memory. */
#ifndef KVR_TESTS_MESSAGES_H
#define KVR_TESTS_MESSAGES_H

#include "base/rng.h"
#include "wire/message.h"

/* What the pointers of one message point to. */
struct messages_memory {
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    struct kvr_compat compats[KVR_ENGINES_MAX];
    struct kvr_region_layout layouts[KVR_REGIONS_MAX];
    struct kvr_remote_key keys[KVR_REGIONS_MAX * KVR_RAILS_MAX];
    struct kvr_page_run page_runs[KVR_RUNS_PER_MESSAGE];
    struct kvr_chunk_run chunk_runs[KVR_RUNS_PER_MESSAGE];
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER];
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint8_t tail[KVR_TAIL_BYTES_MAX];
    uint64_t digests[KVR_DIGESTS_PER_MESSAGE];
    uint64_t group_skips[KVR_GROUPS_MAX];
    uint32_t siblings[KVR_SOURCES_MAX];
};

/* Arrays have up to percent % of their largest length. transfer and sequence are random too. */
void messages_random(struct kvr_rng *rng, kvr_message_kind kind, uint32_t percent,
                     struct messages_memory *memory, struct kvr_message *ret_message);
bool messages_equal(const struct kvr_message *a, const struct kvr_message *b);

#endif
