#include "base/hex.h"

void kvr_hex_print(const uint8_t *bytes, size_t count, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * count] = '\0';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kvr_hex_parse(const char *text, size_t count, uint8_t *ret_bytes)
{
    for (size_t i = 0; i < count; i++) {
        int high = digit_of(text[2 * i]), low = high < 0 ? -1 : digit_of(text[2 * i + 1]);

        if (low < 0)
            return false;
        ret_bytes[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    return text[2 * count] == '\0';
}
