/* An agent: the shell around a pure state machine (outbound or inbound).
 *
 * It opens the rails, runs the rail groups' threads and the loop, carries events between engines,
 * peers, the rail threads, the scheduler and the machine, and drains when it is asked to stop. It
 * decides nothing about transfers. Both programs are this and their machine. */
#ifndef KVR_AGENT_AGENT_H
#define KVR_AGENT_AGENT_H

#include "agent/core/machine.h"
#include "base/options.h"
#include "kv/fragment.h"
#include "rail_group/rail_options.h"
#include "tls/tls_options.h"
#include "trace/page_runs.h"

struct kvr_agent;

/* What the options say about engines. */
struct kvr_engines_config {
    struct kvr_option_list users, groups; /* that may attach beside our user and root */
    uint64_t memory;                      /* bytes that one may register; 0: any */
    uint64_t publishes, fetches; /* that one may have at once; each agent has one of them */
};

/* What the options say about tenants. */
struct kvr_tenants_config {
    struct kvr_option_list list;                               /* NAME[=OWNER[+OWNER…]] */
    struct kvr_option_list publishes, fetches, bytes, weights; /* TENANT=VALUE */
};
#define KVR_TENANT_WEIGHT_MAX 100

/* What the options say about the agent's own HTTP port. */
struct kvr_agent_http_config {
    char listen[KVR_OPTION_ITEM_BYTES]; /* "" = there is none */
    char port_file[512], token_file[512];
    struct kvr_option_list hosts, open;
};

/* The values of the options. */
struct kvr_agent_config {
    char name[KVR_NAME_BYTES];
    char engine_socket[108]; /* "" = name.sock in the run folder */
    struct kvr_engines_config engines;
    struct kvr_tenants_config tenants;
    char run_dir[512];                     /* "" = found at start */
    char lifeline[512];                    /* "" = ends by a signal only */
    char listen[KVR_OPTION_ITEM_BYTES];    /* prefill-agent only; "" = does not listen */
    char advertise[KVR_OPTION_ITEM_BYTES]; /* prefill-agent only; "" = listen */
    char port_file[512];
    char stamps[512]; /* "" = no measurement */
    char provider[KVR_PROVIDER_BYTES], digest[16], device[16];
    struct kvr_option_list rails, groups, planes;
    char other_planes[12];
    char rail_ports[16];               /* "" = the kernel chooses */
    char rail_filter[108];             /* "" = no filter */
    char cores[KVR_OPTION_ITEM_BYTES]; /* "auto", "any", a list or one for each group */
    struct kvr_option_list schedulers; /* none: no reports */
    char state_dir[512];
    bool calibration, require_gpudirect, group_failover, rail_filter_required;
    struct kvr_tls_config tls;
    struct kvr_agent_http_config http;
    struct kvr_posting_config posting;
    struct kvr_copying_config copying;
    uint64_t device_failures;
    kvr_ns heartbeat, quiet, drain_timeout;
    uint64_t time_scale;
    struct kvr_spans_choice spans;
    struct kvr_pages_wish pages;
    uint64_t table_memory;
    char fragments[16]; /* the choices differ between the programs */
    /* prefill-agent */
    kvr_ns lease;
    uint64_t fragment_bytes_min;
    /* decode-agent */
    kvr_ns deadline;
    uint64_t slots;
    struct kvr_option_list prefill_agents; /* dialed at the start */
};

/* The rows that both programs have. */
extern const struct kvr_option_table kvr_agent_options;
#define KVR_AGENT_PARTS                                                                            \
    {.table = &kvr_agent_options},                                                                 \
        {.table = &kvr_tls_options, .offset = offsetof(struct kvr_agent_config, tls)},             \
        {.table = &kvr_posting_options, .offset = offsetof(struct kvr_agent_config, posting)},     \
    {                                                                                              \
        .table = &kvr_staging_options, .offset = offsetof(struct kvr_agent_config, copying)        \
    }

/* Over rails of that provider ("tcp", "local"; not "tcp+local"). Takes about a millisecond. */
struct kvr_fragment_costs kvr_agent_fragment_costs(const struct kvr_agent_config *config,
                                                   const char *provider);

/* One of the two programs: its machine, and the parts that only a process has. */
struct kvr_agent_program {
    struct kvr_machine machine;
    /* Memory for the push or the land of one more rail group: near it, where it is called. */
    kvr_status (*group_open)(uint32_t group, struct kvr_group_user *ret_user);
    /* Makes the machine ready. Called once, when the rails are open: limits and counts are known.
     */
    kvr_status (*init)(const struct kvr_agent_config *config, const struct kvr_ports *ports,
                       struct kvr_buddy *memory, const struct kvr_rail_groups *groups,
                       const struct kvr_write_limits *limits);
    void (*counters)(uint64_t counters[]); /* by enum kvr_counter */
    /* Bytes that came in over a rail of ours; NULL: what leaves is counted by the group. */
    uint64_t (*landed)(uint32_t rail);
    /* Bytes that left for a tenant; NULL: none leave. */
    uint64_t (*posted)(uint32_t tenant);
    /* Adds what the program counts of a rail of ours, by enum kvr_rail_counter; NULL: nothing. */
    void (*rail_counters)(uint32_t rail, uint64_t counters[]);
};

/* A time of the configuration as it is to be used: --time-scale of it. */
kvr_ns kvr_agent_time(const struct kvr_agent_config *config, kvr_ns configured);
kvr_digest_mode kvr_agent_digest(const struct kvr_agent_config *config);

/* What config was loaded from: SIGHUP loads it again. */
struct kvr_agent_launch {
    const struct kvr_command *command;
    int argc;
    char **argv;
};

/* What both programs' --help says about signals. */
#define KVR_AGENT_SIGNALS                                                                          \
    "SIGTERM and SIGINT: take no new work, let transfers end within --drain-timeout, name what\n"  \
    "was given up, exit with 0; a second one exits at once with 1."

/* Runs until SIGTERM or SIGINT and drained. config: SIGHUP changes it. Returns the exit status: 0,
 * or when it could not start 2 for an option that cannot be, else 1 (the log has the sentence). */
int kvr_agent_run(const struct kvr_agent_launch *launch, struct kvr_agent_config *config,
                  const struct kvr_agent_program *program);

#endif
