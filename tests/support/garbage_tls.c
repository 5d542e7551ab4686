#include "tests/support/garbage_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <poll.h>

static gnutls_certificate_credentials_t credentials;
static gnutls_datum_t ticket_key; /* of a server */

bool garbage_tls_load(const char *certificate, const char *key)
{
    return gnutls_certificate_allocate_credentials(&credentials) == 0 &&
           gnutls_certificate_set_x509_key_file(credentials, certificate, key,
                                                GNUTLS_X509_FMT_PEM) >= 0;
}

bool garbage_tls_loaded(void)
{
    return credentials != NULL;
}

static bool wait_for(struct garbage *garbage, gnutls_session_t session)
{
    struct pollfd ready = {.fd = garbage->socket, .events = POLLIN};

    if (gnutls_record_get_direction(session) == 1)
        ready.events = POLLOUT;
    return poll(&ready, 1, 5000) > 0;
}

bool garbage_tls_begin(struct garbage *garbage, bool server)
{
    gnutls_session_t session;
    int result;

    (void)fcntl(garbage->socket, F_SETFL, O_NONBLOCK);
    if (gnutls_init(&session, (server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK |
                                  GNUTLS_NO_SIGNAL | GNUTLS_NO_AUTO_SEND_TICKET) != 0)
        return false;
    garbage->tls = session;
    if (server &&
        ((ticket_key.data == NULL && gnutls_session_ticket_key_generate(&ticket_key) != 0) ||
         gnutls_session_ticket_enable_server(session, &ticket_key) != 0))
        return false;
    (void)gnutls_priority_set_direct(session, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    if (server)
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
    gnutls_transport_set_int(session, garbage->socket);
    do {
        result = gnutls_handshake(session);
    } while (result == GNUTLS_E_AGAIN && wait_for(garbage, session));
    return result == 0;
}

void garbage_tls_end(struct garbage *garbage)
{
    if (garbage->tls != NULL)
        gnutls_deinit(garbage->tls);
    garbage->tls = NULL;
}

static ssize_t told(ssize_t result)
{
    if (result >= 0)
        return result;
    errno = result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ? EAGAIN : EPIPE;
    return -1;
}

ssize_t garbage_tls_send(struct garbage *garbage, const void *bytes, size_t count)
{
    return told(gnutls_record_send(garbage->tls, bytes, count));
}

ssize_t garbage_tls_receive(struct garbage *garbage, void *bytes, size_t capacity)
{
    return told(gnutls_record_recv(garbage->tls, bytes, capacity));
}

bool garbage_tls_update(struct garbage *garbage)
{
    int result;

    do {
        result = gnutls_session_key_update(garbage->tls, GNUTLS_KU_PEER);
    } while (result == GNUTLS_E_AGAIN && wait_for(garbage, garbage->tls));
    return result == 0;
}

bool garbage_tls_ticket(struct garbage *garbage)
{
    int result;

    do {
        result = gnutls_session_ticket_send(garbage->tls, 1, 0);
    } while (result == GNUTLS_E_AGAIN && wait_for(garbage, garbage->tls));
    return result == 0;
}
