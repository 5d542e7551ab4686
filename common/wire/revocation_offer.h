/* How a decode-agent gets the revocation words of a prefill-agent on its host, whichever pid
 * namespaces they are in. The decode-agent listens at a name that its boot id makes. The
 * prefill-agent sends the words' descriptor there before the WELCOME that begins a session. So the
 * offer is there when WELCOME comes, and neither agent waits for the other.
 *
 * Only processes of one user are heard. Which prefill-agent an offer is of, the boot id in the
 * memory says. */
#ifndef KVR_WIRE_REVOCATION_OFFER_H
#define KVR_WIRE_REVOCATION_OFFER_H

#include "wire/revocation_words.h"

/* A decode-agent's, of its own boot id. The caller closes *ret_socket. */
KVR_MUST_CHECK kvr_status kvr_revocation_listen(uint64_t boot, int *ret_socket,
                                                struct kvr_error *error);
/* The next offer; what is none is left out. KVR_AGAIN: there is none. */
KVR_MUST_CHECK kvr_status kvr_revocation_hear(int socket,
                                              const struct kvr_revocation_words **ret_words);
/* A prefill-agent's, to the decode-agent of that boot id. False: it is on another host, of another
 * user or network namespace, or of a version that does not listen. */
bool kvr_revocation_offer(uint64_t boot, int words_fd);

#endif
