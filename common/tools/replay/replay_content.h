/* The contents of a replayed page. Every 8-byte word follows from its coordinates, so any word can
 * be checked where it arrives. A page, layer, part, token or request in the wrong place shows at
 * once.
 *
 *   key  = mix(seed, block, layer, part)         block: the trace's prefix hash of 512 tokens
 *   base = mix(key + token · G)                  token: counted from the request's first
 *   word = m(base + word number in the token · G)
 *
 * mix is kvr_mix64, G an odd constant, m one multiplication between two shifts: a bijection, so the
 * words of one token all differ, at the speed of memory. Requests that share a prefix block have
 * the same words there, as their KV would be. Pure. */
#ifndef KVR_TOOLS_REPLAY_CONTENT_H
#define KVR_TOOLS_REPLAY_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENT_MARK_BYTES 512u

/* What some tokens of a block, a layer and a part hold, one token after the other. */
struct content {
    uint64_t key, token_first;
    uint32_t token_count, token_words;
};

/* The first word that is not what it should be. */
struct content_wrong {
    uint64_t token;
    uint32_t word; /* number in the token */
    uint64_t expected, found;
};

uint64_t content_key(uint64_t seed, uint64_t block, uint32_t layer, uint32_t part);
/* One word, to compare with or to explain. */
uint64_t content_word(uint64_t key, uint64_t token, uint32_t word);

/* Writes the tokens, contiguous in memory aligned to 8. */
void content_fill(const struct content *content, void *memory);
/* True when they are all there; else *ret_wrong says the first that is not. */
bool content_check(const struct content *content, const void *memory,
                   struct content_wrong *ret_wrong);
/* The same for the first word of each token and of each CONTENT_MARK_BYTES of it: enough to see any
 * larger write, at a fraction of the cost. Adds the bytes looked at to *looked_at. */
bool content_probe(const struct content *content, const void *memory, uint64_t *looked_at,
                   struct content_wrong *ret_wrong);
/* How many bytes of these tokens differ, for the report. */
uint64_t content_count_wrong(const struct content *content, const void *memory);

/* Marks a free page: one word in each CONTENT_MARK_BYTES of a page of one layer and part. Late
 * writes and parts that were not written show so, at a fraction of the cost of filling the page. */
void content_mark(uint32_t page_id, uint32_t layer, uint32_t part, void *memory, uint64_t bytes);
/* True when every mark is there; else the offset of the first that is not. */
bool content_marked(uint32_t page_id, uint32_t layer, uint32_t part, const void *memory,
                    uint64_t bytes, uint64_t *ret_offset);
/* The mark at an offset, which is a multiple of CONTENT_MARK_BYTES. */
uint64_t content_mark_word(uint32_t page_id, uint32_t layer, uint32_t part, uint64_t offset);

#endif
