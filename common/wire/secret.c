#include "wire/secret.h"

#include <string.h>

bool kvr_secret_given(const struct kvr_secret *secret)
{
    uint8_t any = 0;

    for (size_t i = 0; i < sizeof(secret->bytes); i++)
        any |= secret->bytes[i];
    return any != 0;
}

bool kvr_secret_strong(const struct kvr_secret *secret)
{
    uint32_t different = 0;

    for (size_t i = 0; i < sizeof(secret->bytes); i++)
        different += memchr(secret->bytes, secret->bytes[i], i) == NULL;
    return different >= 8;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kvr_secret_parse(const char *text, struct kvr_secret *ret_secret)
{
    struct kvr_secret secret = {{0}};
    bool good = strnlen(text, KVR_SECRET_TEXT_BYTES) == KVR_SECRET_TEXT_BYTES - 1;

    memset(ret_secret, 0, sizeof(*ret_secret));
    for (size_t i = 0; good && i < sizeof(secret.bytes); i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

        good = high >= 0 && low >= 0;
        secret.bytes[i] = (uint8_t)(high << 4 | low);
    }
    good = good && kvr_secret_given(&secret);
    if (good)
        *ret_secret = secret;
    kvr_secret_wipe(&secret, sizeof(secret));
    return good;
}

void kvr_secret_text(const struct kvr_secret *secret, char ret_text[KVR_SECRET_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof(secret->bytes); i++) {
        ret_text[2 * i] = digits[secret->bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[secret->bytes[i] & 15];
    }
    ret_text[KVR_SECRET_TEXT_BYTES - 1] = '\0';
}

void kvr_secret_wipe(void *memory, size_t bytes)
{
    explicit_bzero(memory, bytes);
}
