#include "http/access.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file_stamp.h"
#include "base/log.h"
#include "http/guesses.h"
#include "http/sessions.h"

struct access {
    struct access_options options;
    pthread_mutex_t lock; /* guards all below */
    struct tokens tokens;
    struct sessions sessions;
    struct guesses guesses;
    struct kvr_file_stamp file;
};

/* ---- the token file ---- */

void access_reread(struct access *access, bool always)
{
    const char *path = access->options.token_file;
    struct kvr_error error = {0};
    struct kvr_file_stamp stamp;
    struct tokens *tokens;
    int ended, count;

    if (path == NULL)
        return;
    stamp = kvr_file_stamp(path);
    if (!always && kvr_file_stamp_same(&stamp, &access->file))
        return;
    access->file = stamp;
    tokens = malloc(sizeof(*tokens));
    if (tokens == NULL || tokens_read(path, tokens, &error) != KVR_OK) {
        kvr_log_failure(KVR_LOG_ERROR, "the tokens stay as they were", &error);
        free(tokens);
        return;
    }
    pthread_mutex_lock(&access->lock);
    access->tokens = *tokens;
    ended = sessions_keep(&access->sessions, &access->tokens);
    count = access->tokens.count;
    pthread_mutex_unlock(&access->lock);
    free(tokens);
    kvr_log_info("the token file is read again: %d tokens, and %d sessions have ended", count,
                 ended);
}

kvr_status access_open_paths(const struct kvr_option_list *open, const char *option,
                             struct access_options *options, struct kvr_error *error)
{
    for (uint32_t i = 0; i < open->count; i++) {
        bool metrics = strcmp(open->items[i], "metrics") == 0;

        if (!metrics && strcmp(open->items[i], "health") != 0)
            return kvr_error_set(error, KVR_INVALID, "access",
                                 "%s is '%s', and may be metrics or health", option,
                                 open->items[i]);
        *(metrics ? &options->open_metrics : &options->open_health) = true;
    }
    return KVR_OK;
}

kvr_status access_open(const struct access_options *options, struct access **ret_access,
                       struct kvr_error *error)
{
    struct access *access = calloc(1, sizeof(*access));
    kvr_status status = KVR_OK;

    if (access == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "access", "no memory for tokens");
    access->options = *options;
    pthread_mutex_init(&access->lock, NULL);
    if (options->token_file != NULL) {
        access->file = kvr_file_stamp(options->token_file);
        status = tokens_read(options->token_file, &access->tokens, error);
    }
    if (status != KVR_OK) {
        access_close(access);
        return status;
    }
    *ret_access = access;
    return KVR_OK;
}

struct access *access_close(struct access *access)
{
    if (access == NULL)
        return NULL;
    pthread_mutex_destroy(&access->lock);
    memset(&access->sessions, 0, sizeof(access->sessions));
    free(access);
    return NULL;
}

bool access_guarded(const struct access *access)
{
    return access->options.token_file != NULL || access->options.tls;
}

bool access_has_tokens(const struct access *access)
{
    return access->options.token_file != NULL;
}

kvr_ns access_session_life(const struct access *access)
{
    return access->options.session_life;
}

int access_sessions(struct access *access, kvr_ns now)
{
    int count;

    pthread_mutex_lock(&access->lock);
    count = sessions_count(&access->sessions, now);
    pthread_mutex_unlock(&access->lock);
    return count;
}

/* ---- who asks ---- */

static void name_actor(struct access_actor *actor, const char *name, const char *via,
                       token_right right)
{
    snprintf(actor->name, sizeof(actor->name), "%s", name);
    actor->via = via;
    actor->right = right;
}

/* The text behind "Bearer"; NULL: it is another scheme, or no token. */
static const char *bearer(const char *authorization)
{
    static const char scheme[] = "Bearer ";

    if (strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    authorization += sizeof(scheme) - 1;
    authorization += strspn(authorization, " ");
    return kvr_token_shaped(authorization) ? authorization : NULL;
}

/* With the lock. NULL: *ret_why says why. */
static const struct token *token_of(struct access *access, const char *authorization,
                                    const struct kvr_address *from, kvr_ns now, refusal *ret_why)
{
    const char *text = bearer(authorization);
    const struct token *token = NULL;
    struct kvr_token_hash hash;

    if (text != NULL) {
        kvr_token_hash(text, &hash);
        token = tokens_find(&access->tokens, &hash);
    }
    if (token == NULL)
        *ret_why = guesses_wrong(&access->guesses, from, now) ? REFUSAL_TOKEN : REFUSAL_MANY;
    return token;
}

static refusal by_token(struct access *access, const struct access_ask *ask, kvr_ns now,
                        struct access_actor *actor)
{
    refusal why = REFUSAL_END;
    const struct token *token;

    pthread_mutex_lock(&access->lock);
    token = token_of(access, ask->authorization, ask->from, now, &why);
    if (token != NULL)
        name_actor(actor, token->name, "token", token->right);
    pthread_mutex_unlock(&access->lock);
    return why;
}

static refusal by_session(struct access *access, const struct access_ask *ask, kvr_ns now,
                          struct access_actor *actor)
{
    const struct session *session;
    struct kvr_token_hash hash;

    kvr_token_hash(ask->cookie, &hash);
    pthread_mutex_lock(&access->lock);
    session = sessions_find(&access->sessions, &hash, now);
    if (session != NULL) {
        name_actor(actor, session->token.name, "session", session->token.right);
        actor->ends = session->ends;
    }
    pthread_mutex_unlock(&access->lock);
    if (session == NULL)
        return REFUSAL_SESSION;
    /* A page of another site can make a browser send the cookie, and not this header. */
    if (ask->need == ACCESS_ACT && (ask->marker == NULL || strcmp(ask->marker, "1") != 0))
        return REFUSAL_MARKER;
    return REFUSAL_END;
}

static refusal identify(struct access *access, const struct access_ask *ask, kvr_ns now,
                        struct access_actor *actor)
{
    if (ask->authorization != NULL && access_has_tokens(access))
        return by_token(access, ask, now, actor);
    if (ask->certificate != NULL && (ask->certificate->client || access_guarded(access))) {
        name_actor(actor, ask->certificate->uri, "certificate",
                   ask->certificate->client ? RIGHT_ACT : RIGHT_NONE);
        return ask->certificate->client ? REFUSAL_END : REFUSAL_ROLE;
    }
    if (ask->cookie != NULL && access_has_tokens(access))
        return by_session(access, ask, now, actor);
    if (!access_guarded(access)) {
        name_actor(actor, "", "open", RIGHT_ACT);
        return REFUSAL_END;
    }
    return ask->bad_certificate ? REFUSAL_CERTIFICATE : REFUSAL_NONE;
}

/* ---- whether it may ---- */

static refusal check_names(const struct access *access, const struct access_ask *ask)
{
    /* Browsers always send Host. HTTP/1.0 knows clients that do not. */
    if (ask->host != NULL && !hosts_allow(&access->options.hosts, ask->host, ask->local))
        return REFUSAL_HOST;
    if (ask->origin != NULL &&
        (ask->host == NULL || !hosts_same_origin(ask->origin, ask->host, access->options.tls)))
        return REFUSAL_ORIGIN;
    /* A link of another site may lead to the page, and to nothing else. */
    if (ask->site != NULL && ask->need != ACCESS_PAGE && strcmp(ask->site, "same-origin") != 0 &&
        strcmp(ask->site, "none") != 0)
        return REFUSAL_ORIGIN;
    return REFUSAL_END;
}

static refusal check_report(const struct access *access, const struct access_ask *ask,
                            struct access_actor *actor)
{
    if (!access->options.tls)
        return REFUSAL_END;
    if (ask->certificate == NULL)
        return ask->bad_certificate ? REFUSAL_CERTIFICATE : REFUSAL_AGENT;
    name_actor(actor, ask->certificate->uri, "certificate", RIGHT_NONE);
    return ask->certificate->agent ? REFUSAL_END : REFUSAL_ROLE;
}

refusal access_check(struct access *access, const struct access_ask *ask, kvr_ns now,
                     struct access_actor *ret_actor)
{
    refusal why = check_names(access, ask);

    *ret_actor = (struct access_actor){.via = ""};
    if (why != REFUSAL_END)
        return why;
    if (ask->token_in_url)
        return REFUSAL_URL;
    switch (ask->need) {
    case ACCESS_PAGE:
    case ACCESS_SIGN_IN:
        return REFUSAL_END;
    case ACCESS_REPORT:
        return check_report(access, ask, ret_actor);
    case ACCESS_METRICS:
    case ACCESS_HEALTH:
        if (ask->need == ACCESS_METRICS ? access->options.open_metrics
                                        : access->options.open_health)
            return REFUSAL_END;
        break;
    case ACCESS_READ:
    case ACCESS_ACT:
        break;
    }
    why = identify(access, ask, now, ret_actor);
    if (why == REFUSAL_END && ask->need == ACCESS_ACT && ret_actor->right != RIGHT_ACT)
        return REFUSAL_RIGHT;
    return why;
}

/* ---- sessions ---- */

refusal access_sign_in(struct access *access, const char *authorization,
                       const struct kvr_address *from, kvr_ns now,
                       char ret_cookie[ACCESS_COOKIE_BYTES], struct access_actor *ret_actor)
{
    refusal why = REFUSAL_END;
    const struct token *token;
    struct kvr_token_hash hash;

    *ret_actor = (struct access_actor){.via = "token"};
    if (authorization == NULL)
        return REFUSAL_NONE;
    kvr_token_make(ret_cookie);
    kvr_token_hash(ret_cookie, &hash);
    pthread_mutex_lock(&access->lock);
    token = token_of(access, authorization, from, now, &why);
    if (token != NULL) {
        sessions_begin(&access->sessions, &hash, token, now, access->options.session_life);
        name_actor(ret_actor, token->name, "token", token->right);
        ret_actor->ends = now + access->options.session_life;
    }
    pthread_mutex_unlock(&access->lock);
    return why;
}

void access_sign_out(struct access *access, const char *cookie)
{
    struct kvr_token_hash hash;

    kvr_token_hash(cookie, &hash);
    pthread_mutex_lock(&access->lock);
    sessions_end(&access->sessions, &hash);
    pthread_mutex_unlock(&access->lock);
}
