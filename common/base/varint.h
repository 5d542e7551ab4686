/* Numbers in packed bytes: 7 bits a byte, the lowest first. Differences are folded first, so that
 * small ones of either sign are short. A reader believes nothing. */
#ifndef KVR_BASE_VARINT_H
#define KVR_BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/types.h"

#define KVR_VARINT_BYTES 10 /* of 64 bits */

/* 0, -1, 1, -2 … become 0, 1, 2, 3 … */
static inline uint64_t kvr_fold(uint64_t difference)
{
    return difference << 1 ^ (uint64_t) - (int64_t)(difference >> 63);
}

static inline uint64_t kvr_unfold(uint64_t number)
{
    return number >> 1 ^ (uint64_t) - (int64_t)(number & 1);
}

/* Returns where the next one goes. */
static inline uint8_t *kvr_put_varint(uint8_t *at, uint64_t number)
{
    for (; number > 0x7f; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

/* Moves *bytes and *count behind it. False: no number, one with more bytes than it needs, or one of
 * more than 64 bits. */
static inline bool kvr_take_varint(const uint8_t **bytes, size_t *count, uint64_t *ret_number)
{
    uint64_t number = 0;

    for (unsigned shift = 0; shift<7 * KVR_VARINT_BYTES && * count> 0; shift += 7) {
        uint8_t byte = *(*bytes)++;

        --*count;
        if (shift == 63 && byte > 1)
            return false;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_number = number;
            return byte != 0 || shift == 0;
        }
    }
    return false;
}

#endif
