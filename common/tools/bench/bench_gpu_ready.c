#include "tools/bench/bench_gpu_ready.h"

#include "tools/bench/bench_gpu_player.h"
#include "tools/post_rig.h"

#define LAYERS   64u /* pings of one transfer: a layer, and so a write, each */
#define PAUSE_NS (20 * KVR_US)
#define STUCK_NS (60 * KVR_S) /* of a turn */
#define LOOKS    4096u        /* at the word between two looks at the clock */

/* Patience of a thread that waits for the GPU: over when the GPU does not run. The clock is read
 * now and then only. */
struct patience {
    kvr_ns until;
    uint32_t looks;
};

static bool over(struct patience *patience)
{
    if (++patience->looks % LOOKS != 0)
        return false;
    if (patience->until == 0)
        patience->until = kvr_clock_now() + STUCK_NS;
    return kvr_clock_now() > patience->until;
}

static unsigned long long read_word(unsigned long long *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- the raw loop ---------------------------------------------------------------------------- */

static bool reply_raw(struct gpu_ping *ping, uint64_t turns)
{
    unsigned long long seen = read_word(ping->reply);
    struct patience patience = {0};

    __atomic_store_n(ping->go, seen + ping->count, __ATOMIC_RELEASE);
    while (read_word(ping->ended) < turns) {
        unsigned long long word = read_word(ping->word);

        if (word != seen)
            __atomic_store_n(ping->reply, seen = word, __ATOMIC_RELEASE);
        else if (over(&patience))
            return false;
    }
    return true;
}

/* ---- a rail group ---------------------------------------------------------------------------- */

/* The null fabric, of which each write is a reply. */
static struct {
    struct kvr_fabric_null options;
    struct kvr_fabric_ops ops;
    kvr_status (*write)(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write);
    struct gpu_ping *ping;
} telling;

static kvr_status write_and_reply(struct kvr_endpoint *endpoint,
                                  const struct kvr_fabric_write *write)
{
    kvr_status status = telling.write(endpoint, write);

    if (status == KVR_OK)
        __atomic_fetch_add(telling.ping->reply, 1, __ATOMIC_RELEASE);
    return status;
}

static bool rig_open(struct post_rig *rig, struct gpu_ping *ping)
{
    struct kvr_fabric fabric;

    telling.options = (struct kvr_fabric_null){.pieces = 1, .in_flight = 0};
    kvr_fabric_null(&telling.options, &fabric);
    telling.ping = ping;
    telling.ops = *fabric.ops;
    telling.write = fabric.ops->write;
    telling.ops.write = write_and_reply;
    fabric.ops = &telling.ops;
    return post_rig_start(rig, &(struct post_rig_options){
                                   .page_bytes = 65536,
                                   .layers = LAYERS,
                                   .pages = 1,
                                   .rails = 4,
                                   .jobs = 1,
                                   .pieces = 1,
                                   .fabric = &fabric,
                                   .group = {.window_bytes = 1ull << 32, .clock = kvr_clock_now},
                                   .word = (_Atomic uint64_t *)ping->word});
}

static bool reply_posts(struct post_rig *rig, struct gpu_ping *ping, uint64_t turns)
{
    uint64_t transfers = ping->count / LAYERS, opens = 0;
    unsigned long long go = read_word(ping->reply);
    struct patience patience = {0};
    bool moved;

    while (read_word(ping->ended) < turns || rig->open > 0) {
        bool begins = rig->open == 0 && transfers > 0;

        if (begins) {
            transfers--;
            opens = 1;
        }
        if (!post_rig_step(rig, kvr_clock_now(), &opens, &moved) || over(&patience))
            return false;
        if (begins)
            __atomic_store_n(ping->go, go += LAYERS, __ATOMIC_RELEASE);
        if (read_word(ping->ended) >= turns && ping->late != 0)
            return true; /* the player says so */
    }
    return true;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* rig: NULL: the raw loop replies. times: NULL: to warm up. */
static kvr_status turn(struct gpu_player *player, struct post_rig *rig, uint64_t pings,
                       struct kvr_histogram *times, struct kvr_error *error)
{
    struct gpu_ping *ping = player->ping;
    uint64_t turns = read_word(ping->ended) + 1;
    bool good;
    kvr_status status;
    double tick_ns;

    ping->count = pings;
    ping->pause_ns = PAUSE_NS;
    status = gpu_player_begin(player, error);
    if (status != KVR_OK)
        return status;
    good = rig != NULL ? reply_posts(rig, ping, turns) : reply_raw(ping, turns);
    status = gpu_player_end(player, error);
    if (status == KVR_OK && !good)
        return kvr_error_set(error, KVR_INVALID, "bench",
                             "the GPU does not run, or the rail group refused a transfer");
    if (status != KVR_OK || times == NULL)
        return status;
    tick_ns = (double)ping->ns / (double)ping->ticks;
    for (uint64_t i = 0; i < pings; i++)
        kvr_histogram_record(times, (uint64_t)((double)ping->took[i] * tick_ns));
    return KVR_OK;
}

static kvr_status both(struct gpu_player *player, struct post_rig *rig, struct gpu_ready *ready,
                       struct kvr_error *error)
{
    kvr_status status = turn(player, NULL, LAYERS, NULL, error);

    if (status == KVR_OK)
        status = turn(player, rig, LAYERS, NULL, error);
    if (status == KVR_OK)
        status = turn(player, NULL, ready->pings, &ready->raw, error);
    if (status == KVR_OK)
        status = turn(player, rig, ready->pings, &ready->ours, error);
    return status;
}

kvr_status gpu_ready_measure(struct kvr_device *device, struct gpu_ready *ready,
                             struct kvr_error *error)
{
    static struct post_rig rig;
    struct gpu_player player;
    kvr_status status = gpu_player_open(&player, device, error);

    ready->pings = (ready->pings + LAYERS - 1) / LAYERS * LAYERS;
    if (ready->pings > GPU_PING_MAX)
        ready->pings = GPU_PING_MAX;
    kvr_histogram_init(&ready->raw);
    kvr_histogram_init(&ready->ours);
    if (status == KVR_OK) {
        if (rig_open(&rig, player.ping))
            status = both(&player, &rig, ready, error);
        else
            status = kvr_error_set(error, KVR_NO_MEMORY, "bench", "no rail group could be made");
        post_rig_stop(&rig);
    }
    gpu_player_close(&player);
    return status;
}

double gpu_ready_us(const struct gpu_ready *ready, double percent)
{
    double longer = (double)kvr_histogram_percentile(&ready->ours, percent) -
                    (double)kvr_histogram_percentile(&ready->raw, 50);

    return longer > 0 ? longer / (double)KVR_US : 0;
}
