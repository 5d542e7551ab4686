/* What a scheduler knows, for people: agents, rails, recent transfers, and what is odd about them.
 */
#ifndef KVR_TOOLS_STATUS_PRINT_H
#define KVR_TOOLS_STATUS_PRINT_H

#include <jansson.h>
#include <stdio.h>

/* The answers of /api/v1. What is missing or of another type in them is printed as "-". */
struct status_answers {
    json_t *summary, *agents, *transfers;
    json_t *opened;   /* transfers of that state */
    json_t *troubles; /* pairs of rails in trouble; NULL: the scheduler does not know */
};

void status_print(const struct status_answers *answers, FILE *stream);

#endif
