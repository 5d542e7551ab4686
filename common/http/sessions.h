/* Sessions of browsers: a person showed a token once, and a cookie stands for it from then on.
 *
 * The cookie is 256 random bits. Here is only its hash, and only in memory: a restart ends all
 * sessions. A session also ends with its life, with a sign-out, and when the line of its token
 * changes or goes. A token has at most SESSIONS_PER_TOKEN: one more ends the oldest. Pure; the
 * owner has a lock. */
#ifndef KVR_HTTP_SESSIONS_H
#define KVR_HTTP_SESSIONS_H

#include "base/clock.h"
#include "http/tokens.h"

#define SESSIONS_MAX       512
#define SESSIONS_PER_TOKEN 16

struct session {
    struct kvr_token_hash cookie;
    struct token token;
    kvr_ns begun, ends; /* ends 0: this place is free */
};

struct sessions {
    struct session sessions[SESSIONS_MAX];
};

/* cookie: of its text. */
void sessions_begin(struct sessions *sessions, const struct kvr_token_hash *cookie,
                    const struct token *token, kvr_ns now, kvr_ns life);
/* NULL: none, or its life is over. */
const struct session *sessions_find(const struct sessions *sessions,
                                    const struct kvr_token_hash *cookie, kvr_ns now);
void sessions_end(struct sessions *sessions, const struct kvr_token_hash *cookie);
/* Ends those of tokens that are not among these any more; returns how many. */
int sessions_keep(struct sessions *sessions, const struct tokens *tokens);
int sessions_count(const struct sessions *sessions, kvr_ns now);

#endif
