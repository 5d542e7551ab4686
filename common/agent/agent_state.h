/* Shared by the files of the agent's shell alone. */
#ifndef KVR_AGENT_AGENT_STATE_H
#define KVR_AGENT_AGENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "agent/agent.h"
#include "agent/agent_helpers.h"
#include "agent/core/gone_book.h"
#include "agent/core/pair_book.h"
#include "agent/core/pair_news.h"
#include "agent/doorbell.h"
#include "agent/engine/engine_port.h"
#include "agent/engine/tenant_access.h"
#include "agent/peer/peer.h"
#include "agent/report/reporter.h"
#include "base/absence.h"
#include "filter/filter_client.h"
#include "rail_group/rail_group_thread.h"
#include "topology/topology.h"
#include "trace/pair_table.h"

/* A rail group and its thread. */
struct agent_group {
    struct kvr_group *group;
    struct kvr_group_thread *thread;
    int cores[KVR_CORES_MAX]; /* that the thread may run on */
    uint32_t core_count;      /* 0: any */
    uint32_t node;            /* the system's number of its NUMA node, or KVR_NODE_UNKNOWN */
    bool kick;                /* it was given a command since it was last woken */
};

/* What kvrail-filter knows of this agent. */
struct agent_filter {
    bool opened;    /* the rails are open */
    bool listening; /* and their endpoints */
    bool away_said; /* it does not answer, and that was logged */
    kvr_ns retry_at;
    uint64_t refused; /* packets, of connections before this one */
    struct kvr_filter_client client;
    struct agent_filter_place {
        struct kvr_filter_address address;
        uint16_t port;       /* 0: none */
    } places[KVR_RAILS_MAX]; /* as the filter knows them */
    struct agent_filter_peer {
        uint32_t count;
        struct kvr_filter_address *addresses; /* of its rails; NULL: it is not up */
    } peers[KVR_PEERS_MAX];
};

#define AGENT_GPUS_MAX         64
#define AGENT_UNREGISTERED_MAX 256

struct agent_gpu {
    char pci[16], model[KVR_NAME_BYTES];
    uint32_t node;   /* the system's number of its NUMA node, or KVR_NODE_UNKNOWN */
    uint32_t groups; /* the rail groups nearest to it, a bit each */
};

struct agent_engine {
    uint64_t serial; /* of the engine that has this index now; 0: none */
    int doorbell;    /* watched by the rail threads; -1 */
    uint64_t region_bytes;
    uint32_t home; /* the rail group of its regions, from the first on */
    bool home_known;
    uint32_t pages_left;          /* groups that still look at the page of an engine that is gone */
    struct kvr_engine_facts most; /* when it had lent most regions */
    struct agent_lent {
        struct kvr_revocation_words *words; /* the engine's own (rule 11); NULL: none */
        int fd;                             /* of that memory */
    } lent;
};

/* What the rails are connected to (agent_planes.c). */
struct agent_planes {
    char of[KVR_RAILS_MAX][KVR_PLANE_BYTES]; /* by the rails' final numbers */
    struct agent_plane_label {               /* by rail, because numbers may yet change */
        const struct kvr_rail *rail;
        char text[KVR_PLANE_BYTES];
    } labels[KVR_RAILS_MAX];
    uint32_t label_count;
};

struct agent_http; /* agent_http_state.h */

struct kvr_agent {
    const struct kvr_agent_launch *launch;
    struct kvr_agent_config *config;
    char engine_socket[108]; /* configured, or in the run folder */
    const struct kvr_agent_program *program;
    struct kvr_machine machine; /* the program's */
    struct kvr_ports ports;
    uint64_t boot;
    char host[KVR_NAME_BYTES];
    char address[KVR_AGENT_ADDRESS_BYTES]; /* where peers dial us; "": nowhere */

    struct kvr_fabric fabric;
    char provider[16]; /* of its cards */
    bool mixed;        /* local is to be beside them */
    struct kvr_rail *rails[KVR_RAILS_MAX];
    uint32_t rail_count;
    struct kvr_rail_ports ports_of_rails; /* --rail-ports */
    struct kvr_write_limits limits;
    struct kvr_rail_groups groups;
    struct agent_planes planes;
    struct kvr_rail_traits traits[KVR_RAILS_MAX];
    uint32_t traits_renewed; /* times that one rail's MTU was read again */
    struct agent_group group[KVR_RAIL_GROUPS_MAX];
    struct agent_host
        *found; /* agent_host.c; NULL before the rails are opened, and once they are */
    struct agent_gpu gpus[AGENT_GPUS_MAX]; /* of the host, where there are several groups */
    uint32_t gpu_count;

    void *memory_block;
    struct kvr_buddy memory;

    uv_loop_t loop;
    struct kvr_doorbell group_events;
    uv_prepare_t before_sleep;
    uv_timer_t tick, second;
    struct kvr_absence absence; /* of the loop, by `second` */
    uv_signal_t terminate, interrupt, hang_up;
    struct agent_lifeline {
        bool watched; /* --lifeline */
        int fd;
        uv_poll_t poll;
    } lifeline;
    struct agent_filter filter;
    struct kvr_engine_port *port;
    struct kvr_peers *peers;
    struct kvr_credentials *credentials; /* NULL: no TLS */
    struct kvr_tenants tenants;          /* as configured; from then on the machine has them */
    struct kvr_tenant_access tenant_access;
    struct kvr_reporter *reporter;
    struct agent_http *http; /* NULL: no --http */
    struct {
        uint64_t said; /* writes that no transfer expects, which the log has */
        kvr_ns say_at;
    } strangers[KVR_RAILS_MAX];
    uint64_t spool_lost_said;              /* of its events, in a warning */
    char options[KVR_AGENT_OPTIONS_BYTES]; /* at the start, for reports */
    uint64_t scheduler_changes_said;
    bool scheduler_away_said; /* in a warning */
    bool started, signalled, draining, given_up, closing;
    bool drained;     /* by the scheduler: it takes no new requests, and stays */
    kvr_ns drain_end; /* of the patience; once given up, of the time to settle */

    struct agent_engine engines[KVR_ENGINES_MAX];
    struct gone_book gone;
    uint64_t serial_next;
    struct agent_helpers helpers;
    struct agent_region *regions;                       /* from their REGION_ADD on */
    struct agent_registration_task *tasks, *tasks_last; /* the first is a helper's */
    uint64_t unregistered[AGENT_UNREGISTERED_MAX]; /* ids without a task: there was no memory */
    uint32_t unregistered_count;
    pthread_mutex_t stages_lock;
    struct agent_stage *stages; /* of devices that a region lies on */
    bool tried;                 /* agent_trial: under stages_lock */
    _Atomic uint64_t gpu_bytes; /* of GPUs, for this agent's own needs: about */

    /* hello's arrays */
    struct kvr_rail_address hello_rails[KVR_RAILS_MAX];
    struct kvr_compat hello_compats[KVR_ENGINES_MAX];
    uint64_t counters[KVR_COUNTER_END];
    uint32_t peers_up, peers_warm; /* warm: pairs of rails have carried bytes */
    struct agent_static_peer {
        uint32_t peer;
        kvr_ns dial_at;
        bool dialed; /* it has this index until it is lost */
        bool missed; /* it was lost, or could not be dialed, and that was logged */
    } static_peers[KVR_OPTION_LIST_MAX]; /* as config->prefill_agents */
    struct agent_warmth {
        kvr_ns up_at;    /* 0: it is not up */
        uint32_t groups; /* bits of those that have warmed up what they reach of it */
        uint32_t pairs;
        bool told, unreachable_said;
    } warmth[KVR_PEERS_MAX];
    struct pair_book pairs;
    struct pair_news pair_news;
    struct kvr_pair_table *pair_table; /* what was reported of them; NULL: no memory */
    bool rail_down[KVR_RAILS_MAX];     /* as engines know it */
    kvr_ns turned_away_told;           /* when engines got that notice; 0: never */
    struct kvr_event_sink reports;     /* where events go once they were logged */

    struct kvr_stamps *stamps; /* of a measurement; or NULL */
    kvr_ns listened_at;        /* when its message was taken that is heard just now */

    bool lends;                            /* targets copy from our engines' memory */
    int offers_socket;                     /* where prefill-agents bring their words; 0: none */
    struct agent_lender *lenders;          /* newest first */
    bool words_missed_said[KVR_PEERS_MAX]; /* in a warning, in this session */
};

/* agent_checks.c */
void agent_libfabric_prepare(const struct kvr_agent_config *config); /* before any rail */
kvr_status agent_checks(const struct kvr_agent_config *config, struct kvr_error *error);
/* The error says what is wrong with the value; says of which option too. */
kvr_status agent_option_refuse(const char *option, struct kvr_error *error);
void agent_memlock_check(const struct kvr_rail_facts *facts); /* warns */
/* Warn of --insecure, and of a rail with a port that other hosts reach. */
void agent_insecure_say(const struct kvr_agent_config *config);
void agent_exposed_say(const struct kvr_agent_config *config, const struct kvr_rail_facts *facts);
/* Says what the connections of a rail use, and warns of bbr that could not be left (`wish` is
 * --tcp-congestion). */
void agent_congestion_check(const struct kvr_rail_facts *facts, const char *wish);
/* agent_run_dir.c */
kvr_status agent_run_dir_open(struct kvr_agent *agent, struct kvr_error *error);
/* agent_lifeline.c */
kvr_status agent_lifeline_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_lifeline_close(struct kvr_agent *agent);
/* agent_drain.c */
void agent_drain(struct kvr_agent *agent, const char *why); /* once */
void agent_rest(struct kvr_agent *agent, bool drained);     /* on the scheduler's order */
void agent_drain_on_signal(struct kvr_agent *agent, int signal);
bool agent_drained(struct kvr_agent *agent, kvr_ns now); /* true: close now */
/* agent_cores.c */
/* Divides the rails, which may be numbered anew, and finds where each group's thread runs. */
kvr_status agent_cores_choose(struct kvr_agent *agent, struct kvr_error *error);
/* agent_planes.c */
/* NAME@PLANE as --rail and --group have it; the label is "" where there is none. */
kvr_status agent_plane_split(const char *given, char ret_name[KVR_OPTION_ITEM_BYTES],
                             char ret_label[KVR_PLANE_BYTES], struct kvr_error *error);
void agent_plane_label(struct kvr_agent *agent, const struct kvr_rail *rail, const char *label);
/* "": it has none. */
const char *agent_plane_label_of(const struct kvr_agent *agent, const struct kvr_rail *rail);
/* Of all rails, once they have their numbers. */
kvr_status agent_planes_find(struct kvr_agent *agent, struct kvr_error *error);
kvr_other_planes agent_other_planes(const struct kvr_agent_config *config);

/* agent_groups.c */
kvr_status agent_groups_open(struct kvr_agent *agent, struct kvr_error *error);
kvr_status agent_groups_start(struct kvr_agent *agent, struct kvr_error *error);
void agent_groups_stop(struct kvr_agent *agent); /* idempotent */
void agent_groups_close(struct kvr_agent *agent);
void agent_command(void *self, const struct kvr_group_message *message);
void agent_groups_kick(struct kvr_agent *agent); /* before the loop sleeps */
const struct agent_group *agent_group_of(const struct kvr_agent *agent, uint32_t rail);
/* agent_rails.c */
kvr_status agent_rails_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_rails_close(struct kvr_agent *agent);
bool agent_serves_gpus(const struct kvr_agent_config *config); /* cards are opened for them too */
/* agent_trial.c */
void agent_trial_announce(const struct kvr_agent *agent); /* touches no GPU */
/* Helper thread, once, on the first GPU that a region lies on. */
void agent_trial(const struct kvr_agent *agent, struct kvr_device *device);
/* agent_engines.c */
kvr_status agent_engines_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_engine_done(void *self, uint32_t engine);
void agent_page_forgotten(struct kvr_agent *agent, uint32_t engine); /* by one more group */
/* agent_home.c */
/* The rail groups nearest to the GPU at that PCI address, a bit each; 0: not known. */
uint32_t agent_gpu_groups(const struct kvr_agent *agent, const char *pci);
/* The rail group of an engine; its first region decides. fd is borrowed. */
uint32_t agent_home_of(struct kvr_agent *agent, uint32_t engine,
                       const struct kvr_req_region *region, int fd);
/* agent_regions.c */
void agent_region_add(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                      const struct kvr_region_memory *memory);
void agent_region_drop(struct kvr_agent *agent, uint32_t engine, const struct kvr_request *request);
void agent_region_done(void *self, struct kvr_region *region, uint32_t number);
void agent_regions_close(struct kvr_agent *agent);       /* the loop has ended */
void agent_regions_broken(struct kvr_agent *agent);      /* pages that were gone when touched */
void agent_region_tasks_answer(struct kvr_agent *agent); /* those that found no memory */
void agent_regions_retry(struct kvr_agent *agent); /* drops that lacked memory; now and then */
/* agent_region_tasks.c */
void agent_region_register(void *self, const struct kvr_region_set *set, uint32_t group,
                           uint64_t id);
void agent_region_stage(void *self, const struct kvr_region_set *set, uint64_t id);
/* agent_stages.c */
kvr_status agent_stages_check(const struct kvr_agent *agent, const struct kvr_req_region *region,
                              struct kvr_error *error);
/* Cards write to a target's pages, and its GPU must see that in order: by nature, or by a flush if
 * this process can ask for one. UNSUPPORTED, with a reason: neither. */
kvr_status agent_write_order_check(const struct kvr_agent *agent, kvr_write_order order,
                                   bool flushes, struct kvr_error *error);
/* Helper thread. Imports device memory, for the cards themselves or staged; borrows it. */
kvr_status agent_stages_region(struct kvr_agent *agent, uint32_t group,
                               const struct kvr_req_region *request,
                               const struct kvr_region_memory *memory,
                               struct kvr_region **ret_region, struct kvr_error *error);
/* Host memory, to be copied too. The region is only looked at. */
kvr_status agent_stages_host(struct kvr_agent *agent, const struct kvr_region *region,
                             struct kvr_stage **ret_stage, struct kvr_device_memory **ret_pages,
                             struct kvr_error *error);
void agent_region_release(struct kvr_agent *agent, struct kvr_region *region); /* NULL is fine */
void agent_stages_close(struct kvr_agent *agent); /* threads have ended, regions are gone */
/* agent_tls.c */
kvr_status agent_tls_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_tls_close(struct kvr_agent *agent);           /* the loop has ended */
uint32_t agent_tls_roles(const struct kvr_agent *agent); /* of certificates of peers, a bit each */
void agent_tls_second(struct kvr_agent *agent);          /* once a second */
void agent_tls_hang_up(struct kvr_agent *agent);         /* SIGHUP */
void agent_tls_refused(struct kvr_agent *agent, kvr_tls_refusal refusal);
/* agent_tenants.c */
/* Reads the options, and compares them with the certificate. */
kvr_status agent_tenants_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_tenants_renewed(struct kvr_agent *agent); /* our certificate is another one */
uint32_t agent_peer_tenants(void *self, uint32_t peer);
/* Sets the quotas and weights of tenants that are there. */
kvr_status agent_tenants_quotas(const struct kvr_tenants_config *config,
                                struct kvr_tenants *tenants, struct kvr_error *error);
/* agent_peers.c */
kvr_status agent_peers_open(struct kvr_agent *agent, struct kvr_error *error);
kvr_status agent_send(void *self, uint32_t peer, const struct kvr_message *message);
kvr_status agent_dial(void *self, const char *address, uint32_t *ret_peer, struct kvr_error *error);
void agent_hang_up(void *self, uint32_t peer, kvr_status status, const char *detail);
/* agent_static_peers.c: peers that the configuration names. */
void agent_static_peers_dial(struct kvr_agent *agent,
                             kvr_ns now); /* dials the others again from time to time */
/* True: it is one of them, has not been up, and its absence was said before. */
bool agent_static_peer_lost(struct kvr_agent *agent, kvr_ns now, uint32_t peer, bool was_up,
                            kvr_status status);
/* agent_warmth.c: whether pairs of rails with a peer have carried bytes. */
void agent_warmth_up(struct kvr_agent *agent, kvr_ns now, uint32_t peer);
void agent_warmth_lost(struct kvr_agent *agent, uint32_t peer);
void agent_warmth_heard(struct kvr_agent *agent, kvr_ns now,
                        const struct kvr_group_message *message); /* of any kind */
/* agent_pairs.c: how our rails reach those of peers; of a source alone. */
void agent_pairs_open(struct kvr_agent *agent); /* the groups are open */
void agent_pairs_close(struct kvr_agent *agent);
void agent_pairs_second(struct kvr_agent *agent, kvr_ns now); /* once a second */
/* True: the message was about that alone. */
bool agent_pairs_heard(struct kvr_agent *agent, const struct kvr_group_message *message);
/* As struct kvr_engine_handler has it. */
kvr_status agent_pairs_answer(void *self, kvr_ns now, uint32_t engine, struct kvr_error *error);
uint32_t agent_rails_now(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX]);
/* agent_filter.c: kvrail-filter, which closes the ports of tcp rails to all but peers. */
/* The rails are open, their endpoints are not. Logs what reaches their ports. */
kvr_status agent_filter_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_filter_close(struct kvr_agent *agent);
/* Before peers hear of them: endpoints have been opened or replaced. */
void agent_filter_listening(struct kvr_agent *agent);
void agent_filter_peer_up(struct kvr_agent *agent, uint32_t peer,
                          const struct kvr_msg_hello *hello); /* it is authenticated */
void agent_filter_peer_lost(struct kvr_agent *agent, uint32_t peer);
void agent_filter_tick(struct kvr_agent *agent, kvr_ns now); /* once a second */
/* agent_tell.c */
void agent_tell_peer_up(struct kvr_agent *agent, const char *name);
void agent_tell_peer_warm(struct kvr_agent *agent, const char *name);
void agent_tell_peer_down(struct kvr_agent *agent, const struct kvr_peer_info *peer,
                          kvr_status status, const char *detail);
/* An agent that none of our engines fits; engines get that once a second at most, because any
 * host may connect. */
void agent_tell_turned_away(struct kvr_agent *agent, kvr_ns now, const char *who, kvr_status status,
                            const char *detail);
/* What the machine's events pass on their way to `reports`: requests that are refused are logged.
 */
struct kvr_event_sink agent_events(struct kvr_agent *agent, struct kvr_event_sink reports);
/* It was recycled: with this status no endpoint could be opened, and why; or KVR_OK. */
void agent_tell_rail(struct kvr_agent *agent, uint32_t rail, kvr_status status, const char *why);
/* agent_revocation.c */
kvr_status agent_revocation_open(struct kvr_agent *agent,
                                 struct kvr_error *error); /* the rails are open */
void agent_revocation_close(struct kvr_agent *agent);      /* the rail thread has ended */
/* The words of an engine that attaches; nothing where no target copies. */
kvr_status agent_words_open(struct kvr_agent *agent, uint32_t engine, struct kvr_error *error);
void agent_words_close(struct kvr_agent *agent, uint32_t engine); /* its last transfer has ended */
int agent_words_fd(void *self, uint32_t engine);                  /* -1: none */
/* agent_traits.c */
void agent_traits_read(struct kvr_agent *agent); /* once, before the loop runs */
void agent_traits_tell(struct kvr_agent *agent, struct kvr_agent_facts *facts);
/* agent_http.c: /metrics and /healthz of this agent alone. */
kvr_status agent_http_open(struct kvr_agent *agent, struct kvr_error *error);
void agent_http_close(struct kvr_agent *agent);   /* nothing is shown any more */
void agent_http_hang_up(struct kvr_agent *agent); /* SIGHUP */
/* Once a second; never waits. dropped: events that the reporter lost. */
void agent_http_show(struct kvr_agent *agent, const struct kvr_agent_facts *facts,
                     uint64_t dropped);
/* agent_engine_facts.c */
void agent_engine_lent(struct kvr_agent *agent, uint32_t engine); /* one region more */
void agent_engine_gone(struct kvr_agent *agent, uint32_t engine, kvr_ns now);
/* heard: reports arrive. */
void agent_engines_tell(struct kvr_agent *agent, bool heard, struct kvr_agent_facts *facts);
/* agent_facts.c */
void agent_facts_tell(struct kvr_agent *agent);
void agent_orders_take(struct kvr_agent *agent); /* what the scheduler answered */

#endif
