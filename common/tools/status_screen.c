#include "tools/status_screen.h"

#include <string.h>

static unsigned lines_of(const struct screen_part *part)
{
    return part->shown == 0 ? 0
                            : part->head + part->shown + (part->counts && part->shown < part->rows);
}

static unsigned total(const struct screen_part *parts, size_t count)
{
    unsigned lines = 0;

    for (size_t i = 0; i < count; i++)
        lines += lines_of(&parts[i]);
    return lines;
}

void screen_fit(struct screen_part *parts, size_t count, unsigned lines)
{
    for (size_t i = 0; i < count; i++)
        parts[i].shown = parts[i].rows < parts[i].least ? parts[i].rows : parts[i].least;
    for (size_t i = 0; i < count; i++) {
        unsigned least = parts[i].shown;

        /* All of them first: no line then says that some are left out. */
        parts[i].shown = parts[i].rows;
        while (parts[i].shown > least && total(parts, count) > lines)
            parts[i].shown--;
        if (parts[i].least == 0 && parts[i].shown < parts[i].rows)
            parts[i].shown = 0;
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

unsigned screen_columns(const char *text, size_t bytes)
{
    unsigned columns = 0;

    for (size_t i = 0; i < bytes; i++)
        columns += begins_character(text[i]);
    return columns;
}

/* The bytes of the first `columns` columns. */
static size_t bytes_of(const char *text, size_t bytes, unsigned columns)
{
    size_t i = 0;

    for (; i < bytes; i++)
        if (begins_character(text[i]) && columns-- == 0)
            break;
    return i;
}

char *screen_shorten(const char *text, unsigned width, char *ret_text)
{
    size_t bytes = strlen(text);
    unsigned columns = screen_columns(text, bytes), behind = (width - 1) / 2;

    if (columns <= width)
        return strcpy(ret_text, text);
    sprintf(ret_text, "%.*s…%s", (int)bytes_of(text, bytes, width - 1 - behind), text,
            text + bytes_of(text, bytes, columns - behind));
    return ret_text;
}

void screen_cut(const char *text, unsigned columns, FILE *stream)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");

        if (screen_columns(text, bytes) <= columns)
            fprintf(stream, "%.*s\n", (int)bytes, text);
        else
            fprintf(stream, "%.*s…\n", (int)bytes_of(text, bytes, columns - 1), text);
        text += bytes + (text[bytes] == '\n');
    }
}
