#include "http/http_clients.h"

#include <stdlib.h>
#include <sys/socket.h>

kvr_status http_clients_init(struct http_clients *clients, uint64_t max, uint64_t per_host)
{
    KVR_TRY(http_limits_init(&clients->limits, max, per_host, (uint32_t)max + HTTP_CLOSING_MAX));
    clients->first = clients->last = NULL;
    clients->count = clients->closing = 0;
    pthread_mutex_init(&clients->lock, NULL);
    return KVR_OK;
}

void http_clients_done(struct http_clients *clients)
{
    http_limits_done(&clients->limits);
    pthread_mutex_destroy(&clients->lock);
}

static struct http_client *oldest_without_request(const struct http_clients *clients)
{
    struct http_client *client = clients->last;

    while (client != NULL && (client->has_asked || client->closing))
        client = client->previous;
    return client;
}

/* Of the host that has most, the one that asked longest ago. */
static struct http_client *of_largest_host(const struct http_clients *clients,
                                           uint32_t *ret_largest)
{
    struct http_client *found = NULL;

    *ret_largest = 0;
    for (struct http_client *client = clients->last; client != NULL; client = client->previous) {
        uint32_t count = client->closing ? 0 : http_limits_count(&clients->limits, client->host);

        if (count < *ret_largest || count == 0 ||
            (count == *ret_largest && client->asked_at >= found->asked_at))
            continue;
        *ret_largest = count;
        found = client;
    }
    return found;
}

/* The daemon's thread then reads the end of the stream, as if the client had closed it. */
static void close_client(struct http_clients *clients, struct http_client *client)
{
    shutdown(client->socket, SHUT_RDWR);
    if (client->closing)
        return;
    client->closing = true;
    clients->closing++;
}

/* For one more of that host. */
static bool make_room(struct http_clients *clients, uint64_t host)
{
    struct http_client *client = oldest_without_request(clients);
    uint32_t largest;

    if (clients->closing >= HTTP_CLOSING_MAX)
        return false;
    if (client == NULL) {
        client = of_largest_host(clients, &largest);
        if (client == NULL || largest <= http_limits_count(&clients->limits, host) + 1)
            return false;
    }
    close_client(clients, client);
    return true;
}

http_limit http_clients_admit(struct http_clients *clients, uint64_t host, bool *ret_closed)
{
    http_limit limit;

    pthread_mutex_lock(&clients->lock);
    limit = http_limits_reached(&clients->limits, clients->count - clients->closing, host);
    *ret_closed = limit == HTTP_LIMIT_MAX && make_room(clients, host);
    pthread_mutex_unlock(&clients->lock);
    return *ret_closed ? HTTP_LIMIT_END : limit;
}

uint64_t http_clients_say(struct http_clients *clients, bool refused, kvr_ns now)
{
    uint64_t count;

    pthread_mutex_lock(&clients->lock);
    count = http_limits_say(&clients->limits, refused, now);
    pthread_mutex_unlock(&clients->lock);
    return count;
}

struct http_client *http_client_joined(struct http_clients *clients, kvr_ns now, int socket,
                                       uint64_t host)
{
    struct http_client *client = malloc(sizeof(*client));

    if (client == NULL)
        return NULL;
    pthread_mutex_lock(&clients->lock);
    *client = (struct http_client){
        .next = clients->first, .socket = socket, .host = host, .asked_at = now};
    if (client->next != NULL)
        client->next->previous = client;
    else
        clients->last = client;
    clients->first = client;
    clients->count++;
    http_limits_joined(&clients->limits, host);
    pthread_mutex_unlock(&clients->lock);
    return client;
}

void http_client_asked(struct http_clients *clients, kvr_ns now, struct http_client *client)
{
    if (client == NULL)
        return;
    pthread_mutex_lock(&clients->lock);
    client->asked_at = now;
    client->has_asked = true;
    pthread_mutex_unlock(&clients->lock);
}

bool http_client_left(struct http_clients *clients, struct http_client *client)
{
    bool has_asked;

    if (client == NULL)
        return true;
    pthread_mutex_lock(&clients->lock);
    has_asked = client->has_asked;
    clients->closing -= client->closing;
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        clients->first = client->next;
    if (client->next != NULL)
        client->next->previous = client->previous;
    else
        clients->last = client->previous;
    clients->count--;
    http_limits_left(&clients->limits, client->host);
    pthread_mutex_unlock(&clients->lock);
    free(client);
    return has_asked;
}

uint64_t http_clients_sweep(struct http_clients *clients, kvr_ns now)
{
    uint64_t count;

    pthread_mutex_lock(&clients->lock);
    for (struct http_client *client = clients->first; client != NULL; client = client->next)
        if (now > client->asked_at + HTTP_REQUEST_SECONDS * KVR_S)
            close_client(clients, client);
    count = clients->count;
    pthread_mutex_unlock(&clients->lock);
    return count;
}
