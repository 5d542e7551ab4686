#include "base/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/url.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"k", 1024},
    {"KiB", 1024},
    {"M", 1024 * 1024},
    {"MiB", 1024 * 1024},
    {"G", 1024 * 1024 * 1024},
    {"GiB", 1024 * 1024 * 1024},
    {NULL, 0},
};

static const struct unit duration_units[] = {
    {"ns", 1},           {"us", KVR_US},           {"ms", KVR_MS},
    {"s", KVR_S},        {"min", 60 * KVR_S},      {"m", 60 * KVR_S},
    {"h", 3600 * KVR_S}, {"d", 24 * 3600 * KVR_S}, {NULL, 0},
};

static const struct unit count_units[] = {{"", 1}, {NULL, 0}};

static void *field_of(const struct kvr_option *option, void *config)
{
    return (unsigned char *)config + option->offset;
}

static uint64_t max_of(const struct kvr_option *option)
{
    return option->max != 0 ? option->max : UINT64_MAX;
}

/* NULL: there is none of that name. */
static const struct unit *find_unit(const struct unit *units, const char *name)
{
    while (units->name != NULL && strcasecmp(name, units->name) != 0)
        units++;
    return units->name != NULL ? units : NULL;
}

/* The digits behind a point, in parts of `factor`. */
static uint64_t read_fraction(const char *digits, uint64_t factor)
{
    double part = 0, place = (double)factor;

    for (; isdigit((unsigned char)*digits); digits++) {
        place /= 10;
        part += place * (*digits - '0');
    }
    return (uint64_t)(part + 0.5);
}

/* "64", "k" → 64 · 1024; a time may have a fraction. False: no number with one of the units, or too
 * large. */
static bool read_number(const char *text, const struct unit *units, uint64_t *ret_value)
{
    const char *fraction = "";
    const struct unit *unit;
    char *end;
    uint64_t value;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (units == duration_units && end[0] == '.' && isdigit((unsigned char)end[1])) {
        fraction = end + 1;
        end += 1 + strspn(fraction, "0123456789");
    }
    unit = find_unit(units, end);
    return unit != NULL && !__builtin_mul_overflow(value, unit->factor, &value) &&
           !__builtin_add_overflow(value, read_fraction(fraction, unit->factor), ret_value);
}

/* A bound as a person would type it: in the largest unit that gives a whole number. */
static char *print_number(uint64_t value, const struct unit *units, char text[32])
{
    const struct unit *best = units;

    for (const struct unit *u = units; u->name != NULL; u++) {
        if (value != 0 && value % u->factor == 0 && u->factor > best->factor)
            best = u;
    }
    snprintf(text, 32, "%" PRIu64 "%s", value / best->factor, best->name);
    return text;
}

static kvr_status set_number(const struct kvr_option *option, const struct unit *units,
                             const char *example, const char *text, void *config,
                             struct kvr_error *error)
{
    char min[32], max[32];
    uint64_t value;

    if (!read_number(text, units, &value))
        return kvr_error_set(error, KVR_INVALID, "options", "must be %s", example);
    print_number(option->min, units, min);
    print_number(max_of(option), units, max);
    if (value < option->min && max_of(option) == UINT64_MAX)
        return kvr_error_set(error, KVR_INVALID, "options", "must be at least %s", min);
    if (value < option->min || value > max_of(option))
        return kvr_error_set(error, KVR_INVALID, "options", "must be from %s to %s", min, max);
    memcpy(field_of(option, config), &value, sizeof(value));
    return KVR_OK;
}

static kvr_status set_duration(const struct kvr_option *option, const char *text, void *config,
                               struct kvr_error *error)
{
    kvr_ns never = KVR_NEVER, zero = 0;
    char in_seconds[32];

    if (max_of(option) == UINT64_MAX && strcmp(text, "never") == 0) {
        memcpy(field_of(option, config), &never, sizeof(never));
        return KVR_OK;
    }
    if (option->min == 0 && strcmp(text, "0") == 0) {
        memcpy(field_of(option, config), &zero, sizeof(zero));
        return KVR_OK;
    }
    if (option->seconds && text[strspn(text, "0123456789.")] == '\0') {
        snprintf(in_seconds, sizeof(in_seconds), "%ss", text);
        text = in_seconds;
    }
    return set_number(option, duration_units, "a number with us, ms, s, min, h or d, as in 250ms",
                      text, config, error);
}

static kvr_status set_string(const struct kvr_option *option, const char *text, void *config,
                             struct kvr_error *error)
{
    size_t length = strlen(text);

    if (length >= option->bytes)
        return kvr_error_set(error, KVR_INVALID, "options", "must have at most %zu characters",
                             option->bytes - 1);
    if (length == 0 && option->required)
        return kvr_error_set(error, KVR_INVALID, "options", "must not be empty");
    memcpy(field_of(option, config), text, length + 1);
    return KVR_OK;
}

/* The address with its port, which may be the option's own, behind its scheme, if it has one. */
static kvr_status complete_address(const struct kvr_option *option, const char *text,
                                   char ret_text[KVR_URL_BYTES], struct kvr_error *error)
{
    size_t scheme = option->url ? kvr_url_scheme(text) : 0;
    int port = option->port != 0 ? option->port : -1;
    struct kvr_address address;

    if (kvr_address_parse(text + scheme, port, NULL, &address) != KVR_OK)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "must be %shost:port or [IPv6]:port, as in 10.0.0.7:%d",
                             port > 0 ? "host, " : "", port > 0 ? port : 18900);
    memcpy(ret_text, text, scheme);
    kvr_address_print(&address, ret_text + scheme);
    return KVR_OK;
}

static kvr_status set_address(const struct kvr_option *option, const char *text, void *config,
                              struct kvr_error *error)
{
    char complete[KVR_URL_BYTES] = "";

    if (text[0] != '\0' && complete_address(option, text, complete, error) != KVR_OK)
        return KVR_INVALID;
    return set_string(option, complete, config, error);
}

static const char *choices_of(const struct kvr_option *option)
{
    return option->choices_from != NULL ? option->choices_from() : option->choices;
}

/* words: "tcp|verbs", or NULL. */
static bool is_one_of(const char *words, const char *text)
{
    size_t length = strlen(text);

    while (words != NULL) {
        const char *end = strchrnul(words, '|');

        if ((size_t)(end - words) == length && memcmp(words, text, length) == 0)
            return true;
        words = *end == '|' ? end + 1 : NULL;
    }
    return false;
}

static kvr_status set_choice(const struct kvr_option *option, const char *text, void *config,
                             struct kvr_error *error)
{
    const char *removed = option->removed != NULL ? option->removed(text) : NULL;

    if (removed != NULL)
        return kvr_error_set(error, KVR_INVALID, "options", "%s", removed);
    if (is_one_of(choices_of(option), text) || is_one_of(option->choices_hidden, text))
        return set_string(option, text, config, error);
    return kvr_error_set(error, KVR_INVALID, "options", "must be one of %s", choices_of(option));
}

static kvr_status set_bool(const struct kvr_option *option, const char *text, void *config,
                           struct kvr_error *error)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};

    for (size_t i = 0; i < 4; i++) {
        bool is_yes = strcasecmp(text, yes[i]) == 0;

        if (is_yes || strcasecmp(text, no[i]) == 0) {
            memcpy(field_of(option, config), &is_yes, sizeof(is_yes));
            return KVR_OK;
        }
    }
    return kvr_error_set(error, KVR_INVALID, "options", "must be yes or no");
}

static kvr_status add_items(const struct kvr_option *option, const char *text, void *config,
                            struct kvr_error *error)
{
    struct kvr_option_list *list = field_of(option, config);
    uint32_t max = option->max != 0 ? (uint32_t)option->max : KVR_OPTION_LIST_MAX;
    uint32_t count = list->count;

    while (*text != '\0') {
        char item[KVR_OPTION_ITEM_BYTES], complete[KVR_URL_BYTES];
        const char *end = strchrnul(text, ',');
        size_t length;

        while (isspace((unsigned char)*text))
            text++;
        length = (size_t)(end - text);
        while (length > 0 && isspace((unsigned char)text[length - 1]))
            length--;
        if (length == 0 || length >= KVR_OPTION_ITEM_BYTES)
            return kvr_error_set(error, KVR_INVALID, "options",
                                 "must have items of 1 to %d characters, separated by commas",
                                 KVR_OPTION_ITEM_BYTES - 1);
        if (count >= max || count >= KVR_OPTION_LIST_MAX)
            return kvr_error_set(error, KVR_INVALID, "options", "must have at most %u items", max);
        memcpy(item, text, length);
        item[length] = '\0';
        if (option->port != 0) {
            if (complete_address(option, item, complete, error) != KVR_OK)
                return KVR_INVALID;
            if (strlen(complete) >= KVR_OPTION_ITEM_BYTES)
                return kvr_error_set(error, KVR_INVALID, "options", "has a host name too long");
            strcpy(item, complete);
        }
        strcpy(list->items[count++], item);
        text = *end == ',' ? end + 1 : end;
    }
    list->count = count;
    return KVR_OK;
}

kvr_status kvr_option_value_set(const struct kvr_option *option, const char *text, void *config,
                                struct kvr_error *error)
{
    switch (option->type) {
    case KVR_OPTION_TYPE_STRING:
        return set_string(option, text, config, error);
    case KVR_OPTION_TYPE_ADDRESS:
        return set_address(option, text, config, error);
    case KVR_OPTION_TYPE_CHOICE:
        return set_choice(option, text, config, error);
    case KVR_OPTION_TYPE_LIST:
        return add_items(option, text, config, error);
    case KVR_OPTION_TYPE_BOOL:
        return set_bool(option, text, config, error);
    case KVR_OPTION_TYPE_COUNT:
        return set_number(option, count_units, "a whole number", text, config, error);
    case KVR_OPTION_TYPE_SIZE:
        return set_number(option, size_units, "a number of bytes, or one with k, M or G, as in 64M",
                          text, config, error);
    case KVR_OPTION_TYPE_DURATION:
        return set_duration(option, text, config, error);
    }
    return kvr_error_set(error, KVR_INTERNAL, "options", "has an unknown type");
}

static char *print_list(const struct kvr_option_list *list, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < list->count && used < bytes; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? "," : "", list->items[i]);
    return text;
}

static char *print_units(const void *field, const struct unit *units, char *text, size_t bytes)
{
    char number[32];
    uint64_t value;

    memcpy(&value, field, sizeof(value));
    if (units == duration_units && value == KVR_NEVER)
        snprintf(text, bytes, "never");
    else
        snprintf(text, bytes, "%s", print_number(value, units, number));
    return text;
}

char *kvr_option_value_print(const struct kvr_option *option, const void *config, char *text,
                             size_t bytes)
{
    const void *field = (const char *)config + option->offset;

    switch (option->type) {
    case KVR_OPTION_TYPE_LIST:
        return print_list(field, text, bytes);
    case KVR_OPTION_TYPE_BOOL:
        snprintf(text, bytes, "%s", *(const bool *)field ? "yes" : "no");
        return text;
    case KVR_OPTION_TYPE_COUNT:
        return print_units(field, count_units, text, bytes);
    case KVR_OPTION_TYPE_SIZE:
        return print_units(field, size_units, text, bytes);
    case KVR_OPTION_TYPE_DURATION:
        return print_units(field, duration_units, text, bytes);
    case KVR_OPTION_TYPE_STRING:
    case KVR_OPTION_TYPE_ADDRESS:
    case KVR_OPTION_TYPE_CHOICE:
        break;
    }
    snprintf(text, bytes, "%s", (const char *)field);
    return text;
}

static bool same_list(const struct kvr_option_list *a, const struct kvr_option_list *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    }
    return true;
}

bool kvr_option_value_same(const struct kvr_option *option, const void *a, const void *b)
{
    switch (option->type) {
    case KVR_OPTION_TYPE_STRING:
    case KVR_OPTION_TYPE_ADDRESS:
    case KVR_OPTION_TYPE_CHOICE:
        return strcmp(a, b) == 0;
    case KVR_OPTION_TYPE_LIST:
        return same_list(a, b);
    default:
        return memcmp(a, b, option->bytes) == 0;
    }
}

const char *kvr_option_value_hint(const struct kvr_option *option)
{
    if (option->value != NULL)
        return option->value;
    switch (option->type) {
    case KVR_OPTION_TYPE_CHOICE:
        return choices_of(option);
    case KVR_OPTION_TYPE_ADDRESS:
        return "HOST:PORT";
    case KVR_OPTION_TYPE_SIZE:
        return "SIZE";
    case KVR_OPTION_TYPE_DURATION:
        return "TIME";
    case KVR_OPTION_TYPE_COUNT:
        return "N";
    case KVR_OPTION_TYPE_BOOL:
        return NULL;
    case KVR_OPTION_TYPE_STRING:
    case KVR_OPTION_TYPE_LIST:
        break;
    }
    return "TEXT";
}
