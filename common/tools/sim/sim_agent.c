/* An agent's process: its group, its ports, its steps, its death and restart. */
#include "tools/sim/sim_keys.h"
#include "tools/sim/sim_region.h"
#include "tools/sim/sim_spans.h"
#include "tools/sim/sim_world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

bool sim_agent_void(const struct sim_agent *agent, const struct sim_event *event)
{
    return !agent->alive || agent->life != event->a;
}

bool sim_agent_deferred(struct sim_agent *agent, const struct sim_event *event, kvr_ns now)
{
    if (!agent->alive || now >= agent->stopped_until)
        return false;
    sim_at(agent->world, agent->stopped_until, event->run, event->object, event->a, event->b);
    return true;
}

void sim_agent_note(struct sim_agent *agent, const char *what, uint64_t nonce, uint64_t a,
                    uint64_t b, uint64_t c, const char *detail)
{
    sim_history_add(&agent->world->history,
                    &(struct sim_line){.at = agent->world->now,
                                       .who = agent->source ? "source" : "target",
                                       .number = (uint8_t)agent->number,
                                       .what = what,
                                       .detail = detail,
                                       .nonce = nonce,
                                       .a = a,
                                       .b = b,
                                       .c = c,
                                       .request = -1});
}

/* ---- steps --------------------------------------------------------------------------------- */

static void loop_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;
    bool more = false;

    if (sim_agent_void(agent, event) || sim_agent_deferred(agent, event, world->now))
        return;
    agent->loop_armed = false;
    for (uint32_t i = 0; i < agent->groups.count; i++)
        more |= sim_group_listen(&agent->group[i]);
    if (more)
        sim_agent_wake_loop(agent);
}

void sim_agent_wake_loop(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    if (agent->loop_armed)
        return;
    agent->loop_armed = true;
    sim_at(world, world->now + 1 + sim_some(world, world->step_ns), loop_run, agent, agent->life,
           0);
}

void sim_agent_wake(struct sim_agent *agent)
{
    for (uint32_t i = 0; agent->alive && i < agent->groups.count; i++)
        sim_group_wake(&agent->group[i]);
}

static void tick_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;

    if (sim_agent_void(agent, event) || sim_agent_deferred(agent, event, world->now))
        return;
    sim_silence_sign(agent);
    agent->machine.tick(agent->machine.self, world->now);
    sim_at(world, world->now + SIM_TICK_NS / 2 + kvr_rng_below(&world->rng, SIM_TICK_NS), tick_run,
           agent, agent->life, 0);
}

/* ---- ports --------------------------------------------------------------------------------- */

static struct sim_engine *engine_at(struct sim_agent *agent, uint32_t index)
{
    struct sim_world *world = agent->world;

    for (uint32_t i = 0; i < world->engine_count; i++)
        if (world->engines[i].agent == agent && world->engines[i].index == index &&
            !world->engines[i].released)
            return &world->engines[i];
    return NULL;
}

static void port_region_done(void *self, struct kvr_region *region, uint32_t number)
{
    sim_region_done(self, region, number);
}

/* A helper does it after a while; what is gone by then is left out. */
struct sim_registration_task {
    struct sim_agent *agent;
    uint64_t id;
    bool stages; /* instead of the rails of a group */
    uint32_t group, count;
    struct kvr_region *regions[SIM_REGIONS];
    uint64_t serials[SIM_REGIONS];
};

/* 0: it is gone. */
static uint64_t serial_of(const struct sim_world *world, const struct kvr_region *region)
{
    for (uint32_t i = 0; i < world->engine_count; i++)
        for (uint32_t r = 0; r < world->engines[i].region_lives; r++)
            if (world->engines[i].regions[r] == region)
                return world->engines[i].region_serials[r];
    return 0;
}

static void register_regions(struct sim_registration_task *task)
{
    struct sim_agent *agent = task->agent;
    const uint32_t *first = &agent->groups.first[task->group];
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    struct kvr_memory *memory[KVR_RAILS_MAX];

    for (uint32_t i = first[0]; i < first[1]; i++)
        if ((agent->groups.same_host >> i & 1) == 0)
            rails[i] = agent->rails[i];
    for (uint32_t i = 0; i < task->count; i++) {
        struct kvr_region *region = task->regions[i];
        uint64_t serial = task->serials[i];
        bool lives = serial != 0 && serial_of(agent->world, region) == serial;
        kvr_status status = KVR_NOT_FOUND;

        if (lives && task->stages)
            sim_stage_give(agent, region);
        else if (lives)
            status = kvr_region_register(&agent->fabric, region, rails, agent->source,
                                         sim_remote_access(agent), memory, NULL);
        if (status == KVR_OK)
            (void)kvr_region_adopt(&agent->fabric, region, memory);
    }
}

static void registration_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_registration_task *task = event->object;
    struct sim_agent *agent = task->agent;
    /* A target that promised staging memory would have to fail what it was promised to. */
    bool fails = kvr_rng_percent(&world->rng, 5) && (agent->source || !task->stages);

    if (sim_agent_deferred(agent, event, world->now))
        return;
    world->busy--;
    if (!sim_agent_void(agent, event)) {
        if (!fails)
            register_regions(task);
        sim_agent_note(agent, "registered", 0, task->group, fails, 0, NULL);
        agent->machine.registered(agent->machine.self, world->now, task->id,
                                  fails ? KVR_NO_MEMORY : KVR_OK);
    }
    free(task);
}

static void registration_later(struct sim_agent *agent, const struct kvr_region_set *set,
                               uint64_t id, bool stages, uint32_t group)
{
    struct sim_world *world = agent->world;
    struct sim_registration_task *task = calloc(1, sizeof(*task));

    if (task == NULL)
        abort();
    *task =
        (struct sim_registration_task){.agent = agent, .id = id, .stages = stages, .group = group};
    task->count = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        task->regions[i] = set->locals[i];
        task->serials[i] = serial_of(world, set->locals[i]);
    }
    world->busy++;
    sim_at(world, world->now + 1 + sim_soon(world), registration_run, task, agent->life, 0);
}

static void port_region_register(void *self, const struct kvr_region_set *set, uint32_t group,
                                 uint64_t id)
{
    registration_later(self, set, id, false, group);
}

static void port_region_stage(void *self, const struct kvr_region_set *set, uint64_t id)
{
    registration_later(self, set, id, true, 0);
}

static void port_engine_done(void *self, uint32_t index)
{
    struct sim_engine *engine = engine_at(self, index);

    assert(engine != NULL);
    engine->released = true;
    sim_agent_note(self, "engine done", 0, index, 0, 0, NULL);
    for (uint32_t r = 0; r < engine->region_lives; r++)
        if (engine->regions[r] != NULL)
            sim_fail(engine->world, -1, "engine %u is done, but region %u of it is not",
                     engine->number, r);
}

static uint32_t port_rails(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    struct sim_agent *agent = self;

    for (uint32_t i = 0; i < agent->rail_count; i++)
        ret_rails[i] = kvr_group_address(sim_group_of(agent, i)->group, i);
    return agent->rail_count;
}

static _Atomic uint64_t *port_revocation_words(void *self, uint32_t engine)
{
    return sim_engine_words(self, engine)->words;
}

static uint64_t port_revocation_words_offer(void *self, uint32_t engine, uint32_t peer)
{
    (void)self, (void)peer;
    return engine + 1;
}

static const _Atomic uint64_t *port_revocation_word_take(void *self, uint32_t peer, uint64_t words,
                                                         uint32_t number)
{
    const struct sim_agent *agent = self;

    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (agent->peers[i].live && agent->peers[i].index == peer && number != 0 && words != 0)
            return &sim_engine_words(agent->peers[i].other, (uint32_t)words - 1)->words[number - 1];
    return NULL;
}

static void port_revocation_word_return(void *self, const _Atomic uint64_t *word)
{
    (void)self, (void)word;
}

static void port_event(void *self, const struct kvr_event *event)
{
    struct sim_agent *agent = self;
    struct sim_world *world = agent->world;
    unsigned request;

    if (event->kind == KVR_EVENT_OPENED && event->transfer != 0 &&
        sscanf(event->request, "request-%u", &request) == 1)
        sim_history_name(&world->history, event->transfer, (int)request);
    sim_agent_note(agent, kvr_event_name(event->kind), event->transfer, event->chunks,
                   event->retries, (uint64_t)(int64_t)-event->outcome, NULL);
    sim_ways_heard(agent, event);
    sim_spans_check(agent, event);
    sim_reporter_event(agent->reporter, event);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* In most worlds an agent has one. */
static void groups_choose(struct sim_agent *agent)
{
    struct kvr_rng *rng = &agent->world->rng;
    struct kvr_rail_groups *groups = &agent->groups;
    uint32_t most = agent->rail_count < SIM_GROUPS ? agent->rail_count : SIM_GROUPS;

    *groups = (struct kvr_rail_groups){.count = 1};
    if (agent->world->many_groups)
        groups->count = (uint32_t)kvr_rng_between(rng, 1, most);
    for (uint32_t g = 1; g < groups->count; g++)
        groups->first[g] = (uint32_t)kvr_rng_between(rng, groups->first[g - 1] + 1,
                                                     agent->rail_count - (groups->count - g));
    groups->first[groups->count] = agent->rail_count;
}

static void rail_open(struct sim_agent *agent, const char *provider, const char *name,
                      uint32_t place)
{
    struct kvr_rail_options options = {0};
    kvr_status status;

    snprintf(options.provider, sizeof(options.provider), "%s", provider);
    snprintf(options.name, sizeof(options.name), "%s", name);
    memmove(&agent->rails[place + 1], &agent->rails[place],
            (agent->rail_count - place) * sizeof(agent->rails[0]));
    status = agent->fabric.ops->rail_open(agent->host, &options, &agent->rails[place], NULL);
    assert(status == KVR_OK);
    (void)status;
    agent->rail_count++;
}

/* One more for each group, behind its cards. */
static void copying_rails_open(struct sim_agent *agent)
{
    struct kvr_rail_groups *groups = &agent->groups;

    for (uint32_t g = 0; g < groups->count; g++) {
        for (uint32_t next = g + 1; next <= groups->count; next++)
            groups->first[next]++;
        rail_open(agent, "local", "", groups->first[g + 1] - 1);
        groups->same_host |= UINT64_C(1) << (groups->first[g + 1] - 1);
    }
}

static void rails_open(struct sim_agent *agent)
{
    struct kvr_rng *rng = &agent->world->rng;
    struct kvr_rail_facts facts = {
        .provider = "sim",
        .speed_bps = UINT64_C(1000000000) << kvr_rng_below(rng, 7),
        .write = {.pieces_local = (uint32_t)kvr_rng_between(rng, 1, 4),
                  .pieces_remote = (uint32_t)kvr_rng_between(rng, 1, 4),
                  .bytes_max = 1 << 20,
                  .outstanding_max = (uint32_t)kvr_rng_between(rng, 2, 48),
                  .doorbells = agent->number % 2 == 0},
        .immediate_bits = agent->world->tagged ? 64 : 32,
        .target_copies = agent->world->target_copies,
        .needs_senders = agent->world->needs_senders,
        .grant_keys = agent->world->seed % 7 < 4,
        .moves_pages = agent->staged && kvr_rng_percent(rng, agent->world->neighbours ? 95 : 50),
    };
    const char *names[SIM_CARDS]; /* of its cards: their planes */
    uint32_t cards;

    agent->limits = (struct kvr_write_limits){
        .pieces_local = facts.write.pieces_local,
        .pieces_remote = facts.write.pieces_remote,
        .chunk_bytes_max = 4096,
    };
    agent->host = kvr_sim_host_open(agent->world->net, agent, &facts);
    agent->fabric = kvr_sim_host_fabric(agent->host);
    agent->rail_count = 0;
    cards = (uint32_t)kvr_rng_between(rng, 1, SIM_CARDS);
    sim_planes_choose(agent, cards, names);
    while (agent->rail_count < cards)
        rail_open(agent, "sim", names[agent->rail_count], agent->rail_count);
    groups_choose(agent);
    if (facts.moves_pages)
        agent->groups.move_bytes = UINT64_C(1) << kvr_rng_between(rng, 12, 20);
    if (agent->world->mixed)
        copying_rails_open(agent);
    if (agent->world->tagged)
        agent->groups.tagged = (UINT64_C(1) << agent->rail_count) - 1;
}

/* The rail's thread is at work half of the time. */
static kvr_status port_memory_open(void *self, uint32_t rail, const struct kvr_memory_span *span,
                                   struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct sim_agent *agent = self;

    if (kvr_rng_percent(&agent->world->rng, 50))
        return KVR_AGAIN;
    return agent->fabric.ops->memory_register(agent->rails[rail], span, ret_memory, error);
}

static uint64_t port_random(void *self)
{
    struct sim_agent *agent = self;

    return kvr_rng_next(&agent->world->rng);
}

static void machine_init(struct sim_agent *agent)
{
    static const kvr_fragment_choice fragments[] = {KVR_FRAGMENT_AUTO, KVR_FRAGMENT_STAGE};
    struct sim_memory *memory = agent->world->memory;
    struct kvr_rng *rng = &agent->world->rng;
    struct outbound_options outbound = {
        .silence_ns = SIM_SILENCE_NS,
        .quiet_ns = SIM_QUIET_NS,
        .lease_default_ns = SIM_LEASE_NS,
        .rail_count = agent->rail_count,
        .groups = agent->groups,
        .failover = agent->world->failover,
        .limits = agent->limits,
        .spans = {.every = agent->world->seed % 2},
        .pages = {.every = agent->world->seed / 2 % 2},
        .fragments = agent->stages ? fragments[kvr_rng_below(rng, 2)] : KVR_FRAGMENT_WRITE,
        .fragment_bytes_min = UINT64_C(1) << kvr_rng_between(rng, 4, 20),
        .costs = {.write = (double)kvr_rng_between(rng, 100, 5000),
                  .piece = (double)kvr_rng_between(rng, 0, 100),
                  .wire_byte = (double)kvr_rng_between(rng, 0, 100) / 100,
                  .copy = (double)kvr_rng_between(rng, 1, 500),
                  .copy_byte = (double)kvr_rng_between(rng, 1, 100) / 100},
    };
    uint32_t longest = KVR_SLOT_CHUNK_BITS < 16 ? 8 : 1; /* slots of a transfer, nearly always */
    struct inbound_options inbound = {
        .silence_ns = SIM_SILENCE_NS,
        .quiet_ns = SIM_QUIET_NS,
        .deadline_default_ns = SIM_DEADLINE_NS,
        .slot_count = longest * (uint32_t)kvr_rng_between(rng, 2, 6),
        .rail_count = agent->rail_count,
        .groups = agent->groups,
        .failover = agent->world->failover,
        .nonce_key = {kvr_rng_next(rng)},
        .limits = agent->limits,
        .spans = {.every = agent->world->seed % 2},
        .pages = {.every = agent->world->seed / 2 % 2},
        .stage_bytes = agent->stages ? agent->stage_bytes : 0,
        .digest = sim_has(agent->world, SIM_WRITE_CORRUPT)
                      ? KVR_DIGEST_FULL
                      : (kvr_digest_mode)kvr_rng_below(rng, KVR_DIGEST_FULL + 1),
    };
    kvr_status status;

    /* Few numbers, so that slots are used again; without tags all, so that none is guessed. */
    inbound.slot_last = agent->world->tagged ? inbound.slot_count : 0;
    if (agent->world->neighbours && !sim_has(agent->world, SIM_WRITE_CORRUPT) &&
        kvr_rng_percent(rng, 80))
        inbound.digest = KVR_DIGEST_OFF;
    kvr_buddy_init(&agent->buddy, agent->memory, SIM_MEMORY);
    if (agent->source) {
        agent->outbound = &memory->outbounds[agent->number];
        agent->machine = outbound_machine(agent->outbound);
        status = outbound_init(agent->outbound, &outbound, &agent->ports, &agent->buddy);
    } else {
        agent->inbound = &memory->inbounds[agent->number - SIM_SOURCES];
        agent->machine = inbound_machine(agent->inbound);
        status = inbound_init(agent->inbound, &inbound, &agent->ports, &agent->buddy);
    }
    assert(status == KVR_OK);
    (void)status;
    sim_tenants(rng, &agent->machine.engines->tenants);
    agent->used_at_start = agent->buddy.used_bytes;
}

void sim_agent_start(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    agent->alive = true;
    agent->life++;
    agent->hoard_count = 0;
    agent->stopped_until = agent->stopped_at = agent->stopped_before = 0;
    sim_silence_sign(agent);
    memset(agent->heard_at, 0, sizeof(agent->heard_at));
    agent->boot = kvr_rng_next(&world->rng);
    agent->loop_armed = false;
    agent->reporter = sim_reporter_open(agent);
    agent->ports = (struct kvr_ports){
        .self = agent,
        .send = sim_peer_send,
        .dial = sim_peer_dial,
        .hang_up = sim_peer_hang_up,
        .notify = sim_engine_notice,
        .command = sim_group_command,
        .region_done = port_region_done,
        .region_register = port_region_register,
        .region_stage = port_region_stage,
        .engine_done = port_engine_done,
        .rails = port_rails,
        .memory_open = port_memory_open,
        .random = port_random,
        .events = {.self = agent, .emit = port_event},
    };
    if ((world->target_copies || world->mixed) && agent->source) {
        agent->ports.revocation_words = port_revocation_words;
        agent->ports.revocation_words_offer = port_revocation_words_offer;
    } else if (world->target_copies || world->mixed) {
        agent->ports.revocation_word_take = port_revocation_word_take;
        agent->ports.revocation_word_return = port_revocation_word_return;
    }
    sim_peers_init(agent);
    sim_stage_choose(agent);
    rails_open(agent);
    machine_init(agent);
    sim_groups_open(agent);
    sim_at(world, world->now + kvr_rng_below(&world->rng, SIM_TICK_NS), tick_run, agent,
           agent->life, 0);
}

void sim_agent_stop(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < agent->groups.count; i++)
        sim_group_close(&agent->group[i]);
    agent->alive = false;
}

/* At once, and whatever it held with it; the engines see that it is gone. */
void sim_agent_die(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    sim_agent_note(agent, "dies", 0, 0, 0, 0, NULL);
    for (uint32_t i = 0; i < world->engine_count; i++)
        if (world->engines[i].agent == agent)
            sim_engine_resume(&world->engines[i]);
    kvr_sim_host_die(agent->host);
    sim_agent_stop(agent);
    sim_reporter_die(agent->reporter);
    for (uint32_t i = 0; i < world->engine_count; i++)
        if (world->engines[i].agent == agent && !world->engines[i].released)
            sim_engine_agent_lost(&world->engines[i]);
    sim_peers_die(agent);
}

uint32_t sim_agent_live(const struct sim_agent *agent)
{
    return agent->machine.live(agent->machine.self);
}

bool sim_agent_idle(const struct sim_agent *agent)
{
    for (uint32_t i = 0; i < agent->groups.count; i++)
        if (!sim_group_idle(&agent->group[i]))
            return false;
    if (agent->loop_armed)
        return false;
    return sim_agent_live(agent) == 0 && (!agent->source || agent->outbound->tombs == 0);
}

void sim_agent_check_empty(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    if (agent->buddy.used_bytes != agent->used_at_start)
        sim_fail(world, -1, "agent %u keeps %zu bytes of its tables", agent->number,
                 agent->buddy.used_bytes - agent->used_at_start);
    sim_keys_check_empty(agent);
    for (uint32_t i = 0; i < agent->groups.count; i++)
        sim_group_check_empty(&agent->group[i]);
    if (!agent->source && agent->inbound->free_count != agent->inbound->options.slot_count)
        sim_fail(world, -1, "agent %u has %u of %u slots back", agent->number,
                 agent->inbound->free_count, agent->inbound->options.slot_count);
    for (uint32_t i = 0; i < agent->machine.engines->tenants.count; i++) {
        const struct kvr_tenant *tenant = &agent->machine.engines->tenants.list[i];

        if (tenant->requests.used != 0 || tenant->bytes.used != 0)
            sim_fail(world, -1,
                     "agent %u counts %" PRIu64 " requests and %" PRIu64
                     " bytes of tenant %s, which has none",
                     agent->number, tenant->requests.used, tenant->bytes.used, tenant->name);
    }
    if (agent->source && agent->outbound->parked != 0)
        sim_fail(world, -1, "agent %u counts %u parked offers of none", agent->number,
                 agent->outbound->parked);
}
