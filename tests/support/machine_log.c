#include "tests/support/machine_log.h"

#include "tests/support/check.h"

struct machine_log machine_log;

static kvr_status port_send(void *self, uint32_t peer, const struct kvr_message *message)
{
    (void)self;
    if (machine_log.send_answer != KVR_OK)
        return machine_log.send_answer;
    assert_true(machine_log.sent_count < MACHINE_LOG_MAX);
    if (message->kind == KVR_MSG_GRANT)
        machine_log.granted = 0;
    for (uint32_t i = 0; message->kind == KVR_MSG_GRANT && i < message->grant.rail_count; i++)
        machine_log.granted |= UINT32_C(1) << message->grant.rails[i].rail;
    machine_log.sent_to[machine_log.sent_count] = peer;
    machine_log.sent[machine_log.sent_count++] = *message;
    return KVR_OK;
}

static kvr_status port_dial(void *self, const char *address, uint32_t *ret_peer,
                            struct kvr_error *error)
{
    (void)self, (void)error;
    *ret_peer = (uint32_t)(address[0] - '0'); /* a test names its peers "0", "1" … */
    return KVR_OK;
}

static void port_hang_up(void *self, uint32_t peer, kvr_status status, const char *detail)
{
    (void)self, (void)peer, (void)status, (void)detail;
    machine_log.hang_ups++;
}

static void port_notify(void *self, uint32_t engine, const struct kvr_notice *notice)
{
    (void)self, (void)engine;
    assert_true(machine_log.notice_count < MACHINE_LOG_MAX);
    machine_log.notices[machine_log.notice_count++] = *notice;
}

static void port_command(void *self, const struct kvr_group_message *message)
{
    (void)self;
    assert_true(machine_log.command_count < MACHINE_LOG_MAX);
    machine_log.commands[machine_log.command_count++] = *message;
}

static void port_region_done(void *self, struct kvr_region *region, uint32_t number)
{
    (void)self, (void)region;
    machine_log.regions_done++;
    machine_log.region_done = number;
}

static void port_engine_done(void *self, uint32_t engine)
{
    (void)self, (void)engine;
    machine_log.engines_done++;
}

static uint32_t port_rails(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    (void)self;
    for (uint32_t i = 0; i < 2; i++)
        ret_rails[i] = (struct kvr_rail_address){.rail = i, .epoch = 1, .bytes = 1};
    return 2;
}

static void port_region_register(void *self, const struct kvr_region_set *set, uint32_t group,
                                 uint64_t id)
{
    (void)self, (void)set;
    machine_log.registered++;
    machine_log.registered_group = group;
    machine_log.registered_id = id;
}

static void port_region_stage(void *self, const struct kvr_region_set *set, uint64_t id)
{
    (void)self, (void)set;
    machine_log.stages_asked++;
    machine_log.registered_id = id;
}

/* The slot that has rested longest is drawn, and the first tag. */
uint32_t machine_peer_tenants = KVR_TENANTS_ALL;

static uint32_t port_peer_tenants(void *self, uint32_t peer)
{
    (void)self, (void)peer;
    return machine_peer_tenants;
}

static uint64_t port_random(void *self)
{
    (void)self;
    return machine_log.random;
}

const struct kvr_ports machine_ports = {
    .send = port_send,
    .dial = port_dial,
    .hang_up = port_hang_up,
    .notify = port_notify,
    .command = port_command,
    .region_done = port_region_done,
    .region_register = port_region_register,
    .region_stage = port_region_stage,
    .engine_done = port_engine_done,
    .peer_tenants = port_peer_tenants,
    .rails = port_rails,
    .random = port_random,
};

void machine_log_clear(void)
{
    memset(&machine_log, 0, sizeof(machine_log));
}

struct kvr_buddy *machine_memory(void)
{
    static struct kvr_buddy memory;
    static void *block;

    if (block == NULL)
        block = aligned_alloc(4096, MACHINE_MEMORY_BYTES);
    assert_non_null(block);
    kvr_buddy_init(&memory, block, MACHINE_MEMORY_BYTES);
    return &memory;
}

/* The latest record with this kind in `member`. */
#define LATEST(array, count, member)                                                               \
    for (uint32_t i = machine_log.count; i > 0; i--)                                               \
        if (machine_log.array[i - 1].member == kind)                                               \
            return &machine_log.array[i - 1];                                                      \
    return NULL
#define COUNT(array, count, member)                                                                \
    uint32_t found = 0;                                                                            \
                                                                                                   \
    for (uint32_t i = 0; i < machine_log.count; i++)                                               \
        found += machine_log.array[i].member == kind;                                              \
    return found

const struct kvr_message *machine_sent(kvr_message_kind kind)
{
    LATEST(sent, sent_count, kind);
}

uint32_t machine_sent_count(kvr_message_kind kind)
{
    COUNT(sent, sent_count, kind);
}

const struct kvr_group_message *machine_command(uint32_t kind)
{
    LATEST(commands, command_count, head.kind);
}

uint32_t machine_command_count(uint32_t kind)
{
    COUNT(commands, command_count, head.kind);
}

const struct kvr_notice *machine_notice(kvr_notice_kind kind)
{
    LATEST(notices, notice_count, kind);
}

uint32_t machine_notice_count(kvr_notice_kind kind)
{
    COUNT(notices, notice_count, kind);
}

/* ---- engines --------------------------------------------------------------------------------- */

static struct kvr_compat compat_of(void)
{
    return (struct kvr_compat){.model = "small",
                               .dtype = "u8",
                               .layers_total = SMALL_LAYERS,
                               .kv_heads_total = 1,
                               .head_dim = SMALL_PAGE_BYTES};
}

struct kvr_rank machine_rank(uint8_t number)
{
    return (struct kvr_rank){
        .engine = {.bytes = {number}}, .generation = 1, .tp_size = 1, .pp_size = 1};
}

void machine_engine_up(struct kvr_engines *engines, uint32_t index, uint8_t number,
                       struct small_side *side, struct kvr_shared_page *page)
{
    struct kvr_req_attach attach = {.rank = machine_rank(number), .compat = compat_of()};
    struct kvr_error error;

    assert_int_equal(kvr_engines_up(engines, index, &attach, page, &error), KVR_OK);
    assert_int_equal(
        kvr_engines_region_add(engines, index, &side->region.layout, &side->region, &error),
        KVR_OK);
}

void machine_regions(uint8_t number, const struct small_side *side, uint32_t rail_count,
                     struct kvr_message *ret_message)
{
    static const struct kvr_remote_key keys[KVR_RAILS_MAX];

    *ret_message = (struct kvr_message){.kind = KVR_MSG_REGIONS};
    ret_message->regions =
        (struct kvr_msg_regions){.rank = machine_rank(number),
                                 .compat = compat_of(),
                                 .layouts = side->layouts,
                                 .layout_count = 1,
                                 .keys = keys,
                                 .rail_count = rail_count,
                                 .revocation_words = machine_words_number(number)};
}

_Atomic uint64_t *machine_words(void *self, uint32_t engine)
{
    static _Atomic uint64_t words[KVR_ENGINES_MAX][KVR_TRANSFERS_MAX];

    (void)self;
    return words[engine];
}
