#include "tools/bench/bench_raw_side.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define BLIND_SLEEP_NS 50000l /* as rail_group_thread's */
#define NAP_MS         1

static bool rail_open(struct raw_side *side, uint32_t index, bool writes, struct kvr_error *error)
{
    const char *provider = side->raw->options->provider;
    const struct bench_rails *rails = side->raw->rails;
    const struct kvr_fabric_ops *ops = side->fabric.ops;
    struct raw_rail *rail = &side->rails[index];
    struct kvr_rail_options wanted = {0};
    struct kvr_memory_span span = {.base = side->memory->address,
                                   .bytes = bench_pool_bytes(side->raw->pool),
                                   .local = writes,
                                   .remote = !writes,
                                   .fd = side->memory->fd};

    snprintf(wanted.provider, sizeof(wanted.provider), "%s", provider);
    snprintf(wanted.name, sizeof(wanted.name), "%s",
             writes ? rails->source[index] : rails->target[index]);
    snprintf(wanted.congestion, sizeof(wanted.congestion), "%s",
             side->raw->options->raw_congestion);
    wanted.copy_threads = (uint32_t)side->raw->options->copying.local_copy_threads;
    if (ops->rail_open(side->fabric.self, &wanted, &rail->rail, error) != KVR_OK)
        return false;
    side->rail_count = index + 1; /* what close has to undo */
    return ops->memory_register(rail->rail, &span, &rail->memory, error) == KVR_OK &&
           ops->endpoint_open(rail->rail, &rail->endpoint, error) == KVR_OK;
}

static uint32_t pieces_of(const struct raw_side *side, const struct raw_rail *rail)
{
    const struct kvr_rail_facts *facts = side->fabric.ops->rail_facts(rail->rail);
    uint32_t pieces = facts->write.pieces_local;

    return facts->write.pieces_remote < pieces ? facts->write.pieces_remote : pieces;
}

bool raw_side_open(struct raw_side *side, const struct bench_raw *raw, bool writes,
                   struct raw_address *own, struct bench_result *result)
{
    uint32_t count = writes ? raw->rails->source_count : raw->rails->target_count;
    struct kvr_error error = {0};

    memset(side, 0, sizeof(*side));
    if (!writes && !bench_rails_enter_target(raw->rails)) {
        bench_problem(result, "cannot enter the target's namespace");
        return false;
    }
    side->raw = raw;
    side->memory = writes ? &raw->pool->source : &raw->pool->target;
    (void)prctl(PR_SET_TIMERSLACK, 1000ul);
    bench_pool_touch(side->memory);
    if (!writes)
        bench_pool_touch(&raw->pool->source); /* the reader may copy from it itself */
    kvr_fabric_of(raw->options->provider, &side->fabric);
    for (uint32_t i = 0; i < count; i++) {
        const struct raw_rail *rail = &side->rails[i];

        if (!rail_open(side, i, writes, &error)) {
            bench_problem(result, "cannot use rail %u: %s", i, error.detail);
            return false;
        }
        if (writes && pieces_of(side, rail) < raw->board->pieces_max)
            raw->board->pieces_max = pieces_of(side, rail);
        side->fabric.ops->endpoint_address(rail->endpoint, own[i].address, &own[i].bytes);
        own[i].key = side->fabric.ops->memory_key(rail->memory);
        side->descriptors[i].fd = side->fabric.ops->endpoint_wait_fd(rail->endpoint);
        side->descriptors[i].events = POLLIN;
        side->blind = side->blind || side->descriptors[i].fd < 0;
    }
    return true;
}

bool raw_side_connect(struct raw_side *side, const struct raw_address *others, bool writes,
                      struct bench_result *result)
{
    struct kvr_error error = {0};

    for (uint32_t i = 0; !side->connected && i < side->rail_count; i++) {
        uint32_t partner = bench_rails_partner(side->raw->rails, writes, i);
        const struct raw_address *other;

        if (partner == BENCH_RAIL_NONE)
            continue;
        other = &others[partner];
        side->rails[i].key = other->key;
        if (side->fabric.ops->peer_insert(side->rails[i].endpoint, other->address, other->bytes,
                                          &side->rails[i].peer, &error) != KVR_OK) {
            bench_problem(result, "cannot reach rail %u: %s", i, error.detail);
            return false;
        }
    }
    side->connected = true;
    return true;
}

void raw_side_close(struct raw_side *side)
{
    const struct kvr_fabric_ops *ops = side->fabric.ops;

    for (uint32_t i = 0; i < side->rail_count; i++) {
        struct raw_rail *rail = &side->rails[i];

        if (rail->endpoint != NULL) {
            ops->endpoint_stop(rail->endpoint);
            ops->endpoint_close(rail->endpoint);
        }
        if (rail->memory != NULL)
            ops->memory_release(rail->memory);
        ops->rail_close(rail->rail);
    }
}

void raw_side_wait(struct raw_side *side, bool moved, kvr_ns now)
{
    struct timespec nap = {.tv_nsec = BLIND_SLEEP_NS};

    if (moved) {
        side->progress_at = now;
        return;
    }
    if (side->spins || now - side->progress_at < side->raw->options->posting.spin)
        return;
    for (uint32_t i = 0; i < side->rail_count; i++)
        if (!side->fabric.ops->endpoint_may_sleep(side->rails[i].endpoint))
            return;
    if (side->blind)
        (void)nanosleep(&nap, NULL);
    else
        (void)poll(side->descriptors, side->rail_count, NAP_MS);
}
