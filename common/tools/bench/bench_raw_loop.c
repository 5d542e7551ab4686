/* The two loops that are compared with the agents' rail groups. */
#include "tools/bench/bench_raw_copy.h"
#include "tools/bench/bench_raw_side.h"

#define POLL_MAX 64
#define LATE_NS  (5 * KVR_S) /* nothing moves for so long: something is lost */

/* KVR_AGAIN: the rail takes no more now. */
static kvr_status write_next(struct raw_side *side, struct raw_rail *rail,
                             const struct bench_raw_shape *shape)
{
    struct kvr_fabric_piece list[KVR_IOV_MAX];
    struct kvr_fabric_write write = {
        .pieces = list,
        .piece_count = shape->pieces,
        .peer = rail->peer,
        .immediate = (uint32_t)side->next,
        .context = side->next + 1,
    };
    kvr_status status;

    for (uint32_t i = 0; i < shape->pieces; i++) {
        uint64_t source, target;

        bench_pool_page(side->raw->pool, side->next + (uint64_t)i * shape->pages, &source, &target);
        list[i] = (struct kvr_fabric_piece){
            .local = (uint8_t *)side->memory->address + source,
            .memory = rail->memory,
            .remote = rail->key.base + target,
            .key = rail->key.key,
            .bytes = shape->pages * side->raw->pool->page_bytes,
        };
    }
    status = side->fabric.ops->write(rail->endpoint, &write);
    if (status == KVR_OK) {
        side->next += (uint64_t)shape->pieces * shape->pages;
        rail->on_their_way++;
        side->on_their_way++;
    }
    return status;
}

/* Fills the windows. Returns how many writes were accepted. */
static uint64_t write_more(struct raw_side *side, const struct bench_order *order,
                           struct bench_result *result)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < side->rail_count; i++) {
        struct raw_rail *rail = &side->rails[i];
        kvr_status status = KVR_OK;

        if (order->raw.rail != BENCH_RAILS_ALL && order->raw.rail != i)
            continue;
        while (status == KVR_OK && rail->on_their_way < order->raw.window) {
            status = write_next(side, rail, &order->raw);
            count += status == KVR_OK;
        }
        if (status != KVR_OK && status != KVR_AGAIN)
            bench_problem(result, "had a write refused: %s", kvr_status_text(status));
    }
    return count;
}

/* Takes what each queue has. Returns how many writes were completed, or arrived. */
static uint64_t poll_rails(struct raw_side *side, kvr_completion_kind wanted,
                           struct bench_result *result)
{
    struct kvr_completion completions[POLL_MAX];
    uint64_t count = 0;

    for (uint32_t i = 0; i < side->rail_count; i++) {
        unsigned got = side->fabric.ops->poll(side->rails[i].endpoint, completions, POLL_MAX);

        for (unsigned k = 0; k < got; k++) {
            if (completions[k].kind == KVR_COMPLETION_FAILED)
                bench_problem(result, "had a write fail: %s",
                              kvr_status_text(completions[k].status));
            else if (completions[k].kind == wanted)
                count++;
            if (wanted == KVR_COMPLETION_WRITTEN && completions[k].kind == wanted) {
                side->rails[i].on_their_way--;
                side->on_their_way--;
            }
        }
    }
    return count;
}

static void write_turn(void *self, const struct bench_order *order, struct bench_result *result)
{
    struct raw_side *side = self;
    struct raw_board *board = side->raw->board;
    kvr_ns now = kvr_clock_now(), end = now + order->duration;

    if (!raw_side_connect(side, board->reader, true, result))
        return;
    side->spins = order->raw.spins;
    side->progress_at = result->first_at = now;
    while (!result->failed && (now < end || side->on_their_way > 0)) {
        uint64_t posted = now < end ? write_more(side, order, result) : 0;
        uint64_t written = poll_rails(side, KVR_COMPLETION_WRITTEN, result);

        result->writes += posted;
        now = kvr_clock_now();
        raw_side_wait(side, posted + written > 0, now);
        if (now - side->progress_at > LATE_NS)
            bench_problem(result, "waits for completions that do not come");
    }
    result->bytes =
        result->writes * order->raw.pieces * order->raw.pages * side->raw->pool->page_bytes;
    atomic_store(&board->posted, result->writes);
    atomic_store(&board->finished, true);
}

void raw_writer(void *self, int socket)
{
    static struct raw_side side;
    const struct bench_raw *raw = self;
    struct bench_result result = {0};

    (void)raw_side_open(&side, raw, true, raw->board->writer, &result);
    bench_child_serve(socket, &result, write_turn, &side);
    raw_side_close(&side);
}

static void read_turn(void *self, const struct bench_order *order, struct bench_result *result)
{
    struct raw_side *side = self;
    struct raw_board *board = side->raw->board;
    kvr_ns now = kvr_clock_now();

    if (order->raw.threads > 0) {
        raw_copy_turn(side->raw->pool, order, &side->next, result);
        return;
    }
    if (!raw_side_connect(side, board->writer, false, result))
        return;
    side->spins = order->raw.spins;
    side->progress_at = now;
    while (!result->failed) {
        uint64_t arrived = poll_rails(side, KVR_COMPLETION_ARRIVED, result);

        result->count += arrived;
        now = kvr_clock_now();
        if (arrived > 0)
            result->last_at = now;
        if (atomic_load_explicit(&board->finished, memory_order_acquire) &&
            result->count >= atomic_load(&board->posted))
            return;
        raw_side_wait(side, arrived > 0, now);
        if (now - side->progress_at > LATE_NS)
            bench_problem(result, "waits for writes that do not arrive");
    }
}

void raw_reader(void *self, int socket)
{
    static struct raw_side side;
    const struct bench_raw *raw = self;
    struct bench_result result = {0};

    (void)raw_side_open(&side, raw, false, raw->board->reader, &result);
    bench_child_serve(socket, &result, read_turn, &side);
    raw_side_close(&side);
}
