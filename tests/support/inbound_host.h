/* The bench of inbound_case with a card and a rail for this host, and sources that lend their pages
 * by number 7. */
#ifndef KVR_TESTS_INBOUND_HOST_H
#define KVR_TESTS_INBOUND_HOST_H

#include "tests/support/inbound_case.h"

#define CARD 0
#define COPY 1

extern _Atomic uint64_t revocation_word; /* of lent pages */
extern bool revocation_word_shown;       /* the source's agent still shows it */

int open_same_host(void **state); /* a cmocka setup, on top of open_inbound */
void meet(bool same_host);        /* the first source comes anew, on this host or not */
struct kvr_region *target_region(void);
const struct transfer *transfer_of(uint64_t nonce);

#endif
