#include "wire/secret.h"

#include <string.h>

#include "base/hex.h"

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

bool kvr_secret_parse(const char *text, struct kvr_secret *ret_secret)
{
    struct kvr_secret secret = {{0}};
    bool good =
        kvr_hex_parse(text, sizeof(secret.bytes), secret.bytes) && kvr_secret_given(&secret);

    memset(ret_secret, 0, sizeof(*ret_secret));
    if (good)
        *ret_secret = secret;
    kvr_secret_wipe(&secret, sizeof(secret));
    return good;
}

void kvr_secret_text(const struct kvr_secret *secret, char ret_text[KVR_SECRET_TEXT_BYTES])
{
    kvr_hex_print(secret->bytes, sizeof(secret->bytes), ret_text);
}

void kvr_secret_wipe(void *memory, size_t bytes)
{
    explicit_bzero(memory, bytes);
}
