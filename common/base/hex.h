/* Bytes as hexadecimal digits in lower case. Pure. */
#ifndef KVR_BASE_HEX_H
#define KVR_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes 2 · count digits and a NUL. */
void kvr_hex_print(const uint8_t *bytes, size_t count, char *ret_text);
/* False: the text is not exactly 2 · count digits, and the bytes are not defined. */
bool kvr_hex_parse(const char *text, size_t count, uint8_t *ret_bytes);

#endif
