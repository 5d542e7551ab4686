/* Goal: digits and bytes are each other's, and nothing but digits in lower case is taken. */
#include "tests/support/check.h"

#include "base/hex.h"

static void bytes_become_digits_and_bytes_again(void **state)
{
    const uint8_t bytes[] = {0x00, 0x0f, 0xa5, 0xff};
    uint8_t again[sizeof(bytes)];
    char text[2 * sizeof(bytes) + 1];

    (void)state;
    kvr_hex_print(bytes, sizeof(bytes), text);
    assert_string_equal(text, "000fa5ff");
    assert_true(kvr_hex_parse(text, sizeof(bytes), again));
    assert_memory_equal(again, bytes, sizeof(bytes));
    assert_true(kvr_hex_parse("", 0, again));
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {"",     "a",    "a5f",  "a5ff0", "a5ff00",
                                        "A5FF", "a5fg", "a5 f", "-5ff",  "0xa5"};
    uint8_t bytes[2];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(kvr_hex_parse(texts[i], sizeof(bytes), bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_digits_and_bytes_again),
        cmocka_unit_test(other_texts_are_refused),
    };

    return cmocka_run_group_tests_name("hex", tests, NULL, NULL);
}
