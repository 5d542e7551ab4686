/* How our rails reach those of peers: asks the rail groups, for the scheduler, and for a process of
 * this host that asks at the engine socket. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "wire/compat.h"

#define ROWS_A_NOTICE 64 /* a row has a few hundred bytes, a notice has at most 64 KiB */

void agent_pairs_open(struct kvr_agent *agent)
{
    agent->pair_table = kvr_pair_table_open();
    agent->pairs.planes = agent->planes.of;
    agent->pairs.group_count = agent->groups.count;
    agent->pairs.silence_ns =
        KVR_BEATS_MAX * kvr_agent_time(agent->config, agent->config->heartbeat);
}

void agent_pairs_close(struct kvr_agent *agent)
{
    agent->pair_table = kvr_pair_table_close(agent->pair_table);
}

static void news_say(const struct kvr_agent *agent, uint32_t peer,
                     const struct pair_news_item *item)
{
    const char *card = agent->fabric.ops->rail_facts(agent->rails[item->rail])->name;
    const char *name = agent->pairs.peers[peer].name;

    switch (item->trouble) {
    case PAIR_FINE:
        kvr_log_info("rail %u (%s) reaches peer %u (\"%s\") again", item->rail, card, peer, name);
        return;
    case PAIR_SLOW:
        kvr_log_warning("rail %u (%s) is slow to peer %u (\"%s\"): %s; look at its cable, switch "
                        "port and speed",
                        item->rail, card, peer, name, item->detail);
        return;
    case PAIR_LOST:
        kvr_log_warning("rail %u (%s) does not reach peer %u (\"%s\"): %s; `kvrail topo --peer %s` "
                        "shows which rails do",
                        item->rail, card, peer, name, item->detail, name);
    }
}

static void news_take(struct kvr_agent *agent, const struct kvr_report_pairs *rows)
{
    struct pair_news_item items[KVR_RAILS_MAX];

    for (uint32_t i = 0; i < rows->peer_count; i++) {
        const struct kvr_peer_pairs *of = &rows->peers[i];
        uint32_t peer = 0, count;

        while (peer < KVR_PEERS_MAX && (!agent->pairs.peers[peer].up ||
                                        strcmp(agent->pairs.peers[peer].name, of->peer) != 0))
            peer++;
        if (peer == KVR_PEERS_MAX)
            continue; /* it is gone */
        count = pair_news_take(&agent->pair_news, peer, &rows->pairs[of->pair_first],
                               of->pair_count, items);
        for (uint32_t k = 0; k < count; k++)
            if (items[k].rail < agent->rail_count)
                news_say(agent, peer, &items[k]);
    }
}

static void ask(struct kvr_agent *agent)
{
    const struct kvr_report_pairs *rows;
    struct kvr_group_message message;

    if (pair_book_next(&agent->pairs, &message))
        agent_command(agent, &message);
    rows = pair_book_take(&agent->pairs);
    if (rows == NULL)
        return;
    news_take(agent, rows);
    kvr_reporter_pairs(agent->reporter, rows);
    if (agent->pair_table != NULL)
        kvr_pair_table_take(agent->pair_table, rows, kvr_clock_now());
}

void agent_pairs_second(struct kvr_agent *agent, kvr_ns now)
{
    if (agent->machine.role != KVR_ROLE_SOURCE || agent->closing)
        return;
    pair_book_round(&agent->pairs, now);
    ask(agent);
}

bool agent_pairs_heard(struct kvr_agent *agent, const struct kvr_group_message *message)
{
    bool alone = pair_book_heard(&agent->pairs, message);
    kvr_counter counter = pair_book_counter(message);

    if (counter < KVR_COUNTER_END)
        agent->counters[counter]++;
    if (message->head.kind == KVR_GROUP_PAIRS_END)
        ask(agent);
    return alone;
}

/* ---- an answer at the engine socket ---------------------------------------------------------- */

struct answer {
    struct kvr_agent *agent;
    uint32_t engine;
    json_t *rows; /* of the next notice */
};

/* As the scheduler's API answers. */
static void part_send(struct answer *answer, uint64_t left_out)
{
    json_t *part = json_pack("{s:o, s:I}", "pairs", answer->rows, "left_out", (json_int_t)left_out);
    char *text = json_dumps(part, JSON_COMPACT | JSON_REAL_PRECISION(12));
    struct kvr_notice notice = {.kind = KVR_NOTICE_PAIRS, .payload = (const uint8_t *)text};

    answer->rows = NULL;
    if (text != NULL) {
        notice.payload_bytes = (uint32_t)strlen(text);
        kvr_engine_port_notify(answer->agent->port, answer->engine, &notice);
    }
    free(text);
    json_decref(part);
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static void row_add(void *self, const struct kvr_pair_row *row)
{
    struct answer *answer = self;
    struct kvr_agent *agent = answer->agent;
    const char *name = agent->fabric.ops->rail_facts(agent->rails[row->rail])->name;

    json_array_append_new(
        answer->rows,
        json_pack("{s:s, s:s, s:{s:I, s:s}, s:{s:I, s:n}, s:s, s:o, s:I, s:f, s:f, s:I, s:I}",
                  "source", agent->config->name, "target", row->peer, "rail", "index",
                  (json_int_t)row->rail, "name", name, "target_rail", "index",
                  (json_int_t)row->target_rail, "name", "state", kvr_pair_state_name(row->state),
                  "detail", text_or_null(row->detail), "bytes", (json_int_t)row->bytes,
                  "age_seconds", (double)row->age / KVR_S, "state_seconds",
                  (double)row->state_ns / KVR_S, "breaks", (json_int_t)row->breaks, "renewals",
                  (json_int_t)row->renewals));
    if (json_array_size(answer->rows) < ROWS_A_NOTICE)
        return;
    part_send(answer, 0);
    answer->rows = json_array();
}

kvr_status agent_pairs_answer(void *self, kvr_ns now, uint32_t engine, struct kvr_error *error)
{
    struct kvr_agent *agent = self;
    struct answer answer = {agent, engine, NULL};
    uint64_t left_out;

    if (agent->machine.role != KVR_ROLE_SOURCE)
        return kvr_error_set(error, KVR_UNSUPPORTED, "pairs",
                             "%s is a decode-agent: the prefill-agents that write to it know how "
                             "its rails are reached; ask one of them, or the scheduler",
                             agent->config->name);
    if (agent->pair_table == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "pairs", "the agent had no memory for that");
    answer.rows = json_array();
    left_out = kvr_pair_table_each(agent->pair_table, NULL, now, row_add, &answer);
    part_send(&answer, left_out);
    return KVR_OK;
}
