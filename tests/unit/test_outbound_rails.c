/* Goal: a rail for which no endpoint could be opened comes back when the system allows it.
 * Method: outbound alone, with a rail group that answers as the case says. */
#include "tests/support/check.h"

#include "prefill-agent/outbound.h"

#define TABLES_BYTES (128u << 20)

static struct outbound outbound;
static unsigned asked;

static void port_command(void *self, const struct kvr_group_message *message)
{
    (void)self;
    assert_int_equal(message->kind, KVR_GROUP_RECYCLE);
    asked++;
}

static void recycled(kvr_ns now, uint32_t epoch, kvr_status status)
{
    struct kvr_group_message message = {
        .kind = KVR_GROUP_RECYCLED, .a = epoch, .b = epoch + 1, .status = status};

    outbound_group(&outbound, now, &message);
}

static void outbound_opens_a_rail_again(void **state)
{
    static const struct kvr_ports ports = {.command = port_command};
    struct outbound_options options = {.rail_count = 1};
    void *tables = malloc(TABLES_BYTES);
    struct kvr_buddy memory;

    (void)state;
    assert_non_null(tables);
    kvr_buddy_init(&memory, tables, TABLES_BYTES);
    assert_int_equal(outbound_init(&outbound, &options, &ports, &memory), KVR_OK);
    outbound_rail_recycle(&outbound, 0);
    assert_int_equal(asked, 1);
    recycled(KVR_S, 1, KVR_SYSTEM);
    outbound_tick(&outbound, KVR_S + KVR_S / 2);
    assert_int_equal(asked, 1);
    outbound_tick(&outbound, 2 * KVR_S);
    assert_int_equal(asked, 2);
    outbound_tick(&outbound, 4 * KVR_S); /* under way: not asked a second time */
    assert_int_equal(asked, 2);
    recycled(4 * KVR_S, 2, KVR_SYSTEM);
    outbound_tick(&outbound, 5 * KVR_S);
    assert_int_equal(asked, 3);
    recycled(5 * KVR_S, 3, KVR_OK);
    for (kvr_ns now = 5 * KVR_S; now < 20 * KVR_S; now += KVR_S)
        outbound_tick(&outbound, now);
    assert_int_equal(asked, 3);
    free(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outbound_opens_a_rail_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
