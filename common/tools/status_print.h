/* What a scheduler knows, for people: agents, rails, recent transfers, and what is odd about them.
 */
#ifndef KVR_TOOLS_STATUS_PRINT_H
#define KVR_TOOLS_STATUS_PRINT_H

#include <stdio.h>

#include "tools/status_answers.h"

/* As much as fits on a screen (status_screen.h), worst first; all: everything. What is missing or
 * of another type in the answers is printed as "-". */
void status_print(const struct status_answers *answers, const json_t *findings, bool all,
                  FILE *stream);
/* What --check says: a sentence for each finding, or that all is well. */
void status_print_check(const json_t *findings, FILE *stream);

#endif
