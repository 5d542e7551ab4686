/* One engine's connection, inside the engine port: its states, its queue and its end.
 * Loop thread.
 *
 *   FREE → GREETING   accepted; ATTACH must come in time
 *   GREETING → LIVE   ATTACHED was sent; `owned` by the handler until release
 *   LIVE → DOWN       handler.down was called; no request is taken; notices still flow if it lives
 *   GREETING → DOWN   PAIRS was asked for and answered; never `owned`
 *   → LEAVING         released (or never owned) and nothing left to send: its handles close
 *   → FREE            they have closed */
#ifndef KVR_AGENT_ENGINE_LINK_H
#define KVR_AGENT_ENGINE_LINK_H

#include <uv.h>

#include "agent/engine/engine_extents.h"
#include "agent/engine/engine_news.h"
#include "agent/engine/engine_port.h"
#include "agent/engine/engine_socket.h"
#include "wire/packet_queue.h"
#include "wire/packet_socket.h"

typedef enum engine_state {
    ENGINE_FREE,
    ENGINE_GREETING,
    ENGINE_LIVE,
    ENGINE_DOWN,
    ENGINE_LEAVING,
} engine_state;

struct engine_link {
    struct kvr_engine_port *port;
    uint32_t index;
    engine_state state;
    bool owned;                  /* up returned KVR_OK, release has not come */
    int socket, pidfd;           /* -1: closed */
    struct kvr_engine_peer peer; /* the process */
    uv_poll_t socket_poll, process_poll;
    uv_timer_t timer;   /* GREETING: the time for ATTACH, or PAIRS and its answer; later: runs a
                           pending give-up */
    uint32_t handles;   /* of the three above, not yet closed */
    int watched;        /* uv events of socket_poll */
    bool blocked;       /* the socket had no room */
    bool overflowed;    /* a notice did not fit: none is carried after it */
    kvr_status pending; /* the reason to give it up at the next turn of the loop, or KVR_OK */
    char pending_detail[KVR_DETAIL_BYTES];
    struct kvr_engine_shared shared;
    struct engine_extents extents; /* of the region that comes next */
    bool holds;                    /* `held` is to be sent at the end of this turn of the loop */
    struct kvr_notice held;        /* LAYER_IN: layers that arrive together share one notice */
    struct engine_news news;       /* sent when the queue is empty */
    struct kvr_packet_queue queue;
    uint8_t *queue_memory; /* of the queue, then of the news */
};

struct kvr_engine_port {
    uv_loop_t *loop;
    struct kvr_engine_handler handler;
    struct kvr_engine_access access;
    char path[108];
    char agent[KVR_NAME_BYTES];
    int socket, pidfd; /* listening; this process, for engines to watch */
    int spare_fd; /* given up for a moment to turn an engine away when descriptors are used up */
    uv_poll_t listener;
    uv_prepare_t turn_end; /* while a link holds a notice */
    uv_timer_t beat;       /* while an engine has a shared page */
    uint32_t handles;      /* libuv handles that are not yet closed, these three included */
    uint64_t news_dropped; /* of all engines */
    uint64_t refused;      /* processes that may not attach */
    bool closing;
    struct kvr_engine_decoder *decoder;
    uint8_t received[KVR_PACKET_BYTES_MAX], sending[KVR_PACKET_BYTES_MAX];
    struct engine_link engines[KVR_ENGINES_MAX];
    uint8_t free_ring[KVR_ENGINES_MAX]; /* indexes, oldest first */
    uint32_t free_head, free_count;
};

/* Takes a connected socket (and its pidfd, or -1) into a FREE link. On failure both stay the
 * caller's. */
KVR_MUST_CHECK kvr_status engine_link_start(struct engine_link *engine, int socket, int pidfd,
                                            const struct kvr_engine_peer *peer,
                                            struct kvr_error *error);

/* Queues a notice and sends what the socket takes; a LAYER_IN at the end of the turn. */
void engine_link_notify(struct engine_link *engine, const struct kvr_notice *notice);
/* Queues the notice that the link holds. */
void engine_link_let_out(struct engine_link *engine);

/* In engine_link_region.c: REGION_ADD came. Descriptors that the handler does not take stay in
 * *fds; the caller closes them. */
void engine_link_region(struct engine_link *engine, const struct kvr_req_region *region,
                        struct kvr_packet_fds *fds);

/* Gives the engine up at the next turn of the loop. */
void engine_link_refuse(struct engine_link *engine, kvr_status why, const char *detail);

/* The owner releases the engine. */
void engine_link_release(struct engine_link *engine);

/* Closes everything at once, without a call of the handler. */
void engine_link_leave(struct engine_link *engine);

/* In engine_port.c: a link is FREE again; a handle of the port has closed. */
void engine_port_freed(struct kvr_engine_port *port, uint32_t index);
void engine_port_handle_closed(struct kvr_engine_port *port);
/* A link has a shared page: the port beats. */
void engine_port_beats(struct kvr_engine_port *port);
/* A link holds a notice. */
void engine_port_holds(struct kvr_engine_port *port);

#endif
