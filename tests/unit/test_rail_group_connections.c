/* Goal: a rail keeps as many connections as it may, closes none that is busy, and makes a closed
 * one anew when it is needed. Method: a rail group of 32 rails and 256 peers on a fabric that
 * counts its connections: a peer's first write connects, and is refused until the next poll. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "rail_group/rail_group.h"

#define RAILS     32u
#define PEERS     KVR_PEERS_MAX
#define BOUND     16u
#define ADDRESSES (PEERS * KVR_RAILS_MAX)
#define QUEUE     4096u
#define REST_NS   (40 * KVR_MS)
#define WAITS     2u /* steps: for a connection, or for one more where paces moved meanwhile */

struct kvr_rail {
    struct kvr_rail_facts facts;
};

struct kvr_endpoint {
    struct link {
        bool open, connecting;
        bool refused; /* the last write to it: it cannot be closed */
        bool gone;    /* closing it has given the peer another number, or has removed it */
        uint32_t writes;
        kvr_ns settled_at;  /* the last of them */
    } links[2 * ADDRESSES]; /* each peer has two numbers, by turns */
    bool loses_peers;       /* that are closed */
    bool holds_on;          /* closes none just now */
    uint32_t open, most, closed, queued, first;
    uint64_t contexts[QUEUE], peers[QUEUE];
    uint64_t connecting[QUEUE]; /* peers, until the next poll */
    uint32_t connecting_count;
    bool holds; /* writes stay under way */
};

static struct kvr_rail rails[RAILS];
static struct kvr_endpoint *endpoints[RAILS];
static uint32_t endpoint_count;
static kvr_ns clock_now = KVR_S;
static struct kvr_remote_key scratch_key = {.base = 1, .key = 1};
static uint32_t unread_peers; /* those below it have not read all that came */

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

/* Of the scratch page alone. */
static kvr_status memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    (void)rail, (void)span, (void)error;
    *ret_memory = (struct kvr_memory *)&scratch_key;
    return KVR_OK;
}

static void memory_release(struct kvr_memory *memory)
{
    (void)memory;
}

static struct kvr_remote_key memory_key(const struct kvr_memory *memory)
{
    (void)memory;
    return scratch_key;
}

static kvr_status endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    (void)rail, (void)error;
    *ret_endpoint = calloc(1, sizeof(**ret_endpoint));
    endpoints[endpoint_count++] = *ret_endpoint;
    return *ret_endpoint != NULL ? KVR_OK : KVR_NO_MEMORY;
}

static void endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                             uint32_t *ret_bytes)
{
    (void)endpoint;
    ret_address[0] = 0;
    *ret_bytes = 1;
}

static void endpoint_stop(struct kvr_endpoint *endpoint)
{
    endpoint->queued = 0;
}

static void endpoint_close(struct kvr_endpoint *endpoint)
{
    free(endpoint);
}

/* An address is its number. */
static kvr_status peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error)
{
    uint32_t number;

    (void)endpoint, (void)error;
    assert_int_equal(bytes, sizeof(number));
    memcpy(&number, address, sizeof(number));
    *ret_peer = number;
    return KVR_OK;
}

static kvr_status peer_close(struct kvr_endpoint *endpoint, uint64_t *peer)
{
    assert_true(endpoint->links[*peer].open);
    assert_int_equal(endpoint->links[*peer].writes, 0);
    assert_true(*peer % ADDRESSES / KVR_RAILS_MAX >= unread_peers);
    assert_true(clock_now >= endpoint->links[*peer].settled_at + rails[0].facts.rest_ns);
    if (endpoint->holds_on || endpoint->links[*peer].refused)
        return KVR_AGAIN;
    endpoint->links[*peer] = (struct link){.gone = true};
    endpoint->open--;
    endpoint->closed++;
    if (endpoint->loses_peers)
        return KVR_NO_MEMORY;
    *peer = *peer < ADDRESSES ? *peer + ADDRESSES : *peer - ADDRESSES;
    endpoint->links[*peer].gone = false;
    return KVR_OK;
}

static void peer_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    assert_false(endpoint->links[peer].open);
    assert_false(endpoint->links[peer].gone);
}

static kvr_status post(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    struct link *link = &endpoint->links[write->peer];

    assert_false(link->gone);
    if (!link->open) {
        *link = (struct link){.open = true, .connecting = true};
        endpoint->connecting[endpoint->connecting_count++] = write->peer;
        endpoint->open++;
        endpoint->most = endpoint->open > endpoint->most ? endpoint->open : endpoint->most;
    }
    if (link->connecting)
        return KVR_AGAIN;
    link->refused = false;
    link->writes++;
    endpoint->peers[(endpoint->first + endpoint->queued) % QUEUE] = write->peer;
    endpoint->contexts[(endpoint->first + endpoint->queued++) % QUEUE] = write->context;
    return KVR_OK;
}

static unsigned poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                     unsigned capacity)
{
    unsigned count = 0;

    while (endpoint->connecting_count > 0)
        endpoint->links[endpoint->connecting[--endpoint->connecting_count]].connecting = false;
    while (!endpoint->holds && endpoint->queued > 0 && count < capacity) {
        endpoint->links[endpoint->peers[endpoint->first]].writes--;
        endpoint->links[endpoint->peers[endpoint->first]].settled_at = clock_now;
        ret_completions[count++] =
            (struct kvr_completion){.kind = KVR_COMPLETION_WRITTEN,
                                    .has_context = true,
                                    .context = endpoint->contexts[endpoint->first]};
        endpoint->first = (endpoint->first + 1) % QUEUE;
        endpoint->queued--;
    }
    return count;
}

static int endpoint_wait_fd(const struct kvr_endpoint *endpoint)
{
    (void)endpoint;
    return -1;
}

static bool endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    return endpoint->queued == 0;
}

static const struct kvr_fabric_ops ops = {
    .rail_facts = rail_facts,
    .memory_register = memory_register,
    .memory_release = memory_release,
    .memory_key = memory_key,
    .endpoint_open = endpoint_open,
    .endpoint_address = endpoint_address,
    .endpoint_stop = endpoint_stop,
    .endpoint_close = endpoint_close,
    .peer_insert = peer_insert,
    .peer_remove = peer_remove,
    .peer_close = peer_close,
    .write = post,
    .poll = poll,
    .endpoint_wait_fd = endpoint_wait_fd,
    .endpoint_may_sleep = endpoint_may_sleep,
};
static const struct kvr_fabric fabric = {.ops = &ops};

static void user_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    (void)self, (void)now, (void)message;
}

static void user_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)self, (void)now, (void)token, (void)count;
    assert_int_equal(status, KVR_OK);
}

static void user_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    (void)self, (void)now, (void)rail, (void)epoch;
}

static bool user_unread(void *self, uint32_t peer, const struct kvr_pair *pair)
{
    (void)self, (void)pair;
    return peer < unread_peers;
}

static bool user_work(void *self, kvr_ns now)
{
    (void)self, (void)now;
    return false;
}

static bool user_expecting(void *self)
{
    (void)self;
    return false;
}

static struct kvr_group *open_warming(bool closes, kvr_ns rest_ns, bool warm_up)
{
    static struct kvr_rail *list[RAILS];
    struct kvr_group_options options = {.fabric = &fabric,
                                        .rails = list,
                                        .rail_count = RAILS,
                                        .connections = BOUND,
                                        .warm_up = warm_up,
                                        .user = {.command = user_command,
                                                 .written = user_written,
                                                 .epoch_closed = user_epoch_closed,
                                                 .work = user_work,
                                                 .unread = user_unread,
                                                 .expecting = user_expecting}};
    struct kvr_error error = {0};
    struct kvr_group *group = NULL;

    endpoint_count = 0;
    for (uint32_t i = 0; i < RAILS; i++) {
        rails[i].facts = (struct kvr_rail_facts){.provider = "fake",
                                                 .write = {.pieces_local = 1,
                                                           .pieces_remote = 1,
                                                           .bytes_max = UINT64_MAX,
                                                           .outstanding_max = 1024},
                                                 .closes = closes,
                                                 .rest_ns = rest_ns};
        list[i] = &rails[i];
    }
    assert_int_equal(kvr_group_open(&options, &group, &error), KVR_OK);
    return group;
}

static struct kvr_group *open_group(bool closes, kvr_ns rest_ns)
{
    return open_warming(closes, rest_ns, false);
}

static void step(struct kvr_group *group)
{
    struct kvr_group_message message;

    clock_now += KVR_MS;
    (void)kvr_group_step(group, clock_now);
    while (kvr_group_event(group, &message))
        ;
}

static void peers_add_some(struct kvr_group *group, uint32_t count)
{
    static struct kvr_peer_rails peers[PEERS];

    for (uint32_t peer = 0; peer < count; peer++) {
        struct kvr_group_message message = {.head.kind = KVR_GROUP_PEER_ADD,
                                            .peer_rails = {.peer = peer, .rails = &peers[peer]}};

        peers[peer].rail_count = RAILS;
        for (uint32_t rail = 0; rail < RAILS; rail++) {
            uint32_t number = peer * KVR_RAILS_MAX + rail;

            peers[peer].rails[rail] = (struct kvr_rail_address){.rail = rail,
                                                                .epoch = 1,
                                                                .bytes = sizeof(number),
                                                                .scratch = scratch_key,
                                                                .scratch_bytes = 64};
            memcpy(peers[peer].rails[rail].address, &number, sizeof(number));
        }
        assert_true(kvr_group_command(group, &message));
        step(group);
    }
}

static void peers_add(struct kvr_group *group)
{
    peers_add_some(group, PEERS);
}

/* How many steps it waits for a connection. */
static unsigned write_within(struct kvr_group *group, uint32_t peer, unsigned most)
{
    static uint8_t bytes[64];
    static struct kvr_region local = {.base = bytes, .rail_count = RAILS};
    static struct kvr_remote_region remote = {.rail_count = RAILS};
    struct kvr_group_piece piece = {.local = &local, .remote = &remote, .bytes = sizeof(bytes)};
    struct kvr_group_post write = {.peer = peer, .pieces = &piece, .piece_count = 1};
    struct kvr_pair pair;
    unsigned waited = 0;

    local.layout.bytes = remote.layout.bytes = sizeof(bytes);
    while (kvr_group_post(group, &write, &pair) == KVR_AGAIN) {
        step(group);
        assert_true(waited++ < most);
    }
    return waited;
}

static unsigned write_to(struct kvr_group *group, uint32_t peer)
{
    return write_within(group, peer, 10);
}

static uint32_t sum(size_t offset)
{
    uint32_t all = 0;

    for (uint32_t i = 0; i < RAILS; i++)
        all += *(const uint32_t *)((const uint8_t *)endpoints[i] + offset);
    return all;
}

static void connections_stay_under_the_bound(void **state)
{
    struct kvr_group *group = open_group(true, 0);
    struct kvr_rng rng;
    uint32_t closed = 0;

    (void)state;
    kvr_rng_init(&rng, 7);
    peers_add(group);
    for (unsigned i = 0; i < 20000; i++) {
        assert_in_range(write_to(group, (uint32_t)kvr_rng_below(&rng, PEERS)), 0, WAITS);
        step(group);
    }
    for (uint32_t i = 0; i < RAILS; i++) {
        struct kvr_rail_counters counters = kvr_group_counters(group, i);

        assert_in_range(endpoints[i]->most, 1, BOUND);
        assert_int_equal(counters.connections, endpoints[i]->open);
        assert_int_equal(counters.closed, endpoints[i]->closed);
        closed += endpoints[i]->closed;
    }
    assert_true(closed > 1000);
    kvr_group_close(group);
}

static void busy_connections_are_kept(void **state)
{
    struct kvr_group *group = open_group(true, 0);

    (void)state;
    peers_add(group);
    for (uint32_t i = 0; i < RAILS; i++)
        endpoints[i]->holds = true;
    for (unsigned i = 0; i < RAILS * BOUND * 2; i++)
        (void)write_to(group, i % PEERS);
    assert_true(sum(offsetof(struct kvr_endpoint, open)) > RAILS * BOUND); /* see peer_close, too */
    for (uint32_t i = 0; i < RAILS; i++)
        endpoints[i]->holds = false;
    for (unsigned i = 0; i < 2100; i++) /* they rest, and nothing connects */
        step(group);
    for (uint32_t i = 0; i < RAILS; i++)
        assert_int_equal(endpoints[i]->open, BOUND);
    kvr_group_close(group);
}

/* A provider closes by removing the address, and finds no memory to insert it anew. */
static void a_peer_that_is_lost_is_written_to_over_other_rails(void **state)
{
    struct kvr_group *group = open_group(true, 0);

    (void)state;
    peers_add(group);
    endpoints[0]->loses_peers = true;
    for (unsigned i = 0; i < PEERS * 64; i++) {
        assert_in_range(write_to(group, i % PEERS), 0, WAITS);
        step(group);
    }
    assert_true(endpoints[0]->closed > 10);
    assert_int_equal(kvr_group_counters(group, 0).connections, endpoints[0]->open);
    kvr_group_close(group);
}

/* All peers in turn, as fast as their connections are closed. */
static void a_connection_rests_before_it_is_closed(void **state)
{
    struct kvr_group *group = open_group(true, REST_NS);
    unsigned most = 0;

    (void)state;
    peers_add(group);
    for (unsigned i = 0; i < 20 * RAILS * BOUND; i++) { /* see peer_close, too */
        unsigned waited = write_within(group, i % PEERS, REST_NS / KVR_MS + 2);

        most = waited > most ? waited : most;
        if (i % 64 == 0)
            step(group);
    }
    assert_in_range(most, 2, REST_NS / KVR_MS + 2);
    for (uint32_t i = 0; i < RAILS; i++) {
        assert_in_range(endpoints[i]->most, 1, BOUND);
        assert_int_equal(kvr_group_counters(group, i).connections, endpoints[i]->open);
    }
    kvr_group_close(group);
}

/* More peers than connections have unread arrivals: then the bound is exceeded, after a rest. */
static void what_the_target_has_not_read_is_kept(void **state)
{
    struct kvr_group *group = open_group(true, REST_NS);

    (void)state;
    unread_peers = PEERS / 2;
    peers_add(group);
    for (unsigned i = 0; i < 8 * RAILS * BOUND; i++) /* see peer_close, too */
        (void)write_within(group, i % PEERS, REST_NS / KVR_MS + 2);
    assert_true(sum(offsetof(struct kvr_endpoint, closed)) > 0);
    unread_peers = PEERS;
    for (unsigned i = 0; i < 8 * RAILS * BOUND; i++)
        (void)write_within(group, i % PEERS, REST_NS / KVR_MS + 2);
    unread_peers = 0;
    for (uint32_t i = 0; i < RAILS; i++)
        assert_int_equal(kvr_group_counters(group, i).connections, endpoints[i]->open);
    kvr_group_close(group);
}

static void what_cannot_be_closed_just_now_is_kept(void **state)
{
    struct kvr_group *group = open_group(true, 0);

    (void)state;
    peers_add(group);
    endpoints[0]->holds_on = true;
    for (unsigned i = 0; i < PEERS * 64; i++) {
        (void)write_to(group, i % PEERS);
        step(group);
    }
    assert_int_equal(endpoints[0]->closed, 0);
    assert_true(endpoints[0]->open > BOUND);
    assert_int_equal(kvr_group_counters(group, 0).connections, endpoints[0]->open);
    kvr_group_close(group);
}

/* The user gave up a write that was refused, and writes no more: a warm-up takes its place. */
static void a_connection_that_refused_a_write_is_closed_later(void **state)
{
    struct kvr_group *group = open_warming(true, 0, true);

    (void)state;
    peers_add_some(group, 2 * BOUND);
    for (uint32_t i = 0; i < RAILS; i++)
        endpoints[i]->holds = true;
    for (unsigned i = 0; i < RAILS * BOUND * 8; i++)
        (void)write_to(group, i % (2 * BOUND));
    assert_true(sum(offsetof(struct kvr_endpoint, open)) > RAILS * BOUND);
    for (uint32_t i = 0; i < RAILS; i++) {
        endpoints[i]->holds = false;
        for (uint32_t link = 0; link < 2 * ADDRESSES; link++)
            endpoints[i]->links[link].refused = endpoints[i]->links[link].open;
    }
    for (unsigned i = 0; i < 40000; i++)
        step(group);
    for (uint32_t i = 0; i < RAILS; i++)
        assert_int_equal(endpoints[i]->open, BOUND);
    kvr_group_close(group);
}

static void a_provider_that_cannot_close_keeps_all(void **state)
{
    struct kvr_group *group = open_group(false, 0);

    (void)state;
    peers_add(group);
    for (unsigned i = 0; i < PEERS * RAILS; i++) {
        (void)write_to(group, i % PEERS);
        step(group);
    }
    assert_int_equal(sum(offsetof(struct kvr_endpoint, closed)), 0);
    assert_true(sum(offsetof(struct kvr_endpoint, open)) > RAILS * BOUND);
    kvr_group_close(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_stay_under_the_bound),
        cmocka_unit_test(busy_connections_are_kept),
        cmocka_unit_test(a_peer_that_is_lost_is_written_to_over_other_rails),
        cmocka_unit_test(a_connection_rests_before_it_is_closed),
        cmocka_unit_test(what_the_target_has_not_read_is_kept),
        cmocka_unit_test(what_cannot_be_closed_just_now_is_kept),
        cmocka_unit_test(a_connection_that_refused_a_write_is_closed_later),
        cmocka_unit_test(a_provider_that_cannot_close_keeps_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
