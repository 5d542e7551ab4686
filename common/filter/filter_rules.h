/* The packet filter's table `inet kvrail`, as the book's changes make it. One thread.
 *
 * Of TCP only, for a destination (address, port):
 *
 *   an open port of an agent     over loopback: connections of the users that run agents;
 *                                from other hosts: packets of that agent's peers
 *   another port of a guarded    no connection is begun
 *   range
 *
 * Over loopback every address of this host is the same host's, so a rule by address would tell
 * nothing: there the user of the socket that connects counts. What is kept from an agent's ports is
 * counted for it. The table belongs to this process's netlink socket: the kernel removes it, with
 * every rule, when the process ends in any way. */
#ifndef KVR_FILTER_FILTER_RULES_H
#define KVR_FILTER_FILTER_RULES_H

#include "filter/filter_book.h"

struct filter_rules;

/* UNSUPPORTED: the kernel is too old, or lacks nf_tables. EXISTS: another process has the table. */
KVR_MUST_CHECK kvr_status filter_rules_open(struct filter_rules **ret_rules,
                                            struct kvr_error *error);
void filter_rules_close(struct filter_rules *rules); /* NULL is fine */
struct filter_sink filter_rules_sink(struct filter_rules *rules);
/* Makes what was changed so. A failure is final: the table no longer is what the book says. */
KVR_MUST_CHECK kvr_status filter_rules_commit(struct filter_rules *rules, struct kvr_error *error);
/* Packets kept from each agent's ports since the table was made. */
KVR_MUST_CHECK kvr_status filter_rules_counts(struct filter_rules *rules,
                                              uint64_t ret_counts[FILTER_AGENTS_MAX],
                                              struct kvr_error *error);

#endif
