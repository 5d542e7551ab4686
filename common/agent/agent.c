#include "agent/agent.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/entropy.h"
#include "base/fault_guard.h"
#include "base/log.h"
#include "base/poison.h"
#include "base/port_file.h"
#include "base/text.h"
#include "base/undumped.h"
#include "base/url.h"
#include "fabric/ofi/fabric_ofi_library.h"

#define TICK_MS   20 /* while something is live */
#define SECOND_MS 1000

static void agent_notify(void *self, uint32_t engine, const struct kvr_notice *notice)
{
    struct kvr_agent *agent = self;

    kvr_engine_port_notify(agent->port, engine, notice);
    if (notice->kind == KVR_NOTICE_LAYER_IN)
        kvr_stamp(agent->stamps, KVR_STATION_LOOP, agent->listened_at);
}

/* ---- time and the end ------------------------------------------------------------------------ */

static void close_all(struct kvr_agent *agent);

static void on_tick(uv_timer_t *timer)
{
    struct kvr_agent *agent = timer->data;
    kvr_ns now = kvr_clock_now();

    agent->machine.tick(agent->machine.self, now);
    agent_orders_take(agent);
    if (agent_drained(agent, now)) {
        agent_facts_tell(agent); /* engines of the last second, too */
        close_all(agent);
    }
    if (agent->machine.live(agent->machine.self) == 0 && !agent->draining)
        uv_timer_stop(timer);
}

static void tick_arm(struct kvr_agent *agent)
{
    if (!agent->closing && !uv_is_active((uv_handle_t *)&agent->tick) &&
        (agent->draining || agent->machine.live(agent->machine.self) > 0))
        uv_timer_start(&agent->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_second(uv_timer_t *timer)
{
    struct kvr_agent *agent = timer->data;
    kvr_ns now = kvr_clock_now(), away = kvr_absence_tick(&agent->absence, now, SECOND_MS * KVR_MS);

    if (away > 0) {
        kvr_log_warning(KVR_ABSENCE_SENTENCE, away / KVR_MS);
        agent->counters[KVR_COUNTER_ABSENCES]++;
    }
    agent->machine.tick(agent->machine.self, now);
    agent_regions_retry(agent);
    agent_region_tasks_answer(agent);
    agent_static_peers_dial(agent, now);
    agent_orders_take(agent);
    agent_regions_broken(agent);
    agent_filter_tick(agent, now);
    agent_tls_second(agent);
    agent_pairs_second(agent, now);
    agent_facts_tell(agent);
    kvr_log_tick();
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct kvr_agent *agent = handle->data;

    if (number == SIGHUP) {
        kvr_options_hang_up(agent->launch->command, agent->launch->argc, agent->launch->argv,
                            agent->config, sizeof(*agent->config));
        agent_tls_hang_up(agent);
        agent_http_hang_up(agent);
        return;
    }
    agent_drain_on_signal(agent, number);
    tick_arm(agent);
}

static void on_prepare(uv_prepare_t *handle)
{
    agent_groups_kick(handle->data);
    tick_arm(handle->data);
}

static uint64_t random_bits(void *self)
{
    (void)self;
    return kvr_random_u64();
}

/* ---- opening and closing --------------------------------------------------------------------- */

static kvr_status memory_open(struct kvr_agent *agent, struct kvr_error *error)
{
    size_t bytes = agent->config->table_memory;

    /* Untouched pages cost nothing, so this is a bound and no expense. */
    agent->memory_block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (agent->memory_block == MAP_FAILED) {
        agent->memory_block = NULL;
        return kvr_error_system(error, "tables", errno, "--table-memory: %zu bytes", bytes);
    }
    kvr_undumped(agent->memory_block, bytes); /* tails of engines lie in it */
    kvr_buddy_init(&agent->memory, agent->memory_block, bytes);
    return KVR_OK;
}

static void loop_open(struct kvr_agent *agent)
{
    uv_loop_init(&agent->loop);
    agent->helpers.loop = &agent->loop;
    uv_prepare_init(&agent->loop, &agent->before_sleep);
    uv_timer_init(&agent->loop, &agent->tick);
    uv_timer_init(&agent->loop, &agent->second);
    uv_signal_init(&agent->loop, &agent->terminate);
    uv_signal_init(&agent->loop, &agent->interrupt);
    uv_signal_init(&agent->loop, &agent->hang_up);
    agent->before_sleep.data = agent->tick.data = agent;
    agent->second.data = agent->terminate.data = agent->interrupt.data = agent;
    agent->hang_up.data = agent;
}

static void loop_start(struct kvr_agent *agent)
{
    uv_prepare_start(&agent->before_sleep, on_prepare);
    uv_timer_start(&agent->second, on_second, 0, SECOND_MS);
    uv_signal_start(&agent->terminate, on_signal, SIGTERM);
    uv_signal_start(&agent->interrupt, on_signal, SIGINT);
    uv_signal_start(&agent->hang_up, on_signal, SIGHUP);
}

static void close_all(struct kvr_agent *agent)
{
    if (agent->closing)
        return;
    agent->closing = true;
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        agent->engines[i].serial = 0; /* helpers that end from here on send no notice */
    uv_close((uv_handle_t *)&agent->tick, NULL);
    uv_close((uv_handle_t *)&agent->second, NULL);
    uv_close((uv_handle_t *)&agent->terminate, NULL);
    uv_close((uv_handle_t *)&agent->interrupt, NULL);
    uv_close((uv_handle_t *)&agent->hang_up, NULL);
    uv_close((uv_handle_t *)&agent->before_sleep, NULL);
    kvr_doorbell_close(&agent->group_events);
    agent_lifeline_close(agent);
    kvr_peers_close(agent->peers);
    agent_groups_stop(agent); /* before the engines' pages go */
    kvr_engine_port_close(agent->port);
}

static kvr_status reporter_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    struct kvr_reporter_options options = {
        .agent = config->name,
        .boot = agent->boot,
        .state_dir = config->state_dir[0] != '\0' ? config->state_dir : NULL,
        .tls = &config->tls,
    };

    for (uint32_t i = 0; i < config->schedulers.count; i++) {
        const char *scheduler = options.schedulers[i] = config->schedulers.items[i];

        if (kvr_tls_given(&config->tls) && kvr_url_scheme(scheduler) == sizeof("http://") - 1 &&
            !kvr_url_is_loopback(scheduler))
            return kvr_error_set(error, KVR_INVALID, "agent",
                                 "--scheduler %s: reports would cross the network as plain text: "
                                 "leave out http://",
                                 scheduler);
    }
    KVR_TRY(kvr_reporter_open(&options, &agent->reporter, error));
    agent->ports.events = agent_events(agent, kvr_reporter_sink(agent->reporter));
    return KVR_OK;
}

static kvr_status agent_open(struct kvr_agent *agent, struct kvr_error *error)
{
    agent_insecure_say(agent->config);
    KVR_TRY(agent_checks(agent->config, error));
    KVR_TRY(agent_tls_open(agent, error));
    KVR_TRY(agent_tenants_open(agent, error));
    KVR_TRY(agent_lifeline_open(agent, error));
    KVR_TRY(agent_run_dir_open(agent, error));
    if (agent->config->stamps[0] != '\0')
        KVR_TRY(kvr_stamps_open(agent->config->stamps, &agent->stamps, error));
    KVR_TRY(memory_open(agent, error));
    KVR_TRY(reporter_open(agent, error));
    KVR_TRY(agent_rails_open(agent, error));
    agent->machine.engines->tenants = agent->tenants; /* the machine is ready */
    KVR_TRY(agent_peers_open(agent, error));
    KVR_TRY(agent_engines_open(agent, error));
    if (agent->config->port_file[0] != '\0')
        KVR_TRY(kvr_port_file_write(agent->config->port_file, kvr_peers_port(agent->peers), error));
    return agent_http_open(agent, error);
}

static void say_ready(const struct kvr_agent *agent)
{
    uint32_t rails = agent->rail_count, groups = agent->groups.count;
    uint16_t port = kvr_peers_port(agent->peers);
    const char *libfabric = kvr_libfabric_describe();
    char listens[32] = "";

    if (port != 0)
        snprintf(listens, sizeof(listens), ", peers at port %u", port);
    kvr_log_info("%s is ready: engines at %s%s, %u rail%s in %u group%s%s%s", agent->config->name,
                 agent->engine_socket, listens, rails, rails == 1 ? "" : "s", groups,
                 groups == 1 ? "" : "s", libfabric[0] != '\0' ? "; " : "", libfabric);
}

static kvr_status memory_open_now(void *self, uint32_t rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct kvr_agent *agent = self;

    return agent->fabric.ops->memory_register(agent->rails[rail], span, ret_memory, error);
}

static struct kvr_ports ports_of(struct kvr_agent *agent)
{
    return (struct kvr_ports){
        .self = agent,
        .send = agent_send,
        .dial = agent_dial,
        .hang_up = agent_hang_up,
        .notify = agent_notify,
        .command = agent_command,
        .region_done = agent_region_done,
        .region_register = agent_region_register,
        .region_stage = agent_region_stage,
        .engine_done = agent_engine_done,
        .peer_tenants = agent_peer_tenants,
        .rails = agent_rails_now,
        .memory_open = memory_open_now,
        .random = random_bits,
    };
}

int kvr_agent_run(const struct kvr_agent_launch *launch, struct kvr_agent_config *config,
                  const struct kvr_agent_program *program)
{
    struct kvr_agent *agent;
    struct kvr_error error = {0};
    kvr_status status;

    if (!kvr_text_valid(config->name, sizeof(config->name)))
        return kvr_options_refuse(launch->command,
                                  "--name has characters that cannot be printed: choose another, "
                                  "which peers and the scheduler can show");
    if (kvr_tls_check(&config->tls, &error) != KVR_OK)
        return kvr_options_refuse(launch->command, "%s", error.detail);
    agent = calloc(1, sizeof(*agent));
    if (agent == NULL)
        return 1;
    pthread_mutex_init(&agent->stages_lock, NULL);
    signal(SIGPIPE, SIG_IGN);
    kvr_fault_guard_install();
    /* The buffers of connections go back to the system when they end: by default malloc learns
     * their size and keeps them. */
    (void)mallopt(M_MMAP_THRESHOLD, 512 << 10);
    kvr_options_given(launch->command, config, agent->options, sizeof(agent->options));
    agent->launch = launch;
    agent->config = config;
    agent->program = program;
    agent->machine = program->machine;
    agent->boot = kvr_random_u64();
    gethostname(agent->host, sizeof(agent->host) - 1);
    agent->ports = ports_of(agent);
    agent_libfabric_prepare(config);
    loop_open(agent);
    status = agent_open(agent, &error);
    if (status == KVR_OK) {
        loop_start(agent);
        say_ready(agent);
    } else {
        kvr_log_failure(KVR_LOG_ERROR, "cannot start", &error);
        close_all(agent);
    }
    uv_run(&agent->loop, UV_RUN_DEFAULT);
    uv_loop_close(&agent->loop);
    agent_http_close(agent);
    kvr_reporter_close(agent->reporter);
    agent_groups_close(agent); /* before the stages: their rails import from a stage's device.
                                  Regions that go now cause no notice */
    agent_regions_close(agent);
    agent_stages_close(agent);
    agent_rails_close(agent);
    agent_revocation_close(agent);
    agent_tls_close(agent);
    kvr_stamps_close(agent->stamps);
    if (agent->memory_block != NULL) {
        KVR_UNPOISON(agent->memory_block,
                     config->table_memory); /* other memory will be mapped there */
        munmap(agent->memory_block, config->table_memory);
    }
    free(agent);
    kvr_log_flush();
    if (status == KVR_INVALID)
        return 2; /* a restart does not mend a bad option */
    return status == KVR_OK ? 0 : 1;
}
