#include "scheduler/http_clients.h"

#include <stdlib.h>
#include <sys/socket.h>

void http_clients_init(struct http_clients *clients)
{
    clients->first = NULL;
    pthread_mutex_init(&clients->lock, NULL);
}

void http_clients_done(struct http_clients *clients)
{
    pthread_mutex_destroy(&clients->lock);
}

struct http_client *http_client_joined(struct http_clients *clients, kvr_ns now, int socket)
{
    struct http_client *client = malloc(sizeof(*client));

    if (client == NULL)
        return NULL;
    pthread_mutex_lock(&clients->lock);
    *client = (struct http_client){.next = clients->first, .socket = socket, .asked_at = now};
    if (client->next != NULL)
        client->next->previous = client;
    clients->first = client;
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
    pthread_mutex_unlock(&clients->lock);
    free(client);
    return has_asked;
}

/* The daemon's thread then reads the end of the stream, as if the client had closed it. */
void http_clients_sweep(struct http_clients *clients, kvr_ns now)
{
    pthread_mutex_lock(&clients->lock);
    for (struct http_client *client = clients->first; client != NULL; client = client->next)
        if (now > client->asked_at + HTTP_REQUEST_SECONDS * KVR_S)
            shutdown(client->socket, SHUT_RDWR);
    pthread_mutex_unlock(&clients->lock);
}
