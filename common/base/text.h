/* UTF-8 from outside: what is a character, and what may be shown. Names reach logs, JSON and the
 * database. No state. */
#ifndef KVR_BASE_TEXT_H
#define KVR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `text`, which ends in a NUL; 0: there is none, or it is malformed. */
size_t kvr_text_character(const char *text);
/* The same, and 0 for a control character. */
size_t kvr_text_printable(const char *text);
/* It ends within `capacity` bytes, and every character can be printed. Empty is fine. */
bool kvr_text_valid(const char *text, size_t capacity);
/* What can be printed of it; a question mark for each byte of the rest. Cut short, between two
 * characters, where it does not fit. */
void kvr_text_show(const char *text, size_t capacity, char *ret_text);
/* As the inside of a JSON string: what must not stand there is escaped, what cannot be printed is a
 * question mark. Cut short where it does not fit. Returns ret_json. */
char *kvr_text_json(const char *text, char *ret_json, size_t capacity);

#endif
