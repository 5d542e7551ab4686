/* The memory that a writer and a target of one host share: writes one way, their outcome back.
 *
 * A memfd that the writer makes and that cannot change its size, one for each link. The writer puts
 * a command at `posted % LOCAL_WRITES`, then counts `posted` up. The target copies the pieces, puts
 * each outcome into `failed`, then counts `done` up. Both counts wrap. Commands are taken and done
 * in order. `asleep` says that the side sleeps on its socket: the side that adds something
 * exchanges it for 0 and rings.
 *
 * The other process may write anything here at any time. So each side keeps its own counts and only
 * compares; a command is copied out before anything in it is read; and names are looked up in
 * tables that are not shared. */
#ifndef KVR_FABRIC_LOCAL_RING_H
#define KVR_FABRIC_LOCAL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

#define LOCAL_WRITES 256u /* on their way on one link */

struct local_piece {
    uint64_t key, target_offset; /* of the target's memory */
    uint64_t source_offset;
    uint32_t source; /* the writer's name of its memory */
    uint32_t bytes;
};

struct local_command {
    uint64_t immediate;
    uint32_t piece_count;
    struct local_piece pieces[KVR_CHUNK_PIECES_MAX];
};

enum local_failed {
    LOCAL_ARRIVED,
    LOCAL_FAILED,
    LOCAL_UNCOPIED, /* by its device, which is no fault of the link */
};

enum local_side {
    LOCAL_WRITER,
    LOCAL_TARGET,
};

struct local_shared {
    _Alignas(64) _Atomic uint32_t posted; /* the writer's */
    _Atomic uint32_t ended;               /* the writer's: not 0: nothing more may be read */
    _Alignas(64) _Atomic uint32_t done;   /* the target's */
    _Alignas(64) _Atomic uint32_t asleep[2];
    _Atomic uint8_t failed[LOCAL_WRITES]; /* enum local_failed */
    _Alignas(64) struct local_command commands[LOCAL_WRITES];
};

/* Writer: makes the command that it filled at local_ring_next visible. */
static inline struct local_command *local_ring_next(struct local_shared *shared, uint32_t posted)
{
    return &shared->commands[posted % LOCAL_WRITES];
}

static inline void local_ring_post(struct local_shared *shared, uint32_t posted)
{
    atomic_store_explicit(&shared->posted, posted + 1, memory_order_release);
}

/* Writer: how many of those from `settled` to `posted` are done. KVR_MALFORMED: a count that cannot
 * be. */
KVR_MUST_CHECK kvr_status local_ring_done(const struct local_shared *shared, uint32_t settled,
                                          uint32_t posted, uint32_t *ret_count);
/* Writer: what became of one that is done. */
kvr_status local_ring_outcome(const struct local_shared *shared, uint32_t index);

/* Target: how many commands wait from `taken` on. KVR_MALFORMED as above. */
KVR_MUST_CHECK kvr_status local_ring_waiting(const struct local_shared *shared, uint32_t taken,
                                             uint32_t *ret_count);
/* Target: a copy of one of them. KVR_MALFORMED: it has no pieces, or more than there can be. */
KVR_MUST_CHECK kvr_status local_ring_take(const struct local_shared *shared, uint32_t index,
                                          struct local_command *ret_command);
/* Target: `count` from `taken` on are done. */
void local_ring_finish(struct local_shared *shared, uint32_t taken, const kvr_status *outcomes,
                       uint32_t count);

/* Says that this side is about to sleep; what it looks at next it sees, or it is rung for. */
void local_ring_sleep(struct local_shared *shared, enum local_side side);
/* It looks by itself again. */
void local_ring_wake(struct local_shared *shared, enum local_side side);
/* After something was added for that side: true, it must be rung. */
bool local_ring_must_wake(struct local_shared *shared, enum local_side side);

#endif
