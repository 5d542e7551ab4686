#include "tools/replay/replay_content.h"

#include "base/rng.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define ODD    UINT64_C(0xd6e8feb86659fd93)

/* Seed of marks: no --seed gives these words, as keys are mixed. */
#define MARK_SEED UINT64_C(0x6d61726b20667265)

static inline uint64_t scramble(uint64_t value)
{
    value ^= value >> 32;
    value *= ODD;
    return value ^ value >> 29;
}

uint64_t content_key(uint64_t seed, uint64_t block, uint32_t layer, uint32_t part)
{
    uint64_t key = kvr_mix64(seed ^ GOLDEN);

    key = kvr_mix64(key + block);
    return kvr_mix64(key + ((uint64_t)layer << 32 | part));
}

static inline uint64_t token_base(uint64_t key, uint64_t token)
{
    return kvr_mix64(key + token * GOLDEN);
}

uint64_t content_word(uint64_t key, uint64_t token, uint32_t word)
{
    return scramble(token_base(key, token) + word * GOLDEN);
}

void content_fill(const struct content *content, void *memory)
{
    uint64_t *words = memory;

    for (uint32_t i = 0; i < content->token_count; i++, words += content->token_words) {
        uint64_t at = token_base(content->key, content->token_first + i);

        for (uint32_t word = 0; word < content->token_words; word++, at += GOLDEN)
            words[word] = scramble(at);
    }
}

/* Without a branch inside, which is what makes checking as fast as reading. */
static bool token_equal(uint64_t at, const uint64_t *words, uint32_t word_count)
{
    uint64_t difference = 0;

    for (uint32_t word = 0; word < word_count; word++, at += GOLDEN)
        difference |= words[word] ^ scramble(at);
    return difference == 0;
}

static struct content_wrong find_wrong(const struct content *content, uint64_t token,
                                       const uint64_t *words)
{
    struct content_wrong wrong = {.token = token};

    for (; wrong.word < content->token_words; wrong.word++) {
        wrong.expected = content_word(content->key, token, wrong.word);
        wrong.found = words[wrong.word];
        if (wrong.expected != wrong.found)
            break;
    }
    return wrong;
}

bool content_check(const struct content *content, const void *memory,
                   struct content_wrong *ret_wrong)
{
    const uint64_t *words = memory;

    for (uint32_t i = 0; i < content->token_count; i++, words += content->token_words) {
        uint64_t token = content->token_first + i;

        if (token_equal(token_base(content->key, token), words, content->token_words))
            continue;
        *ret_wrong = find_wrong(content, token, words);
        return false;
    }
    return true;
}

bool content_probe(const struct content *content, const void *memory, uint64_t *looked_at,
                   struct content_wrong *ret_wrong)
{
    const uint32_t step = CONTENT_MARK_BYTES / sizeof(uint64_t);
    const uint64_t *words = memory;

    for (uint32_t i = 0; i < content->token_count; i++, words += content->token_words) {
        uint64_t base = token_base(content->key, content->token_first + i);

        for (uint32_t word = 0; word < content->token_words; word += step) {
            *looked_at += sizeof(uint64_t);
            if (words[word] == scramble(base + word * GOLDEN))
                continue;
            *ret_wrong = find_wrong(content, content->token_first + i, words);
            return false;
        }
    }
    return true;
}

uint64_t content_count_wrong(const struct content *content, const void *memory)
{
    const uint8_t *bytes = memory;
    uint64_t count = 0;

    for (uint32_t i = 0; i < content->token_count; i++) {
        for (uint32_t word = 0; word < content->token_words; word++) {
            uint64_t expected = content_word(content->key, content->token_first + i, word);
            const uint8_t *wanted = (const uint8_t *)&expected;

            for (int byte = 0; byte < 8; byte++)
                count += *bytes++ != wanted[byte];
        }
    }
    return count;
}

uint64_t content_mark_word(uint32_t page_id, uint32_t layer, uint32_t part, uint64_t offset)
{
    return scramble(content_key(MARK_SEED, page_id, layer, part) +
                    offset / CONTENT_MARK_BYTES * GOLDEN);
}

void content_mark(uint32_t page_id, uint32_t layer, uint32_t part, void *memory, uint64_t bytes)
{
    uint64_t at = content_key(MARK_SEED, page_id, layer, part);

    for (uint64_t offset = 0; offset < bytes; offset += CONTENT_MARK_BYTES, at += GOLDEN)
        *(uint64_t *)((uint8_t *)memory + offset) = scramble(at);
}

bool content_marked(uint32_t page_id, uint32_t layer, uint32_t part, const void *memory,
                    uint64_t bytes, uint64_t *ret_offset)
{
    uint64_t at = content_key(MARK_SEED, page_id, layer, part);

    for (uint64_t offset = 0; offset < bytes; offset += CONTENT_MARK_BYTES, at += GOLDEN) {
        if (*(const uint64_t *)((const uint8_t *)memory + offset) == scramble(at))
            continue;
        *ret_offset = offset;
        return false;
    }
    return true;
}
