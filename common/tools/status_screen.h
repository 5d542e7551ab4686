/* Which rows of a text's parts fit on a screen of 24 lines, one of which is the prompt, and lines
 * cut to its width. */
#ifndef KVR_TOOLS_STATUS_SCREEN_H
#define KVR_TOOLS_STATUS_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#define SCREEN_LINES   23
#define SCREEN_COLUMNS 100

struct screen_part {
    unsigned head; /* lines above its rows; not there without rows */
    unsigned rows;
    unsigned least; /* rows that it gets in any case; 0: all of them, or it is left out */
    bool counts;    /* where rows are left out, a line says so */
    unsigned shown; /* the answer */
};

/* Room is given to earlier parts first. */
void screen_fit(struct screen_part *parts, size_t count, unsigned lines);

/* Of UTF-8. */
unsigned screen_columns(const char *text, size_t bytes);
/* At most `width` columns: the middle of a longer text becomes "…". Returns ret_text, which has
 * room for 4 bytes a column. */
char *screen_shorten(const char *text, unsigned width, char *ret_text);
/* The text, each line with at most `columns` columns of UTF-8; the end of a longer one becomes "…".
 */
void screen_cut(const char *text, unsigned columns, FILE *stream);

#endif
