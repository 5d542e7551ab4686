#include "scheduler/fault_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "base/text.h"

#define ABSENT_NS  ((int64_t)(65 * KVR_S)) /* idle agents' rows are nearly as old */
#define NO_RAIL    (-1)
/* Room for any text of a fault, before it is cut between two characters: names of engines. */
#define TEXT_BYTES (KVR_ENGINES_MAX * (KVR_NAME_BYTES + 2))
/* After such a pause of an agent that reports here, the leading scheduler may have called it
 * silent: news of reports reach that one later than this one. */
#define PAUSE_NS   ((int64_t)(FLEET_SILENT_NS / 2))

/* Totals of an agent. When one rises, that is a fault. */
static const struct {
    kvr_counter counter;
    kvr_fault_kind kind;
} totals[] = {
    {KVR_COUNTER_ABSENCES, KVR_FAULT_AGENT_ABSENT},
    {KVR_COUNTER_PEERS_LOST, KVR_FAULT_PEER_LOST},
    {KVR_COUNTER_ENGINES_LOST, KVR_FAULT_ENGINE_ENDED},
    {KVR_COUNTER_MEMORY_FAULTS, KVR_FAULT_MEMORY},
    {KVR_COUNTER_FILTERS_LOST, KVR_FAULT_FILTER_LOST},
};
#define TOTALS (sizeof(totals) / sizeof(totals[0]))

/* States of pairs of rails that are faults. */
static const struct {
    kvr_pair_state state;
    kvr_fault_kind kind;
} pair_faults[] = {
    {KVR_PAIR_DOUBTED, KVR_FAULT_RAIL_DOUBTED},
    {KVR_PAIR_SLOW, KVR_FAULT_RAIL_SLOW},
    {KVR_PAIR_UNREACHABLE, KVR_FAULT_RAIL_UNREACHABLE},
};
#define PAIR_FAULTS (sizeof(pair_faults) / sizeof(pair_faults[0]))

/* A peer to which rails are in trouble: bits of them. KVR_PEERS_MAX of an agent at most. */
struct troubled {
    UT_hash_handle hh;
    char peer[KVR_NAME_BYTES];
    uint64_t rails[PAIR_FAULTS];
};

/* An earlier start of an agent. It is heard no more, or is another program of the same name. */
struct earlier {
    uint64_t boot;
    int64_t heard_ns, next_ns; /* next_ns: when a later start reported */
};

/* An agent as of its last report. */
struct watched {
    UT_hash_handle hh;
    char agent[KVR_NAME_BYTES];
    uint64_t boot; /* 0: it has not reported to this process */
    bool leaving, silent;
    int64_t heard_ns;
    uint64_t rails_down; /* bits */
    uint32_t rail_count, epochs[KVR_RAILS_MAX];
    uint64_t totals[TOTALS];
    uint32_t engine_count;
    char engines[KVR_ENGINES_MAX][KVR_NAME_BYTES];
    struct troubled *peers;
    struct earlier earlier[FLEET_BOOTS_MAX]; /* that may be alive */
    int earlier_count;
    uint64_t ended; /* rows that ended with end_all(), and may be open again */
};

struct fault_watch {
    struct store *store;
    struct watched *all;
    uint32_t begun, left_out; /* of the present report */
};

struct fault_watch *fault_watch_open(struct store *store)
{
    struct fault_watch *watch = calloc(1, sizeof(*watch));

    if (watch != NULL)
        watch->store = store;
    return watch;
}

static void forget_peers(struct watched *watched)
{
    struct troubled *troubled, *next;

    HASH_ITER(hh, watched->peers, troubled, next)
    {
        HASH_DEL(watched->peers, troubled);
        free(troubled);
    }
}

static void forget(struct fault_watch *watch, struct watched *watched)
{
    HASH_DEL(watch->all, watched);
    forget_peers(watched);
    free(watched);
}

void fault_watch_forget(struct fault_watch *watch, const char *agent)
{
    struct watched *next;

    for (struct watched *watched = watch->all; watched != NULL; watched = next) {
        next = watched->hh.next;
        if (agent == NULL || strcmp(watched->agent, agent) == 0)
            forget(watch, watched);
    }
}

struct fault_watch *fault_watch_close(struct fault_watch *watch)
{
    if (watch != NULL)
        fault_watch_forget(watch, NULL);
    free(watch);
    return NULL;
}

static struct watched *heard_longest_ago(const struct fault_watch *watch)
{
    struct watched *last = watch->all;

    for (struct watched *watched = watch->all; watched != NULL; watched = watched->hh.next)
        if (watched->heard_ns < last->heard_ns)
            last = watched;
    return last;
}

static struct watched *add(struct fault_watch *watch, const char *agent)
{
    struct watched *watched;

    if (HASH_COUNT(watch->all) >= FLEET_AGENTS_MAX)
        forget(watch, heard_longest_ago(watch));
    watched = calloc(1, sizeof(*watched));
    if (watched == NULL)
        return NULL;
    snprintf(watched->agent, sizeof(watched->agent), "%s", agent);
    HASH_ADD_STR(watch->all, agent, watched);
    return watched;
}

/* NULL: no memory. */
static struct watched *find(struct fault_watch *watch, const char *agent)
{
    struct watched *watched;

    HASH_FIND_STR(watch->all, agent, watched);
    return watched != NULL ? watched : add(watch, agent);
}

/* ---- to the table ---- */

static struct fault fault_of(const struct watched *watched, kvr_fault_kind kind, int64_t rail)
{
    struct fault fault = {.kind = kind, .boot = watched->boot, .rail = rail};

    memcpy(fault.agent, watched->agent, sizeof(fault.agent));
    return fault;
}

/* All of the agent. Those that go on are open again where the reports say so. */
static bool end_all(struct fault_watch *watch, struct watched *watched, int64_t now_ns)
{
    uint64_t ended;
    bool stored = store_end_faults(watch->store, watched->agent, now_ns, &ended);

    watched->ended += ended;
    return stored;
}

/* Of new ones only so many; rows that are open again are no new ones. */
static bool begin(struct fault_watch *watch, struct watched *watched, const struct fault *fault,
                  int64_t now_ns)
{
    bool full = watch->begun == FAULTS_OF_REPORT_MAX, reopened = false;

    if ((!full || watched->ended > 0) &&
        !store_reopen_fault(watch->store, fault, now_ns, &reopened))
        return false;
    if (reopened) {
        watched->ended -= watched->ended > 0;
        return true;
    }
    if (full) {
        watch->left_out++;
        return true;
    }
    watch->begun++;
    return store_add_fault(watch->store, fault);
}

/* It was over as soon as it was known. */
static bool note(struct fault_watch *watch, struct watched *watched, struct fault *fault,
                 uint64_t amount, int64_t now_ns)
{
    fault->from_ns = fault->until_ns = now_ns;
    fault->amount = amount;
    return begin(watch, watched, fault, now_ns);
}

/* ---- rails ---- */

static bool rail_is(struct fault_watch *watch, struct watched *watched, uint32_t rail,
                    const struct kvr_rail_snapshot *now, int64_t now_ns)
{
    struct fault fault = fault_of(watched, KVR_FAULT_RAIL_DOWN, rail);
    uint64_t bit = UINT64_C(1) << rail;
    bool down = now->state == KVR_RAIL_DOWN, was = (watched->rails_down & bit) != 0;
    uint32_t renewed = rail < watched->rail_count ? now->epoch - watched->epochs[rail] : 0;
    bool stored = true;

    snprintf(fault.text, sizeof(fault.text), "%s%s%s", now->name, now->address[0] ? ", " : "",
             now->address);
    fault.from_ns = now_ns;
    if (down && !was)
        stored = begin(watch, watched, &fault, now_ns);
    else if (was && !down)
        stored = store_end_fault(watch->store, &fault, now_ns);
    watched->rails_down = down ? watched->rails_down | bit : watched->rails_down & ~bit;
    watched->epochs[rail] = now->epoch;
    fault.kind = KVR_FAULT_RAIL_RENEWED;
    if (stored && renewed != 0 && renewed < UINT32_MAX / 2)
        stored = note(watch, watched, &fault, renewed, now_ns);
    return stored;
}

static bool rails_are(struct fault_watch *watch, struct watched *watched,
                      const struct kvr_agent_facts *facts, int64_t now_ns)
{
    bool stored = true;

    for (uint32_t rail = 0; rail < facts->rail_count && stored; rail++)
        stored = rail_is(watch, watched, rail, &facts->rails[rail], now_ns);
    watched->rail_count = facts->rail_count;
    return stored;
}

/* ---- totals ---- */

/* The engines of the report before that are not in this one. */
static void name_gone(const struct watched *watched, const struct kvr_agent_facts *facts,
                      char text[KVR_DETAIL_BYTES])
{
    char all[TEXT_BYTES] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < watched->engine_count; i++) {
        bool here = false;

        for (uint32_t k = 0; k < facts->engine_count; k++)
            here = here || strcmp(facts->engines[k].name, watched->engines[i]) == 0;
        if (!here)
            used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", used > 0 ? ", " : "",
                                     watched->engines[i]);
    }
    kvr_text_show(all, KVR_DETAIL_BYTES, text);
}

static bool totals_are(struct fault_watch *watch, struct watched *watched, bool first,
                       const struct kvr_agent_facts *facts, int64_t now_ns)
{
    bool stored = true;

    for (size_t i = 0; i < TOTALS; i++) {
        uint64_t now = facts->counters[totals[i].counter], before = watched->totals[i];
        struct fault fault = fault_of(watched, totals[i].kind, NO_RAIL);

        watched->totals[i] = now;
        if (first || now <= before || !stored)
            continue;
        if (totals[i].kind == KVR_FAULT_ENGINE_ENDED)
            name_gone(watched, facts, fault.text);
        stored = note(watch, watched, &fault, now - before, now_ns);
    }
    watched->engine_count = facts->engine_count;
    for (uint32_t i = 0; i < facts->engine_count; i++)
        memcpy(watched->engines[i], facts->engines[i].name, sizeof(watched->engines[0]));
    return stored;
}

/* ---- pairs of rails ---- */

/* What the rows of one peer say of one kind: the rails, and for each since when, and why. */
struct trouble {
    uint64_t rails;
    struct {
        kvr_ns since; /* so long */
        uint32_t count;
        const struct kvr_pair_facts *row; /* the first */
    } of[KVR_RAILS_MAX];
};

static void look(const struct kvr_report_pairs *pairs, const struct kvr_peer_pairs *peer,
                 kvr_pair_state state, struct trouble *trouble)
{
    memset(trouble, 0, sizeof(*trouble));
    for (uint32_t i = 0; i < peer->pair_count; i++) {
        const struct kvr_pair_facts *row = &pairs->pairs[peer->pair_first + i];

        if (row->state != state || row->rail >= KVR_RAILS_MAX)
            continue;
        trouble->rails |= UINT64_C(1) << row->rail;
        trouble->of[row->rail].count++;
        if (row->state_ns > trouble->of[row->rail].since)
            trouble->of[row->rail].since = row->state_ns;
        if (trouble->of[row->rail].row == NULL)
            trouble->of[row->rail].row = row;
    }
}

static bool trouble_is(struct fault_watch *watch, struct watched *watched, size_t which,
                       const char *peer, uint64_t before, const struct trouble *trouble,
                       int64_t now_ns)
{
    bool stored = true;

    for (uint64_t rest = before ^ trouble->rails; rest != 0 && stored; rest &= rest - 1) {
        uint32_t rail = (uint32_t)__builtin_ctzll(rest);
        struct fault fault = fault_of(watched, pair_faults[which].kind, rail);
        const struct kvr_pair_facts *row = trouble->of[rail].row;
        char text[TEXT_BYTES];

        memcpy(fault.peer, peer, sizeof(fault.peer));
        if (row == NULL) {
            stored = store_end_fault(watch->store, &fault, now_ns);
            continue;
        }
        fault.from_ns = now_ns - (int64_t)kvr_min_u64(trouble->of[rail].since, (uint64_t)now_ns);
        fault.amount = trouble->of[rail].count;
        snprintf(text, sizeof(text), "to %s's rail %u%s%s", peer, row->target_rail,
                 row->detail[0] != '\0' ? ": " : "", row->detail);
        kvr_text_show(text, sizeof(fault.text), fault.text);
        stored = begin(watch, watched, &fault, now_ns);
    }
    return stored;
}

/* Where there are too many, the peer heard of longest ago goes, and what is open of it ends. NULL:
 * no memory, or the database fails. */
static struct troubled *add_peer(struct fault_watch *watch, struct watched *watched,
                                 const char *peer, int64_t now_ns)
{
    static const struct trouble none;
    struct troubled *troubled = watched->peers;
    bool stored = true;

    if (HASH_COUNT(watched->peers) >= KVR_PEERS_MAX) {
        for (size_t i = 0; i < PAIR_FAULTS && stored; i++)
            stored =
                trouble_is(watch, watched, i, troubled->peer, troubled->rails[i], &none, now_ns);
        HASH_DEL(watched->peers, troubled);
        free(troubled);
    }
    troubled = stored ? calloc(1, sizeof(*troubled)) : NULL;
    if (troubled == NULL)
        return NULL;
    snprintf(troubled->peer, sizeof(troubled->peer), "%s", peer);
    HASH_ADD_STR(watched->peers, peer, troubled);
    return troubled;
}

static bool peer_is(struct fault_watch *watch, struct watched *watched,
                    const struct kvr_report_pairs *pairs, const struct kvr_peer_pairs *peer,
                    int64_t now_ns)
{
    struct troubled *troubled;
    struct trouble trouble;
    uint64_t any = 0;
    bool stored = true;

    HASH_FIND_STR(watched->peers, peer->peer, troubled);
    for (size_t i = 0; i < PAIR_FAULTS && stored; i++) {
        uint64_t before = troubled != NULL ? troubled->rails[i] : 0;

        look(pairs, peer, pair_faults[i].state, &trouble);
        if (trouble.rails != 0 && troubled == NULL) {
            troubled = add_peer(watch, watched, peer->peer, now_ns);
            if (troubled == NULL)
                return false;
        }
        stored = trouble_is(watch, watched, i, peer->peer, before, &trouble, now_ns);
        any |= trouble.rails;
        if (troubled != NULL)
            troubled->rails[i] = trouble.rails;
    }
    if (troubled != NULL) { /* those heard of last stand last */
        HASH_DEL(watched->peers, troubled);
        if (any != 0)
            HASH_ADD_STR(watched->peers, peer, troubled);
        else
            free(troubled);
    }
    return stored;
}

/* ---- a report ---- */

static bool is_alive(const struct fleet_boots *alive, uint64_t boot)
{
    for (int i = 0; alive != NULL && i < alive->count; i++)
        if (alive->boots[i] == boot)
            return true;
    return false;
}

/* A later start reports: the present one has ended without a word, or two programs have one name.
 */
static void keep_earlier(struct watched *watched, int64_t now_ns)
{
    struct earlier *earlier = watched->earlier;

    if (watched->boot == 0 || watched->leaving)
        return;
    if (watched->earlier_count == FLEET_BOOTS_MAX)
        memmove(&earlier[0], &earlier[1], (size_t)--watched->earlier_count * sizeof(earlier[0]));
    earlier[watched->earlier_count++] = (struct earlier){watched->boot, watched->heard_ns, now_ns};
}

/* Earlier starts have ended once the fleet calls them silent. One that reports again has not. */
static bool earlier_end(struct fault_watch *watch, struct watched *watched,
                        const struct fleet_boots *alive, int64_t now_ns)
{
    bool stored = true;
    int kept = 0;

    for (int i = 0; i < watched->earlier_count && stored; i++) {
        const struct earlier earlier = watched->earlier[i];
        struct fault fault = fault_of(watched, KVR_FAULT_AGENT_ENDED, NO_RAIL);

        if (earlier.boot == watched->boot)
            continue;
        if (is_alive(alive, earlier.boot)) {
            watched->earlier[kept++] = earlier;
            continue;
        }
        fault.boot = earlier.boot;
        fault.from_ns = earlier.heard_ns;
        fault.until_ns = earlier.next_ns;
        stored = begin(watch, watched, &fault, now_ns);
    }
    watched->earlier_count = kept;
    return stored;
}

/* Its present start has not reported before, or not to this process. */
static bool is_begun(struct fault_watch *watch, struct watched *watched,
                     const struct kvr_report *report, int64_t now_ns)
{
    keep_earlier(watched, now_ns);
    forget_peers(watched);
    watched->boot = report->boot;
    watched->rails_down = 0;
    watched->rail_count = watched->engine_count = 0;
    return end_all(watch, watched, now_ns);
}

/* The silence is over that another scheduler of the database may have noted. */
static bool is_heard(struct fault_watch *watch, const struct watched *watched, int64_t now_ns)
{
    const struct fault fault = fault_of(watched, KVR_FAULT_AGENT_SILENT, NO_RAIL);

    return now_ns - watched->heard_ns <= PAUSE_NS || store_end_fault(watch->store, &fault, now_ns);
}

static bool is_left(struct fault_watch *watch, struct watched *watched, int64_t now_ns)
{
    struct fault fault = fault_of(watched, KVR_FAULT_MORE, NO_RAIL);

    fault.from_ns = fault.until_ns = now_ns;
    fault.amount = watch->left_out;
    return watch->left_out == 0 || store_begin_fault(watch->store, &fault, now_ns);
}

bool fault_watch_report(struct fault_watch *watch, const struct kvr_report *report,
                        const struct fleet_boots *alive, int64_t now_ns)
{
    const struct kvr_report_pairs *pairs = report->pairs;
    struct watched *watched = find(watch, report->agent);
    bool first = watched != NULL && watched->boot != report->boot, stored = watched != NULL;

    watch->begun = watch->left_out = 0;
    if (stored && (first || watched->silent || (report->leaving && !watched->leaving)))
        stored = first ? is_begun(watch, watched, report, now_ns) : end_all(watch, watched, now_ns);
    if (!stored || !is_heard(watch, watched, now_ns) || !earlier_end(watch, watched, alive, now_ns))
        return false;
    if (watched->silent) { /* pairs come again */
        forget_peers(watched);
        watched->rails_down = 0;
    }
    watched->silent = false;
    watched->leaving = report->leaving;
    watched->heard_ns = now_ns;
    if (report->leaving)
        return true;
    stored = rails_are(watch, watched, report->facts, now_ns) &&
             totals_are(watch, watched, first, report->facts, now_ns);
    for (uint32_t i = 0; pairs != NULL && i < pairs->peer_count && stored; i++)
        stored = peer_is(watch, watched, pairs, &pairs->peers[i], now_ns);
    return stored && is_left(watch, watched, now_ns);
}

/* ---- silence ---- */

struct silence {
    struct fault_watch *watch;
    int64_t now_ns;
    bool failed;
};

static void look_at_agent(void *self, const struct agent_row *row)
{
    struct silence *silence = self;
    struct watched *watched = find(silence->watch, row->name);
    struct fault fault;

    if (watched == NULL || watched->silent || silence->failed) {
        silence->failed |= watched == NULL;
        return;
    }
    fault = fault_of(watched, KVR_FAULT_AGENT_SILENT, NO_RAIL);
    fault.boot = row->boot;
    fault.from_ns = row->seen_ns;
    if (watched->heard_ns == 0)
        watched->heard_ns = row->seen_ns;
    watched->silent = true;
    silence->failed = !store_begin_fault(silence->watch->store, &fault, silence->now_ns);
}

bool fault_watch_fleet(struct fault_watch *watch, struct fleet *fleet, kvr_ns now, int64_t now_ns)
{
    struct silence silence = {watch, now_ns, false};

    return fleet_each_lost(fleet, now, look_at_agent, &silence) && !silence.failed;
}

/* ---- the scheduler itself ---- */

static bool was_absent(struct fault_watch *watch, int64_t from_ns, int64_t until_ns, int64_t now_ns)
{
    const struct fault fault = {.kind = KVR_FAULT_SCHEDULER_ABSENT,
                                .rail = NO_RAIL,
                                .from_ns = from_ns,
                                .until_ns = until_ns};

    return store_begin_fault(watch->store, &fault, now_ns);
}

bool fault_watch_absence(struct fault_watch *watch, kvr_ns away, int64_t now_ns)
{
    return was_absent(watch, now_ns - (int64_t)away, now_ns, now_ns);
}

bool fault_watch_start(struct fault_watch *watch, int64_t now_ns)
{
    int64_t last_ns;
    bool ended;

    if (!store_end_absence(watch->store, now_ns, &ended) ||
        !store_last_report(watch->store, &last_ns))
        return false;
    return ended || last_ns == 0 || now_ns - last_ns < ABSENT_NS ||
           was_absent(watch, last_ns, now_ns, now_ns);
}

bool fault_watch_stop(struct fault_watch *watch, int64_t now_ns)
{
    return was_absent(watch, now_ns, 0, now_ns);
}
