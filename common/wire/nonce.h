/* The numbers by which the wire names transfers. Some of them do not show
 * the next: a number may be shown to any process.
 *
 * A number is a permutation of a counter, keyed at random for each boot: four rounds of a Feistel
 * network over HMAC-SHA256. So a boot never gives one twice. Pure. */
#ifndef KVR_WIRE_NONCE_H
#define KVR_WIRE_NONCE_H

#include <stdint.h>

#define KVR_NONCE_KEY_WORDS 2

struct kvr_nonces {
    uint64_t key[KVR_NONCE_KEY_WORDS]; /* random; all 0: in order, for tests */
    uint64_t given;
};

/* Never 0, which names no transfer. */
uint64_t kvr_nonce_next(struct kvr_nonces *nonces);

#endif
