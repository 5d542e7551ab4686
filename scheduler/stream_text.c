#include "scheduler/stream_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "scheduler/api_json.h"

#define SUMMARY_NS      KVR_S /* its rates are of whole seconds; agents report about as often */
#define SNAPSHOT_WITHIN (2 * KVR_S)

/* What the last delta said of an agent. */
struct said {
    char name[KVR_NAME_BYTES];
    XXH64_hash_t hash;
};

struct stream_writer {
    struct stream_parts parts;
    kvr_ns started, summary_at; /* summary_at 0: at once */
    struct changes_taken taken;
    struct said said[2][FLEET_AGENTS_MAX]; /* in the order of the names; the last, and the new */
    uint32_t counts[2];
    int last;
};

struct stream_writer *stream_writer_open(const struct stream_parts *parts)
{
    struct stream_writer *writer = calloc(1, sizeof(*writer));

    if (writer != NULL) {
        writer->parts = *parts;
        writer->started = kvr_clock_now();
    }
    return writer;
}

struct stream_writer *stream_writer_close(struct stream_writer *writer)
{
    free(writer);
    return NULL;
}

void stream_writer_begin(struct stream_writer *writer)
{
    changes_take(writer->parts.changes, &writer->taken);
    writer->counts[writer->last] = 0;
    writer->summary_at = 0;
}

/* ---- agents ---- */

/* Short, because there may be many: /api/v1/agents has the rest. */
static json_t *agent_json(const struct agent_view *agent)
{
    const struct kvr_agent_facts *facts = agent->facts;
    json_t *bytes = json_array();
    json_int_t up = 0;

    for (uint32_t i = 0; i < facts->rail_count; i++) {
        up += facts->rails[i].state == KVR_RAIL_UP;
        json_array_append_new(bytes, json_count(facts->rails[i].bytes));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:b, s:o}", "name", agent->row.name,
                     "role", facts->role == KVR_ROLE_SOURCE ? "prefill" : "decode", "state",
                     agent_state_name(agent->state), "host", json_text(facts->host), "version",
                     json_text(facts->version), "transfers_live", (json_int_t)facts->transfers_live,
                     "rails_up", up, "drained", facts->drained, "rail_bytes", bytes);
}

struct agent_news {
    struct stream_writer *writer;
    json_t *changed, *gone;
    uint32_t next; /* of those said before */
};

static void say_gone(struct agent_news *news, const char *until)
{
    const struct stream_writer *writer = news->writer;
    const struct said *said = writer->said[writer->last];

    for (; news->next < writer->counts[writer->last] &&
           (until == NULL || strcmp(said[news->next].name, until) < 0);
         news->next++)
        json_array_append_new(news->gone, json_string(said[news->next].name));
}

/* By their names, as those said before. */
static void add_agent(void *self, const struct agent_view *agent)
{
    struct agent_news *news = self;
    struct stream_writer *writer = news->writer;
    const struct said *before = &writer->said[writer->last][news->next];
    struct said *now = &writer->said[1 - writer->last][writer->counts[1 - writer->last]];
    json_t *json = agent_json(agent);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    if (writer->counts[1 - writer->last] == FLEET_AGENTS_MAX || text == NULL) {
        json_decref(json);
        free(text);
        return;
    }
    writer->counts[1 - writer->last]++;
    memcpy(now->name, agent->row.name, sizeof(now->name));
    now->hash = XXH3_64bits(text, strlen(text));
    free(text);
    say_gone(news, now->name);
    before = &writer->said[writer->last][news->next];
    if (news->next < writer->counts[writer->last] && strcmp(before->name, now->name) == 0) {
        news->next++;
        if (before->hash == now->hash) {
            json_decref(json);
            return;
        }
    }
    json_array_append_new(news->changed, json);
}

/* Into object: "agents" and "agents_gone", where there are any. */
static void add_agents(struct stream_writer *writer, json_t *object)
{
    struct agent_news news = {writer, json_array(), json_array(), 0};

    writer->counts[1 - writer->last] = 0;
    fleet_each(writer->parts.fleet, kvr_clock_now(), add_agent, &news);
    say_gone(&news, NULL);
    writer->last = 1 - writer->last;
    if (json_array_size(news.changed) > 0)
        json_object_set(object, "agents", news.changed);
    if (json_array_size(news.gone) > 0)
        json_object_set(object, "agents_gone", news.gone);
    json_decref(news.changed);
    json_decref(news.gone);
}

/* ---- events ---- */

/* Takes the data over. */
static char *event_text(const char *kind, int64_t id, json_t *data, size_t *ret_size)
{
    char *json = data != NULL ? json_dumps(data, JSON_COMPACT) : NULL, *text = NULL;
    int size = -1;

    json_decref(data);
    if (json != NULL)
        size = asprintf(&text, "id: %lld\nevent: %s\ndata: %s\n\n", (long long)id, kind, json);
    free(json);
    if (size < 0)
        return NULL;
    *ret_size = (size_t)size;
    return text;
}

static void add_transfers(struct stream_writer *writer, json_t *object, int64_t now_ns)
{
    const struct changes_taken *taken = &writer->taken;
    json_t *changed = json_array(), *gone = json_array();

    for (uint32_t i = 0; i < taken->count; i++) {
        const struct transfer *transfer = &taken->list[i].transfer;

        if (taken->list[i].removed)
            json_array_append_new(gone, json_id(transfer->id));
        else
            json_array_append_new(changed, json_transfer(transfer, now_ns));
    }
    if (taken->count > 0) {
        json_object_set(object, "transfers", changed);
        json_object_set(object, "transfers_gone", gone);
        json_object_set_new(object, "transfers_left_out", json_count(taken->left_out));
    }
    json_decref(changed);
    json_decref(gone);
}

char *stream_writer_delta(struct stream_writer *writer, int64_t id, size_t *ret_size)
{
    int64_t now_ns = (int64_t)kvr_clock_wall();
    kvr_ns now = kvr_clock_now();
    json_t *object = json_object();

    changes_take(writer->parts.changes, &writer->taken);
    add_transfers(writer, object, now_ns);
    if (now >= writer->summary_at) {
        writer->summary_at = now + SUMMARY_NS;
        add_agents(writer, object);
        json_object_set_new(
            object, "summary",
            json_summary(writer->parts.metrics, writer->parts.health, writer->started, now_ns));
    }
    if (json_object_size(object) == 0) {
        json_decref(object);
        return NULL;
    }
    return event_text("delta", id, object, ret_size);
}

struct snapshot {
    json_t *agents, *transfers;
    int64_t now_ns;
};

static void add_one(void *self, const struct agent_view *agent)
{
    struct snapshot *snapshot = self;

    json_array_append_new(snapshot->agents, agent_json(agent));
}

static void add_transfer(void *self, const struct transfer *transfer)
{
    struct snapshot *snapshot = self;

    json_array_append_new(snapshot->transfers, json_transfer(transfer, snapshot->now_ns));
}

char *stream_writer_snapshot(struct stream_writer *writer, int64_t id, size_t *ret_size)
{
    struct snapshot snapshot = {json_array(), json_array(), (int64_t)kvr_clock_wall()};
    const struct transfer_filter newest = {.kind = FILTER_ALL, .limit = CHANGES_MAX};
    const struct stream_parts *parts = &writer->parts;
    json_t *summary = json_summary(parts->metrics, parts->health, writer->started, snapshot.now_ns);

    fleet_each(parts->fleet, kvr_clock_now(), add_one, &snapshot);
    store_set_deadline(parts->store, kvr_clock_now() + SNAPSHOT_WITHIN);
    if (!store_list_transfers(parts->store, &newest, add_transfer, &snapshot)) {
        json_decref(snapshot.agents);
        json_decref(snapshot.transfers);
        json_decref(summary);
        return NULL;
    }
    return event_text("snapshot", id,
                      json_pack("{s:o, s:o, s:o}", "summary", summary, "agents", snapshot.agents,
                                "transfers", snapshot.transfers),
                      ret_size);
}
