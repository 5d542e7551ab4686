#include "tools/replay/replay_source.h"

#include <stdlib.h>
#include <string.h>

#include "tools/replay/replay_journal.h"

/* Reports to the router and hands the pages back. */
static void settle(struct source *source, struct source_request *request, int status,
                   const struct kvrail_event *event)
{
    struct replay_message message = {
        .kind = REPLAY_ENDED, .request = request->base.index, .status = status};

    message.ended.opened_at = request->opened_at;
    message.ended.ended_at = kvr_clock_now();
    if (event != NULL) {
        message.ended.bytes_reported = event->bytes;
        message.ended.writes = event->writes;
        message.ended.retries = event->retries;
    }
    if (request->tables[0].ids != NULL)
        replay_tables_release(&source->engine, request->tables);
    (void)replay_send(source->engine.router, &message);
    source_leave_stream(source, request);
    replay_tables_free(request->tables);
    free(request->given);
    replay_engine_forget(&source->engine, request);
}

static void source_start(void *self, const struct replay_message *message)
{
    struct source_request *request = self;

    request->start_at = message->start.at;
}

static void source_give_up(void *self, void *request, kvrail_status status)
{
    settle(self, request, status, NULL);
}

static void source_event(void *self, void *request, const struct kvrail_event *event)
{
    if (event->terminal)
        settle(self, request, event->status, event);
}

static void source_lost(void *self, void *request)
{
    settle(self, request, KVRAIL_AGENT_LOST, NULL);
}

bool source_succeeded(struct source *source, struct source_request *request, kvrail_status status)
{
    if (status == KVRAIL_OK)
        return true;
    if (status == KVRAIL_AGAIN) {
        source->engine.blocked = true;
        return false;
    }
    if (status == KVRAIL_AGENT_LOST || status == KVRAIL_NOT_FOUND)
        return false; /* its terminal event is on its way */
    replay_say(source->engine.router, REPLAY_NOTE, status, "request %u at the source: %s",
               request->base.index, kvrail_last_error(source->engine.connection)->detail);
    if (request->base.handle != 0)
        replay_engine_cancel(&source->engine, request->base.handle, status);
    return false;
}

/* ---- admission ------------------------------------------------------------------------------ */

/* False: there is no room, or no memory, which was said. */
static bool take_pages(struct source *source, struct source_request *request)
{
    const struct replay_setup *setup = source->engine.setup;
    uint32_t tokens = replay_request(setup, request->base.index)->input_tokens;
    struct replay_table tables[MODEL_KINDS] = {0};
    const struct replay_table *full = &tables[0];
    uint32_t last = replay_pages(&setup->groups[0], tokens) - 1;

    if (source->engine.pages[0].free_count <= last)
        return false;
    if (!replay_tables_make(setup, tokens, tables) ||
        (request->given = malloc(full->count * sizeof(full->ids[0]))) == NULL) {
        replay_tables_free(tables);
        replay_say(source->engine.router, REPLAY_FATAL, 1, "no memory for page ids");
        return false;
    }
    if (!replay_tables_acquire(&source->engine, request->base.index, tables)) {
        replay_tables_free(tables);
        free(request->given);
        request->given = NULL;
        return false;
    }
    memcpy(request->tables, tables, sizeof(tables));
    memcpy(request->given, full->ids, full->count * sizeof(full->ids[0]));
    if (setup->corrupt == REPLAY_CORRUPT_SWAP && setup->corrupt_request == request->base.index) {
        request->given[last] = full->ids[last - 1];
        request->given[last - 1] = full->ids[last];
    }
    return true;
}

static void publish(struct source *source, struct source_request *request)
{
    const struct replay_setup *setup = source->engine.setup;
    char name[REPLAY_REQUEST_BYTES];
    struct kvrail_source_options options = {
        .size = sizeof(struct kvrail_source_options),
        .request = replay_request_name(setup, request->base.index, name),
        .attempt = REPLAY_ATTEMPT,
        .tokens = replay_request(setup, request->base.index)->input_tokens,
        .lease_ms = (uint32_t)(setup->options.deadline / KVR_MS),
        .secret = request->base.secret,
    };

    kvrail_status status;

    request->opened_at = kvr_clock_now();
    status = kvrail_source_open(source->engine.connection, &options, &request->base.handle);
    if (status == KVRAIL_OK)
        replay_journal_opened(&source->engine, &request->base, request->tables);
    if (!source_succeeded(source, request, status) && status != KVRAIL_AGAIN &&
        status != KVRAIL_AGENT_LOST)
        settle(source, request, status, NULL); /* no event will */
}

/* First come, first served: a request that has no room keeps those behind it waiting, or a large
 * one would wait for ever. True when there is more to admit. */
static bool admit(struct source *source)
{
    for (uint32_t i = 0; i < source->engine.live_count; i++) {
        struct source_request *request = source->engine.live[i];

        if (request->base.handle != 0)
            continue;
        if (request->given == NULL && !take_pages(source, request))
            return false;
        publish(source, request);
        return !source->engine
                    .blocked; /* the list may have changed: the next one in the next step */
    }
    return false;
}

static kvr_ns source_step(void *self, kvr_ns now)
{
    struct source *source = self;
    kvr_ns wake_at;
    bool more;

    if (source->engine.connection == NULL || source->engine.down_said)
        return KVR_NEVER;
    more = admit(source);
    wake_at = source_prefill(source, now);
    return more ? 0 : wake_at;
}

static const struct replay_engine_ops source_ops = {
    .request_bytes = sizeof(struct source_request),
    .start = source_start,
    .give_up = source_give_up,
    .event = source_event,
    .lost = source_lost,
    .step = source_step,
};

int replay_source_run(const struct replay_setup *setup, uint32_t at, int router)
{
    static struct source source;

    replay_engine_init(&source.engine, setup, at, router, &source_ops, &source);
    return replay_engine_main(&source.engine);
}
