/* One line of a Mooncake request trace (FAST'25 release), a JSON object:
 *
 *   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, … , 2353]}
 *
 *   timestamp      milliseconds since the start of the trace; whole or fractional, ≥ 0
 *   input_length   tokens of the prompt, ≥ 1
 *   output_length  tokens generated, ≥ 0; may be missing
 *   hash_ids       one id for every 512 tokens of the input, the last block partial, so that there
 *                  are ceil(input_length / 512); an id is a hash of the whole prefix; may be
 * missing
 *
 * Other members are ignored. */
#ifndef KVR_TRACE_IMPORT_MOONCAKE_H
#define KVR_TRACE_IMPORT_MOONCAKE_H

#include "trace/trace_file.h"

/* Appends the line's request. KVR_MALFORMED with a sentence that names the member. */
KVR_MUST_CHECK kvr_status kvr_import_mooncake_line(const char *line, size_t bytes,
                                                   struct kvr_trace *trace,
                                                   struct kvr_error *error);

#endif
