#include "base/text.h"

#include <string.h>

size_t kvr_text_character(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = at[0] == 0                      ? 0
                    : at[0] < 0x80                  ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;

    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0; /* also at the NUL */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0; /* a longer form than needed, a surrogate, or beyond the last character */
    return length;
}

size_t kvr_text_printable(const char *text)
{
    unsigned char first = (unsigned char)text[0];
    bool control = first < 0x20 || first == 0x7f ||
                   (first == 0xc2 && (unsigned char)text[1] < 0xa0); /* terminals obey those too */

    return control ? 0 : kvr_text_character(text);
}

bool kvr_text_valid(const char *text, size_t capacity)
{
    if (strnlen(text, capacity) == capacity)
        return false;
    while (*text != '\0') {
        size_t bytes = kvr_text_printable(text);

        if (bytes == 0)
            return false;
        text += bytes;
    }
    return true;
}

void kvr_text_show(const char *text, size_t capacity, char *ret_text)
{
    size_t bytes = strlen(text), used = 0;

    while (used < bytes && used + 1 < capacity && text[used] >= 0x20 && text[used] < 0x7f)
        ret_text[used] = text[used], used++; /* most texts have nothing else */
    for (size_t i = used; i < bytes;) {
        size_t length = kvr_text_printable(text + i);
        size_t taken = length > 0 ? length : 1;

        if (used + taken >= capacity)
            break;
        if (length > 0)
            memcpy(ret_text + used, text + i, taken);
        else
            ret_text[used] = '?';
        used += taken;
        i += taken;
    }
    ret_text[used] = '\0';
}

char *kvr_text_json(const char *text, char *ret_json, size_t capacity)
{
    size_t used = 0;

    while (*text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\' && used + 3 < capacity)
        ret_json[used++] = *text++; /* most texts have nothing else */
    while (*text != '\0') {
        size_t bytes = kvr_text_printable(text);
        bool escaped = *text == '"' || *text == '\\';

        if (used + bytes + 2 >= capacity)
            break;
        if (escaped)
            ret_json[used++] = '\\';
        if (bytes > 0)
            memcpy(ret_json + used, text, bytes);
        else
            ret_json[used] = '?';
        used += bytes > 0 ? bytes : 1;
        text += bytes > 0 ? bytes : 1;
    }
    ret_json[used] = '\0';
    return ret_json;
}
