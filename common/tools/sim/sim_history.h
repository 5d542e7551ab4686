/* The history of a simulated world, for a reader of a failure: its last lines, each with its
 * request. */
#ifndef KVR_TOOLS_SIM_HISTORY_H
#define KVR_TOOLS_SIM_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"

#define SIM_HISTORY_LINES 65536
#define SIM_HISTORY_NAMES 256

struct sim_line {
    kvr_ns at;
    const char *who; /* literals */
    const char *what, *detail;
    uint64_t nonce; /* of a transfer, or 0 */
    uint64_t a, b, c;
    uint8_t number; /* of who */
    int8_t request; /* or -1 */
};

struct sim_history {
    bool live; /* print at once */
    uint64_t count;
    struct sim_line *lines; /* a ring */
    uint32_t name_count;
    struct {
        uint64_t nonce;
        int request;
    } names[SIM_HISTORY_NAMES];
};

void sim_history_reset(struct sim_history *history);
void sim_history_add(struct sim_history *history, const struct sim_line *line);
/* The transfer of this nonce belongs to this request. */
void sim_history_name(struct sim_history *history, uint64_t nonce, int request);
/* Lines of this request and those that belong to none; all when request is -1. */
void sim_history_print(const struct sim_history *history, int request, FILE *file);

#endif
