/* Goal: a write arrives once, with its bytes and its immediate, whatever its size, its pieces and
 * the writes around it. Part of the conformance list, see test_fabric_conformance.c. */
#include "tests/support/check.h"

#include "tests/support/fabric_case.h"

static void write_arrives_with_its_bytes(void **state)
{
    static const uint32_t sizes[] = {1, 8, 100, 4096, 4097, 48 << 10, 64 << 10, 1 << 20};
    struct party *party = party_open(case_provider, 1);

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct party_command post =
                case_post(sizes[i] < 1 << 20 ? 16 : 4, sizes[i], 1, 100 + i);

            case_write(party, source, &post);
        }
    }
    party_close(party);
}

static void write_gathers_pieces(void **state)
{
    struct party *party = party_open(case_provider, 1);
    const struct kvr_rail_facts *facts = case_facts(party);
    uint32_t most = facts->write.pieces_local < facts->write.pieces_remote
                        ? facts->write.pieces_local
                        : facts->write.pieces_remote;

    (void)state;
    assert_true(most >= 1 && most <= KVR_IOV_MAX);
    for (int source = 0; source < 2; source++) {
        for (uint32_t pieces = 1; pieces <= most; pieces++) {
            struct party_command small = case_post(64, 64 * pieces, pieces, pieces);
            struct party_command large = case_post(16, (64 << 10) * pieces, pieces, pieces + 50);

            case_write(party, source, &small);
            case_write(party, source, &large);
        }
    }
    party_close(party);
}

/* Pieces that touch at the target are one run there: verbs and EFA take no more. */
static void write_gathers_into_one_place(void **state)
{
    struct party *party = party_open(case_provider, 1);
    uint32_t most = case_facts(party)->write.pieces_local;

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (uint32_t pieces = 2; pieces <= most; pieces++) {
            struct party_command post = case_post(64, 4096 * pieces, pieces, pieces + 90);

            post.one_target = true;
            case_write(party, source, &post);
        }
    }
    party_close(party);
}

/* However the provider sends bytes from the command itself, they arrive, and each write completes
 * once. */
static void write_takes_its_bytes_along(void **state)
{
    static const uint32_t sizes[] = {1, 64, 128, 129, 192, 193, 4096, 4097};
    const struct kvr_rail_options options = {.inline_bytes = 65536};
    struct party *party = party_open_with(case_provider, 1, &options);

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct party_command post = case_post(500, sizes[i], 1, 200 + i);

            case_write(party, source, &post);
        }
    }
    if (case_facts(party)->write.pieces_local >= 2 && case_facts(party)->write.pieces_remote >= 2) {
        struct party_command post = case_post(500, 64, 2, 220);

        case_write(party, 0, &post);
    }
    party_close(party);
}

/* One write of many asks for an acknowledgement of all; each completes once. */
static void write_is_acknowledged(void **state)
{
    static const uint32_t sizes[] = {8, 4096, 48 << 10, 1 << 20};
    const struct kvr_rail_options options = {.acknowledge = true};
    struct party *party = party_open_with(case_provider, 1, &options);

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct party_command post =
                case_post(sizes[i] < 1 << 20 ? 600 : 8, sizes[i], 1, 300 + i);

            case_write(party, source, &post);
        }
    }
    party_close(party);
}

static void write_carries_all_bits_of_the_immediate(void **state)
{
    struct party *party = party_open(case_provider, 1);
    uint32_t bits = case_facts(party)->immediate_bits;

    (void)state;
    assert_true(bits == 32 || bits == 64);
    for (int source = 0; source < 2; source++) {
        struct party_side *target = &party_shared(party)->sides[1 - source];

        case_tell(party, 1 - source, PARTY_CLEAR);
        for (uint32_t i = 0; i < 68; i++) {
            static const uint64_t others[4] = {0, UINT64_MAX, 0xdeadbeeffeedface, 0x0000ffff};
            struct party_command post = case_post(1, 8, 1, 1);

            post.first_immediate = i < 64 ? UINT64_C(1) << i : others[i - 64];
            case_do(party, source, &post);
            assert_true(party_wait(party, &target->arrived, i + 1, 5000));
            assert_true(target->last_immediate ==
                        (bits == 64 ? post.first_immediate : (uint32_t)post.first_immediate));
        }
    }
    party_close(party);
}

static void write_takes_many_outstanding(void **state)
{
    struct party *party = party_open(case_provider, 1);
    uint32_t count = 4 * case_facts(party)->write.outstanding_max;
    struct party_command post = case_post(count, 512, 1, 7);

    (void)state;
    assert_true(count >= 16);
    for (int source = 0; source < 2; source++)
        case_write(party, source, &post);
    party_close(party);
}

static void write_sets_every_bit_once(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct party_command post = case_post(10000, 256, 1, 9);

    (void)state;
    post.first_immediate = 3u << 16;
    for (int source = 0; source < 2; source++) {
        const struct party_side *target = &party_shared(party)->sides[1 - source];

        case_write(party, source, &post);
        for (uint32_t i = 0; i < PARTY_BITS; i++)
            assert_int_equal(target->bits[i], i < post.count);
    }
    party_close(party);
}

static void write_obeys_the_largest_message(void **state)
{
    struct party *party = party_open(case_provider, 1);
    uint64_t most = case_facts(party)->write.bytes_max;
    struct party_command post =
        case_post(1, most < PARTY_BYTES ? (uint32_t)most : PARTY_BYTES, 1, 3);

    (void)state;
    assert_true(most >= 1 << 20);
    for (int source = 0; source < 2; source++)
        case_write(party, source, &post);
    party_close(party);
}

int conformance_writes(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_arrives_with_its_bytes),
        cmocka_unit_test(write_gathers_pieces),
        cmocka_unit_test(write_gathers_into_one_place),
        cmocka_unit_test(write_takes_its_bytes_along),
        cmocka_unit_test(write_is_acknowledged),
        cmocka_unit_test(write_carries_all_bits_of_the_immediate),
        cmocka_unit_test(write_takes_many_outstanding),
        cmocka_unit_test(write_sets_every_bit_once),
        cmocka_unit_test(write_obeys_the_largest_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
