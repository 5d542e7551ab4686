/* A pair at work: one address of a peer in the address table of one of our endpoints. Private to
 * rail_group*.c; the table of a link's states is in rail_group_link.c. */
#ifndef KVR_RAIL_GROUP_LINK_H
#define KVR_RAIL_GROUP_LINK_H

#include "base/mutant.h"
#include "base/pace.h"
#include "base/state.h"
#include "rail_group/rail_group.h"

enum group_link_state {
    LINK_USABLE,
    LINK_BROKEN,  /* until our rail or the peer's has a new epoch, or PAIR_RENEW */
    LINK_RETIRED, /* the address is no longer its peer's; waits for its writes in flight */
    LINK_STATES,
};

enum group_link_event {
    LINK_RENEWED,    /* the endpoint or the address is new: the link is tried */
    LINK_NO_ADDRESS, /* the peer has no endpoint on that rail */
    LINK_FAILED,     /* a write failed or hangs, or the provider refused the address */
    LINK_REPLACED,   /* the peer has another address, or is gone */
    LINK_EVENTS,
};

enum link_warmth {
    LINK_UNWARMED, /* without warm-up, or the peer has no scratch page */
    LINK_COLD,     /* usable, but no write has come through since */
    LINK_WARM,     /* a write has come through, a warm-up or a user's */
};

/* Of the provider, from the pair's rail to the peer's. */
enum link_connection {
    LINK_UNCONNECTED, /* nothing was written on the present endpoint, or it was closed */
    LINK_CONNECTING,  /* a write was tried, and none has come through */
    LINK_CONNECTED,
};

KVR_STATE_MACHINE(group_link);

/* What the link delivers (rail_group_slow.c). A look begins with the writes that are on their way.
 */
struct group_look {
    uint64_t posted;   /* writes, ever: those in flight too */
    kvr_ns through_at; /* the last time that a write came through */
    kvr_ns asked_at;   /* the last time that a write asked whether it came */
    bool unasked;      /* writes were posted after that one: they may complete and not have come */
    kvr_ns since;      /* the look began; 0: there is none */
    uint64_t mark;     /* `posted` at its begin: so many are to settle */
    uint64_t carried;  /* bytes that had come through at its begin */
    kvr_ns promised;   /* by the pace: how long the queue takes */
};

/* The provider answered AGAIN. */
struct group_again {
    uint32_t count;   /* in a row */
    uint64_t settled; /* rail's count of settled writes at the last one: there may be room again
                         when it has grown */
    kvr_ns until;
};

/* Of the peer's rail: where warm-ups go. */
struct group_scratch {
    struct kvr_remote_key key;
    uint32_t bytes;
};

/* Of a link that delivered far less than its siblings. */
struct group_slow {
    bool is;         /* until a warm-up is as fast as elsewhere */
    kvr_ns since;    /* the last time when it was found slow */
    kvr_ns trial_at; /* not warmed up before, as long as a sibling works */
    kvr_ns rest_ns;  /* from `since` until then */
};

/* What is reported of a pair, since PEER_ADD. */
struct group_history {
    kvr_pair_state state; /* the last one that was looked at, */
    kvr_ns since;         /* and since when; 0: none was */
    kvr_status why;       /* it failed last */
    uint32_t breaks;      /* how often it came into doubt, or broke without */
    uint32_t renewals;    /* endpoints of either end that were replaced */
};

struct group_link {
    uint64_t id;             /* of its slot in the pool */
    struct group_rail *rail; /* ours, of the pair */
    enum group_link_state state;
    uint32_t peer;
    struct kvr_pair pair;
    bool far;       /* it joins two planes: used where no near link reaches */
    bool spare;     /* for a pair of our rail that broke: another rail of the plane */
    uint32_t tries; /* spare: the rails in a row that were tried, with this one */
    uint32_t there; /* the peer's group that its rail is of */
    bool inserted;  /* handle is valid on the rail's present endpoint */
    bool unknown;   /* the peer's endpoint does not know ours yet: nothing is posted (rule 12) */
    bool proven;    /* a write has come through to this address, from whichever endpoint of ours */
    bool doubted;  /* it failed: until a write settles well, one at a time is risked on it. Where it
                      can be warmed up, that is the warm-up */
    bool wanted;   /* a user's write waits for that */
    bool uncopied; /* its warm-up has arrived, and the target's device did not copy it */
    struct group_history history;
    enum link_warmth warmth;
    enum link_connection connection;
    uint64_t handle;
    uint32_t writes; /* accepted and not yet settled */
    uint64_t bytes;
    uint64_t carried; /* bytes that came through, from whichever address of the pair */
    struct kvr_pace pace;
    struct group_look look;
    struct group_slow slow;
    kvr_ns progress_at; /* the last of its writes settled, or the first was accepted */
    struct group_again again;
    kvr_ns renew_by;  /* it is tried anew when its writes have ended, with a fresh endpoint if they
                         have not by then; 0: no such trial waits */
    uint64_t warming; /* the warm-up write that is in flight; 0: none */
    struct group_scratch scratch;
};

/* A peer's groups and ours: see group_peer_add. */
#define GROUP_LINKS_MAX (2 * KVR_RAILS_MAX)

/* Until a write comes through. */
static inline void group_link_doubt(struct group_link *link, kvr_status why)
{
    link->history.breaks += !link->doubted;
    link->history.why = why;
    link->doubted = true;
}

/* It is about to be a pair with another rail of the peer. */
static inline void group_link_forget_pair(struct group_link *link)
{
    link->history = (struct group_history){0};
    link->slow = (struct group_slow){0};
    kvr_pace_forget(&link->pace);
}

/* It failed, and no write has come through since. A user's write that hangs costs its transfer the
 * silence bound; a warm-up that hangs holds no transfer up. So that goes first. */
static inline bool group_link_on_trial(const struct group_link *link)
{
    return link->doubted && link->warmth == LINK_COLD && !link->uncopied &&
           !KVR_MUTANT(rail_back_by_acceptance);
}

/* Users' writes are on their way, and none has come through yet. Where an end replaces its endpoint
 * they begin anew, and so does their silence: without a trial no bound would end that. */
static inline bool group_link_in_vain(const struct group_link *link)
{
    return link->warmth == LINK_COLD && link->writes > (link->warming != 0);
}

/* Within a plane, as far as is known. */
static inline bool group_link_works_near(const struct group_link *link)
{
    return !link->far && link->state == LINK_USABLE && !link->doubted;
}

/* It may arrive there, and every piece has a local registration on our rail and a key on the
 * peer's. */
static inline bool group_link_reaches(const struct group_link *link,
                                      const struct kvr_group_post *post)
{
    if (post->rails != 0 && (post->rails >> link->pair.target_rail & 1) == 0)
        return false;
    if (post->filter.may != NULL && !post->filter.may(post->filter.self, &link->pair))
        return false;
    for (unsigned i = 0; i < post->piece_count; i++) {
        const struct kvr_group_piece *piece = &post->pieces[i];

        if (link->pair.rail >= piece->local->rail_count ||
            link->pair.target_rail >= piece->remote->rail_count)
            return false;
    }
    return true;
}

#endif
