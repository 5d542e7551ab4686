/* Goal: the proof of a WANT is one that another program computes alike, and each thing that it is
 * about changes it. The text of a secret has one form. */
#include "tests/support/check.h"

#include <string.h>

#include "wire/proof.h"

static struct kvr_secret secret;
static const char request[] = "chatcmpl-1";
static const struct kvr_rank source = {.engine.bytes = {0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
                                                        0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
                                                        0xaa, 0xaa},
                                       .generation = 77,
                                       .tp = 1,
                                       .pp = 2};
static const struct kvr_rank target = {.engine.bytes = {0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb,
                                                        0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb,
                                                        0xbb, 0xbb},
                                       .generation = 5,
                                       .tp = 3,
                                       .pp = 4};

static int make_secret(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < sizeof(secret.bytes); i++)
        secret.bytes[i] = i + 1;
    return 0;
}

static void assert_bytes(const uint8_t *bytes, const char *text)
{
    struct kvr_secret same;
    char shown[KVR_SECRET_TEXT_BYTES];

    memcpy(same.bytes, bytes, sizeof(same.bytes));
    kvr_secret_text(&same, shown);
    assert_string_equal(shown, text);
}

/* What Python's hmac makes of the same fields. */
static void it_is_what_others_compute(void **state)
{
    struct kvr_proof_key key;
    struct kvr_proof proof;

    (void)state;
    kvr_proof_key(&secret, request, 7, &source, &key);
    kvr_proof(&key, 0x1122334455667788, 0x99, &target, &proof);
    assert_bytes(key.bytes, "1f4b65f85083682c6806b924c424a6f7252c110e3b04a743f9de45d4e8c8a6ad");
    assert_bytes(proof.bytes, "c40e60f414e157feabf4daef0d35fceac799f4991ca216bec4c19a7b16a78ec8");
}

static struct kvr_proof of(const struct kvr_secret *of_secret, const char *name, uint32_t attempt,
                           struct kvr_rank from, uint64_t session, uint64_t transfer,
                           struct kvr_rank to)
{
    struct kvr_proof_key key;
    struct kvr_proof proof;

    kvr_proof_key(of_secret, name, attempt, &from, &key);
    kvr_proof(&key, session, transfer, &to, &proof);
    return proof;
}

static void each_thing_that_it_is_about_changes_it(void **state)
{
    struct kvr_secret other = secret;
    struct kvr_rank from = source, to = target;
    struct kvr_proof proofs[13];
    size_t count = 0;

    (void)state;
    proofs[count++] = of(&secret, request, 7, source, 8, 9, target);
    other.bytes[KVR_SECRET_BYTES - 1] ^= 0x80;
    proofs[count++] = of(&other, request, 7, source, 8, 9, target);
    proofs[count++] = of(&secret, "chatcmpl-2", 7, source, 8, 9, target);
    proofs[count++] = of(&secret, request, 8, source, 8, 9, target);
    from.tp = 2;
    proofs[count++] = of(&secret, request, 7, from, 8, 9, target);
    from = source;
    from.pp = 1;
    proofs[count++] = of(&secret, request, 7, from, 8, 9, target);
    from = source;
    from.engine.bytes[15] = 0;
    proofs[count++] = of(&secret, request, 7, from, 8, 9, target);
    proofs[count++] = of(&secret, request, 7, source, 9, 9, target);
    proofs[count++] = of(&secret, request, 7, source, 8, 8, target);
    to.engine.bytes[0] = 0;
    proofs[count++] = of(&secret, request, 7, source, 8, 9, to);
    to = target;
    to.generation = 6;
    proofs[count++] = of(&secret, request, 7, source, 8, 9, to);
    to = target;
    to.tp = 4;
    proofs[count++] = of(&secret, request, 7, source, 8, 9, to);
    to = target;
    to.pp = 3;
    proofs[count++] = of(&secret, request, 7, source, 8, 9, to);
    for (size_t i = 0; i < count; i++) {
        assert_true(kvr_proof_given(&proofs[i]));
        for (size_t k = 0; k < count; k++)
            assert_int_equal(kvr_proof_equal(&proofs[i], &proofs[k]), i == k);
    }
    /* The generation of the source is not known to a target that takes the one attached. */
    from = source;
    from.generation = 0;
    proofs[1] = of(&secret, request, 7, from, 8, 9, target);
    assert_true(kvr_proof_equal(&proofs[0], &proofs[1]));
    assert_false(kvr_proof_given(&(struct kvr_proof){{0}}));
}

static void a_secret_has_one_text(void **state)
{
    static const char *const wrong[] = {
        "",
        "0102",
        "000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "00000000000000000000000000000000000000000000000000000000000000010",
        "000000000000000000000000000000000000000000000000000000000000000A",
        "000000000000000000000000000000000000000000000000000000000000000g",
        " 00000000000000000000000000000000000000000000000000000000000001",
    };
    char text[KVR_SECRET_TEXT_BYTES];
    struct kvr_secret read;

    (void)state;
    kvr_secret_text(&secret, text);
    assert_string_equal(text, "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20");
    assert_true(kvr_secret_parse(text, &read));
    assert_memory_equal(&read, &secret, sizeof(read));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        read = secret;
        assert_false(kvr_secret_parse(wrong[i], &read));
        assert_false(kvr_secret_given(&read));
    }
    read = secret;
    assert_true(kvr_secret_given(&read));
    kvr_secret_wipe(&read, sizeof(read));
    assert_false(kvr_secret_given(&read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_is_what_others_compute, make_secret),
        cmocka_unit_test_setup(each_thing_that_it_is_about_changes_it, make_secret),
        cmocka_unit_test_setup(a_secret_has_one_text, make_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
