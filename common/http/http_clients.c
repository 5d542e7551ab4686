#include "http/http_clients.h"

#include <stdlib.h>
#include <sys/socket.h>

kvr_status http_clients_init(struct http_clients *clients, uint64_t max, uint64_t per_host)
{
    KVR_TRY(http_limits_init(&clients->limits, max, per_host));
    clients->first = NULL;
    clients->count = 0;
    pthread_mutex_init(&clients->lock, NULL);
    return KVR_OK;
}

void http_clients_done(struct http_clients *clients)
{
    http_limits_done(&clients->limits);
    pthread_mutex_destroy(&clients->lock);
}

http_limit http_clients_admit(struct http_clients *clients, uint64_t host)
{
    http_limit limit;

    pthread_mutex_lock(&clients->lock);
    limit = http_limits_reached(&clients->limits, clients->count, host);
    pthread_mutex_unlock(&clients->lock);
    return limit;
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
    bool has_asked = client == NULL || client->has_asked;

    if (client == NULL)
        return has_asked;
    pthread_mutex_lock(&clients->lock);
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        clients->first = client->next;
    if (client->next != NULL)
        client->next->previous = client->previous;
    clients->count--;
    http_limits_left(&clients->limits, client->host);
    pthread_mutex_unlock(&clients->lock);
    free(client);
    return has_asked;
}

/* The daemon's thread then reads the end of the stream, as if the client had closed it. */
uint64_t http_clients_sweep(struct http_clients *clients, kvr_ns now)
{
    uint64_t count;

    pthread_mutex_lock(&clients->lock);
    for (struct http_client *client = clients->first; client != NULL; client = client->next)
        if (now > client->asked_at + HTTP_REQUEST_SECONDS * KVR_S)
            shutdown(client->socket, SHUT_RDWR);
    count = clients->count;
    pthread_mutex_unlock(&clients->lock);
    return count;
}
