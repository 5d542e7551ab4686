/* Where the bytes of a command are and where they go: what its numbers name, looked up in tables
 * that no other process can touch. Pure. */
#ifndef KVR_FABRIC_LOCAL_PLACE_H
#define KVR_FABRIC_LOCAL_PLACE_H

#include "fabric/local/local_copy.h"
#include "fabric/local/local_ring.h"

struct kvr_device;
struct kvr_device_memory;
struct local_pages;

#define LOCAL_MEMORIES_MAX 32768u      /* of one rail: every region of every engine */
#define LOCAL_WRITE_BYTES  (16u << 20) /* of one write */
#define LOCAL_JOB_BYTES    (256u << 10)
/* What one command can come to: a job for each piece, and one more for each full job in it. */
#define LOCAL_COMMAND_JOBS (KVR_CHUNK_PIECES_MAX + LOCAL_WRITE_BYTES / LOCAL_JOB_BYTES)

/* A row's index is in the low bits of its key or name; the rest must be right as well. */
#define LOCAL_INDEX(key_or_name) ((uint32_t)(key_or_name) % LOCAL_MEMORIES_MAX)

/* Memory of ours that may be written to. */
struct local_memories {
    struct local_memory {
        uint64_t key; /* 0: none */
        uint8_t *base;
        uint64_t bytes;
        struct kvr_device *device; /* that moves its pages, and has no base for us; NULL: none */
        struct kvr_device_memory *pages;
    } * rows; /* LOCAL_MEMORIES_MAX */
};

/* Memory of a writer as we have mapped it, for reading. */
struct local_mappings {
    struct local_mapping {
        uint32_t name; /* 0: none */
        const uint8_t *base;
        uint64_t bytes;
        struct local_pages *pages; /* a device's, which have no base for us; NULL: they are not */
    } * rows;
    uint32_t count;
};

/* Adds the copies that a command asks for. KVR_NOT_FOUND: a source that is not mapped (yet).
 * KVR_REFUSED: a target's key that is not known, or a place outside. On failure nothing counts. */
KVR_MUST_CHECK kvr_status local_place(const struct local_command *command,
                                      const struct local_mappings *sources,
                                      const struct local_memories *targets,
                                      struct local_job ret_jobs[LOCAL_COMMAND_JOBS],
                                      uint32_t *ret_count);

/* One piece that a device is to move. */
struct local_move {
    const struct local_mapping *source;
    const struct local_memory *target;
    uint64_t source_offset, target_offset, bytes;
};

/* Whether its target is a device's. */
bool local_place_on_device(const struct local_command *command,
                           const struct local_memories *targets);
/* As local_place, of a command between pages of devices, all of one at the target. */
KVR_MUST_CHECK kvr_status local_place_moves(const struct local_command *command,
                                            const struct local_mappings *sources,
                                            const struct local_memories *targets,
                                            struct local_move ret_moves[KVR_CHUNK_PIECES_MAX]);

#endif
