#include "tools/replay/replay_router.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/interrupt.h"
#include "tools/replay/replay_processes.h"
#include "tools/replay/replay_progress.h"
#include "tools/replay/replay_tally.h"

#define START_BOUND   (60 * KVR_S) /* for connecting and touching memory */
#define FINISH_BOUND  (60 * KVR_S) /* for the engines' last words */
#define STOP_BOUND    (10 * KVR_S) /* after a loss, for requests that were under way */
#define CANCEL_AFTER  (10 * KVR_S) /* when only one side knows of a failure */
#define CANCEL_EVERY  (1 * KVR_S)
#define SILENCE_EXTRA (15 * KVR_S) /* beyond the deadline of a fetch */

/* ---- messages ------------------------------------------------------------------------------- */

static void note_loss(struct replay_router *router)
{
    if (router->figures->lost_at == 0)
        router->figures->lost_at = kvr_clock_now();
    if (!router->setup->options.reconnect)
        router->stopping = true;
}

void replay_router_say(const char *text)
{
    replay_progress_clear();
    fprintf(stderr, "kvrail replay: %s\n", text);
}

static void forget_live(struct replay_router *router, uint32_t at)
{
    replay_tally_request(router->setup, &router->live[at], router->figures);
    if (router->figures->lost_at != 0)
        router->figures->settle_ns = kvr_clock_now() - router->figures->lost_at;
    free(router->live[at].ready.items);
    free(router->live[at].in.items);
    router->live[at] = router->live[--router->live_count];
}

static struct replay_live *find_live(struct replay_router *router, uint32_t request)
{
    for (uint32_t i = 0; i < router->live_count; i++)
        if (router->live[i].request == request)
            return &router->live[i];
    return NULL;
}

/* A dead engine is found by poll. */
static void send_to(struct replay_router *router, uint32_t at, const struct replay_message *message)
{
    if (router->engines[at].socket >= 0)
        (void)replay_send(router->engines[at].socket, message);
}

static void tell_pending(struct replay_router *router, const struct replay_live *live,
                         replay_message_kind kind)
{
    struct replay_message message = {.kind = kind, .request = live->request};

    for (uint32_t role = 0; role < REPLAY_ROLES; role++)
        if ((live->pending & 1u << role) != 0)
            send_to(router, live->engines[role], &message);
}

/* One side failed: the other hears of it from its agent if that knows, else from its router. */
static void note_failure(struct replay_router *router, struct replay_live *live, int status)
{
    if (status == KVR_OK || live->failed_at != 0)
        return;
    live->failed_at = kvr_clock_now();
    live->reason = status;
    tell_pending(router, live, REPLAY_WITHDRAW);
}

static void settle_side(struct replay_router *router, struct replay_live *live, kvr_role role,
                        const struct replay_message *message)
{
    if ((live->pending & 1u << role) == 0)
        return;
    live->pending &= ~(1u << role);
    if (live->status[role] == KVR_OK)
        live->status[role] = message->status;
    note_failure(router, live, message->status);
    if (role == KVR_ROLE_TARGET)
        replay_tally_fetch(live, message, router->figures);
    if (live->pending == 0)
        forget_live(router, (uint32_t)(live - router->live));
}

void replay_router_settle_lost(struct replay_router *router, uint32_t at)
{
    struct replay_message ended = {.kind = REPLAY_ENDED, .status = KVR_ENGINE_LOST};
    struct replay_engine_process *process = &router->engines[at];
    kvr_role role = router->setup->agents.items[at].role;

    if (process->socket >= 0)
        close(process->socket);
    process->socket = -1;
    process->up = false;
    for (uint32_t i = router->live_count; i > 0; i--)
        if (router->live[i - 1].engines[role] == at)
            settle_side(router, &router->live[i - 1], role, &ended);
}

/* The process ended on its own. */
static void lose_engine(struct replay_router *router, uint32_t at)
{
    char label[REPLAY_AGENT_LABEL_BYTES], text[REPLAY_AGENT_LABEL_BYTES + 40];

    snprintf(text, sizeof(text), "the %s engine's process ended",
             replay_agent_label(&router->setup->agents, at, label));
    if (router->exit_status == 0)
        replay_router_say(text);
    note_loss(router);
    router->stopping = true;
    replay_router_settle_lost(router, at);
}

static void take_totals(struct replay_router *router, uint32_t at,
                        const struct replay_message *message)
{
    struct replay_figures *figures = router->figures;

    figures->engine_cpu_s += message->totals.cpu_s;
    figures->late_pages += message->totals.late_pages;
    figures->unannounced += message->totals.unannounced;
    figures->tables_recorded += message->totals.tables_recorded;
    figures->tables_otherwise += message->totals.tables_otherwise;
    close(router->engines[at].socket);
    router->engines[at].socket = -1;
}

static void take_message(struct replay_router *router, uint32_t at,
                         const struct replay_message *message)
{
    struct replay_live *live = find_live(router, message->request);
    struct replay_engine_process *process = &router->engines[at];

    switch (message->kind) {
    case REPLAY_UP:
        process->up = true;
        process->identity = message->own;
        router->faults.struck[at].down = false;
        break;
    case REPLAY_DOWN:
        process->up = false;
        note_loss(router);
        replay_router_say(message->text);
        break;
    case REPLAY_READY:
    case REPLAY_IN:
        if (live != NULL) {
            replay_tally_layers(live, message);
            live->moving = live->moving || message->kind == REPLAY_IN;
        }
        break;
    case REPLAY_ENDED:
        if (live != NULL)
            settle_side(router, live, router->setup->agents.items[at].role, message);
        break;
    case REPLAY_WRONG:
    case REPLAY_NOTE:
        replay_progress_clear();
        fprintf(stderr, "%s: %s\n", message->kind == REPLAY_WRONG ? "wrong" : "note",
                message->text);
        break;
    case REPLAY_FATAL:
        if (router->exit_status == 0)
            replay_router_say(message->text);
        router->exit_status = message->status;
        router->stopping = true;
        break;
    case REPLAY_TOTALS:
        take_totals(router, at, message);
        break;
    default:
        break;
    }
}

/* Waits for messages and takes them all. */
static void listen_until(struct replay_router *router, kvr_ns wake_at)
{
    struct pollfd fds[REPLAY_ROLES * REPLAY_AGENTS_MAX];
    struct replay_message message;
    int got = 0;

    for (uint32_t i = 0; i < router->engine_count; i++)
        fds[i] = (struct pollfd){.fd = router->engines[i].socket, .events = POLLIN};
    if (replay_wait(fds, router->engine_count, wake_at) <= 0)
        return;
    router->last_heard_at = kvr_clock_now();
    for (uint32_t i = 0; i < router->engine_count; i++) {
        while (router->engines[i].socket >= 0 &&
               (got = replay_receive(router->engines[i].socket, &message)) > 0)
            take_message(router, i, &message);
        if (router->engines[i].socket >= 0 && got < 0)
            lose_engine(router, i);
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool all_up(const struct replay_router *router)
{
    for (uint32_t i = 0; i < router->engine_count; i++)
        if (!router->engines[i].up)
            return false;
    return true;
}

/* Of the next request. */
static bool both_up(const struct replay_router *router)
{
    for (uint32_t role = 0; role < REPLAY_ROLES; role++)
        if (!router->engines[replay_agent_of(router->setup, router->next, (kvr_role)role)].up)
            return false;
    return true;
}

/* When the trace has the next request arrive; in the past when it waits for room only. */
static kvr_ns arrival(const struct replay_router *router)
{
    const struct replay_setup *setup = router->setup;

    if (setup->speed == 0)
        return 0;
    return router->figures->started_at +
           replay_scaled(setup, replay_request(setup, router->next)->at);
}

/* With --speed max a recorded end comes as soon as the first layer is in. */
static void note_start(struct replay_router *router, struct replay_live *live, kvr_ns now)
{
    const struct replay_setup *setup = router->setup;
    kvr_ns cancelled = replay_recorded(setup, live->request)->cancelled;

    live->cancel_at = cancelled == KVR_NEVER ? KVR_NEVER : now + replay_scaled(setup, cancelled);
    for (uint32_t role = 0; role < REPLAY_ROLES; role++) {
        live->engines[role] = replay_agent_of(setup, live->request, (kvr_role)role);
        live->struck = live->struck || replay_faults_meet(router, live->engines[role]);
        router->figures->of_agents[live->engines[role]].transfers++;
    }
    if (setup->speed > 0)
        kvr_histogram_record(&router->figures->late_start_ns, now - arrival(router));
    router->figures->transfers++;
}

static void start_request(struct replay_router *router, kvr_ns now)
{
    struct replay_message message = {.kind = REPLAY_START, .request = router->next};
    struct replay_live *live = &router->live[router->live_count++];

    memset(live, 0, sizeof(*live));
    live->request = router->next;
    live->pending = (1u << REPLAY_ROLES) - 1;
    note_start(router, live, now);
    router->next++;
    message.start.at = now;
    message.start.source = router->engines[live->engines[KVR_ROLE_SOURCE]].identity;
    kvrail_secret_draw(message.start.secret);
    for (uint32_t role = 0; role < REPLAY_ROLES; role++)
        send_to(router, live->engines[role], &message);
}

static bool may_start(const struct replay_router *router)
{
    return !router->stopping && router->next < router->setup->trace.request_count &&
           router->live_count < router->setup->concurrency && both_up(router);
}

static bool cancel_is_due(const struct replay_router *router, const struct replay_live *live,
                          kvr_ns now)
{
    const struct replay_setup *setup = router->setup;
    bool nothing_moves = replay_recorded(setup, live->request)->skip_tokens >=
                         replay_request(setup, live->request)->input_tokens;

    if (live->cancelled || live->cancel_at > now)
        return false;
    return setup->speed > 0 || live->moving || (nothing_moves && live->ready.count > 0);
}

/* As recorded: asked for by the engine that did. */
static void cancel_recorded(struct replay_router *router, kvr_ns now)
{
    for (uint32_t i = 0; i < router->live_count; i++) {
        struct replay_live *live = &router->live[i];
        struct replay_message message = {.kind = REPLAY_CANCEL, .request = live->request};
        kvr_role role = replay_recorded(router->setup, live->request)->cancelled_by;

        if (!cancel_is_due(router, live, now))
            continue;
        live->cancelled = true;
        if ((live->pending & 1u << role) != 0)
            send_to(router, live->engines[role], &message);
    }
}

static kvr_ns next_cancel(const struct replay_router *router)
{
    kvr_ns next = KVR_NEVER;

    for (uint32_t i = 0; router->setup->speed > 0 && i < router->live_count; i++)
        if (!router->live[i].cancelled && router->live[i].cancel_at < next)
            next = router->live[i].cancel_at;
    return next;
}

/* When no agent reported a failure for long, or when the replay is interrupted. */
static void cancel_half_failed(struct replay_router *router, kvr_ns now)
{
    if (now < router->cancel_at)
        return;
    router->cancel_at = now + CANCEL_EVERY;
    for (uint32_t i = 0; i < router->live_count; i++) {
        const struct replay_live *live = &router->live[i];

        if (interrupts() > 0 || (live->failed_at != 0 && now - live->failed_at >= CANCEL_AFTER))
            tell_pending(router, live, REPLAY_CANCEL);
    }
}

static kvr_ns longest_deadline(const struct replay_router *router)
{
    kvr_ns longest = router->setup->options.deadline;

    for (uint32_t i = 0; i < router->live_count; i++) {
        kvr_ns deadline = replay_deadline(router->setup, router->live[i].request);

        if (deadline > longest)
            longest = deadline;
    }
    return longest;
}

/* Gives up requests that no agent will settle any more. True: there were some. */
static bool abandon(struct replay_router *router, kvr_ns now)
{
    kvr_ns bound = router->stopping ? STOP_BOUND : longest_deadline(router) + SILENCE_EXTRA;

    if (router->live_count == 0 || now - router->last_heard_at < bound)
        return false;
    replay_router_say(
        "nothing was heard of the requests on their way; they are given up as stalled");
    while (router->live_count > 0) {
        router->live[0].reason = KVR_TIMED_OUT;
        router->live[0].status[KVR_ROLE_TARGET] = KVR_TIMED_OUT;
        forget_live(router, 0);
    }
    router->stopping = true;
    return true;
}

static void show_progress(struct replay_router *router, kvr_ns now)
{
    kvr_ns interval = replay_progress_interval(router->setup);

    if (interval == KVR_NEVER || now < router->progress_at)
        return;
    router->progress_at = now + interval;
    replay_progress_show(router->figures, now);
}

static kvr_ns next_look(const struct replay_router *router, kvr_ns now)
{
    kvr_ns wake_at = now + KVR_S, interval = replay_progress_interval(router->setup);

    if (interval != KVR_NEVER && router->progress_at < wake_at)
        wake_at = router->progress_at;
    if (may_start(router) && arrival(router) < wake_at)
        wake_at = arrival(router);
    if (replay_faults_due(router) < wake_at)
        wake_at = replay_faults_due(router);
    return next_cancel(router) < wake_at ? next_cancel(router) : wake_at;
}

static void route_requests(struct replay_router *router)
{
    uint32_t count = router->setup->trace.request_count;

    while (router->live_count > 0 || (!router->stopping && router->next < count)) {
        kvr_ns now = kvr_clock_now();

        if (interrupts() > 0)
            router->stopping = true;
        replay_faults_play(router, now);
        while (may_start(router) && arrival(router) <= now) {
            start_request(router, now);
            replay_faults_play(router, now);
        }
        cancel_recorded(router, now);
        show_progress(router, now);
        cancel_half_failed(router, now);
        if (abandon(router, now))
            break;
        listen_until(router, next_look(router, now));
    }
}

static bool wait_for_engines(struct replay_router *router)
{
    kvr_ns bound = kvr_clock_now() + START_BOUND;

    while (!all_up(router)) {
        if (router->stopping || interrupts() > 0)
            return false;
        if (kvr_clock_now() > bound) {
            replay_router_say("the engines did not get ready");
            return false;
        }
        listen_until(router, kvr_clock_now() + KVR_S);
    }
    return true;
}

static void finish_engines(struct replay_router *router)
{
    struct replay_message message = {.kind = REPLAY_FINISH};
    kvr_ns bound = kvr_clock_now() + FINISH_BOUND;
    bool open = true;

    for (uint32_t i = 0; i < router->engine_count; i++)
        send_to(router, i, &message);
    while (open && kvr_clock_now() < bound && interrupts() < 2) {
        listen_until(router, kvr_clock_now() + KVR_S);
        open = false;
        for (uint32_t i = 0; i < router->engine_count; i++)
            open = open || router->engines[i].socket >= 0;
    }
}

static void introduce_pools(const struct replay_router *router)
{
    char count[16];

    snprintf(count, sizeof(count), "%u", router->engine_count);
    fprintf(stderr, "%s pools of %.2f GB are being prepared\n",
            router->engine_count == REPLAY_ROLES ? "two" : count,
            replay_pool_bytes(router->setup) / 1e9);
}

int replay_route(const struct replay_setup *setup, struct replay_figures *figures, FILE *pids)
{
    static struct replay_router router;

    interrupt_catch();
    router.setup = setup;
    router.figures = figures;
    router.live = calloc(setup->concurrency, sizeof(router.live[0]));
    figures->requests = setup->trace.request_count;
    if (router.live == NULL || !replay_processes_start(&router) ||
        !replay_processes_write(&router, pids)) {
        replay_processes_end(&router);
        return 1;
    }
    introduce_pools(&router);
    if (wait_for_engines(&router)) {
        replay_tally_agents(setup, figures, true);
        figures->started_at = router.last_heard_at = kvr_clock_now();
        route_requests(&router);
        figures->ended_at = kvr_clock_now();
        replay_faults_end(&router);
        replay_tally_agents(setup, figures, false);
        finish_engines(&router);
    }
    figures->not_started = setup->trace.request_count - router.next;
    replay_progress_clear();
    replay_processes_end(&router);
    free(router.live);
    return interrupts() > 0 && router.exit_status == 0 ? 1 : router.exit_status;
}
