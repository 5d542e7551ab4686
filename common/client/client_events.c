/* Notices of the agent, and the end of the connection: each open handle gets one terminal event. */
#include "client/client.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- epoll ----------------------------------------------------------------------------------- */

void client_show_ready(struct kvrail *client)
{
    bool ready = !kvr_packet_queue_empty(&client->stash) || client->phase == CLIENT_SETTLING ||
                 (client->phase == CLIENT_CLOSED && !client->lost_said);
    uint64_t count = 1;

    if (ready == client->ready)
        return;
    client->ready = ready;
    if (ready ? write(client->ready_fd, &count, sizeof(count)) < 0
              : read(client->ready_fd, &count, sizeof(count)) < 0)
        return; /* cannot fail: the descriptor is private */
}

static void watch_room(struct kvrail *client, bool blocked)
{
    struct epoll_event event = {.events = EPOLLIN | (blocked ? (uint32_t)EPOLLOUT : 0),
                                .data.fd = client->socket};

    if (blocked != client->blocked)
        epoll_ctl(client->epoll, EPOLL_CTL_MOD, client->socket, &event);
    client->blocked = blocked;
}

kvr_status client_flush(struct kvrail *client)
{
    kvr_status status = KVR_OK;

    while (status == KVR_OK && client->phase == CLIENT_LIVE) {
        size_t bytes = kvr_packet_queue_peek(&client->out, client->packet, sizeof(client->packet));

        if (bytes == 0)
            break;
        status = kvr_packet_send(client->socket, client->packet, bytes, NULL);
        if (status == KVR_OK)
            kvr_packet_queue_pop(&client->out);
    }
    if (client->phase == CLIENT_LIVE || client->phase == CLIENT_REFUSED)
        watch_room(client, status == KVR_AGAIN); /* a dead agent is found by reading */
    return status;
}

/* ---- the ways to the end --------------------------------------------------------------------- */

static void settle(struct kvrail *client)
{
    if (client->socket >= 0)
        epoll_ctl(client->epoll, EPOLL_CTL_DEL, client->socket, NULL);
    epoll_ctl(client->epoll, EPOLL_CTL_DEL, client->agent_pidfd, NULL); /* if it was added */
    client_watch_end(client);
    client->phase = CLIENT_SETTLING;
    client->settled = 0;
    client_show_ready(client);
}

/* The agent gave up this engine but lives: its notices are read up to DETACHED. */
static void refused(struct kvrail *client, const struct kvr_notice *notice)
{
    if (client->phase == CLIENT_LIVE)
        client->phase = CLIENT_REFUSED;
    client->reason = notice->status < 0 ? notice->status : KVR_REFUSED;
    memcpy(client->reason_detail, notice->detail, sizeof(client->reason_detail));
    atomic_store(&client->ended, (int)client->reason);
}

/* DETACHED: the agent has let go of every page. */
static void detached(struct kvrail *client)
{
    if (client->reason == KVR_OK)
        client->reason = KVR_REFUSED;
    atomic_store(&client->ended, (int)client->reason);
    settle(client);
}

/* A socket can close before the cards do: only the end of the process hands the pages back. */
static void socket_ended(struct kvrail *client)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = client->agent_pidfd};

    epoll_ctl(client->epoll, EPOLL_CTL_DEL, client->socket, NULL);
    epoll_ctl(client->epoll, EPOLL_CTL_ADD, client->agent_pidfd, &event);
    close(client->socket);
    client->socket = -1;
    client_watch_end(client);
    client->phase = CLIENT_CLOSED;
    if (atomic_load(&client->ended) == KVRAIL_OK)
        atomic_store(&client->ended, (int)KVRAIL_AGENT_LOST);
    client_show_ready(client); /* for the event AGENT_LOST */
}

static bool agent_is_gone(const struct kvrail *client)
{
    struct pollfd process = {.fd = client->agent_pidfd, .events = POLLIN};

    return poll(&process, 1, 0) > 0;
}

static void look_at_agent(struct kvrail *client)
{
    if (!agent_is_gone(client))
        return;
    if (client->revocation_words != NULL) /* before a page is handed back: targets may still copy */
        kvr_revocation_words_revoke(client->revocation_words);
    client->reason = KVR_AGENT_LOST;
    snprintf(client->reason_detail, sizeof(client->reason_detail), "the agent process ended");
    settle(client);
}

/* ---- receiving ------------------------------------------------------------------------------- */

kvr_status client_receive(struct kvrail *client, struct kvr_notice *ret_notice, size_t *ret_bytes)
{
    for (;;) {
        struct kvr_packet_fds fds;
        kvr_status status = kvr_packet_receive(client->socket, client->packet,
                                               sizeof(client->packet), ret_bytes, &fds);

        if (status == KVR_AGAIN)
            return status;
        if (status == KVR_OK)
            status =
                kvr_notice_decode(client->decoder, client->packet, *ret_bytes, ret_notice, NULL);
        kvr_packet_fds_close(&fds);
        if (status == KVR_OK)
            return KVR_OK;
        if (status == KVR_UNSUPPORTED)
            continue; /* a notice of a newer agent */
        /* The end of the socket, or garbage: a terminal notice may have been lost in it. */
        socket_ended(client);
        return KVR_PEER_LOST;
    }
}

kvr_status client_next_notice(struct kvrail *client, struct kvr_notice *ret_notice)
{
    size_t bytes = kvr_packet_queue_peek(&client->stash, client->packet, sizeof(client->packet));
    kvr_status status;

    if (bytes == 0) {
        if (client->phase != CLIENT_LIVE && client->phase != CLIENT_REFUSED)
            return KVR_PEER_LOST;
        return client_receive(client, ret_notice, &bytes);
    }
    status = kvr_notice_decode(client->decoder, client->packet, bytes, ret_notice, NULL);
    kvr_packet_queue_pop(&client->stash);
    client_show_ready(client);
    return status;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void fill(struct kvrail *client, const struct kvr_notice *notice, struct kvrail_event *event)
{
    memset(event, 0, sizeof(*event));
    event->size = sizeof(*event);
    event->kind = (kvrail_event_kind)notice->kind;
    event->terminal = kvr_notice_terminal(notice->kind);
    event->handle = notice->handle;
    event->status = (kvrail_status)notice->status;
    event->status_name = kvr_status_name(notice->status);
    event->layer_first = notice->layer_first;
    event->layer_count = notice->layer_count;
    event->token_first = notice->token_first;
    event->token_end = notice->token_end;
    event->bytes = notice->bytes;
    event->writes = notice->writes;
    event->retries = notice->retries;
    event->time_ns =
        notice->at > 0 ? notice->at : kvr_clock_now(); /* the library's own events: now */
    memcpy(event->name, notice->agent, sizeof(event->name));
    memcpy(event->detail, notice->detail, sizeof(event->detail));
    if (notice->payload_bytes == 0)
        return;
    event->payload = client->payloads + client->payload_used;
    event->payload_bytes = notice->payload_bytes;
    memcpy(client->payloads + client->payload_used, notice->payload, notice->payload_bytes);
    client->payload_used += notice->payload_bytes;
}

/* Whether the engine gets the notice. A notice that follows a handle's terminal event is dropped:
 * the engine may have given the pages to another request. */
static bool keeps(struct kvrail *client, struct kvr_notice *notice)
{
    struct client_handle *entry;
    struct client_region *region;

    switch (notice->kind) {
    case KVR_NOTICE_REGION_READY:
    case KVR_NOTICE_REGION_GONE:
        region = client_find_region(client, (uint32_t)notice->handle);
        if (region != NULL && notice->kind == KVR_NOTICE_REGION_GONE)
            region->number = 0;
        return region != NULL;
    case KVR_NOTICE_REFUSED:
        refused(client, notice);
        return true;
    case KVR_NOTICE_DETACHED:
        detached(client);
        return false;
    case KVR_NOTICE_WHY:
    case KVR_NOTICE_PEER_DOWN:
    case KVR_NOTICE_PEER_UP:
    case KVR_NOTICE_PEER_WARM:
    case KVR_NOTICE_RAIL_DOWN:
    case KVR_NOTICE_RAIL_UP:
        return true;
    case KVR_NOTICE_TARGET_REFUSED: /* a whole agent, or one that asked for this publish */
        return notice->handle == 0 || client_find(client, notice->handle) != NULL;
    case KVR_NOTICE_NONE:
    case KVR_NOTICE_ATTACHED:
    case KVR_NOTICE_AGENT_LOST:
    case KVR_NOTICE_AGENT_SILENT:
    case KVR_NOTICE_AGENT_BACK:
    case KVR_NOTICE_OPEN_REFUSED: /* this library uses no handle twice */
    case KVR_NOTICE_KIND_END:
        return false;
    default:
        entry = client_find(client, notice->handle);
        if (entry == NULL || !client_told_take(&entry->told, entry->tokens, notice))
            return false;
        if (kvr_notice_terminal(notice->kind))
            client_forget(client, entry);
        return true;
    }
}

static bool settle_next(struct kvrail *client, struct kvrail_event *event)
{
    struct kvr_notice notice = {.status = client->reason};

    while (client->settled < KVRAIL_HANDLES_MAX) {
        struct client_handle *entry = &client->handles[client->settled++];

        if (entry->handle == 0)
            continue;
        notice.kind = entry->role == CLIENT_SOURCE ? KVR_NOTICE_SOURCE_FREE : KVR_NOTICE_FAILED;
        notice.handle = entry->handle;
        notice.token_first = notice.token_end = 0;
        if (entry->role == CLIENT_TARGET) { /* nothing is known to be right */
            notice.token_first = entry->skip_tokens;
            notice.token_end = entry->tokens;
            client_landed_fail(client, entry);
        }
        memcpy(notice.detail, client->reason_detail, sizeof(notice.detail));
        client_forget(client, entry);
        fill(client, &notice, event);
        return true;
    }
    client->phase = CLIENT_ENDED;
    client_show_ready(client);
    return false;
}

static void agent_lost_event(struct kvrail *client, struct kvrail_event *event)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_AGENT_LOST, .status = KVR_AGENT_LOST};

    snprintf(notice.detail, sizeof(notice.detail), "%s",
             "the agent closed the connection; pages come back when its process has ended");
    fill(client, &notice, event);
}

/* true: *event is filled. false: there is nothing now. */
static bool next_event(struct kvrail *client, struct kvrail_event *event)
{
    struct kvr_notice notice;

    for (;;) {
        kvr_status status =
            client_watch_holds(client) ? KVR_AGAIN : client_next_notice(client, &notice);

        if (status == KVR_AGAIN) {
            if (!client_watch_event(client, &notice))
                return false;
            fill(client, &notice, event);
            return true;
        }
        if (status == KVR_OK) {
            if (client_flush_before(client, &notice) && keeps(client, &notice)) {
                fill(client, &notice, event);
                return true;
            }
            continue;
        }
        if (client->phase == CLIENT_CLOSED && !client->lost_said) {
            client->lost_said = true;
            client_show_ready(client);
            agent_lost_event(client, event);
            return true;
        }
        if (client->phase == CLIENT_CLOSED)
            look_at_agent(client);
        if (client->phase == CLIENT_SETTLING)
            return settle_next(client, event);
        return false;
    }
}

/* As much of the event as the program knows; 0 where it knows more. */
static void hand_out(const struct kvrail_event *event, void *to, size_t bytes)
{
    size_t known = bytes < sizeof(*event) ? bytes : sizeof(*event);

    memcpy(to, event, known);
    memset((char *)to + known, 0, bytes - known);
}

int kvrail_poll_sized(struct kvrail *connection, struct kvrail_event *events, int event_max,
                      size_t event_bytes)
{
    struct kvrail_event event;
    int count = 0;

    if (event_bytes < CLIENT_FIRST_BYTES_event)
        return client_fail(connection, KVR_INVALID, "an event has at least %d bytes, not %zu",
                           (int)CLIENT_FIRST_BYTES_event, event_bytes);
    connection->payload_used = 0;
    client_flush(connection);
    while (count < event_max &&
           CLIENT_PAYLOAD_BYTES - connection->payload_used >= KVR_PACKET_BYTES_MAX &&
           next_event(connection, &event)) {
        hand_out(&event, (char *)events + (size_t)count * event_bytes, event_bytes);
        count++;
    }
    if (count == 0 && connection->phase == CLIENT_ENDED)
        return atomic_load(&connection->ended);
    return count;
}
