#include "tools/replay/replay_tally.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

static void add_time(struct replay_layer_times *times, const struct replay_layer_time *time)
{
    uint32_t capacity = times->capacity > 0 ? 2 * times->capacity : 64;
    struct replay_layer_time *larger;

    if (times->count == times->capacity) {
        larger = realloc(times->items, capacity * sizeof(larger[0]));
        if (larger == NULL)
            return; /* one figure less, nothing else */
        times->items = larger;
        times->capacity = capacity;
    }
    times->items[times->count++] = *time;
}

void replay_tally_layers(struct replay_live *live, const struct replay_message *message)
{
    struct replay_layer_time time = {
        .at = message->layers.at,
        .layer_first = message->layers.layer_first,
        .layer_end = message->layers.layer_first + message->layers.layer_count,
        .token_first = message->layers.token_first,
        .token_end = message->layers.token_end,
    };

    add_time(message->kind == REPLAY_READY ? &live->ready : &live->in, &time);
}

/* A layer of a chunk is in when an event covers its last token. */
static bool covers(const struct replay_layer_time *in, const struct replay_layer_time *ready)
{
    return ready->layer_first >= in->layer_first && ready->layer_first < in->layer_end &&
           ready->token_end > in->token_first && ready->token_end <= in->token_end;
}

/* From the moment when bytes could move: the layer was ready and the fetch was open. */
static void record_since(struct kvr_histogram *histogram, kvr_ns ready_at, kvr_ns opened_at,
                         kvr_ns done_at)
{
    kvr_ns since = ready_at > opened_at ? ready_at : opened_at;

    kvr_histogram_record(histogram, done_at > since ? done_at - since : 0);
}

static void tally_layer_times(const struct replay_live *live, struct replay_figures *figures)
{
    for (uint32_t i = 0; i < live->ready.count; i++) {
        const struct replay_layer_time *ready = &live->ready.items[i];

        for (uint32_t k = 0; k < live->in.count; k++) {
            const struct replay_layer_time *in = &live->in.items[k];

            if (!covers(in, ready))
                continue;
            record_since(&figures->layer_ns, ready->at, live->opened_at, in->at);
            break;
        }
    }
}

/* The time belongs to the transfer, and so to both agents. */
static void tally_transfer(const struct replay_live *live, kvr_ns first,
                           const struct replay_ended *ended, struct replay_figures *figures)
{
    record_since(&figures->transfer_ns, first, ended->opened_at, ended->ended_at);
    for (uint32_t role = 0; role < REPLAY_ROLES; role++)
        record_since(&figures->of_agents[live->engines[role]].transfer_ns, first, ended->opened_at,
                     ended->ended_at);
}

static void tally_transfer_times(const struct replay_live *live, const struct replay_ended *ended,
                                 struct replay_figures *figures)
{
    kvr_ns first = KVR_NEVER, last = 0;

    for (uint32_t i = 0; i < live->ready.count; i++) {
        if (live->ready.items[i].at < first)
            first = live->ready.items[i].at;
        if (live->ready.items[i].at > last)
            last = live->ready.items[i].at;
    }
    if (first == KVR_NEVER || ended->tokens_moved == 0)
        return; /* a prefix that was all there */
    tally_transfer(live, first, ended, figures);
    record_since(&figures->exposed_ns, last, ended->opened_at, ended->ended_at);
}

void replay_tally_fetch(struct replay_live *live, const struct replay_message *message,
                        struct replay_figures *figures)
{
    const struct replay_ended *ended = &message->ended;

    live->bytes_wrong += ended->bytes_wrong; /* also of layers that were in before it failed */
    figures->bytes_wrong += ended->bytes_wrong;
    if (message->status != KVR_OK)
        return;
    live->opened_at = ended->opened_at;
    tally_transfer_times(live, ended, figures);
    figures->delivered++;
    for (uint32_t role = 0; role < REPLAY_ROLES; role++)
        figures->of_agents[live->engines[role]].bytes += ended->bytes;
    figures->tokens_moved += ended->tokens_moved;
    figures->tokens_skipped += ended->tokens_skipped;
    figures->bytes += ended->bytes;
    figures->bytes_reported += ended->bytes_reported;
    figures->bytes_verified += ended->bytes_verified;
    figures->bytes_rechecked += ended->bytes_rechecked;
    figures->writes += ended->writes;
    figures->retries += ended->retries;
}

/* Ended as the recording has it, by the engine that was asked to. */
static bool is_cancelled(const struct replay_live *live)
{
    return live->cancelled && (live->status[KVR_ROLE_SOURCE] == KVR_CANCELLED ||
                               live->status[KVR_ROLE_TARGET] == KVR_CANCELLED);
}

static replay_end end_of(const struct replay_live *live)
{
    if (live->bytes_wrong > 0)
        return REPLAY_END_FAILED;
    if (live->reason == KVR_OK)
        return REPLAY_END_COMPLETED;
    if (is_cancelled(live))
        return REPLAY_END_CANCELLED;
    return live->struck ? REPLAY_END_STRUCK : REPLAY_END_FAILED;
}

void replay_tally_request(const struct replay_setup *setup, const struct replay_live *live,
                          struct replay_figures *figures)
{
    replay_end end = end_of(live);

    replay_reasons_add(&figures->source_outcomes,
                       kvr_status_name((kvr_status)live->status[KVR_ROLE_SOURCE]));
    replay_reasons_add(&figures->target_outcomes,
                       kvr_status_name((kvr_status)live->status[KVR_ROLE_TARGET]));
    figures->ends[end]++;
    for (uint32_t role = 0; role < REPLAY_ROLES; role++)
        figures->of_agents[live->engines[role]].ends[end]++;
    if (end == REPLAY_END_FAILED)
        replay_reasons_add(&figures->failures, live->reason != KVR_OK
                                                   ? kvr_status_name((kvr_status)live->reason)
                                                   : "wrong_bytes");
    if (end != REPLAY_END_COMPLETED)
        return;
    figures->tokens += replay_request(setup, live->request)->input_tokens;
    if (setup->verify != REPLAY_VERIFY_NONE)
        figures->verified++;
    tally_layer_times(live, figures);
}

/* ---- the agents' CPU time ------------------------------------------------------------------- */

/* The process that listens on an engine socket; 0: unknown. */
static pid_t listener_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred credentials = {0};
    socklen_t bytes = sizeof(credentials);
    int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (socket_fd < 0)
        return 0;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (connect(socket_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
        credentials.pid = 0;
    close(socket_fd);
    return credentials.pid;
}

/* User and system time of a process; negative when it is not there. */
static double cpu_s_of(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return -1;
    return (double)used.tv_sec + (double)used.tv_nsec / (double)KVR_S;
}

static pid_t pids[REPLAY_ROLES * REPLAY_AGENTS_MAX];
static uint32_t pid_count;

static void find_agents(const struct replay_setup *setup)
{
    uint32_t given = setup->options.agents.pids.count;

    for (pid_count = 0; pid_count < given; pid_count++)
        pids[pid_count] = setup->agents.items[pid_count].pid;
    if (pid_count > 0)
        return;
    for (; pid_count < replay_agent_count(&setup->agents); pid_count++)
        pids[pid_count] = listener_of(setup->agents.items[pid_count].socket);
}

void replay_tally_agents(const struct replay_setup *setup, struct replay_figures *figures,
                         bool starting)
{
    double sum = 0;

    if (starting)
        find_agents(setup);
    else if (!figures->agents_known)
        return;
    figures->agents_known = false;
    for (uint32_t i = 0; i < pid_count; i++) {
        double cpu_s = pids[i] > 0 ? cpu_s_of(pids[i]) : -1;

        if (cpu_s < 0)
            return; /* one that ended took its figure with it */
        sum += cpu_s;
    }
    figures->agents_known = true;
    figures->agent_cpu_s = starting ? -sum : figures->agent_cpu_s + sum;
}
