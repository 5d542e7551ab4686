/* The engines of this host: accepts them on a Unix socket, decodes their requests, sends them
 * notices. Loop thread only; the handler decides.
 *
 * An engine is an index 0 … KVR_ENGINES_MAX - 1. Its life:
 *
 * - up: a good ATTACH came; the handler may refuse. Its shared page and doorbell exist already.
 * - region, request: in the order in which the engine sent them.
 * - down: exactly once for every up that returned KVR_OK. The engine died or detached, or was given
 *   up by us (garbage, notices that it never reads, kvr_engine_port_refuse). No request comes any
 *   more; notices are still carried to an engine that lives.
 * - kvr_engine_port_release: by the owner, when the agent does not touch the engine's memory or its
 *   shared page any more. An engine that lives gets DETACHED and takes its pages back. The index is
 *   used again only after that, oldest first.
 *
 * Engines see that the agent runs: while one is attached, a timer stores the time in every shared
 * page once a KVR_ENGINE_BEAT_NS.
 *
 * In every callback every function here may be called, except kvr_engine_port_close. Bounds: an
 * engine's unread notices take KVR_ENGINE_PORT_QUEUE_BYTES; past it the engine is given up, and
 * the queued notices are still sent, so that no terminal notice is lost unnoticed. */
#ifndef KVR_AGENT_ENGINE_PORT_H
#define KVR_AGENT_ENGINE_PORT_H

#include <uv.h>

#include "agent/engine/engine_access.h"
#include "base/clock.h"
#include "base/extents.h"
#include "base/status.h"
#include "wire/engine_message.h"

struct kvr_engine_port;

/* The descriptors of a region and its memory. */
struct kvr_region_memory {
    int fd;                      /* -1: CUDA_IPC, or extents */
    int dmabuf;                  /* of the same memory, for cards; -1: none */
    struct kvr_extents *extents; /* NULL: the region has one descriptor at most */
};
/* Releases all of it, and leaves nothing. */
void kvr_region_memory_close(struct kvr_region_memory *memory);

struct kvr_engine_handler {
    void *self;
    bool without_secret;  /* says so to every engine: a request needs no secret */
    uint32_t deadline_ms; /* of a fetch that names none; 0: this agent has no fetches */
    const char *address;  /* goes to every engine: where targets dial us; stays yours; NULL: none */
    const struct kvr_engine_access *access; /* copied; NULL: processes of our user and of root */
    /* Those that a process may act for, a bit each: kvr_engine_port_peer has it. NULL: all. */
    uint32_t (*tenants)(void *self, int socket, const struct kvr_engine_peer *peer);
    /* May be NULL: a process that may not attach was refused with this sentence; for the log. */
    void (*stranger)(void *self, const char *detail);
    /* Not KVR_OK: the engine gets the sentence and is closed; no down, no release. */
    kvr_status (*up)(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_attach *attach,
                     struct kvr_error *error);
    /* May be NULL: none. After up: the engine's own revocation words (wire/revocation_words.h),
     * which it gets with ATTACHED. The descriptor stays yours; -1: none. */
    int (*revocation_words)(void *self, uint32_t engine);
    /* Takes the memory's descriptors and the reference to its extents. A memfd was checked: it
     * cannot shrink and holds fd_offset + layout.bytes. The layout and a dmabuf were not: that is
     * the handler's duty. Answered later by a notice REGION_READY or REGION_GONE; its handle is
     * layout.region. */
    void (*region)(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                   const struct kvr_region_memory *memory);
    /* Every other kind but ATTACH, REGION_ADD, REGION_EXTENTS, DETACH and PAIRS. Borrowed for the
     * call. */
    void (*request)(void *self, kvr_ns now, uint32_t engine, const struct kvr_request *request);
    /* A process that is no engine asks how rails reach each other: notices PAIRS go to `engine`,
     * which is a number for this call alone. Not KVR_OK: there are none, with a sentence. */
    kvr_status (*pairs)(void *self, kvr_ns now, uint32_t engine, struct kvr_error *error);
    /* KVR_ENGINE_LOST: it died. KVR_CANCELLED: it detached. Else the reason to give it up. */
    void (*down)(void *self, kvr_ns now, uint32_t engine, kvr_status why, const char *detail);
};

#define KVR_ENGINE_PORT_QUEUE_BYTES (4u << 20)
#define KVR_ENGINE_PORT_ATTACH_MS   5000 /* from connect to ATTACH, or to the end of PAIRS */

/* Listens on `path` (mode 0600, or as handler.access needs). A socket that a dead process left is
 * replaced; a live one, or a file that is no socket, is refused: KVR_EXISTS. `agent` is the name
 * that engines get. All are copied. Errors have the sentence. */
KVR_MUST_CHECK kvr_status kvr_engine_port_open(uv_loop_t *loop, const char *path, const char *agent,
                                               const struct kvr_engine_handler *handler,
                                               struct kvr_engine_port **ret_port,
                                               struct kvr_error *error);

/* Closes every engine and unlinks the path; no callback comes any more. Pages are unmapped: no
 * thread may poll them now. The loop must run until its handles are closed. NULL is fine. */
void kvr_engine_port_close(struct kvr_engine_port *port);

/* Sends one notice, or queues it; `notice` is borrowed. Nothing for an engine that is dead. */
void kvr_engine_port_notify(struct kvr_engine_port *port, uint32_t engine,
                            const struct kvr_notice *notice);

/* Gives an engine up with this sentence; down follows from the loop. */
void kvr_engine_port_refuse(struct kvr_engine_port *port, uint32_t engine, kvr_status why,
                            const char *detail);

/* See above. Once for every up that returned KVR_OK, after down or inside it. */
void kvr_engine_port_release(struct kvr_engine_port *port, uint32_t engine);

/* The engine's readiness words, from up to release. NULL: no such engine. Any thread may read it.
 */
struct kvr_shared_page *kvr_engine_port_page(const struct kvr_engine_port *port, uint32_t engine);

/* The process of an engine, from up to release; NULL: no such engine. Borrowed. */
const struct kvr_engine_peer *kvr_engine_port_peer(const struct kvr_engine_port *port,
                                                   uint32_t engine);

/* Processes that were refused because of their user and groups, since the start. */
uint64_t kvr_engine_port_refused(const struct kvr_engine_port *port);

/* Notices of no handle that were dropped because an engine did not read, since the start. */
uint64_t kvr_engine_port_news_dropped(const struct kvr_engine_port *port);

/* The eventfd that the engine writes when it finds `asleep` set; the rail thread reads it. From up
 * to release, the port's. -1: no such engine. */
int kvr_engine_port_doorbell(const struct kvr_engine_port *port, uint32_t engine);

#endif
