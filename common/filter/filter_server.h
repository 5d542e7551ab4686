/* kvrail-filter's socket: takes what agents name, and lets the book and the rules follow.
 *
 * One thread, no waiting but for the kernel's own answers. An agent that says anything wrong, or
 * takes no answers, is let go; a change that the kernel refuses ends the program, and with it every
 * rule. */
#ifndef KVR_FILTER_FILTER_SERVER_H
#define KVR_FILTER_FILTER_SERVER_H

#include <sys/types.h>

#include "filter/filter_book.h"

#define FILTER_USERS_MAX 64u

struct filter_server_options {
    const char *socket; /* its path; one that is there is replaced */
    uid_t users[FILTER_USERS_MAX];
    uint32_t user_count;  /* that run agents */
    uint16_t first, last; /* the ports that agents may guard; 0: none */
};

struct filter_server;

KVR_MUST_CHECK kvr_status filter_server_open(const struct filter_server_options *options,
                                             struct filter_server **ret_server,
                                             struct kvr_error *error);
void filter_server_close(struct filter_server *server); /* NULL is fine */
/* Returns KVR_OK when one of the signals has come, which the caller has blocked. */
KVR_MUST_CHECK kvr_status filter_server_run(struct filter_server *server, const sigset_t *signals,
                                            struct kvr_error *error);

#endif
