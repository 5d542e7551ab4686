#include "scheduler/rollup_growth.h"

#include <stdlib.h>
#include <string.h>

struct rail {
    uint64_t bytes, writes, epoch, strays, refusals, busy;
};

/* All pairs with one peer; the next one is of another. */
struct peer {
    struct peer *next;
    char name[KVR_NAME_BYTES];
    int64_t heard_ns;
    uint32_t count;
    struct pair {
        uint32_t rail, target_rail, breaks;
        uint64_t bytes;
    } * pairs;
};

struct rollup_grown {
    UT_hash_handle hh;
    char name[KVR_NAME_BYTES];
    uint64_t boot;
    int64_t heard_ns;
    uint32_t rail_count;
    struct rail rails[KVR_RAILS_MAX];
    struct peer *peers;
};

struct taking {
    rollup_grew *visit;
    void *self;
    int64_t now_ns;
};

static bool grew(const struct taking *taking, rollup_kind kind, struct rollup_key key,
                 const uint64_t amounts[ROLLUP_AMOUNT_END])
{
    for (int i = 0; i < ROLLUP_AMOUNT_END; i++)
        if (amounts[i] != 0)
            return taking->visit(taking->self, kind, &key, amounts);
    return true;
}

static uint64_t more(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

/* ---- rails ---- */

static struct rail rail_of(const struct kvr_rail_snapshot *reported)
{
    const uint64_t *counters = reported->counters;

    return (struct rail){
        .bytes = reported->bytes,
        .writes = reported->writes,
        .epoch = reported->epoch,
        .strays = counters[KVR_RAIL_IDLE_SLOT] + counters[KVR_RAIL_WRONG_TAG] +
                  counters[KVR_RAIL_WRONG_CHUNK],
        .refusals = counters[KVR_RAIL_REFUSALS],
        .busy = counters[KVR_RAIL_COMPLETION_TIME],
    };
}

static bool rail_grew(const struct taking *taking, uint32_t number, const struct rail *before,
                      const struct rail *now)
{
    uint64_t amounts[ROLLUP_AMOUNT_END] = {
        [ROLLUP_BYTES] = more(before->bytes, now->bytes),
        [ROLLUP_WRITES] = more(before->writes, now->writes),
        [ROLLUP_ERRORS] = more(before->epoch, now->epoch) + more(before->strays, now->strays),
        [ROLLUP_REPEATS] = more(before->refusals, now->refusals),
        [ROLLUP_BUSY] = more(before->busy, now->busy),
    };

    return grew(taking, ROLLUP_RAIL, rollup_key_rail(number), amounts);
}

static void keep_larger(uint64_t *kept, uint64_t now)
{
    *kept = now > *kept ? now : *kept;
}

/* A report that came late must not lower a counter. */
static void rail_keep(struct rail *kept, const struct rail *now)
{
    keep_larger(&kept->bytes, now->bytes);
    keep_larger(&kept->writes, now->writes);
    keep_larger(&kept->epoch, now->epoch);
    keep_larger(&kept->strays, now->strays);
    keep_larger(&kept->refusals, now->refusals);
    keep_larger(&kept->busy, now->busy);
}

static bool take_rails(struct rollup_grown *agent, const struct kvr_agent_facts *facts, bool fresh,
                       const struct taking *taking)
{
    bool taken = true;

    for (uint32_t i = 0; i < facts->rail_count && taken; i++) {
        struct rail now = rail_of(&facts->rails[i]);

        if (fresh || i >= agent->rail_count) {
            agent->rails[i] = now;
            continue;
        }
        taken = rail_grew(taking, i, &agent->rails[i], &now);
        rail_keep(&agent->rails[i], &now);
    }
    if (fresh || facts->rail_count > agent->rail_count)
        agent->rail_count = facts->rail_count;
    return taken;
}

/* ---- pairs ---- */

static struct peer *peer_of(struct rollup_grown *agent, const char *name)
{
    struct peer *peer = agent->peers;

    while (peer != NULL && strcmp(peer->name, name) != 0)
        peer = peer->next;
    if (peer != NULL)
        return peer;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    memcpy(peer->name, name, strnlen(name, sizeof(peer->name) - 1));
    peer->next = agent->peers;
    agent->peers = peer;
    return peer;
}

/* Reports have the pairs of a peer in one order, mostly. NULL: it is new. */
static const struct pair *pair_before(const struct peer *peer, const struct kvr_pair_facts *facts,
                                      uint32_t at)
{
    for (uint32_t i = 0; i < peer->count; i++) {
        const struct pair *pair = &peer->pairs[(at + i) % peer->count];

        if (pair->rail == facts->rail && pair->target_rail == facts->target_rail)
            return pair;
    }
    return NULL;
}

/* Its counters begin anew with each session: lower ones are those of a new session. */
static bool pair_grew(const struct taking *taking, const char *peer, const struct pair *before,
                      const struct kvr_pair_facts *now)
{
    bool anew = before == NULL || now->bytes < before->bytes;
    uint64_t amounts[ROLLUP_AMOUNT_END] = {
        [ROLLUP_BYTES] = now->bytes - (anew ? 0 : before->bytes),
        [ROLLUP_ERRORS] = anew ? now->breaks : more(before->breaks, now->breaks),
    };

    return grew(taking, ROLLUP_PAIR, rollup_key_pair(peer, now->rail, now->target_rail), amounts);
}

static bool keep_pairs(struct peer *peer, const struct kvr_pair_facts *facts, uint32_t count)
{
    struct pair *pairs = realloc(peer->pairs, (count > 0 ? count : 1) * sizeof(pairs[0]));

    if (pairs == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        pairs[i] =
            (struct pair){facts[i].rail, facts[i].target_rail, facts[i].breaks, facts[i].bytes};
    peer->pairs = pairs;
    peer->count = count;
    return true;
}

static bool take_peer(struct rollup_grown *agent, const struct kvr_report_pairs *reported,
                      const struct kvr_peer_pairs *of, const struct taking *taking)
{
    const struct kvr_pair_facts *facts = &reported->pairs[of->pair_first];
    struct peer *peer = peer_of(agent, of->peer);
    bool taken = peer != NULL;
    bool counts =
        taken && peer->heard_ns != 0 && taking->now_ns - peer->heard_ns <= ROLLUP_PAIRS_SILENT_NS;

    for (uint32_t i = 0; i < of->pair_count && taken && counts; i++)
        taken = facts[i].rail >= KVR_RAILS_MAX || facts[i].target_rail >= KVR_RAILS_MAX ||
                pair_grew(taking, of->peer, pair_before(peer, &facts[i], i), &facts[i]);
    if (!taken || !keep_pairs(peer, facts, of->pair_count))
        return false;
    peer->heard_ns = taking->now_ns;
    return true;
}

static void drop_peers(struct rollup_grown *agent)
{
    for (struct peer *peer = agent->peers, *next; peer != NULL; peer = next) {
        next = peer->next;
        free(peer->pairs);
        free(peer);
    }
    agent->peers = NULL;
}

/* ---- agents ---- */

static struct rollup_grown *agent_of(struct rollup_growth *growth, const char *name)
{
    struct rollup_grown *agent;

    HASH_FIND_STR(growth->agents, name, agent);
    if (agent != NULL)
        return agent;
    agent = calloc(1, sizeof(*agent));
    if (agent == NULL)
        return NULL;
    memcpy(agent->name, name, strnlen(name, sizeof(agent->name) - 1));
    HASH_ADD_STR(growth->agents, name, agent);
    return agent;
}

/* Without facts: they are as they were. */
static void hear(struct rollup_growth *growth, const struct kvr_report *report, int64_t now_ns)
{
    struct rollup_grown *agent;

    HASH_FIND_STR(growth->agents, report->agent, agent);
    if (agent != NULL && agent->boot == report->boot &&
        now_ns - agent->heard_ns <= ROLLUP_RAILS_SILENT_NS)
        agent->heard_ns = now_ns;
}

bool rollup_growth_take(struct rollup_growth *growth, const struct kvr_report *report,
                        int64_t now_ns, rollup_grew *visit, void *self)
{
    const struct taking taking = {visit, self, now_ns};
    const struct kvr_report_pairs *pairs = report->pairs;
    struct rollup_grown *agent;
    bool fresh, taken;

    if (report->facts == NULL) {
        hear(growth, report, now_ns);
        return true;
    }
    agent = agent_of(growth, report->agent);
    if (agent == NULL)
        return false;
    fresh = agent->boot != report->boot || now_ns - agent->heard_ns > ROLLUP_RAILS_SILENT_NS;
    if (agent->boot != report->boot)
        drop_peers(agent);
    agent->boot = report->boot;
    agent->heard_ns = now_ns;
    taken = take_rails(agent, report->facts, fresh, &taking);
    for (uint32_t i = 0; pairs != NULL && i < pairs->peer_count && taken; i++)
        taken = take_peer(agent, pairs, &pairs->peers[i], &taking);
    return taken;
}

void rollup_growth_forget(struct rollup_growth *growth, int64_t before_ns)
{
    struct rollup_grown *agent, *next;

    for (agent = growth->agents; agent != NULL; agent = next) {
        next = agent->hh.next;
        if (agent->heard_ns >= before_ns)
            continue;
        HASH_DEL(growth->agents, agent);
        drop_peers(agent);
        free(agent);
    }
}
