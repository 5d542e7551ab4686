/* An answer that is kept for a while, so that many questions at once cost as much as one.
 *
 * Counted references: the thread that answers holds one, and each connection that is still sending
 * it. Any thread. */
#ifndef KVR_HTTP_READY_H
#define KVR_HTTP_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ready {
    char *text;
    size_t size;
    uint8_t *zipped; /* the same as gzip; NULL where that would not be smaller */
    size_t zipped_size;
    const char *type;
    char etag[24]; /* with its quotation marks */
};

/* Takes the text over: from malloc. NULL: no memory; then the text is freed. */
struct ready *ready_make(char *text, size_t size, const char *type);
struct ready *ready_share(struct ready *ready);
struct ready *ready_drop(struct ready *ready); /* returns NULL */

/* Whether a client that sends this header takes gzip. accept: NULL where it sends none. */
bool ready_takes_gzip(const char *accept);

#endif
