/* Goal: what fabric.h promises holds for a real provider, named by the first argument. Method: two
 * processes with their own memory (see support/fabric_party.h); every case runs with either of them
 * as the source. A provider that is not on this host is skipped. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fabric_party.h"

static const char *provider;

static struct party_answer must_do(struct party *party, int side,
                                   const struct party_command *command)
{
    struct party_answer answer = party_do(party, side, command);

    if (answer.status != KVR_OK)
        fail_msg("verb %d on side %d: %s %s (%u accepted, %u written, %u failed)", command->verb,
                 side, kvr_status_name(answer.status), answer.detail, answer.accepted,
                 answer.written, answer.failed);
    return answer;
}

static struct party_answer simple(struct party *party, int side, party_verb verb)
{
    struct party_command command = {.verb = verb};

    return must_do(party, side, &command);
}

/* Both sides' memory: the source's filled with the pattern, the target's zeroed. */
static void prepare_for(struct party *party, int source, const struct party_command *post)
{
    struct party_command fill = *post;

    fill.verb = PARTY_FILL;
    must_do(party, source, &fill);
    simple(party, 1 - source, PARTY_CLEAR);
}

/* The same for writes of any place and number. */
static void prepare(struct party *party, int source, uint64_t seed)
{
    struct party_command all = {.seed = seed};

    prepare_for(party, source, &all);
}

/* `count` writes from source; all arrive, with right bytes the moment they are seen. */
static void write_and_check(struct party *party, int source, const struct party_command *post)
{
    struct party_side *target = &party_shared(party)->sides[1 - source];
    struct party_command verify = *post;
    struct party_answer answer;

    prepare_for(party, source, post);
    target->expected = *post;
    target->check_arrivals = true;
    answer = must_do(party, source, post);
    assert_int_equal(answer.accepted, post->count);
    assert_int_equal(answer.written, post->count);
    assert_true(party_wait(party, &target->arrived, post->count, 5000));
    target->check_arrivals = false;
    assert_int_equal(target->arrived, post->count);
    assert_int_equal(target->repeated, 0);
    assert_int_equal(target->wrong, 0);
    verify.verb = PARTY_VERIFY;
    assert_int_equal(must_do(party, 1 - source, &verify).value, 0);
}

static struct party_command post_of(uint32_t count, uint32_t bytes, uint32_t pieces, uint64_t seed)
{
    return (struct party_command){.verb = PARTY_POST,
                                  .rail = UINT32_MAX,
                                  .count = count,
                                  .bytes = bytes,
                                  .pieces = pieces,
                                  .seed = seed};
}

static const struct kvr_rail_facts *facts_of(struct party *party)
{
    struct kvr_fabric fabric;

    kvr_fabric_of(provider, &fabric);
    return fabric.ops->rail_facts(party_rail(party, 0));
}

static void write_arrives_with_its_bytes(void **state)
{
    static const uint32_t sizes[] = {1, 8, 100, 4096, 4097, 48 << 10, 64 << 10, 1 << 20};
    struct party *party = party_open(provider, 1);

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct party_command post = post_of(sizes[i] < 1 << 20 ? 16 : 4, sizes[i], 1, 100 + i);

            write_and_check(party, source, &post);
        }
    }
    party_close(party);
}

static void write_gathers_pieces(void **state)
{
    struct party *party = party_open(provider, 1);
    const struct kvr_rail_facts *facts = facts_of(party);
    uint32_t most = facts->write.pieces_local < facts->write.pieces_remote
                        ? facts->write.pieces_local
                        : facts->write.pieces_remote;

    (void)state;
    assert_true(most >= 1 && most <= KVR_IOV_MAX);
    for (int source = 0; source < 2; source++) {
        for (uint32_t pieces = 1; pieces <= most; pieces++) {
            struct party_command small = post_of(64, 64 * pieces, pieces, pieces);
            struct party_command large = post_of(16, (64 << 10) * pieces, pieces, pieces + 50);

            write_and_check(party, source, &small);
            write_and_check(party, source, &large);
        }
    }
    party_close(party);
}

/* What touches at the target is one run there: verbs and EFA take no more. */
static void write_gathers_into_one_place(void **state)
{
    struct party *party = party_open(provider, 1);
    uint32_t most = facts_of(party)->write.pieces_local;

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (uint32_t pieces = 2; pieces <= most; pieces++) {
            struct party_command post = post_of(64, 4096 * pieces, pieces, pieces + 90);

            post.one_target = true;
            write_and_check(party, source, &post);
        }
    }
    party_close(party);
}

/* Whatever the provider does with them: they arrive, and each is completed once. */
static void write_takes_its_bytes_along(void **state)
{
    static const uint32_t sizes[] = {1, 64, 128, 129, 192, 193, 4096, 4097};
    const struct kvr_rail_options options = {.inline_bytes = 65536};
    struct party *party = party_open_with(provider, 1, &options);

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct party_command post = post_of(500, sizes[i], 1, 200 + i);

            write_and_check(party, source, &post);
        }
    }
    if (facts_of(party)->write.pieces_local >= 2 && facts_of(party)->write.pieces_remote >= 2) {
        struct party_command post = post_of(500, 64, 2, 220);

        write_and_check(party, 0, &post);
    }
    party_close(party);
}

/* One of many asks for all: each of them is completed once. */
static void write_is_acknowledged(void **state)
{
    static const uint32_t sizes[] = {8, 4096, 48 << 10, 1 << 20};
    const struct kvr_rail_options options = {.acknowledge = true};
    struct party *party = party_open_with(provider, 1, &options);

    (void)state;
    for (int source = 0; source < 2; source++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct party_command post = post_of(sizes[i] < 1 << 20 ? 600 : 8, sizes[i], 1, 300 + i);

            write_and_check(party, source, &post);
        }
    }
    party_close(party);
}

static void write_carries_all_bits_of_the_immediate(void **state)
{
    struct party *party = party_open(provider, 1);

    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party_side *target = &party_shared(party)->sides[1 - source];

        simple(party, 1 - source, PARTY_CLEAR);
        for (uint32_t i = 0; i < 36; i++) {
            static const uint32_t others[4] = {0, UINT32_MAX, 0xdeadbeef, 0x0000ffff};
            struct party_command post = post_of(1, 8, 1, 1);

            post.first_immediate = i < 32 ? 1u << i : others[i - 32];
            must_do(party, source, &post);
            assert_true(party_wait(party, &target->arrived, i + 1, 5000));
            assert_int_equal(target->last_immediate, post.first_immediate);
        }
    }
    party_close(party);
}

static void write_takes_many_outstanding(void **state)
{
    struct party *party = party_open(provider, 1);
    uint32_t count = 4 * facts_of(party)->write.outstanding_max;
    struct party_command post = post_of(count, 512, 1, 7);

    (void)state;
    assert_true(count >= 16);
    for (int source = 0; source < 2; source++)
        write_and_check(party, source, &post);
    party_close(party);
}

static void write_sets_every_bit_once(void **state)
{
    struct party *party = party_open(provider, 1);
    struct party_command post = post_of(10000, 256, 1, 9);

    (void)state;
    post.first_immediate = 3u << 16;
    for (int source = 0; source < 2; source++) {
        const struct party_side *target = &party_shared(party)->sides[1 - source];

        write_and_check(party, source, &post);
        for (uint32_t i = 0; i < PARTY_BITS; i++)
            assert_int_equal(target->bits[i], i < post.count);
    }
    party_close(party);
}

static void write_obeys_the_largest_message(void **state)
{
    struct party *party = party_open(provider, 1);
    uint64_t most = facts_of(party)->write.bytes_max;
    struct party_command post = post_of(1, most < PARTY_BYTES ? (uint32_t)most : PARTY_BYTES, 1, 3);

    (void)state;
    assert_true(most >= 1 << 20);
    for (int source = 0; source < 2; source++)
        write_and_check(party, source, &post);
    party_close(party);
}

static void rails_lie_on_their_own_addresses(void **state)
{
    struct kvr_fabric fabric;
    struct party *party;
    struct party_command post = post_of(200, 4096, 1, 5);
    char name[KVR_NAME_BYTES];

    (void)state;
    party_rail_name(provider, 0, 1, name);
    if (name[0] == '\0')
        skip(); /* a provider with one rail on this host */
    party = party_open(provider, 2);
    kvr_fabric_of(provider, &fabric);
    for (uint32_t r = 0; r < 2; r++) {
        const struct kvr_rail_facts *facts = fabric.ops->rail_facts(party_rail(party, r));
        struct sockaddr_in address;
        struct in_addr wanted;

        party_rail_name(provider, 0, r, name);
        assert_string_equal(facts->source, name);
        assert_true(if_nametoindex(facts->interface) > 0);
        memcpy(&address, party_shared(party)->sides[0].addresses[r].address, sizeof(address));
        assert_int_equal(inet_pton(AF_INET, name, &wanted), 1);
        assert_int_equal(address.sin_addr.s_addr, wanted.s_addr);
    }
    for (int source = 0; source < 2; source++) {
        const struct party_side *target = &party_shared(party)->sides[1 - source];

        write_and_check(party, source, &post);
        assert_int_equal(target->arrived_on[0], 100);
        assert_int_equal(target->arrived_on[1], 100);
    }
    party_close(party);
}

/* Both sides take new endpoints, as after EPOCH_ENDED, and writes with the old keys work again. */
static void renew_and_write(struct party *party, int first)
{
    struct party_command post = post_of(500, 2048, 1, 77);

    simple(party, first, PARTY_RECYCLE);
    simple(party, 1 - first, PARTY_RECYCLE);
    simple(party, 0, PARTY_CONNECT);
    simple(party, 1, PARTY_CONNECT);
    write_and_check(party, first, &post);
    write_and_check(party, 1 - first, &post);
}

static void stream(struct party *party, int source, uint32_t bytes, bool on)
{
    struct party_command command = post_of(on, bytes, 1, 1);

    command.verb = PARTY_STREAM;
    must_do(party, source, &command);
}

static void recycle_at_the_target_stops_what_lands(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(provider, 1);
        const struct party_side *target = &party_shared(party)->sides[1 - source];
        const struct party_side *sender = &party_shared(party)->sides[source];
        uint64_t arrived, digest;

        prepare(party, source, 4);
        stream(party, source, 16 << 10, true);
        assert_true(party_wait(party, &target->arrived, 500, 5000));
        simple(party, 1 - source, PARTY_RECYCLE); /* reads the old queue empty and closes it */
        arrived = target->arrived;
        digest = simple(party, 1 - source, PARTY_DIGEST).value;
        (void)party_wait(party, &sender->failed, UINT64_MAX,
                         300); /* the source goes on meanwhile */
        assert_int_equal(target->arrived, arrived);
        assert_int_equal(simple(party, 1 - source, PARTY_DIGEST).value, digest);
        stream(party, source, 16 << 10, false);
        renew_and_write(party, source);
        party_close(party);
    }
}

static void recycle_at_the_source_frees_its_memory(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(provider, 1);
        const struct party_side *target = &party_shared(party)->sides[1 - source];
        uint64_t arrived;

        prepare(party, source, 4);
        stream(party, source, 16 << 10, true);
        assert_true(party_wait(party, &target->arrived, 500, 5000));
        stream(party, source, 16 << 10, false);
        simple(party, source, PARTY_RECYCLE);
        /* What was under way may still arrive; then no more. */
        (void)party_wait(party, &target->arrived, UINT64_MAX, 200);
        arrived = target->arrived;
        (void)party_wait(party, &target->arrived, UINT64_MAX, 200);
        assert_int_equal(target->arrived, arrived);
        renew_and_write(party, source);
        party_close(party);
    }
}

static void recycle_many_times(void **state)
{
    struct party *party = party_open(provider, 1);
    struct party_command post = post_of(50, 4 << 10, 1, 8);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        int side = (int)(i % 2);
        struct kvr_rail_address before = party_shared(party)->sides[side].addresses[0];

        simple(party, side, PARTY_RECYCLE);
        assert_memory_not_equal(
            before.address, party_shared(party)->sides[side].addresses[0].address, before.bytes);
        /* A half-open connection refuses the old endpoint: fresh ones on both sides. */
        simple(party, 1 - side, PARTY_RECYCLE);
        simple(party, 0, PARTY_CONNECT);
        simple(party, 1, PARTY_CONNECT);
        write_and_check(party, side, &post);
    }
    party_close(party);
}

/* The peer died in the middle of a stream from us, and in the middle of one to us. */
static void a_killed_peer_is_survived(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(provider, 1);
        const struct party_side *target = &party_shared(party)->sides[1 - source];
        struct party_command post = post_of(500, 8192, 1, 78);
        kvr_ns begin;

        prepare(party, source, 4);
        stream(party, source, 16 << 10, true);
        assert_true(party_wait(party, &target->arrived, 200, 5000));
        party_kill(party);
        /* Some providers fail the writes, some never say a word; nothing may hang. */
        (void)party_wait(party, &party_shared(party)->sides[0].failed, UINT64_MAX, 300);
        stream(party, 0, 64 << 10, false);
        begin = kvr_clock_now();
        simple(party, 0, PARTY_RECYCLE);
        assert_true(kvr_clock_now() - begin < 2 * party_patience() * KVR_S);
        party_revive(party);
        simple(party, 0, PARTY_CONNECT);
        simple(party, 1, PARTY_CONNECT);
        write_and_check(party, 0, &post);
        write_and_check(party, 1, &post);
        party_close(party);
    }
}

/* The endpoint that wrote to the peer before goes on: nothing of the dead one is taken for the new.
 */
static void a_restarted_peer_is_written_to(void **state)
{
    struct party *party = party_open(provider, 1);
    struct party_command post = post_of(100, 8192, 1, 79);

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        if (i % 2 == 0)
            write_and_check(party, 0, &post);
        if (i % 2 == 1) { /* it dies before it has answered the first word */
            party_freeze(party);
            stream(party, 0, 8192, true);
            (void)party_wait(party, &party_shared(party)->sides[0].failed, UINT64_MAX, 20);
            stream(party, 0, 8192, false);
        }
        party_kill(party);
        (void)party_wait(party, &party_shared(party)->sides[0].failed, UINT64_MAX, 50);
        party_revive(party);
        simple(party, 0, i < 3 ? PARTY_CONNECT : PARTY_RECONNECT);
        simple(party, 1, PARTY_CONNECT);
    }
    write_and_check(party, 0, &post);
    write_and_check(party, 1, &post);
    party_close(party);
}

/* Writers come, leave in the middle of their writes, and come again. The target goes on to serve
 * them, or says that it needs a new epoch. */
static void a_target_outlives_its_writers(void **state)
{
    struct party *party = party_open(provider, 1);
    const struct party_side *target = &party_shared(party)->sides[1];

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        uint64_t arrived = target->arrived;

        stream(party, 0, 8192, true);
        if (!party_wait(party, &target->arrived, arrived + 50, 3000)) {
            assert_true(target->queue_errors > 0);
            simple(party, 1, PARTY_RECYCLE);
            simple(party, 0, PARTY_CONNECT);
        }
        simple(party, 1, PARTY_DIGEST); /* does not poll meanwhile: its queue fills */
        stream(party, 0, 8192, false);
        simple(party, 0, PARTY_RECYCLE);
        simple(party, 0, PARTY_CONNECT);
    }
    renew_and_write(party, 0);
    party_close(party);
}

static void an_address_can_be_inserted_twice(void **state)
{
    struct party *party = party_open(provider, 1);
    struct party_command post = post_of(100, 8192, 1, 80);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        write_and_check(party, 0, &post);
        simple(party, 0, PARTY_RECONNECT);
    }
    write_and_check(party, 0, &post);
    party_close(party);
}

/* Keys are random: one that a peer guesses, or kept from another boot, opens nothing. */
static void a_wrong_key_opens_nothing(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(provider, 1);
        struct party_side *target = &party_shared(party)->sides[1 - source];
        struct party_command post = post_of(1, 4096, 1, 6);
        uint64_t digest;

        prepare(party, source, 6);
        digest = simple(party, 1 - source, PARTY_DIGEST).value;
        post.wrong_key = true;
        (void)party_do(party, source, &post);
        assert_int_equal(simple(party, 1 - source, PARTY_DIGEST).value, digest);
        assert_int_equal(target->arrived, 0);
        renew_and_write(party, source);
        party_close(party);
    }
}

/* Nor does a key whose memory was released, although the bytes are still mapped. */
static void a_released_key_opens_nothing(void **state)
{
    struct party *party = party_open(provider, 1);
    struct party_side *target = &party_shared(party)->sides[1];
    struct party_command post = post_of(1, 4096, 1, 6);
    uint64_t digest;

    (void)state;
    write_and_check(party, 0, &post); /* it was open */
    prepare(party, 0, 7);
    digest = simple(party, 1, PARTY_DIGEST).value;
    simple(party, 1, PARTY_RELEASE);
    (void)party_do(party, 0, &post);
    assert_int_equal(simple(party, 1, PARTY_DIGEST).value, digest);
    assert_int_equal(target->arrived, 0);
    party_close(party);
}

/* A source's region is mapped without the right to write, unless the rail says that it needs it. */
static void memory_may_be_for_reading_only(void **state)
{
    struct party *party = party_open(provider, 1);
    int fd = memfd_create("source", MFD_ALLOW_SEALING);
    struct kvr_memory_span span = {.bytes = 1 << 20, .local = true, .fd = fd};
    struct kvr_memory *memory = NULL;
    struct kvr_fabric fabric;
    struct kvr_error error = {0};

    (void)state;
    kvr_fabric_of(provider, &fabric);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    span.base = mmap(NULL, 1 << 20, PROT_READ | (facts_of(party)->pins_writable ? PROT_WRITE : 0),
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
    struct party *party = party_open(provider, 1);
    struct party_command idle = {.verb = PARTY_IDLE, .count = 1000};
    struct party_command post = post_of(100, 4096, 1, 8);

    (void)state;
    write_and_check(party, 0, &post); /* connected, both ways */
    write_and_check(party, 1, &post);
    assert_int_equal(facts_of(party)->has_wait_fd, strcmp(provider, "shm") != 0);
    assert_true(must_do(party, 0, &idle).value < 50000 * party_patience());
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
    kvr_fabric_of(provider, &fabric);
    strcpy(options.provider, provider);
    assert_int_equal(fabric.ops->rail_open(NULL, &options, &rail, &error), KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "no-such-card"));
    strcpy(options.provider, "pigeon");
    kvr_fabric_of("pigeon", &fabric);
    assert_int_equal(fabric.ops->rail_open(NULL, &options, &rail, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "pigeon"));
    assert_null(rail);
    assert_true(kvr_fabric_list(provider, facts, 8, &error) >= 1);
    assert_string_equal(facts[0].provider, provider);
    assert_true(facts[0].write.outstanding_max > 0);
    assert_int_equal(kvr_fabric_list("pigeon", facts, 8, &error), 0);
}

/* Addresses come over the wire. */
static void peers_are_checked(void **state)
{
    struct party *party = party_open(provider, 1);
    struct kvr_rail_address address = party_shared(party)->sides[1].addresses[0];
    struct kvr_fabric fabric;
    struct kvr_endpoint *endpoint;
    struct kvr_error error;
    uint64_t peer = 0;

    (void)state;
    kvr_fabric_of(provider, &fabric);
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

int main(int argc, char **argv)
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
        cmocka_unit_test(rails_lie_on_their_own_addresses),
        cmocka_unit_test(recycle_at_the_target_stops_what_lands),
        cmocka_unit_test(recycle_at_the_source_frees_its_memory),
        cmocka_unit_test(recycle_many_times),
        cmocka_unit_test(a_killed_peer_is_survived),
        cmocka_unit_test(a_restarted_peer_is_written_to),
        cmocka_unit_test(a_target_outlives_its_writers),
        cmocka_unit_test(an_address_can_be_inserted_twice),
        cmocka_unit_test(a_wrong_key_opens_nothing),
        cmocka_unit_test(a_released_key_opens_nothing),
        cmocka_unit_test(memory_may_be_for_reading_only),
        cmocka_unit_test(an_idle_endpoint_sleeps),
        cmocka_unit_test(rails_are_refused_in_sentences),
        cmocka_unit_test(peers_are_checked),
    };
    struct kvr_rail_facts facts;
    struct kvr_error error;

    party_main(argc, argv);
    provider = argc > 1 ? argv[1] : "tcp";
    cmocka_set_test_filter(argc > 2 ? argv[2] : NULL); /* one case, by hand */
    if (kvr_fabric_list(provider, &facts, 1, &error) == 0) {
        fprintf(stderr, "skipped: %s\n", error.detail);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
