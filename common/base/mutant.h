/* Planted bugs: what proves that the simulator would find such a bug if it were there.
 *
 * `if (KVR_MUTANT(done_one_chunk_early))` is false at compile time, unless the build was made with
 * -DKVRAIL_MUTANTS=ON; then the one that `kvrail sim --mutant NAME` planted is true. */
#ifndef KVR_BASE_MUTANT_H
#define KVR_BASE_MUTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef KVRAIL_MUTANTS

/* Shown only by transfers of several slots: the simulator has none without KVRAIL_SHORT_SLOTS. */
#define KVR_MUTANT_SHORT_SLOTS_LIST(X)                                                             \
    X(one_slot_for_all, "rule 5: each slot of a transfer names other chunks of it")

/* X(name, the rule of the design that it breaks) */
#define KVR_MUTANT_LIST(X)                                                                         \
    X(terminal_told_twice, "rule 1: exactly one terminal event")                                   \
    X(silence_hands_back, "rule 1: a library's own FAILING hands no page back")                    \
    X(deadline_unheard, "rule 1: a fetch of a silent agent gets FAILING at its deadline")          \
    X(done_after_own_failing, "rule 1: DONE never follows FAILING, of a silent agent either")      \
    X(blamed_for_own_absence, "rule 8: a library that did not run does not call its agent silent") \
    X(peer_blamed_for_own_absence,                                                                 \
      "rule 8: an agent that did not run does not call a peer silent")                             \
    X(done_before_the_copy, "rule 1: what a copy has yet to move is not in place")                 \
    X(unmoved_counted, "rule 1: what a device could not move is not in place")                     \
    X(free_before_the_copy, "rule 1: pages that a copy still writes are not handed back")          \
    X(source_free_before_the_copy, "rule 2: SOURCE_FREE waits for copies that read the pages")     \
    X(salvage_of_a_part, "rule 1: a failed fetch calls right only what is in every layer")         \
    X(done_with_first_source, "rule 1: the last source of a fetch to settle ends it")              \
    X(source_free_before_completion, "rule 2: SOURCE_FREE waits for every accepted post")          \
    X(source_free_without_landed, "rule 2: a completion is no delivery: SOURCE_FREE needs LANDED") \
    X(second_posting_without_missing, "rule 3: only MISSING permits a second posting")             \
    X(done_while_tainted, "rule 3: tainted transfers wait until every epoch is quiet")             \
    X(room_before_the_copy, "rule 3: staging memory is written again once it was copied")          \
    X(room_while_tainted, "rule 3: what was posted twice may land where other bytes lie by then")  \
    X(count_instead_of_bits, "rule 3: a bit a chunk")                                              \
    X(free_before_quiet, "rule 4: failed transfers hold their pages until quiet")                  \
    X(old_quiet_accepted, "rule 4: MISSING voids the quiet of the round before")                   \
    X(doubted_counts_trusted, "rule 4: a chunk that arrives again makes its count no proof")       \
    X(slot_reused_at_once, "rule 5: slots rest after the fence, and are drawn of the older half")  \
    X(slots_not_random, "rule 5: which slots are in use cannot be known")                          \
    X(tag_not_compared, "rule 5: a write counts only with the tag of its GRANT")                   \
    X(grants_come_late, "rule 5: a landing is open before its writes count")                       \
    X(strangers_never_too_many, "rule 5: a rail that strangers write to is renewed")               \
    X(done_one_chunk_early, "rule 6: DONE needs all bits")                                         \
    X(done_without_tail, "rule 6: DONE needs TAIL")                                                \
    X(layer_in_by_half, "rule 6: a layer is in when every source has given its heads")             \
    X(state_of_a_segment, "rule 6: a state goes once all tokens are published")                    \
    X(digest_not_compared, "rule 6: DONE needs the digest, where asked")                           \
    X(no_fence_after_death, "rule 7: a peer that is dead is fenced")                               \
    X(closed_before_it_stops, "rule 7: an epoch is closed once its endpoint has stopped")          \
    X(post_after_waking, "rule 8: after an absence a round trip comes before a post")              \
    X(woke_without_round_trip, "rule 8: a session that is up is no proof that its peer is there")  \
    X(old_generation_accepted, "rule 9: what names an old generation is refused")                  \
    X(page_out_of_bounds, "rule 9: every page id is checked against what is registered")           \
    X(lease_never_ends, "rule 10: a publish without a target is free when its lease ends")         \
    X(abandon_after_want, "rule 10: only what no target has come for may be abandoned")            \
    X(lease_while_held, "rule 10: a target that has come needs no lease, before its pages either") \
    X(ends_forgotten, "rule 10: a target that comes after the end does not wait for it")           \
    X(leaving_refused, "rule 10: a rank with a fetch that has ended may fetch again")              \
    X(places_counted, "rule 10: each consumer has a place of its own, also when one comes twice")  \
    X(renewal_forgotten, "rule 10: a lease that was renewed is as long as that says")              \
    X(grant_before_keys, "rule 14: GRANT names keys that are open")                                \
    X(keys_closed_early, "rule 14: keys are open while a second copy of a chunk may come")         \
    X(keys_closed_late, "rule 14: keys are closed before the pages are handed back")               \
    X(keys_left_open, "rule 14: no key outlives its transfer")                                     \
    X(lodger_keys_of_lender, "rule 14: a region in another's memory is opened by its own layout")  \
    X(landed_away_trusted, "rule 11: what a target finds landed waits for its source's answer")    \
    X(revoked_ignored, "rule 11: what is copied from pages taken back does not count")             \
    X(words_of_another, "rule 11: an engine's revocation words are its own")                       \
    X(post_before_known, "rule 12: nothing is posted from an endpoint that the target lacks")      \
    X(successor_without_senders, "rule 12: a target's new endpoint knows all senders")             \
    X(proof_not_compared, "rule 13: a target that does not prove the secret gets nothing")         \
    X(proof_of_any_session, "rule 13: a proof is for one session")                                 \
    X(proof_of_any_transfer, "rule 13: a proof is for one transfer")                               \
    X(ends_open, "rule 13: nor does it learn how the request ended")                               \
    X(tenant_not_compared, "rule 13: a target of another tenant gets nothing")                     \
    X(weight_forgotten, "rule 15: tenants share the rails by their weights")                       \
    X(planes_by_place, "rule 16: a write leaves its plane only where nothing else reaches")        \
    X(slow_rail_kept, "rule 17: a slow pair gives up what is on its way")                          \
    X(rail_back_by_acceptance, "rule 5: a pair that failed carries a warm-up before users' "       \
                               "writes")

typedef enum kvr_mutant {
    KVR_MUTANT_none,
#define X(name, rule) KVR_MUTANT_##name,
    KVR_MUTANT_LIST(X) KVR_MUTANT_SHORT_SLOTS_LIST(X)
#undef X
} kvr_mutant;

extern kvr_mutant kvr_mutant_planted;
#define KVR_MUTANT(name) (kvr_mutant_planted == KVR_MUTANT_##name)

#else
#define KVR_MUTANT(name) false
#endif

/* False: there is no such mutant in this build. */
bool kvr_mutant_plant(const char *name);
/* A line for each that this build has: its name and its rule. Returns how many. */
size_t kvr_mutants_list(FILE *file);

#endif
