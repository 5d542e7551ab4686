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

/* One line, behind two spaces: how many of the rails of that source have pairs in trouble among
 * these, and for each rail and target since when and how often, at most RAILS_SHOWN_MAX of them.
 * Nothing where it has none. Returns how many rails those are. */
#define RAILS_SHOWN_MAX 4
unsigned pairs_print_rails(const json_t *pairs, const char *source, size_t rail_count,
                           FILE *stream);

/* For each source and target among them: a matrix, rows are rails of the source, columns those of
 * the target; below it the sentences. */
void pairs_print(const json_t *pairs, FILE *stream);

#endif
