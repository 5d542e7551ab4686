/* Shared by the files of the server alone: http_server.c has the port and its connections,
 * http_server_rights.c finds out which right a request has. */
#ifndef KVR_HTTP_SERVER_STATE_H
#define KVR_HTTP_SERVER_STATE_H

#include "http/http_clients.h"
#include "http/http_server.h"

struct http_server {
    struct http_server_options options;
    struct MHD_Daemon *daemon;
    struct http_clients clients;
};

#endif
