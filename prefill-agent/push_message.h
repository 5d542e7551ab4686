/* Messages between the loop thread and the posting jobs on a rail group's thread. A pointer in a
 * message hands its object over to the receiver. The comment of each kind names the object. */
#ifndef PREFILL_AGENT_PUSH_MESSAGE_H
#define PREFILL_AGENT_PUSH_MESSAGE_H

#include <assert.h>

#include "rail_group/rail_group_message.h"
#include "wire/engine_message.h"
#include "wire/message.h"

enum push_kind {
    /* loop → group; `job`: the job's index */
    PUSH_OPEN = KVR_GROUP_KIND_USER, /* opened */
    PUSH_SEGMENT,                    /* segment */
    PUSH_FINAL,                      /* no more segments */
    PUSH_RETRANSMIT,                 /* retransmit: the target's MISSING or ROOM */
    PUSH_LIST,                       /* list: which chunks went over a pair */
    PUSH_FAILOVER,                   /* failover: other rails, another group */
    PUSH_STOP,                       /* post no more */
    PUSH_CLOSE,                      /* after STOP, or when nothing will be posted any more */
    PUSH_PROBE,                      /* probe; of no job */
    PUSH_PAGE,                       /* page; of no job */
    /* group → loop */
    PUSH_FIRST_POST,   /* ready_at: when its first layer was seen to be ready */
    PUSH_ALL_READY,    /* before the first POSTED; ready_at: when its last layer was */
    PUSH_COUNT,        /* count: accepted posts; several before POSTED, STAGING_FULL and STOPPED */
    PUSH_POSTED,       /* sum: everything of its round was accepted */
    PUSH_STAGING_FULL, /* sum: as POSTED, for the chunks with room in the target's staging memory */
    PUSH_STOPPED,      /* sum: nothing more will be accepted */
    PUSH_RETRANSMIT_DONE, /* retransmit, taken in */
    PUSH_LISTED,          /* list, filled */
    PUSH_COPY_FAILED,     /* bytes could not be gathered: POSTED will not come */
    PUSH_NO_RAIL,         /* silent_from: chunks are left and no pair is usable */
    PUSH_RAIL_BACK,       /* after NO_RAIL: posting goes on */
    PUSH_FAILED_OVER,     /* failover; all earlier posts may be lost */
    PUSH_PROBED,          /* probe, answered; of no job */
    PUSH_CLOSED,          /* closed: the job; every accepted post has its completion */
    PUSH_PAGE_SET,        /* page, as the PUSH_PAGE: the page before is no longer looked at */
};

/* What a job has done so far. */
struct push_sum {
    uint32_t round;             /* the latest that the target has asked for */
    uint32_t posted, repeated;  /* accepted posts, and those of them that were not the first */
    uint64_t rails;             /* bit r: our rail r carried a part */
    struct push_segment *first; /* the job's first segment, to read the digests with POSTED */
};

/* The words of an engine that a job's segments may wait for. */
struct push_page {
    uint32_t engine;
    struct kvr_shared_page *page; /* NULL: forget it */
};

/* A message between the loop and a job (see rail_group_message.h). `head.kind` is an enum
 * push_kind, and says which member of the inner union holds. */
union push_message {
    struct kvr_group_message any; /* as the rings carry it */
    struct {
        struct kvr_group_head head;
        uint32_t job;
        uint64_t transfer; /* its nonce */
        union {
            struct push_job *opened, *closed;
            struct push_segment *segment;
            struct push_retransmit *retransmit;
            struct push_list *list;
            struct push_failover *failover;
            struct visibility_probe *probe;
            struct push_page page;
            kvr_ns ready_at, silent_from;
            struct kvr_epoch_count count;
            struct push_sum sum;
        };
    };
};
static_assert(sizeof(union push_message) == sizeof(struct kvr_group_message),
              "a ring carries one size");

static inline union push_message push_message_of(const struct kvr_group_message *message)
{
    return (union push_message){.any = *message};
}

/* PUSH_MESSAGE(PUSH_OPEN, .opened = job). Its sender adds the job: outbound_command(),
 * push_tell(). */
#define PUSH_MESSAGE(what, ...) ((union push_message){.head.kind = (what), ##__VA_ARGS__})

/* The command that has a group look at the words of an engine's page; NULL: forget it. */
struct kvr_group_message push_page_command(uint32_t engine, struct kvr_shared_page *page);
/* True: the message says that the engine's page is no longer looked at. */
bool push_page_forgotten(const struct kvr_group_message *message, uint32_t *ret_engine);

#endif
