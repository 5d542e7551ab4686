/* The agent's report of itself once a second, beside its events, and the scheduler's orders. */
#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/fault_guard.h"
#include "base/log.h"
#include "base/version.h"

#define STRANGERS_SAY_NS (60 * KVR_S) /* between two warnings about one rail */
#define AWAY_NS          (5 * KVR_S)  /* a scheduler that takes no reports for longer is logged */

static void rail_snapshot(const struct kvr_agent *agent, uint32_t index,
                          struct kvr_rail_snapshot *rail)
{
    const struct kvr_rail_facts *facts = agent->fabric.ops->rail_facts(agent->rails[index]);
    const struct agent_group *group = agent_group_of(agent, index);
    struct kvr_rail_address address = kvr_group_address(group->group, index);
    struct kvr_rail_counters counters = kvr_group_counters(group->group, index);
    struct kvr_group_thread_counters thread = kvr_group_thread_counters(group->thread);

    memcpy(rail->name, facts->name, sizeof(rail->name));
    snprintf(rail->provider, sizeof(rail->provider), "%s", facts->provider);
    snprintf(rail->address, sizeof(rail->address), "%s", facts->source);
    rail->epoch = address.epoch;
    rail->group = kvr_rail_groups_of(&agent->groups, index);
    rail->state = address.bytes > 0 ? KVR_RAIL_UP : KVR_RAIL_DOWN;
    rail->speed_bps = facts->speed_bps;
    rail->bytes = agent->program->landed != NULL ? agent->program->landed(index) : counters.bytes;
    rail->writes = agent->machine.role == KVR_ROLE_SOURCE ? counters.writes : counters.arrivals;
    rail->counters[KVR_RAIL_BATCHES] = counters.batches;
    rail->counters[KVR_RAIL_REFUSALS] = counters.again;
    rail->counters[KVR_RAIL_IN_FLIGHT] = counters.in_flight;
    rail->counters[KVR_RAIL_WINDOW] = counters.window_writes;
    rail->counters[KVR_RAIL_CONNECTIONS] = counters.connections;
    rail->counters[KVR_RAIL_CLOSED] = counters.closed;
    rail->counters[KVR_RAIL_POST_TIME] = counters.post_ns;
    rail->counters[KVR_RAIL_COMPLETION_TIME] = counters.completion_ns;
    rail->counters[KVR_RAIL_SPIN_TIME] = thread.spin_ns;
    rail->counters[KVR_RAIL_SLEEP_TIME] = thread.sleep_ns;
    rail->counters[KVR_RAIL_CPU_TIME] = thread.cpu_ns;
    if (agent->program->rail_counters != NULL)
        agent->program->rail_counters(index, rail->counters);
}

/* Peers alone should write to a rail. Once in a while: a stranger decides how often it writes. */
static void strangers_say(struct kvr_agent *agent, uint32_t index,
                          const struct kvr_rail_snapshot *rail)
{
    uint64_t count = rail->counters[KVR_RAIL_IDLE_SLOT] + rail->counters[KVR_RAIL_WRONG_TAG] +
                     rail->counters[KVR_RAIL_WRONG_CHUNK];
    kvr_ns now = kvr_clock_now();

    if (count == agent->strangers[index].said || now < agent->strangers[index].say_at)
        return;
    kvr_log_warning("rail %u (%s): %" PRIu64 " writes arrived that no transfer expects, %" PRIu64
                    " of them with a wrong tag: a stranger reaches this rail's port, or an agent "
                    "has a bug; none of them counts. Let only the peers' hosts reach the rail's "
                    "network (operations.md, \"Security\")",
                    index, rail->address, count - agent->strangers[index].said,
                    rail->counters[KVR_RAIL_WRONG_TAG]);
    agent->strangers[index].said = count;
    agent->strangers[index].say_at = now + STRANGERS_SAY_NS;
}

/* The program adds what it posted. */
static void tenants_snapshot(const struct kvr_agent *agent, struct kvr_agent_facts *facts)
{
    const struct kvr_tenants *tenants = &agent->machine.engines->tenants;

    for (; facts->tenant_count < tenants->count; facts->tenant_count++) {
        const struct kvr_tenant *tenant = &tenants->list[facts->tenant_count];
        struct kvr_tenant_facts *to = &facts->tenants[facts->tenant_count];

        memcpy(to->name, tenant->name, sizeof(to->name));
        to->counters[KVR_TENANT_REQUESTS] = tenant->requests.used;
        to->counters[KVR_TENANT_REQUESTS_LIMIT] = tenant->requests.limit;
        to->counters[KVR_TENANT_REQUESTS_REFUSED] = tenant->requests.refused;
        to->counters[KVR_TENANT_BYTES] = tenant->bytes.used;
        to->counters[KVR_TENANT_BYTES_LIMIT] = tenant->bytes.limit;
        to->counters[KVR_TENANT_BYTES_REFUSED] = tenant->bytes.refused;
        to->counters[KVR_TENANT_WEIGHT] = tenant->weight;
        if (agent->program->posted != NULL)
            to->counters[KVR_TENANT_POSTED] = agent->program->posted(facts->tenant_count);
    }
}

static void losses_say(struct kvr_agent *agent, const struct kvr_reporter_stats *stats)
{
    if (stats->spool_lost == agent->spool_lost_said)
        return;
    kvr_log_warning("at least %" PRIu64 " events for the scheduler are lost: %s/%s is damaged; it "
                    "may show their transfers as live until this agent has none",
                    stats->spool_lost - agent->spool_lost_said, agent->config->state_dir,
                    stats->spool_lost_file);
    agent->spool_lost_said = stats->spool_lost;
}

/* One that is only started again is not worth a word. */
static void scheduler_say(struct kvr_agent *agent, const struct kvr_reporter_stats *stats)
{
    bool failing = stats->failing_since != 0;

    if (stats->scheduler_changes != agent->scheduler_changes_said) {
        kvr_log_warning("the scheduler at %s takes no reports: %s; reports go to %s now",
                        stats->scheduler_left, stats->left_for, stats->scheduler);
        agent->scheduler_changes_said = stats->scheduler_changes;
        agent->scheduler_away_said &= failing;
    }
    if (failing == agent->scheduler_away_said ||
        (failing && kvr_clock_now() - stats->failing_since < AWAY_NS))
        return;
    if (!failing)
        kvr_log_info("the scheduler at %s takes reports again", stats->scheduler);
    else if (agent->config->schedulers.count > 1)
        kvr_log_warning("none of %u schedulers takes reports, that at %s for this reason: %s; they "
                        "are kept, within bounds, and transfers go on",
                        agent->config->schedulers.count, stats->failure_from, stats->failure);
    else
        kvr_log_warning("the scheduler at %s takes no reports: %s; they are kept, within bounds, "
                        "and transfers go on without it",
                        stats->failure_from, stats->failure);
    agent->scheduler_away_said = failing;
}

void agent_facts_tell(struct kvr_agent *agent)
{
    static struct kvr_agent_facts facts; /* loop thread only, and large */
    struct kvr_listener_counts accepted;
    struct kvr_reporter_stats stats;

    memset(&facts, 0, sizeof(facts));
    facts.role = agent->machine.role;
    snprintf(facts.version, sizeof(facts.version), "%s", KVRAIL_VERSION);
    memcpy(facts.host, agent->host, sizeof(facts.host));
    facts.pid = (uint32_t)getpid();
    static_assert(sizeof(facts.listen) == sizeof(agent->address), "the scheduler gets all of it");
    memcpy(facts.listen, agent->address, sizeof(facts.listen));
    snprintf(facts.provider, sizeof(facts.provider), "%s", agent->config->provider);
    facts.transfers_live = agent->machine.live(agent->machine.self);
    facts.peers_up = agent->peers_up;
    facts.peers_warm = agent->peers_warm;
    facts.drained = agent->drained;
    facts.secure = kvr_tls_given(&agent->config->tls);
    memcpy(facts.counters, agent->counters, sizeof(facts.counters));
    agent->program->counters(facts.counters);
    facts.counters[KVR_COUNTER_ENGINES_REFUSED] = kvr_engine_port_refused(agent->port);
    accepted = kvr_peers_accepted(agent->peers);
    facts.counters[KVR_COUNTER_YOUNG_CLOSED] = accepted.crowded;
    facts.counters[KVR_COUNTER_HANDSHAKES_WAITED] = accepted.waited;
    facts.counters[KVR_COUNTER_MEMORY_FAULTS] = kvr_fault_guard_faults();
    facts.counters[KVR_COUNTER_NOTICES_DROPPED] = kvr_engine_port_news_dropped(agent->port);
    facts.counters[KVR_COUNTER_GPU_BYTES] = atomic_load(&agent->gpu_bytes);
    facts.rail_count = agent->rail_count;
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        struct kvr_rail_counters counters = kvr_group_counters(agent_group_of(agent, i)->group, i);

        rail_snapshot(agent, i, &facts.rails[i]);
        strangers_say(agent, i, &facts.rails[i]);
        facts.counters[KVR_COUNTER_CQ_ERRORS] += counters.failures;
        facts.counters[KVR_COUNTER_EPOCHS_ENDED] += counters.recycles;
    }
    tenants_snapshot(agent, &facts);
    agent_traits_tell(agent, &facts);
    kvr_reporter_stats(agent->reporter, &stats);
    agent_engines_tell(agent, stats.connected, &facts);
    facts.counters[KVR_COUNTER_RECORDS_DROPPED] = stats.unrecorded;
    facts.counters[KVR_COUNTER_ANSWERS_REFUSED] = stats.answers_refused;
    facts.counters[KVR_COUNTER_SCHEDULER_CHANGES] = stats.scheduler_changes;
    static_assert(sizeof(facts.scheduler) == KVR_ADDRESS_TEXT_BYTES, "it gets all of this, too");
    if (stats.connected)
        snprintf(facts.scheduler, sizeof(facts.scheduler), "%s", stats.scheduler);
    memcpy(facts.options, agent->options, sizeof(facts.options));
    kvr_reporter_facts(agent->reporter, &facts);
    agent_http_show(agent, &facts, stats.dropped);
    losses_say(agent, &stats);
    scheduler_say(agent, &stats);
}

void agent_orders_take(struct kvr_agent *agent)
{
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint32_t count = kvr_reporter_orders(agent->reporter, orders);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t held;

        if (orders[i].kind == KVR_ORDER_DRAIN || orders[i].kind == KVR_ORDER_RESUME) {
            agent_rest(agent, orders[i].kind == KVR_ORDER_DRAIN);
            continue;
        }
        held = agent->machine.order(agent->machine.self, kvr_clock_now(), &orders[i]);
        if (orders[i].kind == KVR_ORDER_RECORD) /* it comes again while a recorder runs */
            continue;
        kvr_log_info("the scheduler asks to %s request %s, attempt %u: %u here",
                     kvr_order_name(orders[i].kind), orders[i].request, orders[i].attempt, held);
    }
}
