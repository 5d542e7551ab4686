/* Whether the agent of a connection runs, and which events a fetch gets while it does not. Pure: it
 * gets the time and the agent's latest sign of life (`alive_at` of the shared page) from its
 * caller.
 *
 *   state    look finds                                  → state    news
 *   running  the same sign for CLIENT_SILENCE_NS         → silent   SILENT
 *   running  the same sign, after a look that came late  → running  that time does not count
 *   silent   another sign                                → running  BACK
 *
 * A sign of 0 never changes the state: an older agent gives none.
 *
 * A look that comes late shows that this process did not run, or that its engine did not call
 * kvrail_poll. It may have been the whole host, so the agent gets a beat to give a sign, once. */
#ifndef KVR_CLIENT_SILENCE_H
#define KVR_CLIENT_SILENCE_H

#include "wire/engine_message.h"

#define CLIENT_SILENCE_NS (KVR_ENGINE_BEATS_MAX * KVR_ENGINE_BEAT_NS)

typedef enum client_silence_news {
    CLIENT_SILENCE_NONE,
    CLIENT_SILENCE_SILENT,
    CLIENT_SILENCE_BACK,
} client_silence_news;

struct client_silence {
    kvr_ns sign;        /* the latest that was seen; the agent's clock may be another */
    kvr_ns alive_at;    /* when it was given, as far as looks tell */
    kvr_ns counts_from; /* silence is counted from here on */
    kvr_ns looked_at;
    kvr_ns due_at; /* of the next look; KVR_NEVER: an older agent */
    bool silent;
    bool excused; /* an absence of this process was allowed for since the last sign */
};

/* Silence counts from now on. */
void client_silence_begin(struct client_silence *silence, kvr_ns now, kvr_ns sign);
/* Due at due_at; earlier is harmless, later is an absence. */
client_silence_news client_silence_look(struct client_silence *silence, kvr_ns now, kvr_ns sign);

/* Which events the engine has of one fetch. */
struct client_told {
    bool failing; /* FAILING */
    bool own;     /* the library made it */
};

/* The fetch is not known to fail, its deadline has passed, and the agent is silent. */
bool client_silence_expires(const struct client_silence *silence, const struct client_told *told,
                            kvr_ns deadline, kvr_ns now);
/* The library's own FAILING of such a fetch. Its pages stay lent. */
void client_silence_expire(const struct client_silence *silence, struct client_told *told,
                           kvr_ns now, uint64_t handle, struct kvr_notice *ret_notice);
/* A notice of the agent about a fetch of that many tokens. False: the engine does not get it. After
 * the library's FAILING it gets the terminal notice alone, and EXPIRED in the place of DONE. */
bool client_told_take(struct client_told *told, uint64_t tokens, struct kvr_notice *notice);

#endif
