/* The secret of a request: source and target engine share it, and each agent learns it from its own
 * engine. It never travels between agents: WANT proves it (wire/proof.h). Its text is 64
 * hexadecimal digits in lower case. Pure. */
#ifndef KVR_WIRE_SECRET_H
#define KVR_WIRE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVR_SECRET_BYTES      32
#define KVR_SECRET_TEXT_BYTES (2 * KVR_SECRET_BYTES + 1)

struct kvr_secret {
    uint8_t bytes[KVR_SECRET_BYTES]; /* all 0: none */
};

bool kvr_secret_given(const struct kvr_secret *secret);
/* False of one with fewer than 8 different bytes: that is not drawn at random. */
bool kvr_secret_strong(const struct kvr_secret *secret);
/* False: it is no text of a secret, and *ret_secret is none. */
bool kvr_secret_parse(const char *text, struct kvr_secret *ret_secret);
void kvr_secret_text(const struct kvr_secret *secret, char ret_text[KVR_SECRET_TEXT_BYTES]);
/* A memset that the compiler may not leave out. */
void kvr_secret_wipe(void *memory, size_t bytes);

#endif
