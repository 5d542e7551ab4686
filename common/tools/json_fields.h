/* Members of JSON objects that the scheduler or an agent answered, for printers. An older program
 * may lack any of them. */
#ifndef KVR_TOOLS_JSON_FIELDS_H
#define KVR_TOOLS_JSON_FIELDS_H

#include <jansson.h>

/* otherwise: where there is no text, or an empty one. Borrowed from the object. */
static inline const char *json_text_or(const json_t *object, const char *name,
                                       const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL && text[0] != '\0' ? text : otherwise;
}

/* 0: there is no number. */
static inline double json_number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

#endif
