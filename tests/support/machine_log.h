/* Ports of a pure state machine (outbound, inbound) that record its actions: a test sends events to
 * the machine, and reads the actions here. */
#ifndef KVR_TESTS_MACHINE_LOG_H
#define KVR_TESTS_MACHINE_LOG_H

#include "agent/core/engines.h"
#include "tests/support/small_plan.h"

#define MACHINE_LOG_MAX      64
#define MACHINE_MEMORY_BYTES (192u << 20)

struct machine_log {
    struct kvr_message sent[MACHINE_LOG_MAX]; /* pointers in them are stale */
    uint32_t sent_to[MACHINE_LOG_MAX], sent_count;
    struct kvr_group_message commands[MACHINE_LOG_MAX];
    uint32_t command_count;
    struct kvr_notice notices[MACHINE_LOG_MAX];
    uint32_t notice_count;
    uint64_t random;  /* what the port answers */
    uint32_t granted; /* bits of the rails that the last GRANT named */
    uint32_t hang_ups, regions_done, engines_done;
    uint32_t region_done; /* the number of the last one */
    uint32_t registered;  /* how often more rails were asked for, and last: */
    uint32_t registered_group;
    uint32_t stages_asked; /* how often a stage was */
    uint64_t registered_id;
    kvr_status send_answer; /* what every send says */
};
extern struct machine_log machine_log;
extern const struct kvr_ports machine_ports;
extern uint32_t machine_peer_tenants; /* that the certificates of peers serve, a bit each */

void machine_log_clear(void);
/* Memory for the machine's tables; one at a time. */
struct kvr_buddy *machine_memory(void);

/* The latest of that kind since the log was cleared, and how many there were. NULL, 0: none. */
const struct kvr_message *machine_sent(kvr_message_kind kind);
uint32_t machine_sent_count(kvr_message_kind kind);
const struct kvr_group_message *machine_command(uint32_t kind);
uint32_t machine_command_count(uint32_t kind);
const struct kvr_notice *machine_notice(kvr_notice_kind kind);
uint32_t machine_notice_count(kvr_notice_kind kind);

/* A port revocation_words: each engine has words of its own. */
_Atomic uint64_t *machine_words(void *self, uint32_t engine);

/* An engine rank with the region of a small_side attaches under that index; its id is `number`. */
void machine_engine_up(struct kvr_engines *engines, uint32_t index, uint8_t number,
                       struct small_side *side, struct kvr_shared_page *page);
struct kvr_rank machine_rank(uint8_t number);
/* What REGIONS of that peer's engine names. */
static inline uint64_t machine_words_number(uint8_t number)
{
    return 500u + number;
}
/* The description that the engine of a peer sends. */
void machine_regions(uint8_t number, const struct small_side *side, uint32_t rail_count,
                     struct kvr_message *ret_message);

#endif
