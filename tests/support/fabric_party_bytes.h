/* What a party's memory holds, and where its writes come from and go to. */
#ifndef KVR_TESTS_FABRIC_PARTY_BYTES_H
#define KVR_TESTS_FABRIC_PARTY_BYTES_H

#include "tests/support/fabric_party.h"

/* Piece j of write i lies at these places; the target's run backwards, so that a write to the place
 * it came from is not right by chance. Pieces are multiples of 8 bytes or a whole write. */
uint64_t party_piece_bytes(const struct party_command *command);
uint64_t party_place_source(const struct party_command *command, uint32_t i, uint32_t j);
uint64_t party_place_target(const struct party_command *command, uint32_t i, uint32_t j);

/* As far as the `count` writes reach; all of it where there are none. */
void party_fill(uint8_t *bytes, const struct party_command *command);
/* Bytes of write i that are not what the other side's memory holds at their source. */
uint64_t party_wrong_bytes(const uint8_t *bytes, const struct party_command *command, uint32_t i);
uint64_t party_digest(const uint8_t *bytes);

#endif
