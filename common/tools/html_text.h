/* Pages of HTML that a command writes, and the text inside them. */
#ifndef KVR_TOOLS_HTML_TEXT_H
#define KVR_TOOLS_HTML_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/* Writes the text; what HTML would read as a mark is escaped. */
void html_text_put(FILE *stream, const char *text);

/* Whether --html can be written; an empty path can. Else false after a sentence. Leaves an empty
 * file, where there was none. */
bool html_page_ready(const char *command, const char *path);
/* Writes the page that `put` makes of self. Nothing, where the path is empty. False: said on
 * stderr. */
typedef bool html_page_put(const void *self, FILE *stream);
bool html_page_write(const char *command, const char *path, html_page_put *put, const void *self);

#endif
