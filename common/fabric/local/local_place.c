#include "fabric/local/local_place.h"

#include <assert.h>

static const struct local_mapping *source_of(const struct local_mappings *sources,
                                             const struct local_piece *piece,
                                             kvr_status *ret_status)
{
    uint32_t index = LOCAL_INDEX(piece->source);
    const struct local_mapping *row;

    *ret_status = KVR_NOT_FOUND;
    if (index >= sources->count || piece->source == 0)
        return NULL;
    row = &sources->rows[index];
    if (row->name != piece->source)
        return NULL;
    *ret_status = KVR_REFUSED;
    if (piece->bytes > row->bytes || piece->source_offset > row->bytes - piece->bytes)
        return NULL;
    *ret_status = KVR_OK;
    return row;
}

static const struct local_memory *target_of(const struct local_memories *targets,
                                            const struct local_piece *piece)
{
    const struct local_memory *row = &targets->rows[LOCAL_INDEX(piece->key)];

    if (piece->key == 0 || row->key != piece->key || piece->bytes > row->bytes ||
        piece->target_offset > row->bytes - piece->bytes)
        return NULL;
    return row;
}

/* Where a piece lies; its bytes are added to those of its write. */
static kvr_status ends_of(const struct local_mappings *sources,
                          const struct local_memories *targets, const struct local_piece *piece,
                          uint64_t *bytes, const struct local_mapping **ret_source,
                          const struct local_memory **ret_target)
{
    kvr_status status;

    *ret_source = source_of(sources, piece, &status);
    *ret_target = target_of(targets, piece);
    *bytes += piece->bytes;
    if (status != KVR_OK)
        return status;
    return *ret_target != NULL && *bytes <= LOCAL_WRITE_BYTES ? KVR_OK : KVR_REFUSED;
}

kvr_status local_place(const struct local_command *command, const struct local_mappings *sources,
                       const struct local_memories *targets,
                       struct local_job ret_jobs[LOCAL_COMMAND_JOBS], uint32_t *ret_count)
{
    uint64_t bytes = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < command->piece_count; i++) {
        const struct local_piece *piece = &command->pieces[i];
        const struct local_mapping *source;
        const struct local_memory *target;

        KVR_TRY(ends_of(sources, targets, piece, &bytes, &source, &target));
        if (source->pages != NULL || target->device != NULL)
            return KVR_REFUSED;
        /* In parts, so that several threads have their share of a large one. */
        for (uint32_t at = 0; at < piece->bytes; at += LOCAL_JOB_BYTES) {
            uint32_t part =
                piece->bytes - at < LOCAL_JOB_BYTES ? piece->bytes - at : LOCAL_JOB_BYTES;

            assert(count < LOCAL_COMMAND_JOBS);
            ret_jobs[count++] = (struct local_job){target->base + piece->target_offset + at,
                                                   source->base + piece->source_offset + at, part};
        }
    }
    *ret_count = count;
    return KVR_OK;
}

bool local_place_on_device(const struct local_command *command,
                           const struct local_memories *targets)
{
    const struct local_memory *target = target_of(targets, &command->pieces[0]);

    return target != NULL && target->device != NULL;
}

kvr_status local_place_moves(const struct local_command *command,
                             const struct local_mappings *sources,
                             const struct local_memories *targets,
                             struct local_move ret_moves[KVR_CHUNK_PIECES_MAX])
{
    const struct kvr_device *device = NULL;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < command->piece_count; i++) {
        const struct local_piece *piece = &command->pieces[i];
        const struct local_mapping *source;
        const struct local_memory *target;

        KVR_TRY(ends_of(sources, targets, piece, &bytes, &source, &target));
        if (source->pages == NULL || target->device == NULL || (i > 0 && target->device != device))
            return KVR_REFUSED;
        device = target->device;
        ret_moves[i] = (struct local_move){
            .source = source,
            .target = target,
            .source_offset = piece->source_offset,
            .target_offset = piece->target_offset,
            .bytes = piece->bytes,
        };
    }
    return KVR_OK;
}
