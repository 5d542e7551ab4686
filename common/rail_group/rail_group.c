/* A rail group as a whole: its memory, its rings and its round of work. */
#include "rail_group/rail_group_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutant.h"

#define WINDOW_BYTES_DEFAULT (16u << 20)
#define BATCH_WRITES_DEFAULT 32u
#define RING_ENTRIES_DEFAULT 4096u
#define OVERFLOW_FACTOR      16u /* events that callbacks of one step may tell beyond the ring */
#define COMMANDS_A_STEP      64u

static uint32_t window_writes(const struct kvr_group_options *options,
                              const struct kvr_rail_facts *facts)
{
    uint32_t most = facts->write.outstanding_max > 0 ? facts->write.outstanding_max : 1;

    return options->window_writes > 0 && options->window_writes < most ? options->window_writes
                                                                       : most;
}

static kvr_status pool_open(struct kvr_pool *pool, void **ret_memory, uint32_t count,
                            size_t slot_bytes)
{
    size_t bytes = (kvr_pool_bytes(count, slot_bytes) + 63) & ~(size_t)63;

    *ret_memory = aligned_alloc(64, bytes);
    if (*ret_memory == NULL)
        return KVR_NO_MEMORY;
    kvr_pool_init(pool, *ret_memory, count, slot_bytes);
    return KVR_OK;
}

static kvr_status flights_open(struct group_flights *flights, uint32_t count)
{
    flights->slots = calloc(count, sizeof(*flights->slots));
    flights->free = malloc(count * sizeof(*flights->free));
    if (flights->slots == NULL || flights->free == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        flights->free[i] = count - 1 - i;
    flights->free_count = flights->count = count;
    return KVR_OK;
}

static kvr_status memory_open(struct kvr_group *group, uint32_t flights, uint32_t ring_entries,
                              struct kvr_error *error)
{
    uint32_t message_bytes = sizeof(struct kvr_group_message);

    group->peers = calloc(KVR_PEERS_MAX, sizeof(*group->peers));
    if (group->peers == NULL || flights_open(&group->flights, flights) != KVR_OK ||
        pool_open(&group->links, &group->links_memory, KVR_PEERS_MAX * GROUP_LINKS_MAX + flights,
                  sizeof(struct group_link)) != KVR_OK ||
        kvr_chain_init(&group->rings.commands, ring_entries, message_bytes) != KVR_OK ||
        kvr_ring_init(&group->rings.events, NULL, ring_entries, message_bytes) != KVR_OK ||
        kvr_ring_init(&group->rings.overflow, NULL, ring_entries * OVERFLOW_FACTOR,
                      message_bytes) != KVR_OK)
        return kvr_error_set(error, KVR_NO_MEMORY, "rail_group",
                             "no memory for a rail group with %u writes in flight", flights);
    return KVR_OK;
}

static kvr_status rails_open(struct kvr_group *group, const struct kvr_group_options *options,
                             struct kvr_error *error)
{
    for (uint32_t i = group->rail_first; i < group->rail_first + options->rail_count; i++) {
        struct kvr_endpoint *endpoint = NULL;
        kvr_status status = group->ops->endpoint_open(options->rails[i], &endpoint, error);

        if (status != KVR_OK)
            return status;
        group->rail_end = i + 1; /* what close has to undo */
        (void)group_endpoint_install(group, i, endpoint, 1);
    }
    return KVR_OK;
}

uint64_t kvr_group_window_bytes(const struct kvr_rail_facts *facts)
{
    return facts->write.window_bytes > 0 ? facts->write.window_bytes : WINDOW_BYTES_DEFAULT;
}

static uint64_t window_bytes(const struct kvr_group_options *options,
                             const struct kvr_rail_facts *facts)
{
    return options->window_bytes > 0 ? options->window_bytes : kvr_group_window_bytes(facts);
}

kvr_status kvr_group_open(const struct kvr_group_options *options, struct kvr_group **ret_group,
                          struct kvr_error *error)
{
    uint32_t ring_entries =
        options->ring_entries > 0 ? options->ring_entries : RING_ENTRIES_DEFAULT;
    struct kvr_group *group;
    uint32_t flights = 0;
    kvr_status status;

    if (options->rail_count == 0 || options->rail_first >= KVR_RAILS_MAX ||
        options->rail_count > KVR_RAILS_MAX - options->rail_first)
        return kvr_error_set(error, KVR_INVALID, "rail_group",
                             "%u rails behind %u others; an agent has 1 to %d", options->rail_count,
                             options->rail_first, KVR_RAILS_MAX);
    if ((ring_entries & (ring_entries - 1)) != 0)
        return kvr_error_set(error, KVR_INVALID, "rail_group",
                             "%u ring entries; it must be a power of two", ring_entries);
    group = calloc(1, sizeof(*group));
    if (group == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "rail_group", "no memory for a rail group");
    pthread_mutex_init(&group->address_lock, NULL);
    group->ops = options->fabric->ops;
    group->clock = options->clock;
    group->stamps = options->clock != NULL ? options->stamps : NULL;
    group->user = options->user;
    group->number = options->number;
    group->wake = options->wake;
    group->wake_self = options->wake_self;
    group->rail_first = group->rail_end = options->rail_first;
    group->timers.retry_at = group->timers.silence_at = KVR_NEVER;
    group->timers.surplus_at = group->timers.warm_at = KVR_NEVER;
    group->timers.silence_ns = options->silence_ns;
    group->absence.bound_ns = options->absence_ns;
    group->other_planes = options->other_planes;
    group->batch_writes = options->batch_writes > 0 ? options->batch_writes : BATCH_WRITES_DEFAULT;
    for (uint32_t i = options->rail_first; i < options->rail_first + options->rail_count; i++) {
        const struct kvr_rail_facts *facts = group->ops->rail_facts(options->rails[i]);

        group->rails[i].rail = options->rails[i];
        group->rails[i].limits = facts->write;
        group->rails[i].same_host = facts->same_host_only;
        memcpy(group->rails[i].plane, options->planes != NULL ? options->planes[i] : facts->network,
               sizeof(group->rails[i].plane));
        group->rails[i].needs_senders = facts->needs_senders;
        group->rails[i].tags = facts->immediate_bits == 64;
        group->rails[i].writes_max = window_writes(options, facts);
        group->rails[i].bytes_max = window_bytes(options, facts);
        group->rails[i].connections_max = facts->closes ? options->connections : 0;
        group->rails[i].rest_ns = facts->rest_ns;
        flights += group->rails[i].writes_max;
    }
    status = memory_open(group, flights, ring_entries, error);
    if (status == KVR_OK && group_senders_open(group, options->rail_count) != KVR_OK)
        status = kvr_error_set(error, KVR_NO_MEMORY, "rail_group",
                               "no memory for the addresses of those that write to it");
    if (status == KVR_OK)
        status = group_scratch_open(group, options, error);
    if (status == KVR_OK)
        status = rails_open(group, options, error);
    if (status != KVR_OK) {
        kvr_group_close(group);
        return status;
    }
    if (group->user.opened != NULL)
        group->user.opened(group->user.self, group);
    *ret_group = group;
    return KVR_OK;
}

void kvr_group_close(struct kvr_group *group)
{
    if (group == NULL)
        return;
    for (uint32_t i = group->rail_first; i < group->rail_end; i++) {
        if (group->rails[i].endpoint == NULL)
            continue;
        group->ops->endpoint_stop(group->rails[i].endpoint);
        group->ops->endpoint_close(group->rails[i].endpoint);
    }
    group_scratch_close(group);
    group_passes_close(group);
    kvr_chain_done(&group->rings.commands);
    kvr_ring_done(&group->rings.events);
    kvr_ring_done(&group->rings.overflow);
    group_senders_close(group);
    free(group->links_memory);
    free(group->flights.slots);
    free(group->flights.free);
    free(group->peers);
    pthread_mutex_destroy(&group->address_lock);
    free(group);
}

void kvr_group_tell(struct kvr_group *group, const struct kvr_group_message *message)
{
    struct kvr_group_message told = *message;
    bool kept;

    told.head.group = group->number;
    group->rings.told = true;
    if (kvr_ring_count(&group->rings.overflow) == 0 && kvr_ring_push(&group->rings.events, &told))
        return;
    kept = kvr_ring_push(&group->rings.overflow, &told);
    assert(kept); /* step does nothing new before the overflow is empty */
    (void)kept;
}

kvr_status kvr_group_memory_open(struct kvr_group *group, uint32_t rail,
                                 const struct kvr_memory_span *span, struct kvr_memory **ret_memory,
                                 struct kvr_error *error)
{
    assert(rail >= group->rail_first && rail < group->rail_end);
    return group->ops->memory_register(group->rails[rail].rail, span, ret_memory, error);
}

void kvr_group_memory_close(struct kvr_group *group, struct kvr_memory *memory)
{
    group->ops->memory_release(memory);
}

void kvr_group_stamp(const struct kvr_group *group, kvr_station station)
{
    if (group->stamps != NULL)
        kvr_stamp(group->stamps, station, group->clock());
}

/* False when the loop or another group is behind: the rails are not polled until it has caught up.
 */
static bool overflow_empty(struct kvr_group *group)
{
    const struct kvr_group_message *message;

    while ((message = kvr_ring_peek(&group->rings.overflow)) != NULL) {
        if (!kvr_ring_push(&group->rings.events, message))
            return false;
        kvr_ring_drop(&group->rings.overflow);
        group->rings.told = true;
    }
    return group_passes_flush(group);
}

/* As commands: while the loop is behind, too, if the answers fit. */
static bool recycles_run(struct kvr_group *group)
{
    bool any = false;

    for (uint32_t i = group->rail_first; i < group->rail_end && group->rings.recycles != 0; i++) {
        if ((group->rings.recycles >> i & 1) == 0 ||
            kvr_ring_room(&group->rings.overflow) <= group->rings.overflow.mask / 2)
            continue;
        group->rings.recycles &= ~(UINT64_C(1) << i);
        group_recycle(group, i);
        any = true;
    }
    return any;
}

static void command_run(struct kvr_group *group, const struct kvr_group_message *message)
{
    struct kvr_group_message refused = {.head.kind = KVR_GROUP_RECYCLED};

    switch (message->head.kind) {
    case KVR_GROUP_PEER_ADD:
        group_peer_add(group, message);
        return;
    case KVR_GROUP_PEER_RAIL:
        group_peer_rail(group, message);
        return;
    case KVR_GROUP_PEER_DROP:
        group_peer_drop(group, message);
        return;
    case KVR_GROUP_PAIR_RENEW:
        group_pair_renew(group, message);
        return;
    case KVR_GROUP_PAIRS_ASK:
        group_pairs_report(group, message);
        return;
    case KVR_GROUP_SENDER:
        group_sender(group, message);
        return;
    case KVR_GROUP_SENDER_KNOWN:
        group_sender_known(group, message);
        return;
    case KVR_GROUP_CONFIRMED:
        group_confirmed(group, message);
        return;
    case KVR_GROUP_SUSPENDED:
        group_absence_check(group, message->suspended.since);
        return;
    case KVR_GROUP_RECYCLE:
        if (message->recycle.rail >= group->rail_first && message->recycle.rail < group->rail_end) {
            group->rings.recycles |= UINT64_C(1) << message->recycle.rail;
            if (KVR_MUTANT(grants_come_late))
                (void)recycles_run(group);
            return;
        }
        refused.recycled.rail = message->recycle.rail;
        refused.recycled.status = KVR_INVALID;
        kvr_group_tell(group, &refused);
        return;
    default:
        assert(message->head.kind >= KVR_GROUP_KIND_USER);
        group->user.command(group->user.self, group->now, message);
    }
}

/* Runs the oldest command. False: there is none, or its answers may not fit into the overflow.
 * Commands run even while the loop is behind; otherwise two threads with full rings would wait for
 * each other. */
static bool command_next(struct kvr_group *group, uint32_t room_kept)
{
    struct kvr_group_message message;

    if (kvr_ring_room(&group->rings.overflow) <= room_kept ||
        !kvr_chain_pop(&group->rings.commands, &message))
        return false;
    group_absence_check(group, message.head.at);
    command_run(group, &message);
    return true;
}

static bool commands_run(struct kvr_group *group)
{
    uint32_t count = 0;

    while (count < COMMANDS_A_STEP && command_next(group, group->rings.overflow.mask / 2))
        count++;
    return count > 0;
}

void group_commands_late(struct kvr_group *group)
{
    uint32_t left = KVR_MUTANT(grants_come_late) ? 0 : kvr_chain_count(&group->rings.commands);

    for (; left > 0; left--)
        if (!command_next(group, group->rings.overflow.mask / 4))
            return;
}

bool kvr_group_step(struct kvr_group *group, kvr_ns now)
{
    bool moved;

    group->now = now;
    group_absence_check(group, group->absence.stepped_at);
    moved = commands_run(group);
    moved |= group_passed_run(group);
    moved |= recycles_run(group);
    if (group->woken && overflow_empty(group)) /* first the work that woke it: polling is slow */
        moved |= group->user.work(group->user.self, now);
    group->woken = false;
    for (uint32_t i = group->rail_first; i < group->rail_end; i++) {
        if (overflow_empty(group))
            moved |= group_poll(group, i);
    }
    if (now >= group->timers.retry_at)
        group->timers.retry_at = KVR_NEVER;
    if (now >= group->timers.silence_at) /* after the queues were read */
        group_links_silent(group);
    if (now >= group->timers.surplus_at)
        group_surplus_close(group);
    if (now >= group->timers.warm_at &&
        overflow_empty(group)) /* before a user's write is the first */
        moved |= group_warm(group);
    moved |= group->user.work(group->user.self, now);
    group_passes_wake(group);
    if (moved)
        group->moved_at = now;
    group->absence.stepped_at = group_absence_wake(group, now) != KVR_NEVER ? now : 0;
    return moved;
}

uint64_t kvr_group_outstanding(const struct kvr_group *group)
{
    return group->outstanding;
}

bool kvr_group_command(struct kvr_group *group, const struct kvr_group_message *message)
{
    return kvr_chain_push(&group->rings.commands, message);
}

bool kvr_group_event(struct kvr_group *group, struct kvr_group_message *ret_message)
{
    return kvr_ring_pop(&group->rings.events, ret_message);
}

struct kvr_rail_address kvr_group_address(const struct kvr_group *group, uint32_t rail)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&group->address_lock;
    struct kvr_rail_address address;

    pthread_mutex_lock(lock);
    address = group->rails[rail].address;
    pthread_mutex_unlock(lock);
    return address;
}

void kvr_group_refused(const struct kvr_group *group, uint32_t rail, struct kvr_error *ret_error)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&group->address_lock;

    pthread_mutex_lock(lock);
    *ret_error = group->rails[rail].refused;
    pthread_mutex_unlock(lock);
}

struct kvr_rail_counters kvr_group_counters(const struct kvr_group *group, uint32_t rail)
{
    const struct group_counters *counters = &group->rails[rail].counters;
#define READ(name) atomic_load_explicit(&counters->name, memory_order_relaxed)
    uint64_t settled = READ(settled); /* read first: later writes count as in flight */
    struct kvr_rail_counters now = {
        .writes = READ(writes),
        .bytes = READ(bytes),
        .arrivals = READ(arrivals),
        .again = READ(again),
        .failures = READ(failures),
        .recycles = READ(recycles),
        .stale = READ(stale),
        .batches = READ(batches),
        .post_ns = READ(post_ns),
        .completion_ns = READ(completion_ns),
        .window_writes = group->rails[rail].writes_max,
        .connections = group->rails[rail].connections,
        .closed = READ(closed),
    };
#undef READ

    now.in_flight = now.writes - settled;
    return now;
}

uint32_t kvr_group_rails(const struct kvr_group *group, uint32_t *ret_first)
{
    *ret_first = group->rail_first;
    return group->rail_end - group->rail_first;
}

uint64_t kvr_group_tagged(const struct kvr_group *group)
{
    uint64_t rails = 0;

    for (uint32_t i = group->rail_first; i < group->rail_end; i++)
        rails |= (uint64_t)group->rails[i].tags << i;
    return rails;
}

uint32_t kvr_group_number(const struct kvr_group *group)
{
    return group->number;
}

int kvr_group_wait_fd(const struct kvr_group *group, uint32_t rail)
{
    struct kvr_endpoint *endpoint = group->rails[rail].endpoint;

    return endpoint != NULL ? group->ops->endpoint_wait_fd(endpoint) : -1;
}

bool kvr_group_may_sleep(struct kvr_group *group)
{
    if (kvr_chain_count(&group->rings.commands) > 0 || group->rings.recycles != 0 ||
        kvr_ring_count(&group->rings.overflow) > 0 || !group_passes_empty(group))
        return false;
    if (group->user.may_sleep != NULL && !group->user.may_sleep(group->user.self, true)) {
        kvr_group_awake(group);
        return false;
    }
    /* Last, because a provider may arm its descriptor by being asked. */
    for (uint32_t i = group->rail_first; i < group->rail_end; i++) {
        struct kvr_endpoint *endpoint = group->rails[i].endpoint;

        if (endpoint != NULL && !group->ops->endpoint_may_sleep(endpoint)) {
            kvr_group_awake(group);
            return false;
        }
    }
    return true;
}

void kvr_group_awake(struct kvr_group *group)
{
    group->woken = true;
    if (group->user.may_sleep != NULL)
        (void)group->user.may_sleep(group->user.self, false);
}

/* How long until a rail without a descriptor is polled again. */
static kvr_ns look_in(const struct kvr_group *group, kvr_ns now, kvr_ns blind_ns)
{
    if (group->outstanding > 0 || group->user.expecting(group->user.self))
        return blind_ns;
    return now - group->moved_at < KVR_GROUP_REST_NS ? KVR_GROUP_IDLE_POLL_NS
                                                     : KVR_GROUP_REST_POLL_NS;
}

kvr_ns kvr_group_wake_at(const struct kvr_group *group, kvr_ns now, kvr_ns blind_ns)
{
    kvr_ns at = KVR_NEVER, look = group_absence_wake(group, now);

    for (uint32_t i = group->rail_first; i < group->rail_end; i++) {
        if (kvr_group_wait_fd(group, i) >= 0 || group->rails[i].endpoint == NULL)
            continue;
        at = now + look_in(group, now, blind_ns);
    }
    if (group->user.copying != NULL && group->user.copying(group->user.self) && now + blind_ns < at)
        at = now + blind_ns;
    at = at < group->timers.silence_at ? at : group->timers.silence_at;
    at = at < group->timers.warm_at ? at : group->timers.warm_at;
    at = at < group->timers.surplus_at ? at : group->timers.surplus_at;
    at = at < look ? at : look;
    return at < group->timers.retry_at ? at : group->timers.retry_at;
}

bool kvr_group_told(struct kvr_group *group)
{
    bool told = group->rings.told;

    group->rings.told = false;
    return told;
}
