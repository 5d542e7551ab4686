#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/log.h"
#include "http/http_server_state.h"

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* A token, or a parameter that calls itself one. */
static enum MHD_Result look_for_token(void *self, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    static const char *const names[] = {"token", "access_token", "bearer", "authorization"};
    bool *found = self;

    (void)kind;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        *found |= strcasecmp(name, names[i]) == 0;
    *found |= kvr_token_within(name) || (value != NULL && kvr_token_within(value));
    return MHD_YES;
}

/* False: the system does not say. */
static bool local_address(struct MHD_Connection *connection, struct kvr_address *ret_local)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sockaddr_storage at;
    socklen_t bytes = sizeof(at);

    return info != NULL && getsockname(info->connect_fd, (struct sockaddr *)&at, &bytes) == 0 &&
           kvr_address_from_socket((const struct sockaddr *)&at, ret_local) == KVR_OK;
}

static void find_source(struct MHD_Connection *connection, struct kvr_address *ret_from)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    if (info == NULL || kvr_address_from_socket(info->client_addr, ret_from) != KVR_OK)
        *ret_from = (struct kvr_address){0};
}

/* What the client has shown in its handshake; NULL: nothing, or there is no TLS. Without memory for
 * the connection's record it has shown nothing. */
static const struct http_shown *shown_by(struct http_server *server,
                                         struct MHD_Connection *connection)
{
    struct http_tls *tls = server->options.tls;
    const union MHD_ConnectionInfo *session, *client;
    struct http_client *record;

    if (tls == NULL)
        return NULL;
    session = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (session == NULL || client == NULL || client->socket_context == NULL)
        return NULL;
    record = client->socket_context;
    http_tls_judge(tls, session->tls_session, kvr_clock_now(), &record->shown);
    return record->shown.given ? &record->shown : NULL;
}

refusal http_server_check(struct http_server *server, struct MHD_Connection *connection,
                          access_need need, const char *path, const char *cookie,
                          struct http_asker *asker)
{
    struct access_ask ask = {
        .need = need,
        .host = header(connection, "Host"),
        .origin = header(connection, "Origin"),
        .site = header(connection, "Sec-Fetch-Site"),
        .authorization = header(connection, "Authorization"),
        .marker = header(connection, "X-Kvrail-Request"),
        .cookie = cookie,
        .token_in_url = kvr_token_within(path),
    };
    const struct http_shown *shown = shown_by(server, connection);
    struct kvr_address local;

    asker->agent[0] = '\0';
    if (shown != NULL && shown->good)
        ask.certificate = &shown->certificate;
    ask.bad_certificate = shown != NULL && !shown->good;
    find_source(connection, &asker->from);
    ask.from = asker->from.host[0] != '\0' ? &asker->from : NULL;
    ask.local = local_address(connection, &local) ? &local : NULL;
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, look_for_token, &ask.token_in_url);
    if (ask.certificate != NULL && ask.certificate->agent)
        memcpy(asker->agent, ask.certificate->name, sizeof(asker->agent));
    return access_check(server->options.access, &ask, kvr_clock_now(), &asker->actor);
}

const struct refusal_facts *http_server_refuse(struct http_server *server,
                                               const struct http_asker *asker, refusal why)
{
    const struct refusal_facts *facts = refusal_facts(why);

    atomic_fetch_add(&server->options.counts->refusals[why], 1);
    /* A browser that has not signed in yet asks once a second. */
    kvr_log(why == REFUSAL_NONE || why == REFUSAL_SESSION || why == REFUSAL_MANY ? KVR_LOG_DEBUG
                                                                                 : KVR_LOG_WARNING,
            "a request from %s was refused (%s): %s",
            asker->from.host[0] != '\0' ? asker->from.host : "an unknown address", facts->name,
            facts->sentence);
    return facts;
}
