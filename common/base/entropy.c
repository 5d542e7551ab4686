#include "base/entropy.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

void kvr_random_bytes(void *memory, size_t bytes)
{
    unsigned char *next = memory;

    while (bytes > 0) {
        ssize_t got = getrandom(next, bytes, 0);

        assert(got >= 0 || errno == EINTR);
        if (got > 0) {
            next += got;
            bytes -= (size_t)got;
        }
    }
}

uint64_t kvr_random_u64(void)
{
    uint64_t value;

    kvr_random_bytes(&value, sizeof(value));
    return value;
}
