#include "tools/replay/replay_target.h"

#include <stdlib.h>
#include <string.h>

#include "tools/replay/replay_journal.h"

static void settle(struct target *target, struct target_request *request)
{
    struct replay_message message = {.kind = REPLAY_ENDED,
                                     .request = request->base.index,
                                     .status = request->status,
                                     .ended = request->ended};

    (void)replay_send(target->engine.router, &message);
    replay_tables_free(request->tables);
    free(request->checked);
    free(request->ranges);
    replay_engine_forget(&target->engine, request);
}

static void target_start(void *self, const struct replay_message *message)
{
    struct target_request *request = self;

    request->source = message->start.source;
}

static void target_give_up(void *self, void *request_self, kvrail_status status)
{
    struct target *target = self;
    struct target_request *request = request_self;

    target_drop(target, request);
    request->status = status;
    request->ended.ended_at = kvr_clock_now();
    settle(target, request);
}

/* ---- events --------------------------------------------------------------------------------- */

static uint64_t bytes_moved(const struct replay_setup *setup, const struct target_request *request)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < setup->group_count; i++)
        bytes +=
            (request->tables[i].count - request->tables[i].first) * setup->groups[i].page_bytes;
    return bytes;
}

static void end_moving(struct target *target, struct target_request *request, kvrail_status status)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_table *table = &request->tables[0];
    uint32_t moved = table->count - table->first;

    request->base.terminal = true;
    request->status = status;
    request->ended.ended_at = kvr_clock_now();
    request->ended.tokens_skipped = (uint64_t)table->first * setup->groups[0].page_tokens;
    request->ended.tokens_moved = (uint64_t)moved * setup->groups[0].page_tokens;
    request->ended.bytes = bytes_moved(setup, request);
    request->phase = TARGET_SETTLE;
    request->cursor = 0;
    if (status != KVRAIL_OK || request->tail_in || moved == 0)
        return;
    request->ended.bytes_wrong += REPLAY_TAIL_WORDS * sizeof(uint64_t);
    replay_say(target->engine.router, REPLAY_WRONG, 0, "request %u is DONE without its tail",
               request->base.index);
}

static void end_request(struct target *target, struct target_request *request,
                        const struct kvrail_event *event)
{
    kvrail_status status = event->status;

    /* A failure that forgot to say why is still one. */
    if (event->kind != KVRAIL_EVENT_DONE && status == KVRAIL_OK)
        status = KVRAIL_INTERNAL;
    request->ended.bytes_reported = event->bytes;
    request->ended.writes = event->writes;
    request->ended.retries = event->retries;
    end_moving(target, request, event->kind == KVRAIL_EVENT_DONE ? KVRAIL_OK : status);
}

static void layers_in(struct target *target, struct target_request *request,
                      const struct kvrail_event *event)
{
    struct replay_message message = {.kind = REPLAY_IN, .request = request->base.index};

    message.layers.at = kvr_clock_now();
    message.layers.layer_first = event->layer_first;
    message.layers.layer_count = event->layer_count;
    message.layers.token_first = event->token_first;
    message.layers.token_end = event->token_end;
    (void)replay_send(target->engine.router, &message);
    if (!target_announce(target, request, event))
        replay_say(target->engine.router, REPLAY_FATAL, 1, "no memory for layers to check");
}

static void target_event(void *self, void *request, const struct kvrail_event *event)
{
    if (event->terminal)
        end_request(self, request, event);
    else if (event->kind == KVRAIL_EVENT_LAYER_IN)
        layers_in(self, request, event);
    else if (event->kind == KVRAIL_EVENT_TAIL_IN)
        target_check_tail(self, request, event);
}

static void target_lost(void *self, void *request)
{
    end_moving(self, request, KVRAIL_AGENT_LOST);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static kvrail_status open_fetch(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;
    uint32_t tokens = replay_request(setup, request->base.index)->input_tokens;
    uint64_t skip = (uint64_t)request->tables[0].first * setup->groups[0].page_tokens;
    char name[REPLAY_REQUEST_BYTES];
    kvrail_status status;
    struct kvrail_source_address source = {
        .size = sizeof(struct kvrail_source_address),
        .agent = setup->agents.items[replay_agent_of(setup, request->base.index, KVR_ROLE_SOURCE)]
                     .address,
        .generation = request->source.generation,
    };
    struct kvrail_target_options options = {
        .size = sizeof(struct kvrail_target_options),
        .request = replay_request_name(setup, request->base.index, name),
        .attempt = REPLAY_ATTEMPT,
        .tokens = tokens,
        .skip_tokens = skip < tokens ? skip : tokens,
        .deadline_ms = (uint32_t)(replay_deadline(setup, request->base.index) / KVR_MS),
        .priority = replay_recorded(setup, request->base.index)->priority,
        .sources = &source,
        .source_count = 1,
        .secret = request->base.secret,
    };

    memcpy(source.engine, request->source.engine.bytes, sizeof(source.engine));
    request->ended.opened_at = kvr_clock_now();
    status = kvrail_target_open(target->engine.connection, &options, &request->base.handle);
    if (status == KVRAIL_OK)
        replay_journal_opened(&target->engine, &request->base, request->tables);
    return status;
}

/* A window needs only its tokens, and a state its last page, whatever the target's cache has. */
static kvrail_status name_skips(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;
    kvrail_status status = KVRAIL_OK;

    for (; request->group < setup->group_count && status == KVRAIL_OK;
         request->group += status == KVRAIL_OK)
        status = kvrail_target_skip(target->engine.connection, request->base.handle, request->group,
                                    (uint64_t)request->tables[request->group].first *
                                        setup->groups[request->group].page_tokens);
    if (status == KVRAIL_OK)
        request->group = 0; /* the next to name pages of */
    return status;
}

static kvrail_status name_pages(struct target *target, struct target_request *request)
{
    kvrail_status status = KVRAIL_OK;

    for (; request->group < target->engine.setup->group_count && status == KVRAIL_OK;
         request->group += status == KVRAIL_OK)
        status = kvrail_target_pages(target->engine.connection, request->base.handle,
                                     request->group, request->tables[request->group].ids,
                                     request->tables[request->group].count);
    return status;
}

/* Goes on to `next` when a call succeeded, waits when there was no room, else ends the request. */
static void after_call(struct target *target, struct target_request *request, kvrail_status status,
                       target_phase next)
{
    if (status == KVRAIL_OK) {
        request->phase = next;
        return;
    }
    if (status == KVRAIL_AGAIN) {
        target->engine.blocked = true;
        return;
    }
    if (status != KVRAIL_AGENT_LOST)
        replay_say(target->engine.router, REPLAY_NOTE, status, "request %u at the target: %s",
                   request->base.index, kvrail_last_error(target->engine.connection)->detail);
    if (request->base.handle == 0) {
        target_give_up(target, request, status);
        return;
    }
    request->phase = TARGET_MOVING; /* its terminal event follows */
    replay_engine_cancel(&target->engine, request->base.handle, status);
}

/* True when the request has more to do at once. It may be gone after the call. */
static bool step_request(struct target *target, struct target_request *request)
{
    struct kvrail *connection = target->engine.connection;

    switch (request->phase) {
    case TARGET_QUEUED:
        return false;
    case TARGET_CLEAN:
        if (target_clean(target, request))
            request->phase = TARGET_OPEN;
        return true;
    case TARGET_OPEN:
        if (connection == NULL || target->engine.down_said)
            return false;
        request->group = 1; /* of the first it is the fetch's own */
        after_call(target, request, open_fetch(target, request), TARGET_SKIP);
        return !target->engine.blocked;
    case TARGET_SKIP:
        if (connection == NULL || target->engine.down_said)
            return false;
        after_call(target, request, name_skips(target, request), TARGET_PAGES);
        return !target->engine.blocked;
    case TARGET_PAGES:
        if (connection == NULL || target->engine.down_said)
            return false;
        after_call(target, request, name_pages(target, request), TARGET_MOVING);
        return !target->engine.blocked;
    case TARGET_MOVING:
        return !target_check_announced(target, request);
    case TARGET_SETTLE:
        if (request->status == KVRAIL_OK &&
            (!target_check_announced(target, request) || !target_check_rest(target, request)))
            return true;
        request->phase = TARGET_KEEP;
        request->cursor = 0;
        return true;
    case TARGET_KEEP:
        if (target_keep(target, request))
            settle(target, request);
        return true;
    }
    return false;
}

/* Room goes to the oldest first; see the source. */
static bool admit_oldest(struct target *target)
{
    for (uint32_t i = 0; i < target->engine.live_count; i++) {
        struct target_request *request = target->engine.live[i];

        if (request->phase == TARGET_QUEUED)
            return target_admit(target, request);
    }
    return false;
}

static kvr_ns target_step(void *self, kvr_ns now)
{
    struct target *target = self;
    bool more = admit_oldest(target);

    (void)now;
    for (uint32_t i = target->engine.live_count; i > 0; i--) {
        if (step_request(target, target->engine.live[i - 1]))
            more = true;
        if (target->engine.blocked)
            break;
    }
    return more ? 0 : KVR_NEVER;
}

static void target_end(void *self, struct replay_message *totals)
{
    struct target *target = self;

    target_inspect(target);
    totals->totals.late_pages = target->late_pages;
    totals->totals.unannounced = target->unannounced;
}

static const struct replay_engine_ops target_ops = {
    .request_bytes = sizeof(struct target_request),
    .start = target_start,
    .give_up = target_give_up,
    .event = target_event,
    .lost = target_lost,
    .step = target_step,
    .end = target_end,
};

static bool make_target(struct target *target, const struct replay_setup *setup)
{
    uint32_t blocks =
        setup->options.prefix_cache ? setup->groups[0].page_count / setup->block_pages : 0;
    bool made = true;

    kvr_rng_init(&target->rng, setup->options.seed);
    for (uint32_t i = 0; i < setup->group_count; i++) {
        target->marked[i] = calloc(setup->groups[i].page_count, sizeof(target->marked[i][0]));
        made = made && target->marked[i] != NULL;
    }
    target->block_ids = calloc(setup->block_pages, sizeof(target->block_ids[0]));
    if (made && target->block_ids != NULL && cache_init(&target->cache, blocks, setup->block_pages))
        return true;
    replay_say(target->engine.router, REPLAY_FATAL, 1, "no memory for a cache of %u blocks",
               blocks);
    return false;
}

int replay_target_run(const struct replay_setup *setup, uint32_t at, int router)
{
    static struct target target;
    int exit_status = 1;

    replay_engine_init(&target.engine, setup, at, router, &target_ops, &target);
    if (make_target(&target, setup))
        exit_status = replay_engine_main(&target.engine);
    cache_done(&target.cache);
    for (uint32_t i = 0; i < MODEL_KINDS; i++)
        free(target.marked[i]);
    free(target.block_ids);
    return exit_status;
}
