/* Goal: only well-formed UTF-8 without control characters counts as text. Method: every code point,
 * written by hand, and the malformed forms that the standard names. */
#include "tests/support/check.h"

#include "base/text.h"

/* Also writes points that are no characters: surrogates, and those beyond the last character. */
static size_t write_point(uint32_t point, char text[5])
{
    size_t bytes = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};

    text[bytes] = '\0';
    for (size_t i = bytes; i-- > 1; point >>= 6)
        text[i] = (char)(0x80 | (point & 0x3f));
    text[0] = (char)(leads[bytes] | point);
    return bytes;
}

static void every_code_point_is_told(void **state)
{
    char text[5];

    (void)state;
    for (uint32_t point = 1; point < 0x120000; point++) {
        size_t bytes = write_point(point, text);
        bool character = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
        bool printable = character && point >= 0x20 && (point < 0x7f || point >= 0xa0);

        if (kvr_text_character(text) != (character ? bytes : 0) ||
            kvr_text_printable(text) != (printable ? bytes : 0))
            fail_msg("code point %x", point);
    }
}

static void malformed_is_none(void **state)
{
    static const char *const malformed[] = {
        "\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",     "\xc3",
        "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe1\x80",         "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf0\x90\x80", "\xf5\x80\x80", "\xf4\x90\x80\x80", "\xfe",         "\xff",
        "\xc3\x28"};

    (void)state;
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        assert_int_equal(kvr_text_character(malformed[i]), 0);
        assert_false(kvr_text_valid(malformed[i], 64));
    }
    assert_int_equal(kvr_text_character(""), 0);
}

static void text_ends_within_its_room(void **state)
{
    (void)state;
    assert_true(kvr_text_valid("", 1));
    assert_false(kvr_text_valid("", 0));
    assert_true(kvr_text_valid("d\xc3\xa9j\xc3\xa0", 7));
    assert_false(kvr_text_valid("d\xc3\xa9j\xc3\xa0", 6));
    assert_false(kvr_text_valid("a\nb", 64));
}

static void text_is_shown_in_its_room(void **state)
{
    char shown[6];

    (void)state;
    kvr_text_show("a\x1b[2J", sizeof(shown), shown);
    assert_string_equal(shown, "a?[2J");
    kvr_text_show("abcd\xc3\xa9", sizeof(shown), shown);
    assert_string_equal(shown, "abcd");
}

static void text_stands_in_json(void **state)
{
    char json[64], little[6];

    (void)state;
    assert_string_equal(kvr_text_json("\"d\xc3\xa9\" \\ \n\xff", json, sizeof(json)),
                        "\\\"d\xc3\xa9\\\" \\\\ ??");
    assert_string_equal(kvr_text_json("abc\"\"", little, sizeof(little)), "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_told),  cmocka_unit_test(malformed_is_none),
        cmocka_unit_test(text_ends_within_its_room), cmocka_unit_test(text_is_shown_in_its_room),
        cmocka_unit_test(text_stands_in_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
