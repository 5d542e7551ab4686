#include "tests/support/fuzz_machine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BUDDY_BYTES  (96u << 20)
#define REGION_BYTES (2u * 2 * FUZZ_PAGES * FUZZ_TOKENS * 64)

static uint8_t own_memory[REGION_BYTES], far_memory[REGION_BYTES];

/* ---- decisions ---- */

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->bytes++;
}

uint32_t fuzz_below(struct fuzz_input *input, uint32_t bound)
{
    return fuzz_byte(input) % bound;
}

uint64_t fuzz_about(struct fuzz_input *input, uint64_t good)
{
    static const uint64_t limits[] = {
        0,          1,          2,          UINT16_MAX, KVR_SLOT_CHUNKS, KVR_RAILS_MAX,
        1ull << 20, 1ull << 31, UINT32_MAX, 1ull << 40, INT64_MAX,       UINT64_MAX};
    uint8_t choice = fuzz_byte(input);

    if (choice < 200)
        return good;
    if (choice < 220)
        return good + 1;
    if (choice < 235)
        return good - 1;
    return limits[choice % (sizeof(limits) / sizeof(limits[0]))];
}

/* ---- the world ---- */

static void nothing(void *self, const struct kvr_sim_access *access)
{
    (void)self, (void)access;
}

static void no_wake(void *self, void *host)
{
    (void)self, (void)host;
}

static void misused(void *self, const char *sentence)
{
    (void)self, (void)sentence; /* a peer's keys may be wrong: the card refuses the write */
}

static void cards_open(struct fuzz_world *world)
{
    struct kvr_sim_options options = {
        .rng = &world->rng,
        .hooks = {.read = nothing, .land = nothing, .wake = no_wake, .misuse = misused},
        .latency_ns = 10 * KVR_US,
        .late_ns = KVR_MS,
        .late_chance = 100,
        .fail_chance = 50,
    };
    struct kvr_rail_facts facts = {
        .provider = "sim",
        .speed_bps = 10000000000,
        .write = {.pieces_local = 2, .pieces_remote = 2, .bytes_max = 4096, .outstanding_max = 8},
    };

    kvr_rng_init(&world->rng, 1);
    world->net = kvr_sim_net_open(&options);
    world->far = kvr_sim_host_open(world->net, far_memory, &facts);
    facts.needs_senders = true; /* of a target; a source's own rails do not ask */
    world->host = kvr_sim_host_open(world->net, own_memory, &facts);
    world->fabric = kvr_sim_host_fabric(world->host);
    world->far_fabric = kvr_sim_host_fabric(world->far);
    for (uint32_t i = 0; i < FUZZ_RAILS; i++) {
        const struct kvr_fabric_ops *ops = world->fabric.ops;
        struct kvr_rail_options rail = {.provider = "sim"};
        struct kvr_memory_span span = {
            .base = far_memory, .bytes = sizeof(far_memory), .remote = true, .fd = -1};

        if (ops->rail_open(world->fabric.self, &rail, &world->rails[i], NULL) != KVR_OK ||
            ops->rail_open(world->far_fabric.self, &rail, &world->far_rails[i], NULL) != KVR_OK ||
            ops->endpoint_open(world->far_rails[i], &world->far_endpoints[i], NULL) != KVR_OK ||
            ops->memory_register(world->far_rails[i], &span, &world->far_memory[i], NULL) != KVR_OK)
            abort();
    }
}

void fuzz_world_open(struct fuzz_world *world, const struct kvr_group_user *user)
{
    static void *tables;
    struct kvr_group_options options = {.rail_count = FUZZ_RAILS, .ring_entries = 64};

    memset(world, 0, sizeof(*world));
    world->now = KVR_S;
    cards_open(world);
    options.fabric = &world->fabric;
    options.rails = world->rails;
    options.user = *user;
    if (kvr_group_open(&options, &world->group, NULL) != KVR_OK)
        abort();
    if (tables == NULL)
        tables =
            mmap(NULL, BUDDY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tables == MAP_FAILED)
        abort();
    kvr_buddy_init(&world->buddy, tables, BUDDY_BYTES);
    world->pages = calloc(KVR_ENGINES_MAX, sizeof(*world->pages));
    if (world->pages == NULL)
        abort();
}

void fuzz_world_close(struct fuzz_world *world)
{
    kvr_group_close(world->group);
    for (uint32_t i = 0; i < FUZZ_RAILS; i++) {
        const struct kvr_fabric_ops *ops = world->fabric.ops;

        ops->endpoint_stop(world->far_endpoints[i]);
        ops->endpoint_close(world->far_endpoints[i]);
        ops->memory_release(world->far_memory[i]);
        ops->rail_close(world->far_rails[i]);
        ops->rail_close(world->rails[i]);
    }
    kvr_sim_net_close(world->net);
    free(world->pages);
}

void fuzz_command(struct fuzz_world *world, const struct kvr_group_message *message)
{
    if (!kvr_group_command(world->group, message))
        abort();
}

void fuzz_world_run(struct fuzz_world *world, void (*event)(const struct kvr_group_message *))
{
    struct kvr_group_message message;

    for (int round = 0; round < 8; round++) {
        kvr_sim_net_run(world->net, world->now);
        (void)kvr_group_step(world->group, world->now);
        while (kvr_group_event(world->group, &message))
            event(&message);
    }
}

/* ---- what engines have ---- */

struct kvr_region_layout fuzz_layout(struct fuzz_input *input, uint32_t region)
{
    struct kvr_region_layout layout = {
        .region = region,
        .group = region == 1,
        .layer_count = 2,
        .part_count = 2,
        .parts = {KVR_PART_K, KVR_PART_V},
        .head_count = 1,
        .page_tokens = FUZZ_TOKENS,
        .page_count = FUZZ_PAGES,
        .bytes = REGION_BYTES,
        .layer_stride = REGION_BYTES / 2,
        .part_stride = REGION_BYTES / 4,
        .page_stride = FUZZ_TOKENS * 64,
        .token_stride = 64,
        .head_stride = 64,
        .head_bytes = 64,
    };

    if (input == NULL)
        return layout;
    switch (fuzz_below(input, 64)) {
    case 1:
        layout.page_count = (uint32_t)fuzz_about(input, 1u << 30);
        layout.bytes = 1ull << 60;
        layout.part_stride = 1ull << 50;
        layout.layer_stride = 1ull << 52;
        break;
    case 2:
        layout.page_tokens = (uint32_t)fuzz_about(input, 2);
        break;
    case 3:
        layout.group = 1;
        break;
    case 4:
        layout.layer_count = (uint32_t)fuzz_about(input, 1);
        break;
    case 5:
        layout.page_stride = fuzz_about(input, 512);
        break;
    default:
        break;
    }
    return layout;
}

struct kvr_region *fuzz_region(struct fuzz_world *world, uint32_t number, bool local, bool remote)
{
    struct kvr_region_layout layout = fuzz_layout(NULL, number);
    struct kvr_region *region;

    if (kvr_region_open_mapped(&world->fabric, world->rails, FUZZ_RAILS, &layout, own_memory, local,
                               remote ? KVR_REMOTE_GRANTED : KVR_REMOTE_NONE, &region,
                               NULL) != KVR_OK)
        abort();
    world->regions_live++;
    return region;
}

void fuzz_region_done(struct fuzz_world *world, struct kvr_region *region)
{
    assert(world->regions_live > 0);
    world->regions_live--;
    kvr_region_release(&world->fabric, region);
}

struct kvr_rank fuzz_rank(uint32_t number, uint64_t generation)
{
    return (struct kvr_rank){.engine = {.bytes = {(uint8_t)(number + 1)}},
                             .generation = generation,
                             .tp_size = 1,
                             .pp_size = 1};
}

struct kvr_compat fuzz_compat(void)
{
    return (struct kvr_compat){
        .model = "m", .dtype = "bf16", .layers_total = 2, .kv_heads_total = 1, .head_dim = 16};
}

/* ---- what peers say ---- */

void fuzz_hello(struct fuzz_world *world, struct fuzz_input *input,
                struct kvr_rail_address rails[KVR_RAILS_MAX], struct kvr_msg_hello *ret_hello)
{
    uint8_t kind = fuzz_byte(input);

    *ret_hello = (struct kvr_msg_hello){
        .version_min = KVR_PROTOCOL_MIN,
        .version_max = KVR_PROTOCOL_MAX,
        .boot = 7,
        .session = FUZZ_SESSION,
        .agent = "peer",
        .provider = "sim",
        .beat_ms = 100,
        .limits = {.pieces_local = 2, .pieces_remote = 2, .chunk_bytes_max = 4096},
        .rails = rails,
        .rail_count = FUZZ_RAILS,
    };
    for (uint32_t i = 0; i < FUZZ_RAILS; i++) {
        rails[i] = (struct kvr_rail_address){.rail = i, .epoch = 1};
        world->fabric.ops->endpoint_address(world->far_endpoints[i], rails[i].address,
                                            &rails[i].bytes);
    }
    if (kind < 230)
        return;
    ret_hello->limits.chunk_bytes_max = fuzz_about(input, KVR_CHUNK_BYTES_MIN);
    ret_hello->limits.pieces_remote = (uint32_t)fuzz_about(input, 1);
    if (ret_hello->limits.chunk_bytes_max < KVR_CHUNK_BYTES_MIN || /* turned away at the door */
        ret_hello->limits.pieces_remote == 0)
        ret_hello->limits = (struct kvr_write_limits){2, 2, KVR_CHUNK_BYTES_MIN, false};
    ret_hello->rail_count = fuzz_below(input, FUZZ_RAILS + 1);
    rails[0].rail = (uint32_t)fuzz_about(input, 1);
    rails[0].bytes = fuzz_below(input, KVR_ADDRESS_BYTES + 1);
    rails[1].epoch = (uint32_t)fuzz_about(input, 1);
    rails[1].needs_senders = (kind & 1) != 0;
}

void fuzz_regions(struct fuzz_world *world, struct fuzz_input *input, const struct kvr_rank *rank,
                  struct kvr_region_layout layouts[2], struct kvr_remote_key keys[2 * FUZZ_RAILS],
                  struct kvr_msg_regions *ret_regions)
{
    *ret_regions = (struct kvr_msg_regions){
        .rank = *rank,
        .compat = fuzz_compat(),
        .layouts = layouts,
        .layout_count = 1 + (fuzz_byte(input) > 250),
        .keys = keys,
        .rail_count = FUZZ_RAILS - (fuzz_byte(input) > 250),
    };
    for (uint32_t i = 0; i < 2; i++) {
        layouts[i] = fuzz_layout(input, i);
        for (uint32_t k = 0; k < FUZZ_RAILS; k++)
            keys[i * FUZZ_RAILS + k] = world->fabric.ops->memory_key(world->far_memory[k]);
    }
}

uint32_t fuzz_page_runs(struct fuzz_input *input, struct kvr_page_run runs[8])
{
    uint32_t count = fuzz_below(input, 4);

    for (uint32_t i = 0, next = 0; i < count; i++) {
        runs[i].page_first = (uint32_t)fuzz_about(input, next);
        runs[i].page_count = (uint32_t)fuzz_about(input, 1 + fuzz_below(input, 4));
        next = runs[i].page_first + runs[i].page_count;
    }
    return count;
}

uint32_t fuzz_chunk_runs(struct fuzz_input *input, struct kvr_chunk_run runs[8])
{
    uint32_t count = fuzz_below(input, 4);

    for (uint32_t i = 0; i < count; i++) {
        runs[i].chunk_first = (uint32_t)fuzz_about(input, fuzz_below(input, 8));
        runs[i].chunk_count = (uint32_t)fuzz_about(input, 1 + fuzz_below(input, 4));
    }
    return count;
}
