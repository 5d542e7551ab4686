/* Goal: a token is random, its hash is SHA-256, and nothing else passes for either. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/folder.h"
#include "tls/token.h"

static void tokens_are_random_and_recognised(void **state)
{
    char first[KVR_TOKEN_TEXT_BYTES], second[KVR_TOKEN_TEXT_BYTES], text[256];

    (void)state;
    kvr_token_make(first);
    kvr_token_make(second);
    assert_string_not_equal(first, second);
    assert_true(kvr_token_shaped(first));
    snprintf(text, sizeof(text), "/api/v1/agents?a=%s&b", first);
    assert_true(kvr_token_within(text));
    assert_false(kvr_token_shaped(text));
    first[20] = 'x';
    assert_false(kvr_token_shaped(first));
    assert_false(kvr_token_within(first));
    second[KVR_TOKEN_TEXT_BYTES - 2] = '\0';
    assert_false(kvr_token_shaped(second) || kvr_token_within(second));
    assert_false(kvr_token_shaped("") || kvr_token_within("kvrail_") || kvr_token_shaped("kvrail"));
}

static void hash_is_sha256(void **state)
{
    static const char abc[] =
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct kvr_token_hash hash, parsed;
    char text[KVR_TOKEN_HASH_TEXT_BYTES], wrong[sizeof(abc)];

    (void)state;
    kvr_token_hash("abc", &hash);
    kvr_token_hash_print(&hash, text);
    assert_string_equal(text, abc);
    assert_true(kvr_token_hash_parse(text, &parsed));
    assert_true(kvr_token_hash_equal(&hash, &parsed));
    for (size_t i = 0; i < sizeof(abc) - 1; i++) {
        strcpy(wrong, abc);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        if (kvr_token_hash_parse(wrong, &parsed))
            assert_false(kvr_token_hash_equal(&hash, &parsed));
        wrong[i] = '\0';
        assert_false(kvr_token_hash_parse(wrong, &parsed));
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_file_holds_one_token(void **state)
{
    static const char *const bad[] = {"", "\n", "secret\n", "ops act sha256:00\n"};
    char path[FOLDER_BYTES + 8], token[KVR_TOKEN_TEXT_BYTES], read[KVR_TOKEN_TEXT_BYTES];
    char text[sizeof(token) + 4];
    struct kvr_error error;

    snprintf(path, sizeof(path), "%s/token", (char *)*state);
    assert_int_equal(kvr_token_read(path, read, &error), KVR_SYSTEM);
    kvr_token_make(token);
    snprintf(text, sizeof(text), "%s\r\n", token);
    write_file(path, text);
    assert_int_equal(kvr_token_read(path, read, &error), KVR_OK);
    assert_string_equal(read, token);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_file(path, bad[i]);
        assert_int_equal(kvr_token_read(path, read, &error), KVR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_random_and_recognised),
        cmocka_unit_test(hash_is_sha256),
        cmocka_unit_test_setup_teardown(a_file_holds_one_token, folder_open, folder_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
