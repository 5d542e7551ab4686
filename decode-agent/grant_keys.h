/* Keys of one transfer alone, where the rails have them (kvr_rail_facts.grant_keys, rule 14). The
 * rail thread that owns a rail opens them before GRANT names them, and closes them before the pages
 * are handed back (land_keys.c). */
#ifndef DECODE_AGENT_GRANT_KEYS_H
#define DECODE_AGENT_GRANT_KEYS_H

#include "decode-agent/inbound.h"

struct landing_keys;
struct landing_spans;
struct transfer;
union land_message;

struct grant_keys {
    struct landing_spans
        *spans; /* what they open, the same for each GRANT; NULL: no GRANT had any */
    struct landing_keys *of[KVR_RAIL_GROUPS_MAX]; /* a rail group's, or NULL: closed there */
    uint32_t opened; /* bit g: that group has said that they are open */
};

/* Has them opened on the rails that the next GRANT will name. True: they are open, or none are
 * needed. False: grant_keys_opened() follows, or the transfer has failed. */
bool grant_keys_open(struct inbound *inbound, struct transfer *transfer);
/* For the rails that this GRANT names. keys: room for KVR_REGIONS_MAX, borrowed by *grant. */
void grant_keys_tell(const struct transfer *transfer, struct kvr_msg_grant *grant,
                     struct kvr_remote_key *keys);
void grant_keys_opened(struct inbound *inbound, struct transfer *transfer,
                       const struct landing_keys *keys);
/* Has all of them closed. True: none is open any more; else grant_keys_closed() follows. */
bool grant_keys_close(struct inbound *inbound, struct transfer *transfer);
void grant_keys_closed(struct inbound *inbound, struct transfer *transfer,
                       struct landing_keys *keys);

#endif
