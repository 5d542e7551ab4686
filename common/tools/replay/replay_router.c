#include "tools/replay/replay_router.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/replay/replay_engine.h"
#include "tools/replay/replay_progress.h"
#include "tools/replay/replay_tally.h"

#define START_BOUND   (60 * KVR_S) /* for connecting and touching memory */
#define FINISH_BOUND  (60 * KVR_S) /* for the engines' last words */
#define STOP_BOUND    (10 * KVR_S) /* after a loss, for requests that were under way */
#define CANCEL_AFTER  (10 * KVR_S) /* when only one side knows of a failure */
#define CANCEL_EVERY  (1 * KVR_S)
#define SILENCE_EXTRA (15 * KVR_S) /* beyond the deadline of a fetch */

static volatile sig_atomic_t interrupted; /* how often */

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = interrupted + 1;
}

/* ---- processes ------------------------------------------------------------------------------ */

static const char *const roles[REPLAY_ENGINES] = {"source", "target"};

/* Never returns. The engine ends with its router, whatever ends that. */
static void be_engine(struct replay_router *router, int which, int socket)
{
    signal(SIGINT, SIG_IGN); /* the router hears of it, and cancels */
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, which == REPLAY_SOURCE ? "replay-source" : "replay-target");
    for (int i = 0; i < which; i++)
        close(router->engines[i].socket);
    _exit(which == REPLAY_SOURCE ? replay_source_run(router->setup, socket)
                                 : replay_target_run(router->setup, socket));
}

static bool start_engine(struct replay_router *router, int which)
{
    struct replay_engine_process *engine = &router->engines[which];
    int sockets[2];

    *engine = (struct replay_engine_process){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        perror("kvrail replay: socketpair");
        return false;
    }
    fflush(NULL);
    engine->pid = fork();
    if (engine->pid == 0) {
        close(sockets[0]);
        be_engine(router, which, sockets[1]);
    }
    close(sockets[1]);
    engine->socket = sockets[0];
    if (engine->pid > 0)
        return true;
    perror("kvrail replay: fork");
    return false;
}

/* A reader of the file would wait for ever. */
static bool write_pids(const struct replay_router *router, FILE *pids)
{
    if (pids == NULL)
        return true;
    for (int i = 0; i < REPLAY_ENGINES; i++)
        fprintf(pids, "%s %d\n", roles[i], (int)router->engines[i].pid);
    if (fclose(pids) == 0)
        return true;
    fprintf(stderr, "kvrail replay: %s cannot be written: %s\n", router->setup->options.pid_file,
            strerror(errno));
    return false;
}

static void end_engines(struct replay_router *router)
{
    for (int i = 0; i < REPLAY_ENGINES; i++) {
        if (router->engines[i].pid <= 0)
            continue;
        if (router->engines[i].socket >= 0)
            close(router->engines[i].socket);
        kill(router->engines[i].pid, SIGKILL); /* one that has ended is not hurt */
        (void)waitpid(router->engines[i].pid, NULL, 0);
    }
}

/* ---- messages ------------------------------------------------------------------------------- */

static void note_loss(struct replay_router *router)
{
    if (router->figures->lost_at == 0)
        router->figures->lost_at = kvr_clock_now();
    if (!router->setup->options.reconnect)
        router->stopping = true;
}

static void say(const char *text)
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

static void tell_pending(struct replay_router *router, const struct replay_live *live,
                         replay_message_kind kind)
{
    struct replay_message message = {.kind = kind, .request = live->request};

    for (int i = 0; i < REPLAY_ENGINES; i++)
        if ((live->pending & 1u << i) != 0 && router->engines[i].socket >= 0)
            (void)replay_send(router->engines[i].socket, &message);
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

static void settle_side(struct replay_router *router, struct replay_live *live, int engine,
                        const struct replay_message *message)
{
    int *status = engine == REPLAY_SOURCE ? &live->source_status : &live->target_status;

    if ((live->pending & 1u << engine) == 0)
        return;
    live->pending &= ~(1u << engine);
    if (*status == KVR_OK)
        *status = message->status;
    note_failure(router, live, message->status);
    if (engine == REPLAY_TARGET)
        replay_tally_fetch(live, message, router->figures);
    if (live->pending == 0)
        forget_live(router, (uint32_t)(live - router->live));
}

/* The process ended on its own: everything that it had is lost with it. */
static void lose_engine(struct replay_router *router, int engine)
{
    struct replay_message ended = {.kind = REPLAY_ENDED, .status = KVR_ENGINE_LOST};
    struct replay_engine_process *process = &router->engines[engine];

    close(process->socket);
    process->socket = -1;
    process->up = false;
    if (router->exit_status == 0)
        say(engine == REPLAY_SOURCE ? "the source engine's process ended"
                                    : "the target engine's process ended");
    note_loss(router);
    router->stopping = true;
    for (uint32_t i = router->live_count; i > 0; i--)
        settle_side(router, &router->live[i - 1], engine, &ended);
}

static void take_message(struct replay_router *router, int engine,
                         const struct replay_message *message)
{
    struct replay_live *live = find_live(router, message->request);
    struct replay_engine_process *process = &router->engines[engine];

    switch (message->kind) {
    case REPLAY_UP:
        process->up = true;
        if (engine == REPLAY_SOURCE)
            router->source = message->own;
        break;
    case REPLAY_DOWN:
        process->up = false;
        note_loss(router);
        say(message->text);
        break;
    case REPLAY_READY:
    case REPLAY_IN:
        if (live != NULL)
            replay_tally_layers(live, message);
        break;
    case REPLAY_ENDED:
        if (live != NULL)
            settle_side(router, live, engine, message);
        break;
    case REPLAY_WRONG:
    case REPLAY_NOTE:
        replay_progress_clear();
        fprintf(stderr, "%s: %s\n", message->kind == REPLAY_WRONG ? "wrong" : "note",
                message->text);
        break;
    case REPLAY_FATAL:
        if (router->exit_status == 0)
            say(message->text);
        router->exit_status = message->status;
        router->stopping = true;
        break;
    case REPLAY_TOTALS:
        router->figures->engine_cpu_s += message->totals.cpu_s;
        router->figures->late_pages += message->totals.late_pages;
        router->figures->unannounced += message->totals.unannounced;
        close(process->socket);
        process->socket = -1;
        break;
    default:
        break;
    }
}

/* Waits for messages and takes them all. */
static void listen_until(struct replay_router *router, kvr_ns wake_at)
{
    struct pollfd fds[REPLAY_ENGINES];
    struct replay_message message;
    int got = 0;

    for (int i = 0; i < REPLAY_ENGINES; i++)
        fds[i] = (struct pollfd){.fd = router->engines[i].socket, .events = POLLIN};
    if (replay_wait(fds, REPLAY_ENGINES, wake_at) <= 0)
        return;
    router->last_heard_at = kvr_clock_now();
    for (int i = 0; i < REPLAY_ENGINES; i++) {
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
    for (int i = 0; i < REPLAY_ENGINES; i++)
        if (!router->engines[i].up)
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
           (kvr_ns)((double)setup->trace.requests[router->next].at / setup->speed);
}

static void start_request(struct replay_router *router)
{
    struct replay_message message = {
        .kind = REPLAY_START, .request = router->next, .start.source = router->source};
    struct replay_live *live = &router->live[router->live_count++];

    memset(live, 0, sizeof(*live));
    live->request = router->next++;
    live->pending = (1u << REPLAY_ENGINES) - 1;
    router->figures->transfers++;
    kvrail_secret_draw(message.start.secret);
    for (int i = 0; i < REPLAY_ENGINES; i++)
        (void)replay_send(router->engines[i].socket, &message); /* a dead one is found by poll */
}

static bool may_start(const struct replay_router *router)
{
    return !router->stopping && router->next < router->setup->trace.request_count &&
           router->live_count < router->setup->concurrency && all_up(router);
}

/* When no agent reported a failure for long, or when the replay is interrupted. */
static void cancel_half_failed(struct replay_router *router, kvr_ns now)
{
    if (now < router->cancel_at)
        return;
    router->cancel_at = now + CANCEL_EVERY;
    for (uint32_t i = 0; i < router->live_count; i++) {
        const struct replay_live *live = &router->live[i];

        if (interrupted || (live->failed_at != 0 && now - live->failed_at >= CANCEL_AFTER))
            tell_pending(router, live, REPLAY_CANCEL);
    }
}

/* Gives up requests that no agent will settle any more. True: there were some. */
static bool abandon(struct replay_router *router, kvr_ns now)
{
    kvr_ns bound = router->stopping ? STOP_BOUND : router->setup->options.deadline + SILENCE_EXTRA;

    if (router->live_count == 0 || now - router->last_heard_at < bound)
        return false;
    say("nothing was heard of the requests on their way; they are given up as stalled");
    while (router->live_count > 0) {
        router->live[0].reason = KVR_TIMED_OUT;
        router->live[0].target_status = KVR_TIMED_OUT;
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
    return wake_at;
}

static void route_requests(struct replay_router *router)
{
    uint32_t count = router->setup->trace.request_count;

    while (router->live_count > 0 || (!router->stopping && router->next < count)) {
        kvr_ns now = kvr_clock_now();

        if (interrupted)
            router->stopping = true;
        while (may_start(router) && arrival(router) <= now)
            start_request(router);
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
        if (router->stopping || interrupted)
            return false;
        if (kvr_clock_now() > bound) {
            say("the engines did not get ready");
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

    for (int i = 0; i < REPLAY_ENGINES; i++)
        if (router->engines[i].socket >= 0)
            (void)replay_send(router->engines[i].socket, &message);
    while (open && kvr_clock_now() < bound && interrupted < 2) {
        listen_until(router, kvr_clock_now() + KVR_S);
        open = false;
        for (int i = 0; i < REPLAY_ENGINES; i++)
            open = open || router->engines[i].socket >= 0;
    }
}

int replay_route(const struct replay_setup *setup, struct replay_figures *figures, FILE *pids)
{
    static struct replay_router router;
    struct sigaction action = {.sa_handler = interrupt};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    router.setup = setup;
    router.figures = figures;
    router.live = calloc(setup->concurrency, sizeof(router.live[0]));
    figures->requests = setup->trace.request_count;
    if (router.live == NULL || !start_engine(&router, REPLAY_SOURCE) ||
        !start_engine(&router, REPLAY_TARGET) || !write_pids(&router, pids)) {
        end_engines(&router);
        return 1;
    }
    fprintf(stderr, "two pools of %.2f GB are being prepared\n", replay_pool_bytes(setup) / 1e9);
    if (wait_for_engines(&router)) {
        replay_tally_agents(setup, figures, true);
        figures->started_at = router.last_heard_at = kvr_clock_now();
        route_requests(&router);
        figures->ended_at = kvr_clock_now();
        replay_tally_agents(setup, figures, false);
        finish_engines(&router);
    }
    figures->not_started = setup->trace.request_count - router.next;
    replay_progress_clear();
    end_engines(&router);
    free(router.live);
    return interrupted && router.exit_status == 0 ? 1 : router.exit_status;
}
