/* The user of the socket that listens at an address and port of this network namespace. One thread.
 */
#ifndef KVR_FILTER_FILTER_LISTENER_H
#define KVR_FILTER_FILTER_LISTENER_H

#include "filter/filter_message.h"

/* NOT_FOUND: none does. */
KVR_MUST_CHECK kvr_status filter_listener_user(const struct kvr_filter_address *address,
                                               uint16_t port, uint32_t *ret_uid);

#endif
