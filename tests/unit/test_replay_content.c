/* Goal: every coordinate of a replayed page gives a word of its own, so that misplaced bytes never
 * look right. A check finds the first wrong word. Filling and checking are too fast to dominate a
 * replay's figures. */
#include "tests/support/check.h"

#include "base/clock.h"
#include "tools/replay/replay_content.h"

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static void every_coordinate_is_distinct(void **state)
{
    enum { SEEDS = 2, BLOCKS = 8, LAYERS = 8, PARTS = 5, TOKENS = 64, WORDS = 32 };
    const size_t count = (size_t)SEEDS * BLOCKS * LAYERS * PARTS * TOKENS * WORDS;
    uint64_t *words = malloc(count * sizeof(words[0]));
    size_t at = 0;

    (void)state;
    assert_non_null(words);
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t block = 0; block < BLOCKS; block++)
            for (uint32_t layer = 0; layer < LAYERS; layer++)
                for (uint32_t part = 1; part <= PARTS; part++) {
                    uint64_t key = content_key(seed, block, layer, part);

                    for (uint64_t token = 0; token < TOKENS; token++)
                        for (uint32_t word = 0; word < WORDS; word++)
                            words[at++] = content_word(key, token, word);
                }
    assert_int_equal(at, count);
    qsort(words, count, sizeof(words[0]), by_value);
    for (size_t i = 1; i < count; i++)
        assert_true(words[i] != words[i - 1]);
    assert_true(words[0] != 0); /* memory never written is zero */
    free(words);
}

static void fill_and_check_agree_with_single_words(void **state)
{
    const struct content content = {content_key(3, 14, 15, 1), 100, 4, 7};
    uint64_t words[4 * 7];
    struct content_wrong wrong;

    (void)state;
    content_fill(&content, words);
    for (uint32_t token = 0; token < 4; token++)
        for (uint32_t word = 0; word < 7; word++)
            assert_int_equal(words[token * 7 + word], content_word(content.key, 100 + token, word));
    assert_true(content_check(&content, words, &wrong));
    assert_int_equal(content_count_wrong(&content, words), 0);
}

static void check_finds_the_first_wrong_word(void **state)
{
    const struct content content = {content_key(1, 1, 1, 1), 32, 16, 8};
    uint64_t words[16 * 8];
    struct content_wrong wrong;

    (void)state;
    for (uint32_t at = 0; at < 16 * 8; at++) {
        content_fill(&content, words);
        words[at] ^= 1ull << (at % 64);
        assert_false(content_check(&content, words, &wrong));
        assert_int_equal(wrong.token, 32 + at / 8);
        assert_int_equal(wrong.word, at % 8);
        assert_int_equal(wrong.expected ^ wrong.found, 1ull << (at % 64));
        assert_int_equal(content_count_wrong(&content, words), 1);
    }
}

static void another_place_is_wrong_everywhere(void **state)
{
    const struct content content = {content_key(1, 1, 1, 1), 16, 16, 8};
    const struct content others[] = {{content.key, 32, 16, 8},
                                     {content_key(1, 1, 2, 1), 16, 16, 8},
                                     {content_key(1, 1, 1, 2), 16, 16, 8},
                                     {content_key(1, 2, 1, 1), 16, 16, 8},
                                     {content_key(2, 1, 1, 1), 16, 16, 8}};
    uint64_t words[16 * 8];
    struct content_wrong wrong;

    (void)state;
    content_fill(&content, words);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(content_check(&others[i], words, &wrong));
        assert_true(content_count_wrong(&others[i], words) > 16 * 8 * 7);
    }
}

static void probe_sees_larger_writes(void **state)
{
    const struct content content = {content_key(1, 1, 1, 1), 0, 4, 160}; /* 1280 bytes a token */
    uint64_t words[4 * 160], looked_at = 0;
    struct content_wrong wrong;

    (void)state;
    content_fill(&content, words);
    assert_true(content_probe(&content, words, &looked_at, &wrong));
    assert_int_equal(looked_at, 4 * 3 * 8);
    for (size_t at = 0; at + CONTENT_MARK_BYTES <= sizeof(words); at += 88) {
        content_fill(&content, words);
        memset((uint8_t *)words + at, 0x77, CONTENT_MARK_BYTES);
        assert_false(content_probe(&content, words, &looked_at, &wrong));
        assert_true(wrong.token * 1280 + wrong.word * 8 + 8 > at);
    }
}

static void marks_show_every_write(void **state)
{
    uint64_t page[4096 / 8] = {0}, offset;
    uint8_t *bytes = (uint8_t *)page;

    (void)state;
    content_mark(7, 1, 2, page, sizeof(page));
    assert_true(content_marked(7, 1, 2, page, sizeof(page), &offset));
    assert_false(content_marked(8, 1, 2, page, sizeof(page), &offset));
    assert_false(content_marked(7, 2, 2, page, sizeof(page), &offset));
    assert_false(content_marked(7, 1, 1, page, sizeof(page), &offset));
    for (size_t at = 0; at + CONTENT_MARK_BYTES + 8 <= sizeof(page); at += 100) {
        content_mark(7, 1, 2, page, sizeof(page));
        memset(bytes + at, 0x55, CONTENT_MARK_BYTES + 8);
        assert_false(content_marked(7, 1, 2, page, sizeof(page), &offset));
        assert_int_equal(offset % CONTENT_MARK_BYTES, 0);
        assert_true(offset + 8 > at && offset < at + CONTENT_MARK_BYTES + 8);
    }
    assert_int_equal(content_mark_word(7, 1, 2, 0) == content_mark_word(7, 1, 2, 512), 0);
}

/* Prints the speed; asserts only that it is plausible, as the machine may be busy. */
static void speed_is_that_of_memory(void **state)
{
    const uint32_t tokens = 65536; /* 32 MiB */
    const struct content content = {content_key(1, 1, 1, 1), 0, tokens, 64};
    uint64_t *words = malloc((size_t)tokens * 512);
    struct content_wrong wrong;
    kvr_ns start, filled, checked;

    (void)state;
    assert_non_null(words);
    content_fill(&content, words);
    start = kvr_clock_now();
    content_fill(&content, words);
    filled = kvr_clock_now();
    assert_true(content_check(&content, words, &wrong));
    checked = kvr_clock_now();
    print_message("fill %.1f GB/s, check %.1f GB/s\n", tokens * 512.0 / (double)(filled - start),
                  tokens * 512.0 / (double)(checked - filled));
    assert_true(checked - start < 10 * KVR_S);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_coordinate_is_distinct),
        cmocka_unit_test(fill_and_check_agree_with_single_words),
        cmocka_unit_test(check_finds_the_first_wrong_word),
        cmocka_unit_test(another_place_is_wrong_everywhere),
        cmocka_unit_test(probe_sees_larger_writes),
        cmocka_unit_test(marks_show_every_write),
        cmocka_unit_test(speed_is_that_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
