/* Accepts connections, and bounds those that are not trusted yet. */
#include <errno.h>
#include <stdlib.h>

#include "wire/channel_parts.h"

struct kvr_listener {
    uv_tcp_t tcp;
    struct kvr_channel_options options;
    uint16_t port;
    /* takes a connection that finds no memory: libuv offers no other until one is taken */
    uv_tcp_t spare;
    bool spare_open;
    bool wanted;    /* by another one */
    uint32_t holds; /* handles that still point here */
    uint32_t young_count;
    struct kvr_channel *youngest, *oldest;
};

/* ---- the young ---- */

static void remember(struct kvr_listener *listener, struct kvr_channel *channel)
{
    channel->listener = listener;
    channel->older = listener->youngest;
    if (listener->youngest != NULL)
        listener->youngest->younger = channel;
    else
        listener->oldest = channel;
    listener->youngest = channel;
    listener->young_count++;
}

void kvr_listener_forget(struct kvr_channel *channel)
{
    struct kvr_listener *listener = channel->listener;

    if (listener == NULL)
        return;
    if (channel->younger != NULL)
        channel->younger->older = channel->older;
    else
        listener->youngest = channel->older;
    if (channel->older != NULL)
        channel->older->younger = channel->younger;
    else
        listener->oldest = channel->younger;
    channel->listener = NULL;
    channel->younger = channel->older = NULL;
    listener->young_count--;
}

/* ---- accepting ---- */

static void name_it(struct kvr_channel *channel)
{
    struct sockaddr_storage socket;
    int bytes = sizeof(socket);
    struct kvr_address address;

    if (uv_tcp_getpeername(&channel->tcp, (struct sockaddr *)&socket, &bytes) == 0 &&
        kvr_address_from_socket((struct sockaddr *)&socket, &address) == KVR_OK)
        kvr_address_print(&address, channel->name);
}

static void on_connection(uv_stream_t *stream, int result);

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
    uint32_t young_ms = listener->options.young_ms;
    struct kvr_channel *channel;

    if (result < 0)
        return; /* out of descriptors, most likely; it will be offered again */
    channel = kvr_channel_new(stream->loop, &listener->options);
    if (channel == NULL) {
        turn_away(listener);
        return;
    }
    if (uv_accept(stream, (uv_stream_t *)&channel->tcp) != 0) {
        kvr_channel_close(channel);
        return;
    }
    name_it(channel);
    if (listener->young_count >= KVR_CHANNEL_YOUNG_MAX &&
        listener->oldest->state == KVR_CHANNEL_SECURING)
        listener->oldest->refusal = KVR_TLS_CUT;
    if (listener->young_count >= KVR_CHANNEL_YOUNG_MAX)
        kvr_channel_fail(listener->oldest, KVR_TIMED_OUT,
                         "more than %d connections have sent no HELLO yet", KVR_CHANNEL_YOUNG_MAX);
    remember(listener, channel);
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
        result = uv_listen((uv_stream_t *)&listener->tcp, KVR_PEERS_MAX, on_connection);
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
    listener->tcp.data = listener;
    listener->holds = 1;
    result = start_listening(listener, (const struct sockaddr *)&socket);
    if (result < 0) {
        kvr_listener_close(listener);
        return kvr_error_system(error, "channel", -result, "cannot listen on %s", text);
    }
    *ret_listener = listener;
    return KVR_OK;
}

uint16_t kvr_listener_port(const struct kvr_listener *listener)
{
    return listener->port;
}

void kvr_listener_close(struct kvr_listener *listener)
{
    if (listener == NULL)
        return;
    while (listener->oldest != NULL) {
        struct kvr_channel *channel = listener->oldest;

        /* One that is finishing is left to its own timer: its last words are on the way. */
        kvr_listener_forget(channel);
        if (channel->state != KVR_CHANNEL_FINISHING)
            kvr_channel_close(channel);
    }
    uv_close((uv_handle_t *)&listener->tcp, on_listener_closed);
}
