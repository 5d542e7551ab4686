/* The secret of a request: drawn, taken from options, returned. */
#include "client/client.h"

#include <string.h>

#include "base/entropy.h"

static void draw(struct kvr_secret *ret_secret)
{
    do
        kvr_random_bytes(ret_secret->bytes, sizeof(ret_secret->bytes));
    while (!kvr_secret_strong(ret_secret));
}

void kvrail_secret_draw(char ret_secret[KVRAIL_SECRET_BYTES])
{
    struct kvr_secret secret;

    _Static_assert(KVRAIL_SECRET_BYTES == KVR_SECRET_TEXT_BYTES, "kvrail.h and wire/secret.h");
    draw(&secret);
    kvr_secret_text(&secret, ret_secret);
    kvr_secret_wipe(&secret, sizeof(secret));
}

/* No sentence shows any of it: a wrong secret may be nearly the right one. */
kvrail_status client_secret_take(struct kvrail *client, const char *text, client_role role,
                                 struct kvr_secret *ret_secret)
{
    if (text == NULL && role == CLIENT_SOURCE) {
        draw(ret_secret);
        return KVRAIL_OK;
    }
    if (text == NULL && (client->abilities & KVR_ABILITY_WITHOUT_SECRET))
        return KVRAIL_OK;
    if (text == NULL)
        return client_fail(client, KVR_INVALID,
                           "the fetch has no secret: set that of its publish "
                           "(kvrail_source_secret); only an agent with --insecure takes a fetch "
                           "without one");
    if (!kvr_secret_parse(text, ret_secret))
        return client_fail(client, KVR_INVALID,
                           "the secret of the request is not %d hexadecimal digits in lower case",
                           KVR_SECRET_TEXT_BYTES - 1);
    if (kvr_secret_strong(ret_secret))
        return KVRAIL_OK;
    kvr_secret_wipe(ret_secret, sizeof(*ret_secret));
    return client_fail(client, KVR_INVALID,
                       "the secret of the request can be guessed: draw it at random "
                       "(kvrail_secret_draw)");
}

void client_secret_forget(struct kvrail *client, struct kvr_request *request)
{
    kvr_secret_wipe(client->packet, sizeof(client->packet));
    if (request->kind == KVR_REQ_SOURCE_OPEN)
        kvr_secret_wipe(&request->source_open.secret, sizeof(request->source_open.secret));
    else if (request->kind == KVR_REQ_TARGET_OPEN)
        kvr_secret_wipe(&request->target_open.secret, sizeof(request->target_open.secret));
}

kvrail_status kvrail_source_secret(struct kvrail *connection, kvrail_handle source,
                                   char ret_secret[KVRAIL_SECRET_BYTES])
{
    kvrail_status status;
    const struct client_handle *entry = client_entry(connection, source, CLIENT_SOURCE, &status);

    if (entry == NULL)
        return status;
    kvr_secret_text(&entry->secret, ret_secret);
    return KVRAIL_OK;
}
