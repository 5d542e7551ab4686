/* Goal: a rail thread opens the keys of a transfer on its rails, and closes them when the loop
 * asks for it, or with the last chunk if no second copy of one can come. Method: land alone on a
 * simulated fabric, which says which keys are registered. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "decode-agent/land.h"
#include "fabric/sim/fabric_sim.h"

#define SLOT     7
#define TRANSFER 42
#define CHUNKS   3
#define RAILS    2
#define SPANS    3
#define KEY      4096u
#define ALL_BITS ((1u << RAILS) - 1)

static struct land land;
static struct kvr_group *group;
static struct kvr_rail *rails[RAILS];
static struct kvr_sim_net *net;
static struct kvr_sim_host *host;
static struct landing landing;
static uint64_t bits[KVR_SLOT_CHUNKS / 64];
static uint8_t memory[4096];
static struct landing_spans *spans;
static struct landing_keys *keys;

static void keys_make(void)
{
    spans = calloc(1, sizeof(*spans) + SPANS * sizeof(spans->list[0]));
    keys = calloc(1, sizeof(*keys) + SPANS * RAILS * sizeof(keys->memory[0]));
    assert_true(spans != NULL && keys != NULL);
    spans->count = SPANS;
    for (uint32_t i = 0; i < SPANS; i++) /* the second one is empty */
        spans->list[i] = (struct landing_span){
            .base = memory + 64 * i, .bytes = i == 1 ? 0 : 64, .key.key = KEY + i};
    keys->spans = spans;
    keys->rails = ALL_BITS;
    keys->memory_count = SPANS * RAILS;
}

static int open_land(void **state)
{
    static struct kvr_rng rng;
    static struct kvr_fabric fabric;
    struct kvr_sim_options net_options = {.rng = &rng};
    struct kvr_rail_facts facts = {
        .grant_keys = true,
        .write = {.pieces_local = 1, .pieces_remote = 1, .bytes_max = 4096, .outstanding_max = 4}};
    struct kvr_rail_options wanted = {.provider = "sim"};
    struct kvr_group_options options = {
        .fabric = &fabric, .rails = rails, .rail_count = RAILS, .ring_entries = 64};

    (void)state;
    memset(&land, 0, sizeof(land));
    memset(&landing, 0, sizeof(landing));
    memset(bits, 0, sizeof(bits));
    kvr_rng_init(&rng, 1);
    net = kvr_sim_net_open(&net_options);
    host = kvr_sim_host_open(net, NULL, &facts);
    fabric = kvr_sim_host_fabric(host);
    for (uint32_t i = 0; i < RAILS; i++)
        assert_int_equal(fabric.ops->rail_open(host, &wanted, &rails[i], NULL), KVR_OK);
    options.user = land_user(&land);
    assert_int_equal(kvr_group_open(&options, &group, NULL), KVR_OK);
    keys_make();
    return 0;
}

static int close_land(void **state)
{
    (void)state;
    kvr_group_close(group);
    kvr_sim_host_die(host);
    kvr_sim_net_close(net);
    free(keys);
    free(spans);
    return 0;
}

static void tell(union land_message message)
{
    message.transfer = TRANSFER;
    assert_true(kvr_group_command(group, &message.any));
    while (kvr_group_step(group, KVR_S))
        ;
}

/* Which kinds of these two came, in this order; the others are read away. */
static void told(enum land_kind first, enum land_kind second)
{
    const enum land_kind wanted[] = {first, second};
    struct kvr_group_message message;
    uint32_t found = 0;

    while (kvr_group_event(group, &message))
        if (found < 2 && message.head.kind == wanted[found])
            found++;
    assert_int_equal(found, 2);
}

static uint32_t told_count(enum land_kind kind)
{
    struct kvr_group_message message;
    uint32_t count = 0;

    while (kvr_group_event(group, &message))
        count += message.head.kind == kind;
    return count;
}

/* Bit r: rail r has the key of span i. */
static uint32_t where_open(uint32_t i)
{
    uint32_t open = 0;

    for (uint32_t r = 0; r < RAILS; r++)
        open |= (uint32_t)kvr_sim_rail_has_key(rails[r], KEY + i) << r;
    return open;
}

static bool none_open(void)
{
    uint32_t at = 0;

    return kvr_sim_host_key(host, &at) == 0;
}

static void landing_begin(void)
{
    landing.transfer = TRANSFER;
    landing.slots[0] = SLOT;
    landing.slot_count = 1;
    landing.bits = bits;
    tell(LAND_MESSAGE(LAND_OPEN, .opened = &landing));
    tell(LAND_MESSAGE(LAND_FINAL, .chunks = CHUNKS));
    tell(LAND_MESSAGE(LAND_KEYS_OPEN, .keys = keys));
    assert_int_equal(told_count(LAND_KEYS_OPENED), 1);
    assert_int_equal(keys->error.status, KVR_OK);
}

static void all_arrive(void)
{
    struct kvr_group_user user = land_user(&land);

    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        user.arrived(&land, KVR_S, 0, 1, SLOT << 16 | chunk);
}

static void each_rail_opens_each_span(void **state)
{
    (void)state;
    landing_begin();
    assert_int_equal(where_open(0), ALL_BITS);
    assert_int_equal(where_open(1), 0); /* there is nothing to open */
    assert_int_equal(where_open(2), ALL_BITS);
    tell(LAND_MESSAGE(LAND_KEYS_CLOSE, .keys = keys));
    assert_int_equal(told_count(LAND_KEYS_CLOSED), 1);
    assert_true(none_open());
}

static kvr_status loop_opens(void *self, uint32_t rail, const struct kvr_memory_span *span,
                             struct kvr_memory **ret_memory, struct kvr_error *error)
{
    uint32_t *left = self;

    if (*left == 0)
        return KVR_AGAIN;
    (*left)--;
    return kvr_group_memory_open(group, rail, span, ret_memory, error);
}

/* The rail thread opens none twice. */
static void what_the_loop_has_opened_stays(void **state)
{
    uint32_t left = UINT32_MAX;

    (void)state;
    assert_int_equal(landing_keys_open(keys, loop_opens, &left, true), KVR_OK);
    keys->open = true;
    assert_int_equal(where_open(0) & where_open(2), ALL_BITS);
    landing.transfer = TRANSFER;
    landing.slots[0] = SLOT;
    landing.slot_count = 1;
    landing.bits = bits;
    tell(LAND_MESSAGE(LAND_OPEN, .opened = &landing));
    tell(LAND_MESSAGE(LAND_FINAL, .chunks = CHUNKS));
    tell(LAND_MESSAGE(LAND_KEYS_OPEN, .keys = keys));
    assert_int_equal(told_count(LAND_KEYS_OPENED), 0);
    all_arrive();
    told(LAND_KEYS_CLOSED, LAND_ALL);
    assert_true(none_open());
}

static void the_rail_thread_opens_the_rest(void **state)
{
    uint32_t left = 1;

    (void)state;
    assert_int_equal(landing_keys_open(keys, loop_opens, &left, true), KVR_AGAIN);
    assert_int_equal(where_open(0), 1);
    landing_begin();
    assert_int_equal(where_open(0) & where_open(2), ALL_BITS);
    tell(LAND_MESSAGE(LAND_KEYS_CLOSE, .keys = keys));
    assert_true(none_open());
}

static void the_last_chunk_closes_them(void **state)
{
    (void)state;
    landing_begin();
    all_arrive();
    assert_true(none_open());
    told(LAND_KEYS_CLOSED, LAND_ALL);
    tell(LAND_MESSAGE(LAND_KEYS_CLOSE, .keys = keys)); /* it was on its way */
    assert_int_equal(told_count(LAND_KEYS_CLOSED), 0);
}

/* A chunk that was asked for again may come twice. */
static void a_repeat_keeps_them_open(void **state)
{
    struct landing_filter *lost = calloc(1, sizeof(*lost) + (CHUNKS + 1) * sizeof(lost->runs[0]));

    (void)state;
    assert_non_null(lost);
    lost->asked_count = 1;
    lost->capacity = CHUNKS;
    lost->runs[CHUNKS] = (struct kvr_chunk_run){0, 1};
    landing_begin();
    tell(LAND_MESSAGE(LAND_FILTER, .filter = lost));
    all_arrive();
    assert_int_equal(told_count(LAND_KEYS_CLOSED), 0);
    assert_int_equal(where_open(0), ALL_BITS);
    tell(LAND_MESSAGE(LAND_KEYS_CLOSE, .keys = keys));
    assert_int_equal(told_count(LAND_KEYS_CLOSED), 1);
    assert_true(none_open());
    free(lost);
}

/* The landing is another group's. */
static void another_group_opens_them_too(void **state)
{
    (void)state;
    tell(LAND_MESSAGE(LAND_KEYS_OPEN, .keys = keys));
    assert_int_equal(where_open(2), ALL_BITS);
    tell(LAND_MESSAGE(LAND_KEYS_CLOSE, .keys = keys));
    told(LAND_KEYS_OPENED, LAND_KEYS_CLOSED);
    assert_true(none_open());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_rail_opens_each_span, open_land, close_land),
        cmocka_unit_test_setup_teardown(what_the_loop_has_opened_stays, open_land, close_land),
        cmocka_unit_test_setup_teardown(the_rail_thread_opens_the_rest, open_land, close_land),
        cmocka_unit_test_setup_teardown(the_last_chunk_closes_them, open_land, close_land),
        cmocka_unit_test_setup_teardown(a_repeat_keeps_them_open, open_land, close_land),
        cmocka_unit_test_setup_teardown(another_group_opens_them_too, open_land, close_land),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
