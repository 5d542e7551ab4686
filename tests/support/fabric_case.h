/* Shared by the cases of the conformance list, test_fabric_conformance*.c: a case orders a pair of
 * parties to act, and fails with their answer where they could not. */
#ifndef KVR_TESTS_FABRIC_CASE_H
#define KVR_TESTS_FABRIC_CASE_H

#include "tests/support/fabric_party.h"

extern const char *case_provider; /* that the list is run on */

/* The rest of the list; each runs its cases and returns how many failed. */
int conformance_writes(void);
int conformance_epochs(void);
int conformance_connections(void);

struct party_answer case_do(struct party *party, int side, const struct party_command *command);
struct party_answer case_tell(struct party *party, int side, party_verb verb);
/* `count` writes of `bytes`, over all rails. */
struct party_command case_post(uint32_t count, uint32_t bytes, uint32_t pieces, uint64_t seed);
/* The source's memory is filled with the seed's pattern, the target's zeroed. */
void case_prepare(struct party *party, int source, uint64_t seed);
/* `count` writes from source; all arrive, with right bytes the moment they are seen. */
void case_write(struct party *party, int source, const struct party_command *post);
/* Writes of that size without end begin, or end. */
void case_stream(struct party *party, int source, uint32_t bytes, bool on);
/* Both sides take new endpoints, as after EPOCH_ENDED, and writes with the old keys work again. */
void case_renew(struct party *party, int first);
const struct kvr_rail_facts *case_facts(struct party *party);

#endif
