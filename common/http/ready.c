#include "http/ready.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>
#include <zlib.h>

#define ZIP_FROM 1024 /* bytes; below, the headers are as long */

struct counted {
    struct ready ready;
    atomic_uint references;
};

/* Quick rather than small: it is made anew every second. */
static void zip(struct ready *ready)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)ready->text,
                       .avail_in = (uInt)ready->size,
                       .avail_out = (uInt)ready->size};

    if (ready->size < ZIP_FROM || ready->size > UINT32_MAX)
        return;
    ready->zipped = malloc(ready->size);
    if (ready->zipped == NULL)
        return;
    stream.next_out = ready->zipped;
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
        bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;

        ready->zipped_size = stream.total_out;
        deflateEnd(&stream);
        if (whole)
            return;
    }
    free(ready->zipped);
    ready->zipped = NULL;
}

struct ready *ready_make(char *text, size_t size, const char *type)
{
    struct counted *counted = text != NULL ? calloc(1, sizeof(*counted)) : NULL;

    if (counted == NULL) {
        free(text);
        return NULL;
    }
    atomic_init(&counted->references, 1);
    counted->ready = (struct ready){.text = text, .size = size, .type = type};
    snprintf(counted->ready.etag, sizeof(counted->ready.etag), "\"%016llx\"",
             (unsigned long long)XXH64(text, size, 0));
    zip(&counted->ready);
    return &counted->ready;
}

struct ready *ready_share(struct ready *ready)
{
    if (ready != NULL)
        atomic_fetch_add(&((struct counted *)ready)->references, 1);
    return ready;
}

struct ready *ready_drop(struct ready *ready)
{
    struct counted *counted = (struct counted *)ready;

    if (ready == NULL || atomic_fetch_sub(&counted->references, 1) > 1)
        return NULL;
    free(ready->text);
    free(ready->zipped);
    free(counted);
    return NULL;
}

bool ready_takes_gzip(const char *accept)
{
    while (accept != NULL && *accept != '\0') {
        size_t length;

        accept += strspn(accept, " ,");
        length = strcspn(accept, ",");
        if (strncasecmp(accept, "gzip", 4) == 0 && strcspn(accept, " ;,") == 4) {
            const char *weight = memchr(accept, '=', length);

            return weight == NULL || strtod(weight + 1, NULL) > 0;
        }
        accept += length;
    }
    return false;
}
