/* Makes an enum and its tables from a list X(symbol, name, ...):
 *
 *     typedef enum colour { COLOUR_LIST(KVR_SYMBOL) COLOUR_END } colour;
 *     static const char *const colours[] = {COLOUR_LIST(KVR_NAME)}; */
#ifndef KVR_BASE_NAMES_H
#define KVR_BASE_NAMES_H

#include <string.h>

#define KVR_SYMBOL(symbol, ...)           symbol,
#define KVR_NAME(symbol, name, ...)       [symbol] = (name),
#define KVR_TEXT(symbol, name, text, ...) [symbol] = (text),
#define KVR_ROW(symbol, ...)              [symbol] = {__VA_ARGS__},

/* Where the name stands among `count` names; `count`: it is none of them. */
static inline int kvr_name_find(const char *const *names, int count, const char *name)
{
    int at = 0;

    while (at < count && strcmp(names[at], name) != 0)
        at++;
    return at;
}

#endif
