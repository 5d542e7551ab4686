/* What a scheduler knows, for people: agents, rails, recent transfers, and what is odd about them.
 */
#ifndef KVR_TOOLS_STATUS_PRINT_H
#define KVR_TOOLS_STATUS_PRINT_H

#include <jansson.h>
#include <stdio.h>

/* The answers of /api/v1/agents and /api/v1/transfers; opened: those of that state. What is missing
 * or of another type in them is printed as "-". */
void status_print(const json_t *agents, const json_t *transfers, const json_t *opened,
                  FILE *stream);

#endif
