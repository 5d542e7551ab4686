/* What the router of a replay and its engines say to each other: fixed records over a socketpair of
 * packets, one for each engine. The router is the process that was started. It plays the part of
 * the engines' own router, and passes on no more: the request and its secret, and the source's
 * engine id and generation. Everything else goes through the agents. */
#ifndef KVR_TOOLS_REPLAY_MESSAGE_H
#define KVR_TOOLS_REPLAY_MESSAGE_H

#include <poll.h>

#include "base/clock.h"
#include "base/types.h"
#include "client/kvrail.h"
#include "tools/replay/replay_setup.h"

typedef enum replay_message_kind {
    /* router → engine */
    REPLAY_START = 1, /* this request is yours too */
    REPLAY_WITHDRAW,  /* the other side failed: give it up, unless the agents have matched it;
                         then they must report the failure themselves */
    REPLAY_CANCEL,    /* give it up */
    REPLAY_FINISH,    /* nothing more will come: end when all is settled */
    /* engine → router */
    REPLAY_UP,    /* connected to the agent */
    REPLAY_DOWN,  /* the agent is lost */
    REPLAY_READY, /* source: a layer became final */
    REPLAY_IN,    /* target: layers are in place */
    REPLAY_ENDED, /* the request is settled here and its pages are free */
    REPLAY_WRONG, /* target: a word that is not what it should be */
    REPLAY_NOTE,  /* a sentence for the terminal */
    REPLAY_FATAL, /* the engine cannot go on and ends with `status` as exit status */
    REPLAY_TOTALS /* the last message */
} replay_message_kind;

#define REPLAY_TEXT_BYTES 512

struct replay_identity {
    struct kvr_uuid engine;
    uint64_t generation;
};

struct replay_ended {
    kvr_ns opened_at, ended_at; /* when the request was opened; when its terminal event came */
    uint64_t tokens_moved, tokens_skipped;
    uint64_t bytes;          /* of the pages that moved */
    uint64_t bytes_reported; /* by the agent */
    uint64_t bytes_verified, bytes_wrong, bytes_rechecked;
    uint32_t writes, retries;
};

struct replay_message {
    replay_message_kind kind;
    uint32_t request;
    int32_t status; /* kvrail_status; FATAL: an exit status */
    union {
        struct {       /* START */
            kvr_ns at; /* the start of the request: of this, recorded times count */
            struct replay_identity source;
            char secret[KVRAIL_SECRET_BYTES]; /* of the request: drawn for this replay */
        } start;
        struct replay_identity own; /* UP */
        struct {                    /* READY, IN */
            kvr_ns at;
            uint32_t layer_first, layer_count;
            uint64_t token_first, token_end;
        } layers;
        struct replay_ended ended; /* ENDED */
        struct {                   /* TOTALS */
            double cpu_s;
            uint64_t late_pages;  /* changed between hand-back and reuse */
            uint64_t unannounced; /* layers × pages in place at DONE that no LAYER_IN had named */
            /* Page tables of one KV group that lie as recorded, and that could not. */
            uint64_t tables_recorded, tables_otherwise;
        } totals;
        char text[REPLAY_TEXT_BYTES]; /* WRONG, NOTE, FATAL */
    };
};

/* Waits until it is sent. False when the other end is gone. */
bool replay_send(int socket, const struct replay_message *message);
/* 1: received; 0: nothing there at this moment; -1: the other end is gone. */
int replay_receive(int socket, struct replay_message *ret_message);

/* Waits until one of them is ready or that time has come. Returns how many are, or -1. */
int replay_wait(struct pollfd *descriptors, unsigned count, kvr_ns wake_at);

/* A message with a sentence. */
void replay_say(int socket, replay_message_kind kind, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
