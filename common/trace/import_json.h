/* Request traces of JSON lines, an object each. Its members:
 *
 *     Mooncake        timestamp in milliseconds, input_length, output_length (may be missing),
 *                     hash_ids of blocks of 512 tokens (may be missing)
 *     Qwen-Bailian    the same names; timestamp in seconds, hash_ids of blocks of 16 tokens.
 * Thirty-two of them make one block of 512: its id is a hash of theirs and of the block before
 *
 * Other members are left alone. One line at a time; no state. */
#ifndef KVR_TRACE_IMPORT_JSON_H
#define KVR_TRACE_IMPORT_JSON_H

#include "trace/trace_file.h"

struct kvr_import_members {
    kvr_ns time_unit;
    uint32_t block_tokens; /* divides KVR_TRACE_BLOCK_TOKENS */
};

extern const struct kvr_import_members kvr_import_mooncake, kvr_import_bailian;

/* Adds the line's request. KVR_MALFORMED with a sentence, or what kvr_trace_add() says. */
KVR_MUST_CHECK kvr_status kvr_import_json_line(const struct kvr_import_members *members,
                                               const char *line, size_t bytes,
                                               struct kvr_trace *trace, struct kvr_error *error);

#endif
