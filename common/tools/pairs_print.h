/* How the rails of a source reach those of a target, for people: from the array `pairs` that
 * /api/v1/rails/matrix answers. */
#ifndef KVR_TOOLS_PAIRS_PRINT_H
#define KVR_TOOLS_PAIRS_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The path of the API; NULL: any. */
#define PAIRS_PATH_BYTES 512
void pairs_path(const char *source, const char *target, char ret_path[PAIRS_PATH_BYTES]);

/* How many carry no writes, or few: all but up, warming and warm. NULL: 0. */
unsigned pairs_count_troubled(const json_t *pairs);
/* A sentence for each of them, each behind two spaces; at most `most` of
 * them, then how many more. */
void pairs_print_troubled(const json_t *pairs, bool with_bytes, unsigned most, FILE *stream);

/* For each source and target among them: a matrix, rows are rails of the source, columns those of
 * the target; below it the sentences. */
void pairs_print(const json_t *pairs, FILE *stream);

#endif
