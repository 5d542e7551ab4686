/* Goal: a real provider, named by the first argument, keeps the promises of fabric.h. Method: two
 * processes with their own memory (see support/fabric_party.h); every case runs with either of them
 * as the source. A provider that this host lacks is skipped. This file has the cases of rails, keys
 * and memory; the files beside it have those of writes and of epochs. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fabric_case.h"

static void rails_lie_on_their_own_addresses(void **state)
{
    struct kvr_fabric fabric;
    struct party *party;
    struct party_command post = case_post(200, 4096, 1, 5);
    char name[KVR_NAME_BYTES];

    (void)state;
    party_rail_name(case_provider, 0, 1, name);
    if (name[0] == '\0')
        skip(); /* a provider with one rail on this host */
    party = party_open(case_provider, 2);
    kvr_fabric_of(case_provider, &fabric);
    for (uint32_t r = 0; r < 2; r++) {
        const struct kvr_rail_facts *facts = fabric.ops->rail_facts(party_rail(party, r));
        struct sockaddr_in address;
        struct in_addr wanted;

        party_rail_name(case_provider, 0, r, name);
        assert_string_equal(facts->source, name);
        assert_true(if_nametoindex(facts->interface) > 0);
        memcpy(&address, party_shared(party)->sides[0].addresses[r].address, sizeof(address));
        assert_int_equal(inet_pton(AF_INET, name, &wanted), 1);
        assert_int_equal(address.sin_addr.s_addr, wanted.s_addr);
    }
    for (int source = 0; source < 2; source++) {
        const struct party_side *target = &party_shared(party)->sides[1 - source];

        case_write(party, source, &post);
        assert_int_equal(target->arrived_on[0], 100);
        assert_int_equal(target->arrived_on[1], 100);
    }
    party_close(party);
}

/* Keys are random: a guessed key, or one kept from another boot, opens nothing. */
static void a_wrong_key_opens_nothing(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(case_provider, 1);
        struct party_side *target = &party_shared(party)->sides[1 - source];
        struct party_command post = case_post(1, 4096, 1, 6);
        uint64_t digest;

        case_prepare(party, source, 6);
        digest = case_tell(party, 1 - source, PARTY_DIGEST).value;
        post.wrong_key = true;
        (void)party_do(party, source, &post);
        assert_int_equal(case_tell(party, 1 - source, PARTY_DIGEST).value, digest);
        assert_int_equal(target->arrived, 0);
        case_renew(party, source);
        party_close(party);
    }
}

/* The key of released memory opens nothing either, although the bytes are still mapped. */
static void a_released_key_opens_nothing(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct party_side *target = &party_shared(party)->sides[1];
    struct party_command post = case_post(1, 4096, 1, 6);
    uint64_t digest;

    (void)state;
    case_write(party, 0, &post); /* it was open */
    case_prepare(party, 0, 7);
    digest = case_tell(party, 1, PARTY_DIGEST).value;
    case_tell(party, 1, PARTY_RELEASE);
    (void)party_do(party, 0, &post);
    assert_int_equal(case_tell(party, 1, PARTY_DIGEST).value, digest);
    assert_int_equal(target->arrived, 0);
    party_close(party);
}

/* A source's region is mapped without the right to write, unless the rail needs that right. */
static void memory_may_be_for_reading_only(void **state)
{
    struct party *party = party_open(case_provider, 1);
    int fd = memfd_create("source", MFD_ALLOW_SEALING);
    struct kvr_memory_span span = {.bytes = 1 << 20, .local = true, .fd = fd};
    struct kvr_memory *memory = NULL;
    struct kvr_fabric fabric;
    struct kvr_error error = {0};

    (void)state;
    kvr_fabric_of(case_provider, &fabric);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    span.base = mmap(NULL, 1 << 20, PROT_READ | (case_facts(party)->pins_writable ? PROT_WRITE : 0),
                     MAP_SHARED, fd, 0);
    assert_ptr_not_equal(span.base, MAP_FAILED);
    if (fabric.ops->memory_register(party_rail(party, 0), &span, &memory, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    fabric.ops->memory_release(memory);
    munmap(span.base, 1 << 20);
    close(fd);
    party_close(party);
}

static void an_idle_endpoint_sleeps(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct party_command idle = {.verb = PARTY_IDLE, .count = 1000};
    struct party_command post = case_post(100, 4096, 1, 8);

    (void)state;
    case_write(party, 0, &post); /* connected, both ways */
    case_write(party, 1, &post);
    assert_true(case_facts(party)->has_wait_fd);
    assert_true(case_do(party, 0, &idle).value < 50000 * party_patience());
    party_close(party);
}

static void rails_are_refused_in_sentences(void **state)
{
    struct kvr_fabric fabric;
    struct kvr_rail_options options = {.name = "no-such-card"};
    struct kvr_rail *rail = NULL;
    struct kvr_error error;
    struct kvr_rail_facts facts[8];

    (void)state;
    kvr_fabric_of(case_provider, &fabric);
    strcpy(options.provider, case_provider);
    assert_int_equal(fabric.ops->rail_open(NULL, &options, &rail, &error), KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "no-such-card"));
    strcpy(options.provider, "pigeon");
    kvr_fabric_of("pigeon", &fabric);
    assert_int_equal(fabric.ops->rail_open(NULL, &options, &rail, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "pigeon"));
    assert_null(rail);
    assert_true(kvr_fabric_list(case_provider, facts, 8, &error) >= 1);
    assert_string_equal(facts[0].provider, case_provider);
    assert_true(facts[0].write.outstanding_max > 0);
    assert_int_equal(kvr_fabric_list("pigeon", facts, 8, &error), 0);
}

/* Addresses come over the wire. */
static void peers_are_checked(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct kvr_rail_address address = party_shared(party)->sides[1].addresses[0];
    struct kvr_fabric fabric;
    struct kvr_endpoint *endpoint;
    struct kvr_error error;
    uint64_t peer = 0;

    (void)state;
    kvr_fabric_of(case_provider, &fabric);
    assert_int_equal(fabric.ops->endpoint_open(party_rail(party, 0), &endpoint, &error), KVR_OK);
    for (uint32_t bytes = 0; bytes < address.bytes; bytes++)
        assert_int_not_equal(
            fabric.ops->peer_insert(endpoint, address.address, bytes, &peer, &error), KVR_OK);
    memset(address.address, 0xff, sizeof(address.address));
    for (uint32_t bytes = 0; bytes <= KVR_ADDRESS_BYTES; bytes++)
        assert_int_not_equal(
            fabric.ops->peer_insert(endpoint, address.address, bytes, &peer, &error), KVR_OK);
    fabric.ops->endpoint_stop(endpoint);
    fabric.ops->endpoint_close(endpoint);
    party_close(party);
}

static int conformance_rails(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_lie_on_their_own_addresses),
        cmocka_unit_test(a_wrong_key_opens_nothing),
        cmocka_unit_test(a_released_key_opens_nothing),
        cmocka_unit_test(memory_may_be_for_reading_only),
        cmocka_unit_test(an_idle_endpoint_sleeps),
        cmocka_unit_test(rails_are_refused_in_sentences),
        cmocka_unit_test(peers_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    struct kvr_rail_facts facts;
    struct kvr_error error;
    int failed;

    party_main(argc, argv);
    case_provider = argc > 1 ? argv[1] : "tcp";
    cmocka_set_test_filter(argc > 2 ? argv[2] : NULL); /* one case, run by hand */
    if (kvr_fabric_list(case_provider, &facts, 1, &error) == 0) {
        fprintf(stderr, "skipped: %s\n", error.detail);
        return 77;
    }
    failed = conformance_writes();
    failed += conformance_epochs();
    failed += conformance_connections();
    failed += conformance_rails();
    return failed;
}
