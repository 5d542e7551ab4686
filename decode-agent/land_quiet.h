/* Whether a write of a source can still arrive (rule 4): counts of arrivals against the counts that
 * the source sent. The table of the states is in land_quiet.c. */
#ifndef DECODE_AGENT_LAND_QUIET_H
#define DECODE_AGENT_LAND_QUIET_H

#include "base/state.h"
#include "decode-agent/land_message.h"

struct land;

enum landing_quiet_state {
    QUIET_VOID,    /* the source is posting: its counts are not known */
    QUIET_CLAIMED, /* its counts are known, and may differ from ours */
    QUIET_PROVEN,  /* reported: no write can still arrive */
    QUIET_STATES
};

enum landing_quiet_event {
    QUIET_ON_CLAIMED,
    QUIET_ON_VOIDED,
    QUIET_ON_EVEN,      /* counts are equal or epochs closed, and no copy writes the pages */
    QUIET_ON_READ_BACK, /* copies will read the pages: report again behind them */
    QUIET_EVENTS
};

struct landing_arrivals {
    enum landing_quiet_state state;
    struct landing_quiet *claim; /* what the source posted; NULL: VOID */
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER];
    uint32_t count_count;
    uint64_t doubted; /* bit i: counts[i] has an arrival too many, and proves nothing */
    uint64_t total;
    uint64_t rails; /* bit r: rail r carried a part */
};

KVR_STATE_MACHINE(landing_quiet);

/* A write of the landing arrived. doubt: its count proves nothing from here on. */
void land_count_arrival(struct landing *landing, uint32_t rail, uint32_t epoch, bool doubt);
/* Reports quiet where it holds now. */
void land_quiet_check(struct land *land, struct landing *landing);
/* The source's counts; NULL: they are void. */
void land_quiet_replace(struct land *land, struct landing *landing, struct landing_quiet *quiet);
/* Gives the source's counts back. */
void land_quiet_give(struct land *land, const struct landing *landing);
/* Reports each epoch on which a write was lost or hangs. */
void land_quiet_suspects(struct land *land, const struct landing *landing, kvr_ns now,
                         kvr_ns quiet_ns, bool at_once);
/* This and every older epoch of the rail, perhaps another group's, is closed. */
void land_quiet_epoch_closed(struct land *land, uint32_t rail, uint32_t epoch);

#endif
