#include "tests/support/fuzz_agent.h"

#include <assert.h>
#include <string.h>

struct fuzz_agent fuzz;

/* ---- ports ---- */

static kvr_status port_send(void *self, uint32_t peer, const struct kvr_message *message)
{
    (void)self;
    assert(peer < FUZZ_PEERS && kvr_message_numbered(message->kind));
    if (!fuzz.peers[peer].known)
        return KVR_PEER_LOST;
    return fuzz.peers[peer].full ? KVR_AGAIN : KVR_OK;
}

static void port_hang_up(void *self, uint32_t peer, kvr_status status, const char *detail)
{
    (void)self;
    assert(peer < FUZZ_PEERS && status < 0 && detail[0] != '\0');
    fuzz.peers[peer].hung_up = true;
}

static void port_notify(void *self, uint32_t engine, const struct kvr_notice *notice)
{
    uint8_t packet[KVR_PACKET_BYTES_MAX];
    size_t bytes;

    (void)self;
    assert(engine < FUZZ_ENGINES && !fuzz.engines[engine].free);
    assert(kvr_notice_encode(notice, packet, sizeof(packet), &bytes) == KVR_OK);
    if (kvr_notice_terminal(notice->kind) || notice->kind == KVR_NOTICE_OPEN_REFUSED)
        fuzz.engines[engine].ended++;
}

static void port_command(void *self, const struct kvr_group_message *message)
{
    (void)self;
    fuzz_command(&fuzz.world, message);
}

static void port_region_done(void *self, struct kvr_region *region, uint32_t number)
{
    (void)self, (void)number;
    fuzz_region_done(&fuzz.world, region);
}

static void page_tell(uint32_t engine, struct kvr_shared_page *page)
{
    const struct kvr_group_message message = fuzz.machine.page_command(engine, page);

    fuzz_command(&fuzz.world, &message);
}

/* Where the group looks at the engine's page, its index is free once it does no more. */
static void port_engine_done(void *self, uint32_t engine)
{
    (void)self;
    if (fuzz.machine.page_command != NULL)
        page_tell(engine, NULL);
    else
        fuzz.engines[engine].free = true;
}

static void on_group(const struct kvr_group_message *message)
{
    uint32_t engine;

    if (fuzz.machine.page_forgotten != NULL && fuzz.machine.page_forgotten(message, &engine))
        fuzz.engines[engine].free = true;
    else
        fuzz.machine.group(fuzz.machine.self, fuzz.world.now, message);
}

static uint32_t port_rails(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    (void)self;
    for (uint32_t i = 0; i < FUZZ_RAILS; i++)
        ret_rails[i] = kvr_group_address(fuzz.world.group, i);
    return FUZZ_RAILS;
}

static uint64_t port_random(void *self)
{
    static uint64_t drawn;

    (void)self;
    return drawn += UINT64_C(0x9e3779b97f4a7c15);
}

struct kvr_ports fuzz_ports(void)
{
    return (struct kvr_ports){
        .send = port_send,
        .hang_up = port_hang_up,
        .notify = port_notify,
        .command = port_command,
        .region_done = port_region_done,
        .engine_done = port_engine_done,
        .rails = port_rails,
        .random = port_random,
    };
}

/* ---- engines ---- */

void fuzz_engine_up(uint32_t engine)
{
    struct kvr_req_attach attach = {.compat = fuzz_compat(), .name = "e"};
    struct kvr_error error;

    if (!fuzz.engines[engine].free)
        return;
    attach.rank = fuzz_rank(engine, ++fuzz.engines[engine].generation);
    if (kvr_engines_up(fuzz.machine.engines, engine, &attach, &fuzz.world.pages[engine], &error) !=
        KVR_OK)
        return;
    fuzz.engines[engine].up = true;
    fuzz.engines[engine].free = false;
    fuzz.engines[engine].opened = fuzz.engines[engine].ended = 0;
    if (fuzz.machine.page_command != NULL)
        page_tell(engine, &fuzz.world.pages[engine]);
}

void fuzz_engine_down(uint32_t engine)
{
    if (!fuzz.engines[engine].up)
        return;
    fuzz.engines[engine].up = false;
    fuzz.machine.engine_down(fuzz.machine.self, fuzz.world.now, engine);
}

void fuzz_engine_region(uint32_t engine)
{
    bool reads = fuzz.machine.role == KVR_ROLE_SOURCE; /* cards read its regions */
    uint32_t number = fuzz_below(fuzz.input, 3);
    struct kvr_region *region;
    struct kvr_error error;

    if (!fuzz.engines[engine].up)
        return;
    if (fuzz_below(fuzz.input, 4) == 3) {
        (void)!kvr_engines_region_drop(fuzz.machine.engines, engine, number);
        return;
    }
    region = fuzz_region(&fuzz.world, number, reads, !reads);
    if (kvr_engines_region_add(fuzz.machine.engines, engine, &region->layout, region, &error) !=
        KVR_OK)
        fuzz_region_done(&fuzz.world, region);
}

/* ---- peers ---- */

void fuzz_peer_up(uint32_t peer)
{
    struct kvr_rail_address rails[KVR_RAILS_MAX] = {0};
    struct kvr_msg_hello hello;

    if (!fuzz.peers[peer].known || fuzz.peers[peer].up)
        return;
    fuzz.peers[peer].up = true;
    fuzz_hello(&fuzz.world, fuzz.input, rails, &hello);
    fuzz.machine.peer_up(fuzz.machine.self, fuzz.world.now, peer, &hello);
}

void fuzz_peer_lost(uint32_t peer)
{
    if (!fuzz.peers[peer].known)
        return;
    memset(&fuzz.peers[peer], 0, sizeof(fuzz.peers[peer]));
    fuzz.machine.peer_lost(fuzz.machine.self, fuzz.world.now, peer, KVR_PEER_LOST, "it is gone");
}

bool fuzz_peer_speaks(uint32_t peer)
{
    return fuzz.peers[peer].up && !fuzz.peers[peer].hung_up;
}

void fuzz_peer_regions(uint32_t peer)
{
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};
    struct kvr_region_layout layouts[2];
    struct kvr_remote_key keys[2 * FUZZ_RAILS];
    struct kvr_rank rank = fuzz_rank(8 + fuzz_below(fuzz.input, 2), fuzz_about(fuzz.input, 1));

    fuzz_regions(&fuzz.world, fuzz.input, &rank, layouts, keys, &message.regions);
    fuzz.machine.message(fuzz.machine.self, fuzz.world.now, peer, &message);
}

/* ---- everything ---- */

void fuzz_run(kvr_ns later)
{
    fuzz_world_run(&fuzz.world, on_group);
    for (uint32_t i = 0; i < FUZZ_PEERS; i++)
        if (fuzz.peers[i].hung_up)
            fuzz_peer_lost(i);
    fuzz.world.now += later;
}

void fuzz_script(void (*what)(uint32_t), const char *bytes, size_t count)
{
    struct fuzz_input script = {(const uint8_t *)bytes, count}, *kept = fuzz.input;

    fuzz.input = &script;
    what(0);
    fuzz.input = kept;
}

static uint32_t live(void)
{
    return fuzz.machine.live(fuzz.machine.self);
}

static bool busy(void)
{
    for (uint32_t i = 0; i < FUZZ_ENGINES; i++)
        if (!fuzz.engines[i].free && !fuzz.engines[i].up)
            return true;
    return live() > 0 || fuzz.ops->busy() || kvr_group_outstanding(fuzz.world.group) > 0;
}

static void settle(void)
{
    for (int i = 0; i < 1000 && (i < 2 || busy()); i++) {
        fuzz_run(KVR_S / 10);
        fuzz.machine.tick(fuzz.machine.self, fuzz.world.now);
    }
}

static void tear_down(void)
{
    fuzz.machine.cancel_all(fuzz.machine.self, fuzz.world.now, KVR_DRAINING, "the end");
    settle();
    assert(live() == 0);
    for (uint32_t i = 0; i < FUZZ_ENGINES; i++) {
        if (!fuzz.engines[i].up)
            continue;
        assert(fuzz.engines[i].opened == fuzz.engines[i].ended);
        fuzz_engine_down(i);
    }
    for (uint32_t i = 0; i < FUZZ_PEERS; i++)
        fuzz_peer_lost(i);
    settle();
    assert(!busy() && fuzz.world.regions_live == 0);
    assert(fuzz.world.buddy.used_bytes == fuzz.world.used_at_start);
}

void fuzz_agent_open(const struct kvr_group_user *user)
{
    memset(fuzz.engines, 0, sizeof(fuzz.engines));
    for (uint32_t i = 0; i < FUZZ_ENGINES; i++)
        fuzz.engines[i].free = true;
    fuzz_world_open(&fuzz.world, user);
}

/* A world is torn down to nothing after every input, and so can serve the next. */
int fuzz_agent_play(const struct fuzz_ops *ops, const uint8_t *data, size_t size)
{
    static uint32_t inputs;
    struct fuzz_input bytes = {data, size};

    fuzz.ops = ops;
    fuzz.input = &bytes;
    if (inputs == 0) {
        fuzz.machine = ops->open();
        fuzz.world.used_at_start = fuzz.world.buddy.used_bytes;
    }
    ops->begin(fuzz_below(fuzz.input, ops->beginnings));
    while (bytes.left > 0) {
        uint8_t what = fuzz_byte(fuzz.input);

        ops->act(what, fuzz_below(fuzz.input, FUZZ_ENGINES), (what >> 5) % FUZZ_PEERS);
    }
    tear_down();
    if (++inputs < FUZZ_WORLD_INPUTS)
        return 0;
    fuzz_world_close(&fuzz.world);
    inputs = 0;
    return 0;
}
