#include "tests/support/inbound_case.h"

#include <stdio.h>

#include "tests/support/check.h"

struct inbound inbound;
static struct small_side source;
struct small_side target;
static struct kvr_shared_page page;
static struct kvr_buddy plans;
kvr_ns now;

void inbound_begin(uint32_t slot_count)
{
    inbound_begin_within(slot_count, slot_count);
}

void inbound_begin_within(uint32_t slot_count, uint32_t slot_last)
{
    static uint8_t plan_memory[1 << 20] __attribute__((aligned(64)));
    struct inbound_options options = {.silence_ns = SILENCE,
                                      .quiet_ns = QUIET,
                                      .deadline_default_ns = 60 * KVR_S,
                                      .slot_count = slot_count,
                                      .slot_last = slot_last,
                                      .rail_count = 2,
                                      .without_secret = true,
                                      .limits = {1, 1, SMALL_PAGE_BYTES, false}};

    now = KVR_S;
    machine_log_clear();
    kvr_buddy_init(&plans, plan_memory, sizeof(plan_memory));
    small_side_init(&source, 2);
    small_side_init(&target, 2);
    assert_int_equal(inbound_init(&inbound, &options, &machine_ports, machine_memory()), KVR_OK);
    machine_engine_up(&inbound.engines, 0, 1, &target, &page);
    for (uint32_t peer = 0; peer < 4; peer++) {
        struct kvr_msg_hello hello = {.version_min = KVR_PROTOCOL_MIN,
                                      .version_max = KVR_PROTOCOL_MAX,
                                      .session = SESSION + peer,
                                      .limits = {1, 1, SMALL_PAGE_BYTES, false}};
        struct kvr_message regions;

        inbound_peer_up(&inbound, now, peer, &hello);
        machine_regions((uint8_t)(10 + peer), &source, 0, &regions);
        inbound_message(&inbound, now, peer, &regions);
    }
    machine_log_clear();
}

int open_inbound(void **state)
{
    (void)state;
    inbound_begin(SLOTS);
    return 0;
}

uint64_t fetch(uint64_t handle, uint32_t first, uint32_t count)
{
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};
    static struct kvr_source_address from[4];
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = handle};
    struct kvr_request pages = {.kind = KVR_REQ_TARGET_PAGES, .handle = handle};
    uint64_t nonce = inbound.nonces.given + 1;

    for (uint32_t i = 0; i < count; i++) {
        snprintf(from[i].agent, sizeof(from[i].agent), "%u", first + i);
        from[i].engine = machine_rank((uint8_t)(10 + first + i)).engine;
        from[i].generation = 1;
    }
    snprintf(open.target_open.request, sizeof(open.target_open.request), "r");
    open.target_open.tokens = SMALL_PLANNED;
    open.target_open.sources = from;
    open.target_open.source_count = count;
    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    inbound_request(&inbound, now, 0, &open);
    inbound_request(&inbound, now, 0, &pages);
    return nonce;
}

static void plan_with(uint32_t peer, uint64_t nonce, uint64_t generation, uint64_t hash_flip,
                      uint32_t word, uint32_t pieces_remote)
{
    const struct kvr_plan_limits limits = {1, pieces_remote, SMALL_PAGE_BYTES};
    static const struct kvr_page_run runs[SMALL_PLANNED] = {{0, 1}, {2, 1}, {4, 1}, {6, 1}};
    struct kvr_plan *made = small_plan_within(&source, &target, &limits, &plans);
    struct kvr_message message = {.kind = KVR_MSG_PLAN, .transfer = nonce};

    message.plan = (struct kvr_msg_plan){.token_end = SMALL_PLANNED,
                                         .chunk_count = made->chunk_count,
                                         .hash = made->hash ^ hash_flip,
                                         .source = machine_rank((uint8_t)(10 + peer)),
                                         .limits = {1, pieces_remote, SMALL_PAGE_BYTES, false},
                                         .runs = runs,
                                         .run_count = SMALL_PLANNED,
                                         .revocation_word = word};
    message.plan.source.generation = generation;
    kvr_plan_free(made, &plans);
    inbound_message(&inbound, now, peer, &message);
}

void plan_as(uint32_t peer, uint64_t nonce, uint64_t generation)
{
    plan_with(peer, nonce, generation, 0, 0, 1);
}

void plan(uint32_t peer, uint64_t nonce)
{
    plan_with(peer, nonce, 1, 0, 0, 1);
}

void plan_lent(uint32_t peer, uint64_t nonce, uint32_t word)
{
    plan_with(peer, nonce, 1, 0, word, 1);
}

void plan_of_another(uint32_t peer, uint64_t nonce)
{
    plan_with(peer, nonce, 1, 1, 0, 1);
}

void plan_to_share(uint32_t peer, uint64_t nonce)
{
    plan_with(peer, nonce, 1, 0, 0, KVR_PLAN_ONE_RUN);
}

void final(uint32_t peer, uint64_t nonce)
{
    struct kvr_message message = {.kind = KVR_MSG_FINAL, .transfer = nonce};

    message.final = (struct kvr_msg_final){
        .segment_count = 1, .chunk_count = SMALL_CHUNKS, .token_end = SMALL_PLANNED};
    inbound_message(&inbound, now, peer, &message);
}

void quiet_on(uint32_t peer, uint64_t nonce, uint32_t round, uint32_t epoch)
{
    const struct kvr_epoch_count count = {0, epoch, SMALL_CHUNKS};
    struct kvr_message message = {.kind = KVR_MSG_QUIET, .transfer = nonce};

    message.quiet = (struct kvr_msg_quiet){.round = round, .counts = &count, .count_count = 1};
    inbound_message(&inbound, now, peer, &message);
}

void quiet(uint32_t peer, uint64_t nonce, uint32_t round)
{
    quiet_on(peer, nonce, round, 1);
}

void reason(uint32_t peer, uint64_t nonce, kvr_message_kind kind, kvr_status status)
{
    struct kvr_message message = {.kind = kind, .transfer = nonce, .reason = {.status = status}};

    inbound_message(&inbound, now, peer, &message);
}

union land_message land_commanded(enum land_kind kind)
{
    const struct kvr_group_message *message = machine_command(kind);

    assert_non_null(message);
    return land_message_of(message);
}

void group_says(uint64_t nonce, uint32_t kind, uint64_t a, void *pointer)
{
    union land_message message = {.head.kind = kind, .transfer = nonce};
    bool found = kvr_table_find(&inbound.by_nonce, nonce, &message.landing);

    assert_true(found);
    switch (kind) {
    case LAND_LAYER:
        message.layer.layer = (uint32_t)a;
        break;
    case LAND_ALL:
        message.chunks = (uint32_t)a;
        break;
    case LAND_IS_QUIET:
        message.round = (uint32_t)a;
        break;
    case LAND_CORRUPT:
        message.chunk = (uint32_t)a;
        break;
    case LAND_ROOM:
        message.position = a;
        break;
    case LAND_FILTERED:
        message.filter = pointer;
        break;
    case LAND_CLOSED:
        message.closed.landing = pointer;
        break;
    case LAND_KEYS_OPENED:
    case LAND_KEYS_CLOSED:
        message.keys = pointer;
        break;
    default:
        assert_true(a == 0 && pointer == NULL);
    }
    inbound_group(&inbound, now, &message.any);
}

void group_closes(uint64_t nonce)
{
    struct landing *landing = NULL;

    for (uint32_t i = 0; i < machine_log.command_count; i++) {
        const union land_message command = land_message_of(&machine_log.commands[i]);

        if (command.head.kind == LAND_OPEN && command.transfer == nonce)
            landing = command.opened;
    }
    assert_non_null(landing);
    group_says(nonce, LAND_CLOSED, 0, landing);
}

void recycled(uint32_t rail, uint32_t epoch)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RECYCLED,
        .recycled = {.rail = rail, .ended = epoch, .epoch = epoch + 1},
    };

    inbound_group(&inbound, now, &message);
}

void tick(kvr_ns later)
{
    now += later;
    inbound_tick(&inbound, now);
}

bool granted(uint64_t nonce)
{
    for (uint32_t i = 0; i < machine_log.sent_count; i++)
        if (machine_log.sent[i].kind == KVR_MSG_GRANT && machine_log.sent[i].transfer == nonce)
            return true;
    return false;
}
