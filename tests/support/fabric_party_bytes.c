#include "tests/support/fabric_party_bytes.h"

#include <string.h>

#include "base/rng.h"

static uint64_t pattern(uint64_t seed, uint64_t word)
{
    return kvr_mix64(seed * 0x9e3779b97f4a7c15u + word);
}

uint64_t party_piece_bytes(const struct party_command *command)
{
    return command->bytes / command->pieces;
}

uint64_t party_place_source(const struct party_command *command, uint32_t i, uint32_t j)
{
    uint64_t stride = (party_piece_bytes(command) + 7) & ~7ull;

    if (command->pieces > 1)
        stride *= 2;
    return ((uint64_t)i * command->pieces + j) % (PARTY_BYTES / stride) * stride;
}

uint64_t party_place_target(const struct party_command *command, uint32_t i, uint32_t j)
{
    uint64_t stride = (party_piece_bytes(command) + 7) & ~7ull, places = PARTY_BYTES / stride;

    if (command->one_target)
        return (places / command->pieces - 1 - i % (places / command->pieces)) * command->pieces *
                   stride +
               j * stride;
    return (places - 1 - ((uint64_t)i * command->pieces + j) % places) * stride;
}

uint64_t party_wrong_bytes(const uint8_t *bytes, const struct party_command *command, uint32_t i)
{
    uint64_t wrong = 0, length = party_piece_bytes(command);

    for (uint32_t j = 0; j < command->pieces; j++) {
        const uint8_t *at = bytes + party_place_target(command, i, j);
        uint64_t word = party_place_source(command, i, j) / 8;

        for (uint64_t k = 0; k < length; k += 8, word++) {
            uint64_t value = pattern(command->seed, word);
            uint64_t part = length - k < 8 ? length - k : 8;

            wrong += memcmp(at + k, &value, part) != 0;
        }
    }
    return wrong;
}

uint64_t party_digest(const uint8_t *bytes)
{
    uint64_t hash = 0;

    for (uint64_t i = 0; i < PARTY_BYTES; i += 8) {
        uint64_t word;

        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
    }
    return hash;
}

void party_fill(uint8_t *bytes, const struct party_command *command)
{
    uint64_t end = PARTY_BYTES;

    if (command->count > 0) {
        uint64_t places = (uint64_t)command->count * command->pieces;
        uint64_t reach = places * 2 * (party_piece_bytes(command) + 7);

        end = reach < PARTY_BYTES ? reach : PARTY_BYTES;
    }
    for (uint64_t i = 0; i < end / 8; i++) {
        uint64_t word = pattern(command->seed, i);

        memcpy(bytes + 8 * i, &word, 8);
    }
}
