#include "http/ready.h"

#include <libdeflate.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#define ZIP_FROM 1024 /* bytes; below, the headers are as long */

struct counted {
    struct ready ready;
    atomic_uint references;
};

/* Quick rather than small: it is made anew every second. */
static void zip(struct ready *ready)
{
    struct libdeflate_compressor *compressor;

    if (ready->size < ZIP_FROM)
        return;
    compressor = libdeflate_alloc_compressor(1);
    ready->zipped = malloc(ready->size);
    if (compressor != NULL && ready->zipped != NULL)
        ready->zipped_size = libdeflate_gzip_compress(compressor, ready->text, ready->size,
                                                      ready->zipped, ready->size);
    libdeflate_free_compressor(compressor);
    if (ready->zipped_size > 0)
        return;
    free(ready->zipped); /* it is no shorter, or there is no memory */
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
