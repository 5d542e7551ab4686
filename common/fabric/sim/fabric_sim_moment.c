/* The moments of a write: when its bytes are read, when it completes, lands and arrives. */
#include <assert.h>
#include <string.h>

#include "fabric/sim/fabric_sim_state.h"

#define TRIES_MAX 40            /* reads without an answer before the card gives up */
#define HANG_NS   (20 * KVR_MS) /* between two of them, at least, where it never does */

/* ---- the heap ------------------------------------------------------------------------------ */

static bool before(const struct sim_moment *a, const struct sim_moment *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void moment_add(struct kvr_sim_net *net, uint32_t write, sim_moment_kind kind, kvr_ns at)
{
    struct sim_moment moment = {.at = at, .order = net->order++, .write = write, .kind = kind};
    uint32_t i = net->moment_count;

    net->moments = sim_grown(net->moments, net->moment_count, &net->moment_capacity,
                             sizeof(struct sim_moment));
    net->moment_count++;
    for (; i > 0 && before(&moment, &net->moments[(i - 1) / 2]); i = (i - 1) / 2)
        net->moments[i] = net->moments[(i - 1) / 2];
    net->moments[i] = moment;
    net->writes[write].pending++;
}

static struct sim_moment moment_take(struct kvr_sim_net *net)
{
    struct sim_moment first = net->moments[0], last = net->moments[--net->moment_count];
    uint32_t i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= net->moment_count)
            break;
        if (child + 1 < net->moment_count && before(&net->moments[child + 1], &net->moments[child]))
            child++;
        if (!before(&net->moments[child], &last))
            break;
        net->moments[i] = net->moments[child];
        i = child;
    }
    net->moments[i] = last;
    return first;
}

kvr_ns kvr_sim_net_next(const struct kvr_sim_net *net)
{
    return net->moment_count > 0 ? net->moments[0].at : KVR_NEVER;
}

/* ---- times --------------------------------------------------------------------------------- */

bool sim_chance(struct kvr_sim_net *net, uint32_t of_10000)
{
    return of_10000 > 0 && kvr_rng_below(net->options.rng, 10000) < of_10000;
}

static void struck(struct kvr_sim_net *net, kvr_sim_fault fault, kvr_ns until)
{
    if (net->options.hooks.fault != NULL)
        net->options.hooks.fault(net->options.hooks.self, fault, until);
}

/* Something between nothing and twice the mean, and now and then much later. */
static kvr_ns some(struct kvr_sim_net *net, kvr_ns mean)
{
    struct kvr_rng *rng = net->options.rng;
    kvr_ns wait = kvr_rng_below(rng, 2 * mean + 1);

    if (sim_chance(net, net->options.late_chance)) {
        wait += kvr_rng_below(rng, net->options.late_ns + 1);
        struck(net, KVR_SIM_LATE, net->now + wait);
    }
    return wait;
}

static bool target_copies(const struct sim_write *write)
{
    return write->endpoint->rail->facts.target_copies;
}

/* A well one is all zeros. */
static struct kvr_sim_way way_of(struct kvr_sim_net *net, const struct sim_write *write,
                                 struct kvr_sim_way **ret_way)
{
    const struct kvr_sim_hooks *hooks = &net->options.hooks;
    const struct kvr_rail *rail = write->endpoint->rail, *target = write->target->rail;
    struct kvr_sim_way *way = NULL;

    if (hooks->way != NULL && !target_copies(write))
        way = hooks->way(hooks->self, rail->host->cookie, rail, target->host->cookie, target);
    if (ret_way != NULL)
        *ret_way = way;
    return way != NULL ? *way : (struct kvr_sim_way){0};
}

/* A slow way is not as wide as the card: others pass. */
static kvr_ns through_at(struct kvr_sim_net *net, const struct sim_write *write, kvr_ns sent,
                         uint64_t speed)
{
    struct kvr_sim_way *way;

    if (way_of(net, write, &way).times_slower == 0)
        return sent;
    if (way->busy_until < sent)
        way->busy_until = sent;
    way->busy_until += write->byte_count * 8 * KVR_S * way->times_slower / speed;
    return way->busy_until;
}

static kvr_ns latency(struct kvr_sim_net *net, const struct sim_write *write)
{
    struct kvr_sim_way way = way_of(net, write, NULL);

    return net->options.latency_ns * (way.times_slower > 0 ? way.times_slower : 1);
}

/* The rail sends one write after the other. */
void sim_write_begin(struct kvr_sim_net *net, uint32_t index)
{
    const struct sim_write *write = &net->writes[index];
    struct kvr_rail *rail = write->endpoint->rail;
    kvr_ns start = net->now > rail->busy_until ? net->now : rail->busy_until;
    uint64_t nominal = rail->facts.speed_bps > 0 ? rail->facts.speed_bps : 1000000000;
    uint64_t speed = net->now < rail->slow_until ? rail->slow_bps : nominal;
    kvr_ns through;

    rail->busy_until = start + write->byte_count * 8 * KVR_S / speed + 1;
    through = through_at(net, write, rail->busy_until, nominal);
    moment_add(net, index, SIM_READ, through + some(net, latency(net, write) / 4));
}

/* ---- what happens -------------------------------------------------------------------------- */

static void queue(struct kvr_sim_net *net, struct kvr_endpoint *endpoint,
                  const struct kvr_completion *completion)
{
    endpoint->queue = sim_grown(endpoint->queue, endpoint->queue_count, &endpoint->queue_capacity,
                                sizeof(*endpoint->queue));
    endpoint->queue[endpoint->queue_count++] = *completion;
    net->options.hooks.wake(net->options.hooks.self, endpoint->rail->host->cookie);
}

static void read_bytes(struct kvr_sim_net *net, struct sim_write *write)
{
    uint64_t at = 0;

    for (unsigned i = 0; i < write->piece_count; i++) {
        const struct kvr_fabric_piece *piece = &write->pieces[i];
        struct kvr_sim_access access = {
            .host = write->endpoint->rail->host->cookie,
            .address = piece->local,
            .bytes = piece->bytes,
            .immediate = write->immediate,
        };

        if (piece->memory->released && !target_copies(write)) {
            net->options.hooks.misuse(net->options.hooks.self,
                                      "a card reads memory that was unregistered");
            return;
        }
        if (!target_copies(write))
            net->options.hooks.read(net->options.hooks.self, &access);
        if (piece->bytes > 0) /* else there is no memory either */
            memcpy(write->bytes + at, piece->local, piece->bytes);
        at += piece->bytes;
    }
    write->was_read = true;
}

/* Without an answer the card reads and sends again, until it gives up or is stopped. */
static void no_answer(struct kvr_sim_net *net, uint32_t index, bool hangs)
{
    struct sim_write *write = &net->writes[index];
    kvr_ns wait = net->options.latency_ns << (write->tries < 10 ? write->tries : 10);

    if (!target_copies(write))
        read_bytes(net, write);
    net->counts.hung += write->tries == 0;
    if (hangs && wait < HANG_NS)
        wait = HANG_NS;
    write->tries++;
    if (!hangs && (write->tries >= TRIES_MAX || kvr_rng_percent(net->options.rng, 10))) {
        write->fails = true;
        moment_add(net, index, SIM_COMPLETE, net->now + 1);
        return;
    }
    moment_add(net, index, SIM_READ, net->now + 1 + some(net, wait));
}

static bool silent(const struct kvr_sim_net *net, const struct sim_write *write)
{
    return sim_apart(write->endpoint->rail, write->target->rail) ||
           net->now < write->endpoint->rail->silent_until ||
           net->now < write->target->rail->silent_until;
}

/* Its card does not answer such a write: it has no way to. */
static bool unknown_there(const struct sim_write *write)
{
    const struct sim_sender *sender;

    if (!write->target->rail->facts.needs_senders)
        return false;
    sender = sim_sender_of(write->target, write->endpoint->number);
    return sender == NULL || sender->removed;
}

static void on_read(struct kvr_sim_net *net, uint32_t index)
{
    struct sim_write *write = &net->writes[index];
    bool target_gone = write->target->stopped || write->target->failed || unknown_there(write);
    struct kvr_sim_way way = way_of(net, write, NULL);

    if ((write->endpoint->stopped || write->endpoint->failed) &&
        (target_gone || !target_copies(write)))
        return;
    if (target_gone || silent(net, write) || way.lost) {
        no_answer(net, index, way.hangs);
        return;
    }
    if (!target_copies(write))
        read_bytes(net, write);
    if (!write->lost && !write->landing)
        moment_add(net, index, SIM_LAND, net->now + some(net, latency(net, write)));
    write->landing = true; /* once: the target's card knows a repetition */
    if (way.mute)
        no_answer(net, index, way.hangs);
    else if (write->lost || write->fails || !target_copies(write))
        moment_add(net, index, SIM_COMPLETE, net->now + some(net, latency(net, write)));
}

static void on_complete(struct kvr_sim_net *net, uint32_t index, bool twice)
{
    struct sim_write *write = &net->writes[index];
    struct kvr_completion completion = {
        .kind = write->fails ? KVR_COMPLETION_FAILED : KVR_COMPLETION_WRITTEN,
        .has_context = true,
        .context = write->context,
        .status = write->fails ? KVR_RAIL_FAILED : KVR_OK,
    };

    if (write->unmoved) {
        completion.kind = KVR_COMPLETION_FAILED;
        completion.status = KVR_COPY_FAILED;
    }
    if (write->endpoint->stopped || write->completed != twice)
        return;
    if (!twice && !write->endpoint->failed && !target_copies(write) &&
        kvr_rng_percent(net->options.rng, 25))
        read_bytes(net, write); /* until it completes, a card may read once more */
    queue(net, write->endpoint, &completion);
    if (twice)
        return;
    write->completed = true;
    write->endpoint->outstanding--;
    if (write->fails || write->lost)
        struck(net, write->fails ? KVR_SIM_FAILED : KVR_SIM_LOST, net->now);
    if (sim_chance(net, net->options.twice_chance)) {
        struck(net, KVR_SIM_TWICE, net->now);
        moment_add(net, index, SIM_COMPLETE_TWICE,
                   net->now + 1 + kvr_rng_below(net->options.rng, net->options.latency_ns));
    }
}

void sim_endpoint_fail(struct kvr_sim_net *net, struct kvr_endpoint *endpoint)
{
    struct kvr_completion completion = {.kind = KVR_COMPLETION_FAILED, .status = KVR_RAIL_FAILED};

    endpoint->failed = true;
    for (uint32_t i = 0; i < net->write_capacity; i++) {
        struct sim_write *write = &net->writes[i];

        if (write->pending == 0 || write->endpoint != endpoint || write->completed)
            continue;
        write->fails = true;
        moment_add(net, i, SIM_COMPLETE, net->now);
    }
    queue(net, endpoint, &completion);
}

static struct kvr_memory *target_memory(struct kvr_sim_net *net, const struct sim_write *write,
                                        const struct kvr_fabric_piece *piece)
{
    uint32_t number = (uint32_t)piece->key;
    struct kvr_memory *memory = number < net->memory_count ? net->memories[number] : NULL;

    if (memory == NULL || memory->key.key != piece->key || memory->granted)
        memory = sim_granted_find(net, write->target->rail, piece->key);
    if (memory == NULL || piece->key == 0 || memory->rail != write->target->rail ||
        !memory->remote || memory->released)
        return NULL;
    if (piece->remote < memory->key.base || piece->bytes > memory->bytes ||
        piece->remote - memory->key.base > memory->bytes - piece->bytes)
        return NULL;
    return memory;
}

/* Where the target copies, its copying is what the writer's completion waits for. */
static void copy(struct kvr_sim_net *net, uint32_t index, bool lands)
{
    struct sim_write *write = &net->writes[index];

    if (!target_copies(write))
        return;
    if (lands)
        read_bytes(net, write);
    if (write->fails)
        return; /* that was reported already, or will be */
    write->fails = !lands;
    moment_add(net, index, SIM_COMPLETE, net->now + 1 + some(net, net->options.latency_ns / 8));
}

/* A device of the target is to move it, and will not: half of its pieces, or none where it does not
 * see them. */
static bool unmoved(struct kvr_sim_net *net, const struct sim_write *write)
{
    if (!write->pieces[0].memory->pages)
        return false;
    if (write->byte_count == 0)
        return sim_chance(net, net->options.unseen_chance);
    if (!sim_chance(net, net->options.unmoved_chance))
        return false;
    struck(net, KVR_SIM_UNMOVED, net->now);
    return true;
}

static void on_land(struct kvr_sim_net *net, uint32_t index)
{
    struct sim_write *write = &net->writes[index];
    unsigned piece_count = write->piece_count;
    uint64_t at = 0;

    if (write->target->stopped || write->target->failed ||
        (write->endpoint->stopped && !target_copies(write) &&
         kvr_rng_percent(net->options.rng, 50))) {
        net->counts.dropped++;
        copy(net, index, false);
        return;
    }
    copy(net, index, true);
    write->unmoved = unmoved(net, write);
    if (write->unmoved)
        piece_count /= 2;
    for (unsigned i = 0; i < piece_count; i++) {
        const struct kvr_fabric_piece *piece = &write->pieces[i];
        struct kvr_memory *memory = target_memory(net, write, piece);
        struct kvr_sim_access access = {
            .host = write->target->rail->host->cookie,
            .from = write->endpoint->rail->host->cookie,
            .bytes = piece->bytes,
            .immediate = write->immediate,
            .incoming = write->bytes + at,
            .copied = target_copies(write),
        };

        if (memory == NULL && write->byte_count == 0) { /* it was released: no owner can lose it */
            write->unmoved = true;
            break;
        }
        if (memory == NULL) {
            net->options.hooks.misuse(net->options.hooks.self,
                                      "a write to a key that is not registered there");
            return;
        }
        if (memory->pages != piece->memory->pages) {
            net->options.hooks.misuse(net->options.hooks.self,
                                      "a device is to move what is host memory at one end");
            return;
        }
        if (piece->bytes == 0)
            continue;
        access.address = memory->base + (piece->remote - memory->key.base);
        net->options.hooks.land(net->options.hooks.self, &access);
        memcpy(access.address, write->bytes + at, piece->bytes);
        if (sim_chance(net, net->options.corrupt_chance)) {
            ((uint8_t *)access.address)[kvr_rng_below(net->options.rng, piece->bytes)] ^= 0x10;
            net->options.hooks.corrupted(net->options.hooks.self, &access);
        }
        at += piece->bytes;
    }
    moment_add(net, index, SIM_ARRIVE, net->now + some(net, net->options.latency_ns / 8));
}

static void on_arrive(struct kvr_sim_net *net, const struct sim_write *write)
{
    struct kvr_completion completion = {.kind = write->unmoved ? KVR_COMPLETION_UNMOVED
                                                               : KVR_COMPLETION_ARRIVED,
                                        .immediate = write->immediate};

    if (write->target->stopped) {
        net->counts.dropped++;
        return;
    }
    net->counts.landed++;
    queue(net, write->target, &completion);
    if (sim_chance(net, net->options.twice_chance)) {
        struck(net, KVR_SIM_TWICE, net->now);
        queue(net, write->target, &completion);
    }
}

static bool from_outside(const struct kvr_rail *rail, const struct kvr_completion *completion)
{
    struct kvr_sim_net *net = rail->host->net;

    for (uint32_t i = 0; i < net->endpoint_count; i++) {
        struct kvr_endpoint *endpoint = net->endpoints[i];

        if (endpoint->rail != rail || endpoint->stopped || endpoint->failed)
            continue;
        queue(net, endpoint, completion);
        return true;
    }
    return false;
}

bool kvr_sim_rail_forge(struct kvr_rail *rail, uint64_t immediate)
{
    struct kvr_completion completion = {.kind = KVR_COMPLETION_ARRIVED, .immediate = immediate};

    return from_outside(rail, &completion);
}

bool kvr_sim_rail_break_off(struct kvr_rail *rail)
{
    struct kvr_completion completion = {.kind = KVR_COMPLETION_FAILED, .status = KVR_PEER_LOST};

    return from_outside(rail, &completion);
}

void kvr_sim_net_run(struct kvr_sim_net *net, kvr_ns now)
{
    while (net->moment_count > 0 && net->moments[0].at <= now) {
        struct sim_moment moment = moment_take(net);
        struct sim_write *write;

        net->now = moment.at;
        if (moment.kind == SIM_READ)
            on_read(net, moment.write);
        else if (moment.kind == SIM_COMPLETE || moment.kind == SIM_COMPLETE_TWICE)
            on_complete(net, moment.write, moment.kind == SIM_COMPLETE_TWICE);
        else if (moment.kind == SIM_LAND)
            on_land(net, moment.write);
        else
            on_arrive(net, &net->writes[moment.write]);
        write = &net->writes[moment.write];
        if (--write->pending == 0) {
            write->next_free = net->free_write;
            net->free_write = moment.write;
        }
    }
    net->now = now;
}
