/* Goal: the packet filter gets what agents named, once each, and loses what only one of them named
 * when that one goes; no agent names more than its share. Method: agents by hand; changes are
 * counted by their kind. */
#include "tests/support/check.h"

#include "filter/filter_book.h"

static struct filter_book book;
static int there[FILTER_PEER + 1]; /* added and not removed */
static int changes;

static const struct kvr_filter_address here = {4, {10, 0, 0, 8}}, peer = {4, {10, 0, 0, 7}};

static void on_change(void *self, const struct filter_change *change)
{
    (void)self;
    there[change->element] += change->add ? 1 : -1;
    changes++;
}

static int clean(void **state)
{
    (void)state;
    memset(&book, 0, sizeof(book));
    memset(there, 0, sizeof(there));
    changes = 0;
    book.sink.change = on_change;
    book.first = 9000;
    book.last = 65535;
    return 0;
}

static uint32_t attach(uint32_t uid)
{
    uint32_t agent = 0;

    assert_int_equal(filter_book_attach(&book, uid, &agent), KVR_FILTER_REFUSAL_NONE);
    return agent;
}

static kvr_filter_refusal take(uint32_t agent, kvr_filter_kind kind,
                               const struct kvr_filter_address *address, uint16_t first,
                               uint16_t last)
{
    struct kvr_filter_message message = {
        .kind = kind, .address = *address, .first = first, .last = last};

    return filter_book_take(&book, agent, &message);
}

static void taken(uint32_t agent, kvr_filter_kind kind, const struct kvr_filter_address *address,
                  uint16_t first, uint16_t last)
{
    assert_int_equal(take(agent, kind, address, first, last), KVR_FILTER_REFUSAL_NONE);
}

static void what_is_named_twice_is_there_once(void **state)
{
    uint32_t agent = attach(990);
    int before;

    (void)state;
    taken(agent, KVR_FILTER_PORT, &here, 9500, 9500);
    taken(agent, KVR_FILTER_PEER, &peer, 0, 0);
    before = changes;
    taken(agent, KVR_FILTER_PORT, &here, 9500, 9500);
    taken(agent, KVR_FILTER_PEER, &peer, 0, 0);
    taken(agent, KVR_FILTER_PORT_GONE, &here, 9501, 9501);
    taken(agent, KVR_FILTER_PEER_GONE, &here, 0, 0);
    assert_int_equal(changes, before);
    taken(agent, KVR_FILTER_PORT_GONE, &here, 9500, 9500);
    taken(agent, KVR_FILTER_PEER_GONE, &peer, 0, 0);
    assert_int_equal(there[FILTER_PORT], 0);
    assert_int_equal(there[FILTER_PEER], 0);
}

static void what_two_agents_named_stays_with_one(void **state)
{
    uint32_t one = attach(990), other = attach(990), third = attach(991);

    (void)state;
    assert_int_equal(there[FILTER_USER], 2);
    taken(one, KVR_FILTER_GUARD, &here, 9500, 9509);
    taken(other, KVR_FILTER_GUARD, &here, 9505, 9514);
    taken(other, KVR_FILTER_PEER, &peer, 0, 0);
    taken(one, KVR_FILTER_PEER, &peer, 0, 0); /* each has its own */
    assert_int_equal(there[FILTER_GUARD], 15);
    assert_int_equal(there[FILTER_PEER], 2);
    filter_book_detach(&book, one);
    assert_int_equal(there[FILTER_GUARD], 10);
    assert_int_equal(there[FILTER_PEER], 1);
    assert_int_equal(there[FILTER_USER], 2);
    filter_book_detach(&book, third);
    assert_int_equal(there[FILTER_USER], 1);
    filter_book_detach(&book, other);
    for (unsigned i = FILTER_USER; i <= FILTER_PEER; i++)
        assert_int_equal(there[i], 0);
}

static void a_port_is_one_agents(void **state)
{
    uint32_t one = attach(990), other = attach(990);

    (void)state;
    taken(one, KVR_FILTER_PORT, &here, 9500, 9500);
    assert_int_equal(take(other, KVR_FILTER_PORT, &here, 9500, 9500), KVR_FILTER_REFUSAL_TAKEN);
    taken(other, KVR_FILTER_PORT, &peer, 9500, 9500); /* another address */
    filter_book_detach(&book, one);
    taken(other, KVR_FILTER_PORT, &here, 9500, 9500);
}

static void nobody_names_more_than_a_share(void **state)
{
    struct kvr_filter_address address = peer;
    uint32_t agent = attach(990), more;

    (void)state;
    for (uint16_t i = 0; i < FILTER_PORTS_MAX; i++)
        taken(agent, KVR_FILTER_PORT, &here, (uint16_t)(9000 + i), (uint16_t)(9000 + i));
    assert_int_equal(take(agent, KVR_FILTER_PORT, &here, 8000, 8000), KVR_FILTER_REFUSAL_LIMIT);
    for (uint32_t i = 0; i < FILTER_PEERS_MAX; i++) {
        address.bytes[2] = (uint8_t)(i >> 8);
        address.bytes[3] = (uint8_t)i;
        taken(agent, KVR_FILTER_PEER, &address, 0, 0);
    }
    address.bytes[1] = 9;
    assert_int_equal(take(agent, KVR_FILTER_PEER, &address, 0, 0), KVR_FILTER_REFUSAL_LIMIT);
    for (uint32_t i = 1; i < FILTER_AGENTS_MAX; i++)
        (void)attach(990);
    assert_int_equal(filter_book_attach(&book, 990, &more), KVR_FILTER_REFUSAL_FULL);
}

static void guards_keep_to_the_range(void **state)
{
    uint32_t agent = attach(990);

    (void)state;
    assert_int_equal(take(agent, KVR_FILTER_GUARD, &here, 8999, 9001), KVR_FILTER_REFUSAL_RANGE);
    assert_int_equal(take(agent, KVR_FILTER_GUARD, &here, 9000, 65535), KVR_FILTER_REFUSAL_LIMIT);
    taken(agent, KVR_FILTER_GUARD, &here, 65530, 65535);
    assert_int_equal(there[FILTER_GUARD], 6);
    book.first = book.last = 0;
    assert_int_equal(take(agent, KVR_FILTER_GUARD, &here, 9500, 9501), KVR_FILTER_REFUSAL_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_named_twice_is_there_once, clean),
        cmocka_unit_test_setup(what_two_agents_named_stays_with_one, clean),
        cmocka_unit_test_setup(a_port_is_one_agents, clean),
        cmocka_unit_test_setup(nobody_names_more_than_a_share, clean),
        cmocka_unit_test_setup(guards_keep_to_the_range, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
