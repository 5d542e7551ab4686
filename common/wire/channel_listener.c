/* Accepts connections, and bounds those that are not trusted yet. */
#include <errno.h>
#include <stdlib.h>

#include "wire/channel_parts.h"
#include "wire/young.h"

/* Connections that the system keeps until they are accepted. When it has more, others dial in vain
 * for a second. */
#define BACKLOG 4096
/* Connections that are accepted in one turn of the loop. libuv accepts as long as others dial, so
 * one host that dials fast would have the loop for itself. */
#define ACCEPTS 32

struct kvr_listener {
    uv_tcp_t tcp;
    uv_prepare_t turn; /* runs while connections and steps of handshakes are counted */
    struct kvr_channel_options options;
    uint16_t port;
    /* takes a connection that finds no memory: libuv offers no other until one is taken */
    uv_tcp_t spare;
    bool spare_open;
    bool wanted;       /* by another one */
    uint32_t accepted; /* in this turn */
    bool held;         /* libuv has one more, and offers no other until this one is taken */
    uint32_t holds;    /* handles that still point here */
    struct kvr_young young;
    struct kvr_listener_counts counts;
};

/* ---- the young ---- */

/* Makes room for a connection of that host. */
static void make_room(struct kvr_listener *listener, uint64_t host)
{
    kvr_young_why why;
    struct kvr_channel *leaver = kvr_young_leaver(&listener->young, host, &why);

    if (leaver == NULL)
        return;
    listener->counts.crowded++;
    if (leaver->state == KVR_CHANNEL_SECURING)
        leaver->refusal = KVR_TLS_CUT;
    if (why == KVR_YOUNG_CROWD)
        kvr_channel_fail(leaver, KVR_TIMED_OUT,
                         "more than %u connections of its host have sent no HELLO yet",
                         KVR_YOUNG_SHARE);
    else
        kvr_channel_fail(leaver, KVR_TIMED_OUT,
                         "more than %u connections have sent no HELLO yet, most of its host",
                         KVR_YOUNG_MAX);
}

void kvr_listener_forget(struct kvr_channel *channel)
{
    if (channel->listener != NULL)
        kvr_young_go(&channel->listener->young, channel);
    channel->listener = NULL;
}

static void on_connection(uv_stream_t *stream, int result);

static void on_turn(uv_prepare_t *turn)
{
    struct kvr_listener *listener = turn->data;
    struct kvr_channel *channel;
    bool held = listener->held;

    kvr_young_turn(&listener->young);
    listener->accepted = 0;
    listener->held = false;
    if (kvr_young_rests(&listener->young) && !held)
        uv_prepare_stop(turn);
    while ((channel = kvr_young_next(&listener->young)) != NULL)
        kvr_channel_go_on(channel);
    if (held && !uv_is_closing((uv_handle_t *)&listener->tcp))
        on_connection((uv_stream_t *)&listener->tcp, 0);
}

static void count_turn(struct kvr_listener *listener)
{
    if (!uv_is_closing((uv_handle_t *)&listener->turn))
        uv_prepare_start(&listener->turn, on_turn);
}

bool kvr_listener_step(struct kvr_channel *channel)
{
    struct kvr_listener *listener = channel->listener;
    bool now;

    if (listener == NULL)
        return true; /* dialed */
    now = kvr_young_step(&listener->young, channel);
    listener->counts.waited += !now;
    count_turn(listener);
    return now;
}

/* ---- accepting ---- */

/* Returns a number for its host; 0: the other side is gone already. */
static uint64_t name_it(struct kvr_channel *channel)
{
    struct sockaddr_storage socket;
    int bytes = sizeof(socket);
    struct kvr_address address;

    if (uv_tcp_getpeername(&channel->tcp, (struct sockaddr *)&socket, &bytes) != 0 ||
        kvr_address_from_socket((struct sockaddr *)&socket, &address) != KVR_OK)
        return 0;
    kvr_address_print(&address, channel->name);
    return kvr_address_network(channel->name);
}

static void let_go(struct kvr_listener *listener)
{
    if (--listener->holds == 0)
        free(listener);
}

static void on_spare_closed(uv_handle_t *handle)
{
    struct kvr_listener *listener = handle->data;
    bool again = listener->wanted && !uv_is_closing((uv_handle_t *)&listener->tcp);

    listener->spare_open = listener->wanted = false;
    if (again)
        on_connection((uv_stream_t *)&listener->tcp, 0);
    let_go(listener);
}

static void turn_away(struct kvr_listener *listener)
{
    if (listener->spare_open) {
        listener->wanted = true;
        return;
    }
    uv_tcp_init(listener->tcp.loop, &listener->spare);
    listener->spare.data = listener;
    listener->spare_open = true;
    listener->holds++;
    (void)uv_accept((uv_stream_t *)&listener->tcp, (uv_stream_t *)&listener->spare);
    uv_close((uv_handle_t *)&listener->spare, on_spare_closed);
}

static void on_connection(uv_stream_t *stream, int result)
{
    struct kvr_listener *listener = stream->data;
    struct kvr_channel_handler *handler = &listener->options.handler;
    uint32_t young_ms = listener->options.young_ms;
    struct kvr_channel *channel;
    uint64_t host;

    if (result < 0)
        return; /* out of descriptors, most likely; it will be offered again */
    count_turn(listener);
    if (listener->accepted == ACCEPTS) {
        listener->held = true;
        return;
    }
    listener->accepted++;
    channel = kvr_channel_new(stream->loop, &listener->options);
    if (channel == NULL) {
        turn_away(listener);
        return;
    }
    if (uv_accept(stream, (uv_stream_t *)&channel->tcp) != 0) {
        kvr_channel_close(channel);
        return;
    }
    host = name_it(channel);
    if (host == 0 ||
        (handler->admit != NULL && !handler->admit(handler->self, channel->name, host))) {
        kvr_channel_close(channel);
        return;
    }
    make_room(listener, host);
    channel->listener = listener;
    kvr_young_come(&listener->young, host, channel);
    kvr_channel_start_timer(channel, young_ms != 0 ? young_ms : KVR_CHANNEL_YOUNG_MS);
    kvr_channel_begin(channel, true);
}

/* ---- opening and closing ---- */

static void on_listener_closed(uv_handle_t *handle)
{
    let_go(handle->data);
}

static int start_listening(struct kvr_listener *listener, const struct sockaddr *socket)
{
    struct sockaddr_storage bound;
    int bytes = sizeof(bound);
    struct kvr_address address;
    int result = uv_tcp_bind(&listener->tcp, socket, 0);

    if (result == 0)
        result = uv_listen((uv_stream_t *)&listener->tcp, BACKLOG, on_connection);
    if (result == 0)
        result = uv_tcp_getsockname(&listener->tcp, (struct sockaddr *)&bound, &bytes);
    if (result == 0 && kvr_address_from_socket((struct sockaddr *)&bound, &address) == KVR_OK)
        listener->port = address.port;
    return result;
}

kvr_status kvr_listener_open(uv_loop_t *loop, const char *text,
                             const struct kvr_channel_options *options,
                             struct kvr_listener **ret_listener, struct kvr_error *error)
{
    struct kvr_listener *listener;
    struct kvr_address address;
    struct sockaddr_storage socket;
    socklen_t bytes;
    int result;

    KVR_TRY(kvr_address_parse(text, -1, error, &address));
    if (kvr_address_to_socket(&address, &socket, &bytes) != KVR_OK)
        return kvr_error_set(error, KVR_INVALID, "channel",
                             "cannot listen on \"%s\": the host must be an address, not a name",
                             text);
    listener = calloc(1, sizeof(*listener));
    if (listener == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "channel", "no memory to listen on %s", text);
    listener->options = *options;
    uv_tcp_init(loop, &listener->tcp);
    uv_prepare_init(loop, &listener->turn);
    listener->tcp.data = listener->turn.data = listener;
    listener->holds = 2;
    result = start_listening(listener, (const struct sockaddr *)&socket);
    if (result < 0) {
        kvr_listener_close(listener);
        return kvr_error_system(error, "channel", -result, "cannot listen on %s", text);
    }
    *ret_listener = listener;
    return KVR_OK;
}

struct kvr_listener_counts kvr_listener_counts(const struct kvr_listener *listener)
{
    return listener->counts;
}

uint16_t kvr_listener_port(const struct kvr_listener *listener)
{
    return listener->port;
}

void kvr_listener_close(struct kvr_listener *listener)
{
    if (listener == NULL)
        return;
    while (listener->young.count > 0) {
        struct kvr_channel *channel = listener->young.places[0].who;

        /* One that is finishing is left to its own timer: its last words are on the way. */
        kvr_listener_forget(channel);
        if (channel->state != KVR_CHANNEL_FINISHING)
            kvr_channel_close(channel);
    }
    uv_close((uv_handle_t *)&listener->tcp, on_listener_closed);
    uv_close((uv_handle_t *)&listener->turn, on_listener_closed);
}
