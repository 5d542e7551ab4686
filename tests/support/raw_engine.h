/* An engine without libkvrail: it says what that never would. */
#ifndef KVR_TESTS_RAW_ENGINE_H
#define KVR_TESTS_RAW_ENGINE_H

#include "wire/engine_message.h"
#include "wire/packet_socket.h"

int raw_connect(const char *path);
void raw_send(int fd, const struct kvr_request *request, const struct kvr_packet_fds *fds);
void raw_attach(int fd);
/* The next notice; KVR_PEER_LOST: the agent has closed the connection. */
kvr_status raw_notice(int fd, struct kvr_notice *ret_notice);

#endif
