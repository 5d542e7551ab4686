/* Revocation words: which transfers may still copy from their source's pages, on paths where the
 * target does the copying (rule 11; provider local). Each source engine has words of its own. They
 * lie in memory that the prefill-agent shares with that engine, which may write it, with no other
 * engine, and with the decode-agents of its host, which only read.
 *
 * A transfer's word holds its nonce while the pages are lent. Any other value means revoked. So a
 * word may be used again at once: a copier of the former transfer finds another nonce.
 * The side that takes the pages back revokes the word first. The copier reads the word again after
 * its copy: where the word still holds, every byte was copied from lent pages. The agent revokes
 * each word by itself. When the agent has died, the engine's client revokes them all before the
 * client hands a page back.
 *
 * The memory is a memfd that cannot change its size, made when the engine attaches. The engine gets
 * it with ATTACHED. The decode-agents of its host get it by an offer (revocation_offer.h), which
 * names the engine: what the memory holds proves nothing, because the engine may write it. */
#ifndef KVR_WIRE_REVOCATION_WORDS_H
#define KVR_WIRE_REVOCATION_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

struct kvr_revocation_words {
    _Atomic uint64_t words[KVR_TRANSFERS_MAX]; /* 64 KiB; the kernel backs the pages in use */
};

/* The prefill-agent's, for one engine. The caller closes *ret_fd. */
KVR_MUST_CHECK kvr_status kvr_revocation_words_create(int *ret_fd,
                                                      struct kvr_revocation_words **ret_words,
                                                      struct kvr_error *error);
/* An engine's: of the descriptor that came with ATTACHED, which stays the caller's. */
KVR_MUST_CHECK kvr_status kvr_revocation_words_map(int fd, struct kvr_revocation_words **ret_words,
                                                   struct kvr_error *error);
/* A decode-agent's, read only: of a descriptor that stays the caller's. */
KVR_MUST_CHECK kvr_status kvr_revocation_words_view(int fd,
                                                    const struct kvr_revocation_words **ret_words,
                                                    struct kvr_error *error);
void kvr_revocation_words_close(
    const struct kvr_revocation_words *revocation_words); /* NULL is fine */
void kvr_revocation_words_revoke(struct kvr_revocation_words *revocation_words);

static inline void kvr_revocation_word_lend(_Atomic uint64_t *word, uint64_t nonce)
{
    atomic_store_explicit(word, nonce, memory_order_release);
}

/* Before the pages may be written again. */
static inline void kvr_revocation_word_revoke(_Atomic uint64_t *word)
{
    atomic_store_explicit(word, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

/* After the bytes were copied. */
static inline bool kvr_revocation_word_holds(const _Atomic uint64_t *word, uint64_t nonce)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(word, memory_order_relaxed) == nonce;
}

#endif
