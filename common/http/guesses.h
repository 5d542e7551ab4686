/* How many wrong tokens came from which address.
 *
 * Beyond GUESSES_PER_MINUTE within a minute an address gets the answer to wait, and its wrong
 * tokens are neither logged nor audited. Right tokens of the same address pass all the same: 256
 * random bits are not guessed, and a stranger behind the same proxy locks out no colleague. An IPv6
 * network of 64 bits counts as one address. Pure; the owner has a lock. */
#ifndef KVR_HTTP_GUESSES_H
#define KVR_HTTP_GUESSES_H

#include "base/address.h"
#include "base/clock.h"

#define GUESSES_PER_MINUTE 10
#define GUESSES_SOURCES_MAX                                                                        \
    256 /* beyond it the one that has been quiet for longest is forgotten                          \
         */

struct guesses {
    struct guesses_source {
        uint8_t address[16];
        kvr_ns since; /* of its minute; 0: free */
        unsigned wrong;
    } sources[GUESSES_SOURCES_MAX];
};

/* A wrong token came. False: too many have come from there. */
bool guesses_wrong(struct guesses *guesses, const struct kvr_address *from, kvr_ns now);

#endif
