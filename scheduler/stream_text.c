#include "scheduler/stream_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "scheduler/api_json.h"
#include "scheduler/api_rows.h"

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
static void write_agent(struct json_writer *out, const struct agent_view *agent)
{
    const struct kvr_agent_facts *facts = agent->facts;
    uint64_t up = 0;

    for (uint32_t i = 0; i < facts->rail_count; i++)
        up += facts->rails[i].state == KVR_RAIL_UP;
    json_writer_object(out, NULL);
    json_writer_string(out, "name", agent->row.name);
    json_writer_string(out, "role", facts->role == KVR_ROLE_SOURCE ? "prefill" : "decode");
    json_writer_string(out, "state", agent_state_name(agent->state));
    json_writer_text(out, "host", facts->host);
    json_writer_text(out, "version", facts->version);
    json_writer_count(out, "transfers_live", facts->transfers_live);
    json_writer_count(out, "rails_up", up);
    json_writer_boolean(out, "drained", facts->drained);
    json_writer_array(out, "rail_bytes");
    for (uint32_t i = 0; i < facts->rail_count; i++)
        json_writer_count(out, NULL, facts->rails[i].bytes);
    json_writer_end_array(out);
    json_writer_end_object(out);
}

struct agent_news {
    struct stream_writer *writer;
    struct json_writer changed, gone; /* elements */
    uint32_t next;                    /* of those said before */
};

static void say_gone(struct agent_news *news, const char *until)
{
    const struct stream_writer *writer = news->writer;
    const struct said *said = writer->said[writer->last];

    for (; news->next < writer->counts[writer->last] &&
           (until == NULL || strcmp(said[news->next].name, until) < 0);
         news->next++)
        json_writer_string(&news->gone, NULL, said[news->next].name);
}

/* By their names, as those said before. */
static void add_agent(void *self, const struct agent_view *agent)
{
    struct agent_news *news = self;
    struct stream_writer *writer = news->writer;
    const struct said *before;
    struct said *now = &writer->said[1 - writer->last][writer->counts[1 - writer->last]];
    size_t begin = news->changed.used, size;

    if (writer->counts[1 - writer->last] == FLEET_AGENTS_MAX)
        return;
    write_agent(&news->changed, agent);
    if (news->changed.failed)
        return;
    size = news->changed.used - begin;
    size -= begin > 0; /* its comma */
    writer->counts[1 - writer->last]++;
    memcpy(now->name, agent->row.name, sizeof(now->name));
    now->hash = XXH3_64bits(news->changed.text + news->changed.used - size, size);
    say_gone(news, now->name);
    before = &writer->said[writer->last][news->next];
    if (news->next < writer->counts[writer->last] && strcmp(before->name, now->name) == 0) {
        news->next++;
        if (before->hash == now->hash)
            news->changed.used = begin; /* as it was said */
    }
}

/* Takes over the elements. There may be none. */
static void add_list(struct json_writer *out, const char *key, struct json_writer *elements)
{
    bool any = elements->used > 0;
    char *text = json_writer_take(elements);

    out->failed |= text == NULL;
    if (any && text != NULL) {
        json_writer_array(out, key);
        json_writer_plain(out, NULL, text);
        json_writer_end_array(out);
    }
    free(text);
}

/* "agents" and "agents_gone", where there are any. */
static void add_agents(struct stream_writer *writer, struct json_writer *out)
{
    struct agent_news news = {.writer = writer};

    writer->counts[1 - writer->last] = 0;
    fleet_each(writer->parts.fleet, kvr_clock_now(), add_agent, &news);
    say_gone(&news, NULL);
    writer->last = 1 - writer->last;
    add_list(out, "agents", &news.changed);
    add_list(out, "agents_gone", &news.gone);
}

/* ---- events ---- */

/* Takes the data over. */
static char *event_text(const char *kind, int64_t id, struct json_writer *data, size_t *ret_size)
{
    char *json = json_writer_take(data), *text = NULL;
    int size = -1;

    if (json != NULL)
        size = asprintf(&text, "id: %lld\nevent: %s\ndata: %s\n\n", (long long)id, kind, json);
    free(json);
    if (size < 0)
        return NULL;
    *ret_size = (size_t)size;
    return text;
}

static void add_transfers(struct stream_writer *writer, struct json_writer *out, int64_t now_ns)
{
    const struct changes_taken *taken = &writer->taken;

    if (taken->count == 0)
        return;
    json_writer_array(out, "transfers");
    for (uint32_t i = 0; i < taken->count; i++)
        if (!taken->list[i].removed)
            api_write_transfer(out, NULL, &taken->list[i].transfer, now_ns);
    json_writer_end_array(out);
    json_writer_array(out, "transfers_gone");
    for (uint32_t i = 0; i < taken->count; i++)
        if (taken->list[i].removed)
            api_write_id(out, NULL, taken->list[i].transfer.id);
    json_writer_end_array(out);
    json_writer_count(out, "transfers_left_out", taken->left_out);
}

static void add_summary(struct stream_writer *writer, struct json_writer *out, int64_t now_ns)
{
    json_t *summary =
        json_summary(writer->parts.metrics, writer->parts.health, writer->started, now_ns);

    api_write_tree(out, "summary", summary);
    json_decref(summary);
}

char *stream_writer_delta(struct stream_writer *writer, int64_t id, size_t *ret_size)
{
    int64_t now_ns = (int64_t)kvr_clock_wall();
    kvr_ns now = kvr_clock_now();
    struct json_writer out = {0};

    changes_take(writer->parts.changes, &writer->taken);
    if (writer->taken.count == 0 && now < writer->summary_at)
        return NULL;
    json_writer_object(&out, NULL);
    add_transfers(writer, &out, now_ns);
    if (now >= writer->summary_at) {
        writer->summary_at = now + SUMMARY_NS;
        add_agents(writer, &out);
        add_summary(writer, &out, now_ns);
    }
    json_writer_end_object(&out);
    return event_text("delta", id, &out, ret_size);
}

struct snapshot {
    struct json_writer out;
    int64_t now_ns;
};

static void add_one(void *self, const struct agent_view *agent)
{
    struct snapshot *snapshot = self;

    write_agent(&snapshot->out, agent);
}

static void add_transfer(void *self, const struct transfer *transfer)
{
    struct snapshot *snapshot = self;

    api_write_transfer(&snapshot->out, NULL, transfer, snapshot->now_ns);
}

char *stream_writer_snapshot(struct stream_writer *writer, int64_t id, size_t *ret_size)
{
    struct snapshot snapshot = {.now_ns = (int64_t)kvr_clock_wall()};
    const struct transfer_filter newest = {.kind = FILTER_ALL, .limit = CHANGES_MAX};
    const struct stream_parts *parts = &writer->parts;
    struct json_writer *out = &snapshot.out;
    bool read;

    json_writer_object(out, NULL);
    add_summary(writer, out, snapshot.now_ns);
    json_writer_array(out, "agents");
    fleet_each(parts->fleet, kvr_clock_now(), add_one, &snapshot);
    json_writer_end_array(out);
    json_writer_array(out, "transfers");
    store_set_deadline(parts->store, kvr_clock_now() + SNAPSHOT_WITHIN);
    read = store_list_transfers(parts->store, &newest, add_transfer, &snapshot);
    json_writer_end_array(out);
    json_writer_end_object(out);
    if (read)
        return event_text("snapshot", id, out, ret_size);
    free(json_writer_take(out));
    return NULL;
}
