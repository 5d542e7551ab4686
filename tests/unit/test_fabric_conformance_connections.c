/* The conformance list, its part about connections that are closed while nothing is on the way; see
 * test_fabric_conformance.c. The kernel counts them, at both ends. */
#include "tests/support/check.h"

#include <netinet/in.h>

#include "fabric/fabric_provider.h"
#include "tests/support/fabric_case.h"

static void skip_closing(struct party *party)
{
    party_close(party);
    skip();
}

static struct party *open_closing(void)
{
    struct party *party = party_open(case_provider, 1);

    if (!case_facts(party)->closes)
        skip_closing(party);
    return party;
}

static uint64_t connections(struct party *party, int side)
{
    uint64_t count = case_tell(party, side, PARTY_COUNT).value;

    if (count == UINT64_MAX) {
        print_message("nothing on this host counts connections\n");
        skip_closing(party);
    }
    return count;
}

/* Both ends sleep as idle agents do, until that side has so many. */
static bool await_connections(struct party *party, int side, uint64_t count)
{
    struct party_command idle = {.verb = PARTY_IDLE, .count = 20};

    for (unsigned i = 0; i < 100 * party_patience(); i++) {
        if (connections(party, side) == count)
            return true;
        (void)party_do(party, 0, &idle);
        (void)party_do(party, 1, &idle);
    }
    return false;
}

/* The writer closes; then neither end has the connection. */
static void write_and_close(struct party *party, int writer)
{
    uint64_t before[2] = {connections(party, 0), connections(party, 1)};
    struct party_command post = case_post(100, 8192, 1, 81);

    case_write(party, writer, &post);
    for (int side = 0; side < 2; side++)
        assert_int_equal(connections(party, side), before[side] + 1);
    for (int i = 0; i < 10; i++) {
        case_tell(party, writer, PARTY_HANG_UP);
        for (int side = 0; side < 2 && i < 5; side++)
            assert_true(await_connections(party, side, before[side]));
        case_write(party, writer, &post);
        for (int side = 0; side < 2; side++)
            assert_true(await_connections(party, side, before[side] + 1));
    }
    case_tell(party, writer, PARTY_HANG_UP);
    for (int side = 0; side < 2; side++)
        assert_true(await_connections(party, side, before[side]));
}

static void a_connection_is_closed_and_made_again(void **state)
{
    struct party *party = open_closing();
    const struct party_side *sides = party_shared(party)->sides;

    (void)state;
    write_and_close(party, 0);
    write_and_close(party, 1);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(sides[side].failed, 0);
        assert_int_equal(sides[side].queue_errors, 0);
    }
    party_close(party);
}

/* Nothing looks at the endpoint between the close and the next write. */
static void a_write_follows_a_close_at_once(void **state)
{
    struct party *party = open_closing();
    struct party_command post = case_post(100, 8192, 1, 83);

    (void)state;
    case_write(party, 0, &post);
    for (int i = 0; i < 20; i++) {
        case_tell(party, 0, PARTY_HANG_UP);
        assert_int_equal(case_do(party, 0, &post).written, post.count);
    }
    party_close(party);
}

static bool under_way(const struct party_side *side)
{
    return side->written + side->failed < side->accepted;
}

/* Nothing is on its way any more. */
static void settle(struct party *party)
{
    struct party_command idle = {.verb = PARTY_IDLE, .count = 100};
    const struct party_side *sides = party_shared(party)->sides;

    for (int side = 0; side < 2; side++) {
        case_stream(party, side, 8192, false);
        (void)party_do(party, side, &idle);
    }
    (void)party_do(party, 0, &idle);
    for (unsigned i = 0;
         i < 50 * party_patience() && (under_way(&sides[0]) || under_way(&sides[1])); i++) {
        (void)party_do(party, 0, &idle);
        (void)party_do(party, 1, &idle);
    }
}

/* A stream may have ended with a write that was refused: such a connection is not closed, and
 * agents write once more over it. That write is read before either end closes. */
static void write_once_more(struct party *party)
{
    struct party_command idle = {.verb = PARTY_IDLE, .count = 100};
    struct party_command post = case_post(1, 8192, 1, 82);

    for (int side = 0; side < 2; side++)
        assert_int_equal(case_do(party, side, &post).written, 1);
    for (int side = 0; side < 2; side++)
        (void)party_do(party, side, &idle);
}

/* Both ends write and close; both connect anew, at once. libfabric's tcp then fails writes; agents
 * write one way. */
static void both_ends_close_and_connect(void **state)
{
    struct party *party = open_closing();
    const struct party_side *sides = party_shared(party)->sides;
    uint64_t before[2] = {connections(party, 0), connections(party, 1)};
    struct party_command post = case_post(100, 8192, 1, 82);

    (void)state;
    if (kvr_provider_find(case_provider)->kernel_tcp)
        skip_closing(party);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t written[2] = {sides[0].written, sides[1].written};

        case_stream(party, (int)(i % 2), 8192, true);
        case_stream(party, 1 - (int)(i % 2), 8192, true);
        for (int side = 0; side < 2; side++)
            assert_true(party_wait(party, &sides[side].written, written[side] + 20, 5000));
        settle(party);
        write_once_more(party);
        for (int side = 0; side < 2; side++)
            case_tell(party, side, PARTY_HANG_UP);
        for (int side = 0; side < 2; side++)
            assert_true(await_connections(party, side, before[side]));
    }
    for (int side = 0; side < 2; side++) {
        assert_int_equal(sides[side].failed, 0);
        case_write(party, side, &post);
    }
    party_close(party);
}

/* A target that does not look for a while loses no arrival of a connection that has ended, and none
 * of the next one. A provider that asks for a rest promises less. */
static void what_came_before_is_read(void **state)
{
    struct party *party = open_closing();
    const struct party_side *sides = party_shared(party)->sides;
    struct party_command post = case_post(60, 2048, 1, 83);

    (void)state;
    if (case_facts(party)->rest_ns > 0)
        skip_closing(party);
    case_write(party, 0, &post);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t written = sides[0].written;

        case_prepare(party, 0, 83);
        party_freeze(party);
        assert_int_equal(case_do(party, 0, &post).written, post.count);
        case_tell(party, 0, PARTY_HANG_UP);
        case_stream(party, 0, 2048, true);
        assert_false(party_wait(party, &sides[0].written, UINT64_MAX, 100));
        party_thaw(party);
        assert_true(party_wait(party, &sides[1].arrived, 3 * post.count, 5000));
        settle(party);
        assert_true(party_wait(party, &sides[1].arrived, sides[0].written - written, 5000));
    }
    assert_int_equal(sides[0].failed, 0);
    assert_int_equal(sides[1].queue_errors, 0);
    party_close(party);
}

/* No route leads to it: its connection fails before it begins. */
static void a_peer_out_of_reach_goes(void **state)
{
    struct party *party = open_closing();
    struct kvr_rail_address address = party_shared(party)->sides[1].addresses[0];
    struct kvr_memory_span span = {.bytes = 4096, .local = true};
    uint8_t bytes[4096] = {0};
    struct kvr_fabric_piece piece = {.local = bytes, .bytes = sizeof(bytes)};
    struct kvr_fabric_write write = {.pieces = &piece, .piece_count = 1, .context = 1};
    struct kvr_completion completions[8];
    struct sockaddr_in place;
    struct kvr_endpoint *endpoint;
    struct kvr_fabric fabric;
    struct kvr_error error;

    (void)state;
    kvr_fabric_of(case_provider, &fabric);
    memcpy(&place, address.address, sizeof(place));
    place.sin_addr.s_addr = htonl(0xcb007101); /* 203.0.113.1, an example's */
    memcpy(address.address, &place, sizeof(place));
    span.base = bytes;
    assert_int_equal(
        fabric.ops->memory_register(party_rail(party, 0), &span, &piece.memory, &error), KVR_OK);
    assert_int_equal(fabric.ops->endpoint_open(party_rail(party, 0), &endpoint, &error), KVR_OK);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(
            fabric.ops->peer_insert(endpoint, address.address, address.bytes, &write.peer, &error),
            KVR_OK);
        for (unsigned j = 0; j < 20 && fabric.ops->write(endpoint, &write) == KVR_AGAIN; j++)
            (void)fabric.ops->poll(endpoint, completions, 8);
        if (i % 2 == 0)
            (void)fabric.ops->peer_close(endpoint, &write.peer);
        fabric.ops->peer_remove(endpoint, write.peer);
    }
    fabric.ops->endpoint_stop(endpoint);
    fabric.ops->endpoint_close(endpoint);
    fabric.ops->memory_release(piece.memory);
    party_close(party);
}

int conformance_connections(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_is_closed_and_made_again),
        cmocka_unit_test(a_write_follows_a_close_at_once),
        cmocka_unit_test(both_ends_close_and_connect),
        cmocka_unit_test(what_came_before_is_read),
        cmocka_unit_test(a_peer_out_of_reach_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
