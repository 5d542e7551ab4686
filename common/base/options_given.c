/* What a program was given beside its defaults. */
#include <stdlib.h>
#include <string.h>

#include "base/option_value.h"
#include "base/options_help.h"

#define VALUE_BYTES 2048
#define CUT         " ..."

static bool is_reported(const struct kvr_option *option)
{
    return option->reported ||
           (option->type != KVR_OPTION_TYPE_STRING && option->type != KVR_OPTION_TYPE_LIST);
}

/* values: the struct that the row fills. */
static bool is_default(const struct kvr_option *option, const void *values)
{
    char *defaults = calloc(1, option->offset + option->bytes);
    bool same = false;

    if (defaults != NULL &&
        (option->fallback == NULL ||
         kvr_option_value_set(option, option->fallback, defaults, NULL) == KVR_OK))
        same = kvr_option_value_same(option, (const char *)values + option->offset,
                                     defaults + option->offset);
    free(defaults);
    return same;
}

struct room {
    char *text;
    size_t used, bytes; /* bytes: without what CUT needs */
};

/* False: it does not fit, and room->used stays. */
static bool append(struct room *room, const char *name, const char *value)
{
    size_t used = room->used;

    used +=
        (size_t)snprintf(room->text + used, room->bytes - used, "%s%s=", used > 0 ? " " : "", name);
    for (; *value != '\0' && used < room->bytes; value++) {
        bool plain = (unsigned char)*value > ' ' && *value != '%';

        used += (size_t)snprintf(room->text + used, room->bytes - used, plain ? "%c" : "%%%02X",
                                 (unsigned char)*value);
    }
    if (used >= room->bytes)
        return false;
    room->used = used;
    return true;
}

void kvr_options_given(const struct kvr_command *command, const void *config, char *text,
                       size_t bytes)
{
    struct room room = {text, 0, bytes - (sizeof(CUT) - 1)};
    char value[VALUE_BYTES];
    bool fits = true;

    for (size_t i = 0; i < kvr_command_rows(command) && fits; i++) {
        const struct kvr_option *option = kvr_command_row(command, i);
        const char *values = (const char *)config + kvr_command_row_offset(command, i);

        if (is_reported(option) && !is_default(option, values))
            fits = append(&room, option->name,
                          kvr_option_value_print(option, values, value, sizeof(value)));
    }
    strcpy(text + room.used, fits ? "" : CUT);
}
