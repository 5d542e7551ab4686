/* An agent's end of the socket to kvrail-filter. One thread; each call that waits has a bound. */
#ifndef KVR_FILTER_FILTER_CLIENT_H
#define KVR_FILTER_FILTER_CLIENT_H

#include "filter/filter_message.h"

struct kvr_filter_client {
    int fd; /* -1: none */
    uint64_t commits;
    uint64_t refused; /* packets, as the filter has counted since this connection began */
    uint32_t held;    /* messages that wait for a full packet */
    uint8_t packet[KVR_FILTER_PACKET_MAX * KVR_FILTER_MESSAGE_BYTES];
};

#define KVR_FILTER_CLIENT_NONE                                                                     \
    (struct kvr_filter_client)                                                                     \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Says HELLO and waits for the answer. After a failure of any call here the client is closed, and
 * *error has the sentence. */
KVR_MUST_CHECK kvr_status kvr_filter_client_open(const char *path, struct kvr_filter_client *client,
                                                 struct kvr_error *error);
void kvr_filter_client_close(struct kvr_filter_client *client);
/* It goes out with a full packet, or with the next commit. */
KVR_MUST_CHECK kvr_status kvr_filter_client_say(struct kvr_filter_client *client,
                                                const struct kvr_filter_message *message,
                                                struct kvr_error *error);
/* Waits until all that was said holds. */
KVR_MUST_CHECK kvr_status kvr_filter_client_commit(struct kvr_filter_client *client,
                                                   struct kvr_error *error);
/* Reads what the filter has said meanwhile; never waits. A failure: the filter has gone. */
KVR_MUST_CHECK kvr_status kvr_filter_client_hear(struct kvr_filter_client *client,
                                                 struct kvr_error *error);

#endif
