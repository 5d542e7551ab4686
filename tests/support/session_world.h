/* Two sessions over two pipes of bytes in virtual time: a target that dials and a source. The test
 * says how many bytes reach the other side and when, breaks the connection and lets time pass. Each
 * end counts the messages that came, and its sessions' ends. One world at a time. */
#ifndef KVR_TESTS_SESSION_WORLD_H
#define KVR_TESTS_SESSION_WORLD_H

#include "wire/frame.h"
#include "wire/session.h"

#define BEAT_MS    1000
#define PIPE_BYTES (KVR_FRAME_BYTES_MAX + 8192) /* what a side may write before the other reads */
#define TRANSFERS  6

enum side { TARGET, SOURCE, SIDES };

struct end {
    struct kvr_session *session;
    void *memory;
    struct kvr_msg_hello hello;
    struct kvr_frame_parser parser; /* of what arrives here */
    uint8_t *parser_memory;
    uint8_t *pipe; /* what this side wrote and the other has not read */
    size_t pipe_start, pipe_end, pipe_capacity;
    bool blocked;
    uint32_t begun, lost, writable;
    kvr_status lost_status;
    char lost_detail[KVR_DETAIL_BYTES];
    /* messages carry a counter: what was sent, and what came by class and transfer */
    uint32_t sent, came, last_bulk, last_of[TRANSFERS];
};

struct session_world {
    uint64_t seed; /* when not 0: no session may be lost, and a failure names this seed */
    kvr_ns now;
    bool connected;
    bool adopted; /* the source writes to this connection, not to one that it believes to be up */
    bool silent[SIDES]; /* its bytes stay in the pipe */
    struct end ends[SIDES];
};
extern struct session_world world;

/* cmocka's group fixtures. */
int world_open(void **state);
int world_close(void **state);

/* Two sessions that have never met. */
void new_world(void);
void connect_both(void);
void cut(bool source_notices);
/* A new world, connected, and both sides have heard the other's hello. */
void meet(void);

/* At most `most` bytes that `from` wrote reach the other side. */
void deliver(enum side from, size_t most);
/* Everything reaches the other side, until nothing is on its way. */
void settle(void);
void pass(uint64_t ms);

/* A message that carries the sender's next counter. */
kvr_status send_kind(enum side side, kvr_message_kind kind, uint32_t transfer, uint32_t run_count);

#endif
