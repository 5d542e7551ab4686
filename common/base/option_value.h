/* The text of one option's value into its field. Part of options. */
#ifndef KVR_BASE_OPTION_VALUE_H
#define KVR_BASE_OPTION_VALUE_H

#include "base/options.h"
#include "base/status.h"

/* Writes the field in *config; a list is appended to. What is not allowed is KVR_INVALID with a
 * sentence in *error that says what would be: "must be …". The field is then untouched. */
KVR_MUST_CHECK kvr_status kvr_option_value_set(const struct kvr_option *option, const char *text,
                                               void *config, struct kvr_error *error);
/* The field's value as it could be typed, cut to the room there is. Returns text. */
char *kvr_option_value_print(const struct kvr_option *option, const void *config, char *text,
                             size_t bytes);
/* Both hold the same value; a and b: the fields. */
bool kvr_option_value_same(const struct kvr_option *option, const void *a, const void *b);
/* What to type in --help: "SIZE", "tcp|local". */
const char *kvr_option_value_hint(const struct kvr_option *option);

#endif
