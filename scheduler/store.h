/* The scheduler's memory: a database of SQLite in WAL mode, or one of PostgreSQL.
 *
 * A `store` is one connection. The writer's is opened first and brings the schema to this version,
 * and refuses a newer one. Readers are opened after it and never wait for it. What is committed
 * survives a power cut. One thread a store.
 *
 * SQLite: an older database is copied to kvrail.db.v<N>.bak before it is changed. A damaged one is
 * renamed to kvrail.db.damaged-<time>, and a new one begins.
 *
 * PostgreSQL: several schedulers may have one database. A connection that is lost is opened again
 * by the next call that needs it. */
#ifndef KVR_SCHEDULER_STORE_H
#define KVR_SCHEDULER_STORE_H

#include <limits.h>
#include <stddef.h>

#include "scheduler/audit.h"
#include "scheduler/health.h"
#include "scheduler/transfer.h"
#include "trace/report.h"
#include "trace/spans.h"

#define STORE_NAME_BYTES (PATH_MAX + 64)

struct store;

/* Texts are borrowed for the call. */
struct store_place {
    const char *folder;        /* of SQLite's files: the state folder */
    const char *url;           /* of PostgreSQL; NULL: SQLite */
    const char *password_file; /* its first line, for PostgreSQL; NULL: none */
    int stop_fd;        /* readable once the program ends: gives up what has no bound; 0: none */
    const char *schema; /* of PostgreSQL's tables; NULL: kvrail */
    kvr_ns retention;   /* KVR_NEVER: all is kept; for the length of partitions */
};

KVR_MUST_CHECK kvr_status store_open_writer(const struct store_place *place,
                                            struct store **ret_store, struct kvr_error *error);
KVR_MUST_CHECK kvr_status store_open_reader(const struct store_place *place,
                                            struct store **ret_store, struct kvr_error *error);
struct store *store_close(struct store *store); /* returns NULL */

/* A reader's query that goes on past this time fails; 0: none does. */
void store_set_deadline(struct store *store, kvr_ns deadline);
/* The last call failed by its deadline. */
bool store_timed_out(struct store *store);

/* Why the last call failed, as a sentence, and for the health. Valid until the next call. */
const char *store_problem(struct store *store);
health_problem store_trouble(struct store *store);

/* How people find it: "DIR/kvrail.db", or the URL. */
void store_place_name(const struct store_place *place, char name[STORE_NAME_BYTES]);

/* The folder in which acknowledged reports may wait for their commit; NULL: each round is
 * committed, because other schedulers may write to it. */
const char *store_journal_folder(const struct store *store);

/* Its file was removed, or another is in its place: what would be committed is lost. */
bool store_has_moved(struct store *store);
/* Bytes that it takes on disk; 0: not known. */
uint64_t store_size(struct store *store);
/* The same without what is free, which later rows take first. False: not known. */
bool store_used(struct store *store, uint64_t *ret_bytes);

/* ---- writer: between begin and commit; every bool is false on failure, then roll back ---- */
bool store_begin(struct store *store);  /* false too when the file is not at its place any more */
bool store_commit(struct store *store); /* the same */
/* Within a transaction: another scheduler has committed since this store did, so what its caller
 * remembers may be old. */
bool store_others_wrote(struct store *store);
/* The last transaction has changed something: the disk has taken it. */
bool store_has_written(struct store *store);
void store_rollback(struct store *store);

/* One start of an agent. */
struct store_start {
    const char *agent; /* borrowed */
    uint64_t boot;
};
/* What a round of reports will ask for: transfers, and positions of starts. All of it is read at
 * once where each question is a round trip. Borrowed until the transaction ends. */
struct store_expected {
    const uint64_t *ids;
    size_t id_count;
    const struct store_start *starts;
    size_t start_count;
};
bool store_expects(struct store *store); /* it gains something */
bool store_expect(struct store *store, const struct store_expected *rows);

bool store_position(struct store *store, const char *agent, uint64_t boot, uint64_t *ret_sequence);
/* *ret_other: another start of the agent has reported events. */
bool store_other_boots(struct store *store, const char *agent, uint64_t boot, bool *ret_other);
bool store_set_position(struct store *store, const char *agent, uint64_t boot, uint64_t sequence,
                        int64_t now_ns);
/* Events of the transfer that one start of one agent reported, as records of event_pack.h. Of a
 * transfer that is put afterwards. */
struct event_row {
    const char *agent;
    uint64_t boot;
    int64_t arrived_ns;
    const uint8_t *records;
    size_t bytes;
    const uint8_t *spans; /* of the transfer's end there (trace/spans.h) */
    size_t spans_bytes;   /* 0: none */
    const uint8_t *pages; /* the same of its page tables (trace/page_runs.h) */
    size_t pages_bytes;
};
bool store_add_events(struct store *store, struct transfer *transfer, const struct event_row *row);
/* All events of `from`, which keeps none, become the transfer's. */
bool store_join_events(struct store *store, struct transfer *transfer, struct transfer *from);
/* Is that event here, under that number of that start of the agent? If it is one of an opening, it
 * may have become one of another transfer of its request. */
bool store_has_event(struct store *store, uint64_t transfer, const char *agent, uint64_t boot,
                     uint64_t sequence, const struct kvr_event *event, bool *ret_has);
/* Inserts when ordinal is 0 (and sets it), else updates. */
bool store_put_transfer(struct store *store, struct transfer *transfer);
bool store_delete_transfer(struct store *store, uint64_t id);

struct agent_row {
    char name[KVR_NAME_BYTES];
    uint64_t boot;
    uint64_t dropped;
    bool stopped;
    int64_t seen_ns;
};
bool store_put_agent(struct store *store, const struct agent_row *row,
                     const struct kvr_agent_facts *facts);

/* Adds an order for every source that holds the request for a target that has not come; attempt -1:
 * any. *ret_count: the number of sources. A second order of that kind replaces the first. */
bool store_add_orders(struct store *store, const char *request, int64_t attempt,
                      kvr_order_kind kind, kvr_ns lease_ns, int64_t now_ns, uint32_t *ret_count);
/* For the target of that live transfer. *ret_count 0: it has none that reports. */
bool store_add_cancel(struct store *store, uint64_t transfer, int64_t now_ns, uint32_t *ret_count);
/* For that start of the agent which reported last. *ret_count 0: there is none, or it has stopped.
 */
bool store_add_agent_order(struct store *store, const char *agent, kvr_order_kind kind,
                           int64_t now_ns, uint32_t *ret_count);
/* The same for so long from when the agent takes it; agent "*": for each. */
bool store_add_record_order(struct store *store, const char *agent, kvr_ns length, int64_t now_ns,
                            uint32_t *ret_count);
/* Which of the starts may have orders, so that store_list_orders is asked for them. */
bool store_find_orders(struct store *store, const struct store_start *starts, size_t count,
                       bool ret_has[]);
bool store_list_orders(struct store *store, const char *agent, uint64_t boot,
                       struct kvr_order orders[KVR_ORDERS_MAX], uint32_t *ret_count);
bool store_take_orders(struct store *store, const char *agent, uint64_t boot, uint64_t number);
bool store_drop_orders(struct store *store, uint64_t transfer);

bool store_add_audit(struct store *store, const struct audit_entry *entry, int64_t now_ns);

/* Removes some rows older than before_ns; *ret_removed: of all kinds; 0: none is left. Adds the
 * removed transfers to `states`, by their state (NULL: not counted). */
bool store_prune(struct store *store, int64_t before_ns, uint64_t states[STATE_END],
                 uint64_t *ret_removed);
/* The same, of ended transfers with their events alone; the oldest first. */
bool store_prune_transfers(struct store *store, int64_t before_ns, uint64_t states[STATE_END],
                           uint64_t *ret_removed);

/* ---- either ---- */
/* *ret_found false: no such transfer. */
bool store_get_transfer(struct store *store, uint64_t id, struct transfer *ret_transfer,
                        bool *ret_found);

/* The most informative transfer of the request: live before ended, matched before held. */
bool store_get_request(struct store *store, const char *request, int64_t attempt,
                       struct transfer *ret_transfer, bool *ret_found);

/* For every live transfer that has `agent` on one side. */
bool store_live_of_agent(struct store *store, const char *agent, uint64_t *ids, size_t room,
                         size_t *ret_count);

typedef enum transfer_filter_kind {
    FILTER_ALL,
    FILTER_LIVE,
    FILTER_STATE,
    FILTER_REQUEST, /* its id begins with request */
} transfer_filter_kind;

/* Texts are borrowed for the call; NULL and 0: any. */
struct transfer_filter {
    transfer_filter_kind kind;
    transfer_state state;
    const char *request;
    const char *tenant; /* of this one alone, whatever the kind */
    int64_t before;     /* an ordinal; 0: from the newest */
    uint32_t limit;
    /* Only store_search_transfers, as is a request beside a state: */
    int64_t before_ns; /* with `before`, a struct transfer_place; 0: among the live ones */
    const char *agent, *reason;
    const struct kvr_uuid *engine;
    bool has_rail; /* its agent's rail carried a part */
    uint32_t rail;
    kvr_path path;
    int64_t from_ns, until_ns; /* of updated_ns, both within */
    int64_t min_duration_ns;
};

/* Newest first, those below `before`. */
typedef void transfer_visit(void *self, const struct transfer *transfer);
bool store_list_transfers(struct store *store, const struct transfer_filter *filter,
                          transfer_visit *visit, void *self);

struct transfer_place {
    int64_t ordinal, updated_ns;
};
struct transfer_found {
    struct transfer_place next; /* where the next page begins; ordinal 0: there is none */
    int64_t searched_ns; /* the page is not full, and looked back to this updated_ns; 0: it is full,
                            or the last one */
};
/* The filter asks for more than store_list_transfers knows. */
bool transfer_filter_searches(const struct transfer_filter *filter);
bool store_search_transfers(struct store *store, const struct transfer_filter *filter,
                            transfer_visit *visit, void *self, struct transfer_found *ret_found);
/* The names of the agent's rails by its last report; "": it had no such rail. */
bool store_rail_names(struct store *store, const char *agent,
                      char ret_names[KVR_RAILS_MAX][KVR_NAME_BYTES]);

struct stored_event {
    const char *agent, *role, *kind, *peer, *outcome, *detail; /* borrowed for the visit */
    uint64_t sequence, bytes, retries;
    int64_t at_ns;
};
/* In the order of their times; of more than `limit`, those of the rows that came last. */
typedef void event_visit(void *self, const struct stored_event *event);
bool store_list_events(struct store *store, uint64_t transfer, uint32_t limit, event_visit *visit,
                       void *self);

/* Spans and page tables of the transfer's ends, those that came last first. */
struct records_visitor {
    void *self;
    void (*spans)(void *self, const struct kvr_spans *spans);
    /* Packed (trace/page_runs.h), and not checked; borrowed for the visit. NULL: not asked for. */
    void (*pages)(void *self, const uint8_t *bytes, size_t count);
};
bool store_list_records(struct store *store, uint64_t transfer,
                        const struct records_visitor *visitor);

typedef void agent_visit(void *self, const struct agent_row *row,
                         const struct kvr_agent_facts *facts);
bool store_list_agents(struct store *store, agent_visit *visit, void *self);
/* In no order. */
typedef void agent_name_visit(void *self, const char *name);
bool store_list_agent_names(struct store *store, agent_name_visit *visit, void *self);

/* Newest first, those below the id `before`; 0: from the newest. */
typedef void audit_visit(void *self, const struct stored_audit *entry);
bool store_list_audit(struct store *store, int64_t before, uint32_t limit, audit_visit *visit,
                      void *self);

bool store_count_states(struct store *store, uint64_t ret_counts[STATE_END]);
/* Published requests without a target: transfer_held(). */
bool store_count_held(struct store *store, uint64_t *ret_count);
/* When the oldest live transfer was opened, wall; 0: there is none. */
bool store_oldest_live(struct store *store, int64_t *ret_opened_ns);

struct reason_group {
    const char *state, *reason; /* borrowed for the visit */
    uint64_t count;
    uint64_t last_id; /* the newest transfer that ended so */
};
typedef void reason_visit(void *self, const struct reason_group *group);
bool store_group_reasons(struct store *store, int64_t since_ns, reason_visit *visit, void *self);

/* Transfers that ended for one reason, by the times of their last events. */
#define ERROR_COUNT_MAX 50000 /* it is counted no farther */
struct error_group {
    uint64_t count, last_id; /* of the newest; 0: there is none */
    int64_t first_ns, last_ns;
};
bool store_group_errors(struct store *store, const char *reason, int64_t from_ns, int64_t until_ns,
                        struct error_group *ret_group);

#endif
