/* Staged landings: copies bring what arrived in staging memory into the pages. */
#ifndef DECODE_AGENT_LAND_STAGE_H
#define DECODE_AGENT_LAND_STAGE_H

#include "decode-agent/land_message.h"
#include "device/stage.h"

struct land;

#define LAND_SCATTER_CHUNKS 64u /* of one copy */

/* The loop sets the first five. */
struct landing_staging {
    struct kvr_stage *stage; /* NULL: writes arrive in the pages */
    uint64_t offset, bytes;  /* of the quota in the stage's memory */
    uint64_t room_step;      /* LAND_ROOM after so many bytes more; 0: the quota holds all */
    uint64_t *taken;         /* a bit for each chunk: given to a copy */
    struct landing *next;    /* of the staged landings */
    uint32_t waiting;        /* chunks that arrived and were not given to a copy */
    uint32_t copying;        /* copies under way */
    uint32_t scan;           /* where to look for waiting chunks: a word of bits */
    uint32_t taken_end;      /* chunks before it were given to copies */
    uint64_t room_reported;
    bool failed; /* a copy failed, and that was reported */
};

/* What a group's thread keeps of a stage (kvr_stage.user). */
struct land_stage {
    struct kvr_stage *stage;
    uint32_t copying;
    struct land_copy {
        struct landing *landing; /* NULL: free */
        uint32_t chunk_count, chunks[LAND_SCATTER_CHUNKS];
        uint32_t chunk_least; /* of chunks */
        uint32_t read_end;    /* of a copy that reads back; 0: it scatters */
    } copies[KVR_DEVICE_COPIES_MAX];
};

void land_stage_open(struct land *land, struct landing *landing);
void land_stage_close(struct land *land, struct landing *landing);
/* Where a chunk of the segment arrived. */
const uint8_t *land_staged_at(const struct landing *landing, const struct landing_segment *segment,
                              uint32_t chunk);
/* Copies the next chunks that have digests back from the pages into the quota: a digest is of the
 * bytes in the pages. False: the device takes no more now. */
bool land_stage_read(struct land *land, struct landing *landing);
/* Takes the copies that have ended; true: there was one. */
bool land_stage_take(struct land *land);
/* Gives what arrived to the devices; true: they took some. */
bool land_stage_begin(struct land *land);
/* Copies are under way. */
bool land_stage_busy(const struct land *land);
/* Reports room, after a copy has ended or a segment has come. */
void land_stage_room(struct land *land, struct landing *landing);
/* Reports the failure, once. */
void land_copy_failed(struct land *land, struct landing *landing);

#endif
