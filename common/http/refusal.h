/* Why a request over HTTP was refused before it was looked at: what the answer says, the label of
 * the metric, and the outcome in the audit log. */
#ifndef KVR_HTTP_REFUSAL_H
#define KVR_HTTP_REFUSAL_H

/* X(symbol, name, status of HTTP, sentence) */
#define REFUSAL_LIST(X)                                                                            \
    X(REFUSAL_HOST, "foreign_host", 421,                                                           \
      "this name is not this program's: use its address, or start it with --host NAME (an agent: " \
      "--http-host)")                                                                              \
    X(REFUSAL_ORIGIN, "foreign_origin", 403, "a page of another site gets nothing here")           \
    X(REFUSAL_URL, "token_in_url", 400,                                                            \
      "a token in a URL stays in logs and histories, and is never accepted: replace that token, "  \
      "and send the new one as Authorization: Bearer TOKEN")                                       \
    X(REFUSAL_NONE, "no_token", 401,                                                               \
      "a token is needed (kvrail: --token-file; programs: Authorization: Bearer TOKEN; browsers: " \
      "sign in), or a client certificate")                                                         \
    X(REFUSAL_TOKEN, "wrong_token", 401,                                                           \
      "this token is not known here: it was mistyped, replaced or revoked")                        \
    X(REFUSAL_MANY, "many_wrong_tokens", 429,                                                      \
      "this token is not known here, and many wrong ones came from this address: wait a minute")   \
    X(REFUSAL_SESSION, "session_ended", 401, "the session has ended: sign in again")               \
    X(REFUSAL_MARKER, "no_header", 403,                                                            \
      "an action in a browser's session needs the header X-Kvrail-Request: 1")                     \
    X(REFUSAL_RIGHT, "no_right", 403,                                                              \
      "this token may read and not act: use one with the right act")                               \
    X(REFUSAL_ROLE, "wrong_role", 403,                                                             \
      "a certificate of this role may not do this: agents report, clients and schedulers read "    \
      "and act")                                                                                   \
    X(REFUSAL_AGENT, "no_certificate", 401,                                                        \
      "agents report with their certificate: start the agent with --tls-certificate, --tls-key "   \
      "and --tls-ca")                                                                              \
    X(REFUSAL_CERTIFICATE, "bad_certificate", 403,                                                 \
      "the client certificate is not accepted: it is of another CA, expired, revoked or names "    \
      "no program of this fleet")                                                                  \
    X(REFUSAL_NAME, "wrong_name", 403,                                                             \
      "the report names another agent than the certificate it came with")

typedef enum refusal {
#define X(symbol, name, status, sentence) symbol,
    REFUSAL_LIST(X)
#undef X
        REFUSAL_END
} refusal;

struct refusal_facts {
    const char *name;
    unsigned status;
    const char *sentence;
};
const struct refusal_facts *refusal_facts(refusal why);

#endif
