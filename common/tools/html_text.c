#include "tools/html_text.h"

#include <errno.h>
#include <string.h>

void html_text_put(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            fputc(*text, stream);
        }
    }
}

static bool cannot(const char *command, const char *path)
{
    fprintf(stderr, "%s: --html is '%s', but that cannot be written: %s\n", command, path,
            strerror(errno));
    return false;
}

bool html_page_ready(const char *command, const char *path)
{
    FILE *stream;

    if (path[0] == '\0')
        return true;
    stream = fopen(path, "ae");
    return stream != NULL && fclose(stream) == 0 ? true : cannot(command, path);
}

bool html_page_write(const char *command, const char *path, html_page_put *put, const void *self)
{
    FILE *stream;
    bool written;

    if (path[0] == '\0')
        return true;
    stream = fopen(path, "we");
    written = stream != NULL && put(self, stream);
    if (stream != NULL && fclose(stream) != 0)
        written = false;
    return written ? true : cannot(command, path);
}
