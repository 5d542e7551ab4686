/* Watches whether the agent runs, while a publish or a fetch is open: a timer behind
 * kvrail_event_fd, and the events that follow. client_silence.h decides. */
#include "client/client.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/timerfd.h>

static kvr_ns sign_of(const struct kvrail *client)
{
    return atomic_load(&client->page->alive_at);
}

/* Also ends a time that has passed: the timer is readable no more. */
static void arm(struct kvrail *client, kvr_ns at)
{
    struct itimerspec timer = {0};

    if (at != KVR_NEVER) {
        timer.it_value.tv_sec = (time_t)(at / KVR_S);
        timer.it_value.tv_nsec = (long)(at % KVR_S);
    }
    timerfd_settime(client->watch.timer, TFD_TIMER_ABSTIME, &timer, NULL);
}

static void arm_next(struct kvrail *client)
{
    struct client_watch *watch = &client->watch;
    kvr_ns at = watch->silence.due_at;

    if (watch->silence.silent && watch->expire_at < at)
        at = watch->expire_at;
    arm(client, at);
}

void client_watch_begin(struct kvrail *client, struct client_handle *entry, uint32_t deadline_ms)
{
    struct client_watch *watch = &client->watch;
    kvr_ns now = kvr_clock_now();

    if (deadline_ms == 0)
        deadline_ms = atomic_load(&client->page->deadline_ms);
    entry->deadline = entry->role == CLIENT_TARGET && deadline_ms > 0
                          ? now + kvr_deadline_ms(deadline_ms) * KVR_MS
                          : KVR_NEVER;
    if (entry->deadline < watch->expire_at)
        watch->expire_at = entry->deadline;
    if (entry->deadline < watch->at_next)
        watch->at_next = entry->deadline;
    if (!watch->on) {
        watch->on = true;
        client_silence_begin(&watch->silence, now, sign_of(client));
    }
    if (watch->silence.due_at != KVR_NEVER)
        arm_next(client);
}

void client_watch_end(struct kvrail *client)
{
    client->watch.on = false;
    client->watch.silence.silent = false;
    arm(client, KVR_NEVER);
}

/* The agent may read its requests late, the fetch's own among them: it shall not wait for the
 * deadline again. */
static void give_up(struct kvrail *client, struct client_handle *entry)
{
    struct kvr_request request = {.kind = KVR_REQ_CANCEL, .handle = entry->handle};

    request.cancel.reason = KVR_EXPIRED;
    if (!entry->cancelled && client->phase == CLIENT_LIVE)
        entry->cancelled = client_send(client, &request) == KVRAIL_OK;
}

/* Of the handles from client->watch.at on. */
static bool next_expired(struct kvrail *client, kvr_ns now, struct kvr_notice *ret_notice)
{
    struct client_watch *watch = &client->watch;

    while (watch->at < KVRAIL_HANDLES_MAX) {
        struct client_handle *entry = &client->handles[watch->at++];

        if (entry->handle == 0 || entry->told.failing)
            continue;
        if (client_silence_expires(&watch->silence, &entry->told, entry->deadline, now)) {
            client_silence_expire(&watch->silence, &entry->told, now, entry->handle, ret_notice);
            client_landed_fail(client, entry);
            give_up(client, entry);
            return true;
        }
        if (entry->deadline < watch->at_next)
            watch->at_next = entry->deadline;
    }
    watch->expire_at = watch->at_next;
    watch->at_next = KVR_NEVER;
    watch->at = 0;
    arm_next(client);
    return false;
}

static void silent_told(struct kvrail *client, kvr_ns now, struct kvr_notice *ret_notice)
{
    struct client_watch *watch = &client->watch;

    watch->expire_at = 0; /* any deadline may have passed */
    *ret_notice = (struct kvr_notice){
        .kind = KVR_NOTICE_AGENT_SILENT, .status = KVR_TIMED_OUT, .at = watch->silence.alive_at};
    snprintf(ret_notice->detail, sizeof(ret_notice->detail),
             "agent '%s' has given no sign of life for %" PRIu64
             " ms: its process is stopped, or gets no core; pages stay lent",
             client->agent, (now - watch->silence.alive_at) / KVR_MS);
}

static void back_told(struct kvrail *client, struct kvr_notice *ret_notice)
{
    *ret_notice = (struct kvr_notice){.kind = KVR_NOTICE_AGENT_BACK};
    for (uint32_t i = 0; i < KVRAIL_HANDLES_MAX; i++)
        if (client->handles[i].handle != 0 && client->handles[i].told.own)
            give_up(client, &client->handles[i]);
}

/* false: no news. */
static bool look(struct kvrail *client, kvr_ns now, struct kvr_notice *ret_notice)
{
    struct client_watch *watch = &client->watch;
    client_silence_news news = client_silence_look(&watch->silence, now, sign_of(client));

    if (news == CLIENT_SILENCE_SILENT)
        silent_told(client, now, ret_notice);
    if (news == CLIENT_SILENCE_BACK)
        back_told(client, ret_notice);
    if (client->free_count == KVRAIL_HANDLES_MAX && !watch->silence.silent)
        client_watch_end(client);
    else
        arm_next(client);
    return news != CLIENT_SILENCE_NONE;
}

/* The agent gives its sign before it sends: what is readable before the look at the sign, and has
 * no new one, was sent before the silence. */
bool client_watch_holds(const struct kvrail *client)
{
    struct pollfd readable = {.fd = client->socket, .events = POLLIN};

    if (!client->watch.silence.silent || !kvr_packet_queue_empty(&client->stash))
        return false;
    return poll(&readable, 1, 0) == 0 || sign_of(client) != client->watch.silence.sign;
}

bool client_watch_event(struct kvrail *client, struct kvr_notice *ret_notice)
{
    struct client_watch *watch = &client->watch;
    kvr_ns now;

    if (!watch->on)
        return false;
    now = kvr_clock_now();
    if ((now >= watch->silence.due_at ||
         (watch->silence.silent && sign_of(client) != watch->silence.sign)) &&
        look(client, now, ret_notice))
        return true;
    return watch->silence.silent && now >= watch->expire_at &&
           next_expired(client, now, ret_notice);
}
