/* One connection, inside libkvrail. All of it belongs to the thread that uses the connection,
 * except the members that kvrail_ready reads: `page`, `doorbell` and `ended`. They are atomic, or
 * set before open returns. */
#ifndef KVR_CLIENT_CLIENT_H
#define KVR_CLIENT_CLIENT_H

#include <stdatomic.h>

#include "client/client_silence.h"
#include "client/client_sized.h"
#include "client/kvrail.h"
#include "wire/engine_message.h"
#include "wire/packet_queue.h"
#include "wire/packet_socket.h"
#include "wire/revocation_words.h"

/* Requests that the socket has no room for: one call's largest page table, twice. */
#define CLIENT_QUEUE_BYTES   (12u << 20)
/* Notices that came while kvrail_region_add waited for its own. */
#define CLIENT_STASH_BYTES   (1u << 20)
/* Payloads that one kvrail_poll may hand out. */
#define CLIENT_PAYLOAD_BYTES (4u * KVR_PACKET_BYTES_MAX)

typedef enum client_phase {
    CLIENT_LIVE,
    CLIENT_REFUSED,  /* the agent gave up this engine; its DETACHED hands the pages back */
    CLIENT_CLOSED,   /* the socket ended; the agent's pidfd hands the pages back */
    CLIENT_SETTLING, /* every open handle gets its terminal event */
    CLIENT_ENDED,
} client_phase;

typedef enum client_role { CLIENT_SOURCE, CLIENT_TARGET } client_role;

struct client_handle {
    kvrail_handle handle; /* 0: free */
    uint64_t generation;  /* counts the uses of its slot */
    client_role role;
    bool cancelled, end_said, tail_said, held;
    uint64_t tokens, skip_tokens;
    uint64_t watched_tokens; /* end of the last watch */
    uint32_t pages[KVR_GROUPS_MAX];
    uint32_t skipped_groups; /* a fetch: bits of the KV groups that skip all tokens */
    bool watched;            /* a fetch: a landed word announces its layers too */
    uint32_t landed_word;
    uint64_t landed_base;
    struct kvr_secret secret; /* of a publish */
    kvr_ns deadline;          /* of a fetch, as the agent counts it; KVR_NEVER */
    struct client_told told;
};

/* Whether the agent runs (client_watch.c). */
struct client_watch {
    int timer; /* readable when a look is due; epoll has it */
    bool on;   /* a handle is open, or the agent is silent */
    struct client_silence silence;
    kvr_ns expire_at; /* no deadline of a fetch that is not failing is earlier */
    uint32_t at;      /* the walk over the handles */
    kvr_ns at_next;   /* the earliest deadline that it found */
};

struct client_region {
    uint32_t number; /* 0: free */
    uint32_t group;
};

struct kvrail {
    client_phase phase;
    _Atomic int ended; /* every call returns this from now on; KVRAIL_OK while live */
    int socket, epoll;
    int ready_fd; /* readable while events wait that the socket does not show */
    bool ready;   /* ready_fd is readable */
    int agent_pidfd, doorbell;
    struct kvr_shared_page *page;
    uint64_t page_on_device; /* 0: the page is not lent to a GPU */
    void *page_context;      /* the context of that GPU */
    void *flush_context;     /* retained, of the GPU of our regions, if its writes of cards need a
                                flush; NULL: no flush */
    int flush_device;
    bool streamed; /* the agent knows that words may rise without a ring */
    struct kvr_revocation_words
        *revocation_words; /* NULL: no rail of the agent has targets that copy */
    char agent[KVR_NAME_BYTES];
    char address[KVR_AGENT_ADDRESS_BYTES]; /* where targets dial it; "": nowhere */
    struct kvrail_error error;

    bool blocked; /* the socket had no room; epoll watches for it */
    struct kvr_packet_queue out, stash;
    struct kvr_engine_decoder *decoder;
    uint8_t packet[KVR_PACKET_BYTES_MAX];
    size_t payload_used;
    uint8_t payloads[CLIENT_PAYLOAD_BYTES];

    struct client_watch watch;

    bool lost_said;    /* the engine has the event AGENT_LOST */
    kvr_status reason; /* KVR_OK, or the reason of REFUSED and of the handles' ends */
    char reason_detail[KVR_DETAIL_BYTES];
    uint32_t settled; /* SETTLING: slots below it have been handed back */

    struct client_handle handles[KVRAIL_HANDLES_MAX]; /* slot = handle % KVRAIL_HANDLES_MAX */
    uint16_t free_ring[KVRAIL_HANDLES_MAX];           /* slots, oldest first */
    uint32_t free_head, free_count;
    uint32_t region_last;
    uint32_t abilities; /* of the agent: bits of KVR_ABILITY_… */
    struct client_region regions[KVR_REGIONS_MAX];
    uint8_t *queue_memory;
};

/* For a call without a connection: fills *error (may be NULL) and returns its status. */
kvrail_status client_tell(struct kvrail_error *error, const struct kvr_error *from);

/* Remembers the failure and returns its status. */
kvrail_status client_fail(struct kvrail *client, kvr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, of an error that has its sentence. */
kvrail_status client_fail_as(struct kvrail *client, const struct kvr_error *error);

/* KVRAIL_OK, or the status of every call after the connection has ended. */
kvrail_status client_usable(struct kvrail *client);

/* After a store to the shared page that a sleeping agent must see. Any thread. */
void client_ring(const struct kvrail *client);

#define CLIENT_NO_CUDA                                                                             \
    "this build of libkvrail has no CUDA part: build it where a CUDA toolkit of 12.0 or later is " \
    "found"
/* The agent is gone and will not raise the fetch's word: this does, and ends each wait for it. */
void client_landed_fail(const struct kvrail *client, const struct client_handle *entry);
/* The open handle of that role, or NULL with *ret_status. */
struct client_handle *client_entry(struct kvrail *client, kvrail_handle handle, client_role role,
                                   kvrail_status *ret_status);

/* The secret of options. `text` may be NULL: a publish's is drawn then, and a fetch has none, which
 * the agent must allow. */
kvrail_status client_secret_take(struct kvrail *client, const char *text, client_role role,
                                 struct kvr_secret *ret_secret);
/* The request had one, and was sent or queued: what it left in our buffers is wiped. */
void client_secret_forget(struct kvrail *client, struct kvr_request *request);

/* Before the shared page is unmapped: takes it back from the GPU. */
void client_words_close(struct kvrail *client);

/* Sends one request, or queues it. KVRAIL_AGAIN: no room; nothing was done. */
kvrail_status client_send(struct kvrail *client, const struct kvr_request *request);

/* Sends queued requests, and lets epoll watch for room while some are left. KVR_OK: the queue is
 * empty. KVR_AGAIN: no room. KVR_PEER_LOST: the agent has closed the connection. */
kvr_status client_flush(struct kvrail *client);

/* The next notice of the stash or the socket. KVR_AGAIN: none now. KVR_PEER_LOST: the socket ended;
 * the phase has changed. */
KVR_MUST_CHECK kvr_status client_next_notice(struct kvrail *client, struct kvr_notice *ret_notice);

/* The next notice of the socket alone; the packet stays in client->packet, *ret_bytes long. */
KVR_MUST_CHECK kvr_status client_receive(struct kvrail *client, struct kvr_notice *ret_notice,
                                         size_t *ret_bytes);

/* Makes kvrail_event_fd readable, or not, for events that the socket does not show. Called after
 * each change of phase, lost_said or stash. */
void client_show_ready(struct kvrail *client);

/* A handle was opened: its agent is watched. A fetch has that deadline; 0: the agent's. */
void client_watch_begin(struct kvrail *client, struct client_handle *entry, uint32_t deadline_ms);
/* The connection ends: what becomes of the agent is seen otherwise. */
void client_watch_end(struct kvrail *client);
/* The agent is silent, and sent nothing before that which is not read yet: AGENT_BACK comes before
 * what it sends from now on. */
bool client_watch_holds(const struct kvrail *client);
/* Once all that the agent sent is read: an event of the library's own. false: none now. */
bool client_watch_event(struct kvrail *client, struct kvr_notice *ret_notice);

/* NULL: the handle has ended, or never was. */
struct client_handle *client_find(struct kvrail *client, kvrail_handle handle);
void client_forget(struct kvrail *client, struct client_handle *entry);
/* The place of a region in client->regions; NULL: there is none (0 finds a free place). */
struct client_region *client_find_region(struct kvrail *client, uint32_t region);

/* As client_send, with descriptors (borrowed) that travel with the packet: it does not queue, but
 * waits for the queue to empty. */
kvrail_status client_send_fds(struct kvrail *client, const struct kvr_request *request,
                              const struct kvr_packet_fds *fds, kvr_ns deadline);
/* Before a region that lies over several allocations: the descriptors of all of them. */
kvrail_status client_extents_send(struct kvrail *client, const struct kvrail_region *region,
                                  uint32_t number, kvr_ns deadline);
/* The VMM allocation that is mapped at that device address of this process, from the address on.
 * The caller closes the descriptor. */
KVR_MUST_CHECK kvr_status client_extent_open(uint64_t address, uint64_t *ret_base,
                                             struct kvrail_allocation *ret_allocation,
                                             struct kvr_error *error);

/* A dmabuf of the region's device memory, the caller's; -1: the driver gives none. */
int client_dmabuf_of(const struct kvrail_region *region, uint64_t *ret_offset);
/* Names the GPU of an ordinal of this process; unchanged where there is no driver, or no such GPU.
 */
void client_gpu_name(int32_t ordinal, struct kvr_gpu *gpu);

/* The order of writes of cards to that GPU. From here on the connection flushes them if need be. */
kvr_write_order client_flush_open(struct kvrail *client, int32_t ordinal);
void client_flush_close(struct kvrail *client);
/* Before a notice that announces bytes goes to the engine. If the flush fails, the notice changes:
 * no byte is known to be right. False: the notice announced nothing else, and is dropped. */
bool client_flush_before(struct kvrail *client, struct kvr_notice *notice);

/* Milliseconds left until `deadline`, 0 when it has passed. */
int client_ms_left(kvr_ns deadline);

#endif
