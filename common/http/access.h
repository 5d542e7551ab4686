/* Rights over HTTP. Reading and acting are separate: of a bearer token, of the session of a browser
 * that showed one, or of a client certificate. Agents report with a certificate of their own. Host
 * and Origin are looked at first, in any case.
 *
 *   given                       reading and acting                   reports
 *   nothing                     all that reach the port              all
 *   --token-file                tokens                               all
 *   certificates                client certificates                  agents' certificates
 *   certificates, --token-file  client certificates and tokens       agents' certificates
 *
 * Any thread: a lock of its own. Decides by what it is given and `now`. */
#ifndef KVR_HTTP_ACCESS_H
#define KVR_HTTP_ACCESS_H

#include "base/clock.h"
#include "http/hosts.h"
#include "http/refusal.h"
#include "http/tokens.h"

#define ACCESS_NAME_BYTES   256 /* a token's name, or the URI of a certificate */
#define ACCESS_COOKIE_BYTES KVR_TOKEN_TEXT_BYTES

struct access_options {
    const char *token_file; /* NULL: none */
    bool tls;               /* else it runs with --insecure */
    bool open_metrics, open_health;
    kvr_ns session_life;
    struct hosts hosts;
};

typedef enum access_need {
    ACCESS_PAGE, /* the page's files: they hold no data */
    ACCESS_METRICS,
    ACCESS_HEALTH,
    ACCESS_READ,
    ACCESS_ACT,
    ACCESS_SIGN_IN, /* looks at Host and Origin alone */
    ACCESS_REPORT,
} access_need;

/* A client certificate that TLS has verified. */
struct access_certificate {
    char uri[ACCESS_NAME_BYTES];
    char name[KVR_NAME_BYTES];
    bool agent;  /* of role prefill or decode */
    bool client; /* of role client or scheduler */
};

/* One request. Strings are headers, borrowed; NULL: absent. */
struct access_ask {
    access_need need;
    const char *host, *origin, *site, *authorization, *cookie, *marker;
    bool token_in_url;
    bool bad_certificate; /* one was shown and not accepted */
    const struct access_certificate *certificate;
    const struct kvr_address *local, *from; /* NULL: not known */
};

/* The person or program that asks, once that is known. */
struct access_actor {
    char name[ACCESS_NAME_BYTES]; /* "": not known */
    const char *via;              /* "token", "session", "certificate", "open" */
    token_right right;
    kvr_ns ends; /* of a session; 0 */
};

struct access;

/* What needs no right, by the values of that option: metrics, health. */
KVR_MUST_CHECK kvr_status access_open_paths(const struct kvr_option_list *open, const char *option,
                                            struct access_options *options,
                                            struct kvr_error *error);

KVR_MUST_CHECK kvr_status access_open(const struct access_options *options,
                                      struct access **ret_access, struct kvr_error *error);
struct access *access_close(struct access *access); /* returns NULL */

/* REFUSAL_END: it may. *ret_actor is filled in as far as it is known, also of a refusal. */
refusal access_check(struct access *access, const struct access_ask *ask, kvr_ns now,
                     struct access_actor *ret_actor);
/* Begins a session for the token in `authorization`. REFUSAL_END: the cookie is its value. */
refusal access_sign_in(struct access *access, const char *authorization,
                       const struct kvr_address *from, kvr_ns now,
                       char ret_cookie[ACCESS_COOKIE_BYTES], struct access_actor *ret_actor);
void access_sign_out(struct access *access, const char *cookie);

/* A token, a session or a certificate is needed. */
bool access_guarded(const struct access *access);
/* Tokens are accepted. */
bool access_has_tokens(const struct access *access);
kvr_ns access_session_life(const struct access *access);
int access_sessions(struct access *access, kvr_ns now);

/* About once a second, and with always after SIGHUP: reads --token-file again once it has changed,
 * and ends the sessions of tokens that have gone. A file that is wrong changes nothing, and is
 * logged. */
void access_reread(struct access *access, bool always);

#endif
