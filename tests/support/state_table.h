/* Compares the table of states in the head of a file with the function that the code uses.
 *
 * A table stands in a comment, each of its rows on one line:
 *
 *      * state  | PUSHED | KNOCKED
 *      * -------|--------|--------
 *      * OPEN   | SHUT   | =
 *      * SHUT   | -      | =
 *
 * "=" means that the state stays, "-" that the event cannot come. The first cell of the first row
 * is the name of the table. A table that is too wide stands in parts of the same name, each with
 * other events. */
#ifndef KVR_TESTS_STATE_TABLE_H
#define KVR_TESTS_STATE_TABLE_H

#include "tests/support/check.h"

struct state_table {
    const char *file;                          /* within the source tree */
    const char *name;                          /* of the table; NULL: "state" */
    const char *const *states, *const *events; /* their names in the table, by number */
    unsigned state_count, event_count;
    /* The code's own. KVR_STATE_NEVER (base/state.h): the event cannot come. */
    unsigned (*next)(unsigned state, unsigned event);
};

/* Fails the test where a cell differs, and where the table lacks a state or an event, has one
 * twice, or names an unknown one. */
void state_table_check(const struct state_table *table);
/* The same of a text. False: fault says what is wrong. */
bool state_table_matches(const struct state_table *table, const char *text, char *fault,
                         size_t capacity);

/* An adapter for state_table.next around `enum … function(enum … state, enum … event)`. */
#define STATE_TABLE_NEXT(adapter, function, state_type, event_type)                                \
    static unsigned adapter(unsigned state, unsigned event)                                        \
    {                                                                                              \
        return (unsigned)function((state_type)state, (event_type)event);                           \
    }
#define STATE_TABLE_NAMES(names) (names), (unsigned)(sizeof(names) / sizeof((names)[0]))

#endif
