/* What a scheduler says of its fleet: the answers of /api/v1. An older scheduler may lack members.
 */
#ifndef KVR_TOOLS_STATUS_ANSWERS_H
#define KVR_TOOLS_STATUS_ANSWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "tools/json_fields.h"

struct status_answers {
    json_t *summary, *agents, *transfers;
    json_t *opened;   /* transfers of that state */
    json_t *troubles; /* pairs of rails in trouble; NULL: the scheduler does not know */
};

/* Whether the member is this word. */
static inline bool status_is(const json_t *object, const char *name, const char *word)
{
    return strcmp(json_text_or(object, name, "-"), word) == 0;
}

/* A source holds its pages, and no target has asked for them. */
static inline bool status_is_held(const json_t *transfer)
{
    return status_is(transfer, "state", "opened") &&
           !status_is(json_object_get(transfer, "source"), "agent", "-") &&
           status_is(json_object_get(transfer, "target"), "agent", "-");
}

#endif
