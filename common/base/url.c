#include "base/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char plain[] = "http://", encrypted[] = "https://";

/* The text behind the scheme; *https says which it was, or stays. */
static const char *skip_scheme(const char *text, bool *https)
{
    if (strncasecmp(text, encrypted, sizeof(encrypted) - 1) == 0) {
        *https = true;
        return text + sizeof(encrypted) - 1;
    }
    if (strncasecmp(text, plain, sizeof(plain) - 1) == 0) {
        *https = false;
        return text + sizeof(plain) - 1;
    }
    return text;
}

kvr_status kvr_url_parse(const char *text, int default_port, bool https,
                         char ret_url[KVR_URL_BYTES], struct kvr_error *error)
{
    char host[KVR_ADDRESS_TEXT_BYTES], printed[KVR_ADDRESS_TEXT_BYTES];
    const char *rest = skip_scheme(text, &https);
    size_t length = strcspn(rest, "/?#");
    struct kvr_address address;

    if (memchr(rest, '@', length) != NULL)
        return kvr_error_set(error, KVR_INVALID, "url",
                             "no user and no token stands before a host: give --token-file");
    if (length >= sizeof(host) || strcmp(rest + length + (rest[length] == '/'), "") != 0)
        return kvr_error_set(
            error, KVR_INVALID, "url",
            "'%.100s' is no HOST[:PORT], http://HOST[:PORT] or https://HOST[:PORT]", text);
    memcpy(host, rest, length);
    host[length] = '\0';
    KVR_TRY(kvr_address_parse(host, default_port, error, &address));
    snprintf(ret_url, KVR_URL_BYTES, "%s%s", https ? encrypted : plain,
             kvr_address_print(&address, printed));
    return KVR_OK;
}

size_t kvr_url_scheme(const char *text)
{
    bool https;

    return (size_t)(skip_scheme(text, &https) - text);
}

bool kvr_url_encrypted(const char *url)
{
    bool https = false;

    (void)skip_scheme(url, &https);
    return https;
}

bool kvr_url_is_loopback(const char *url)
{
    struct kvr_address address;
    bool https;

    return kvr_address_parse(skip_scheme(url, &https), 1, NULL, &address) == KVR_OK &&
           kvr_address_is_loopback(&address);
}
