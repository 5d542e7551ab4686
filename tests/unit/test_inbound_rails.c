/* Goal: a rail without an endpoint gets one when the system allows it. Method: inbound alone, with
 * a rail group that answers as the case demands. */
#include "tests/support/check.h"

#include "decode-agent/fence.h"
#include "decode-agent/inbound.h"

#define TABLES_BYTES (128u << 20)

static struct inbound inbound;
static unsigned asked, sent;

static void port_command(void *self, const struct kvr_group_message *message)
{
    (void)self;
    assert_int_equal(message->head.kind, KVR_GROUP_RECYCLE);
    asked++;
}

static kvr_status port_send(void *self, uint32_t peer, const struct kvr_message *message)
{
    (void)self;
    assert_int_equal(peer, 0);
    assert_int_equal(message->kind, KVR_MSG_EPOCH_ENDED);
    sent++;
    return KVR_OK;
}

static uint32_t port_rails(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    (void)self;
    (void)ret_rails;
    return 0;
}

static uint64_t port_random(void *self)
{
    (void)self;
    return 0;
}

static void recycled(kvr_ns now, uint32_t epoch, kvr_status status)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RECYCLED,
        .recycled = {.ended = epoch, .epoch = epoch + 1, .status = status},
    };

    inbound_group(&inbound, now, &message);
}

static void inbound_opens_a_rail_again(void **state)
{
    static const struct kvr_ports ports = {
        .command = port_command, .send = port_send, .rails = port_rails, .random = port_random};
    struct inbound_options options = {.without_secret = true, .slot_count = 4, .rail_count = 1};
    void *tables = malloc(TABLES_BYTES);
    struct kvr_buddy memory;

    (void)state;
    assert_non_null(tables);
    kvr_buddy_init(&memory, tables, TABLES_BYTES);
    assert_int_equal(inbound_init(&inbound, &options, &ports, &memory), KVR_OK);
    inbound.peers[0].up = true;
    inbound_rail_recycle(&inbound, 0, 1);
    assert_int_equal(asked, 1);
    recycled(KVR_S, 1, KVR_SYSTEM);
    inbound_tick(&inbound, KVR_S + KVR_S / 2);
    assert_int_equal(asked, 1);
    inbound_tick(&inbound, 2 * KVR_S);
    assert_int_equal(asked, 2);
    inbound_tick(&inbound, 4 * KVR_S); /* under way: not asked a second time */
    assert_int_equal(asked, 2);
    recycled(4 * KVR_S, 2, KVR_SYSTEM);
    assert_int_equal(sent, 1); /* its lack of an endpoint is announced once */
    inbound_tick(&inbound, 5 * KVR_S);
    assert_int_equal(asked, 3);
    recycled(5 * KVR_S, 3, KVR_OK);
    assert_int_equal(sent, 2);
    for (kvr_ns now = 5 * KVR_S; now < 20 * KVR_S; now += KVR_S)
        inbound_tick(&inbound, now);
    assert_int_equal(asked, 3);
    free(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(inbound_opens_a_rail_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
