#include "http/sessions.h"

#include <string.h>

/* A free place, else the place of the oldest session. A token that has all its sessions gives up
 * its own oldest. */
static struct session *place_for(struct sessions *sessions, const struct token *token, kvr_ns now)
{
    struct session *oldest = NULL, *oldest_of_token = NULL, *unused = NULL;
    int of_token = 0;

    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->sessions[i];

        if (session->ends <= now) {
            unused = session;
            continue;
        }
        if (oldest == NULL || session->begun < oldest->begun)
            oldest = session;
        if (!kvr_token_hash_equal(&session->token.hash, &token->hash))
            continue;
        of_token++;
        if (oldest_of_token == NULL || session->begun < oldest_of_token->begun)
            oldest_of_token = session;
    }
    if (of_token >= SESSIONS_PER_TOKEN)
        return oldest_of_token;
    return unused != NULL ? unused : oldest;
}

void sessions_begin(struct sessions *sessions, const struct kvr_token_hash *cookie,
                    const struct token *token, kvr_ns now, kvr_ns life)
{
    *place_for(sessions, token, now) = (struct session){*cookie, *token, now, now + life};
}

const struct session *sessions_find(const struct sessions *sessions,
                                    const struct kvr_token_hash *cookie, kvr_ns now)
{
    const struct session *found = NULL;

    for (int i = 0; i < SESSIONS_MAX; i++)
        if (sessions->sessions[i].ends > now &&
            kvr_token_hash_equal(&sessions->sessions[i].cookie, cookie))
            found = &sessions->sessions[i];
    return found;
}

void sessions_end(struct sessions *sessions, const struct kvr_token_hash *cookie)
{
    for (int i = 0; i < SESSIONS_MAX; i++)
        if (kvr_token_hash_equal(&sessions->sessions[i].cookie, cookie))
            memset(&sessions->sessions[i], 0, sizeof(sessions->sessions[i]));
}

int sessions_keep(struct sessions *sessions, const struct tokens *tokens)
{
    int ended = 0;

    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->sessions[i];

        if (session->ends == 0 || tokens_have(tokens, &session->token))
            continue;
        memset(session, 0, sizeof(*session));
        ended++;
    }
    return ended;
}

int sessions_count(const struct sessions *sessions, kvr_ns now)
{
    int count = 0;

    for (int i = 0; i < SESSIONS_MAX; i++)
        count += sessions->sessions[i].ends > now;
    return count;
}
