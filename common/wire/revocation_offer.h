/* How a decode-agent gets the revocation words of a source engine on its host, whichever pid
 * namespaces they are in. The decode-agent listens at a name that its boot id makes. The
 * prefill-agent sends the words' descriptor there before the first REGIONS of that engine in a
 * session, which names them by their number. So the offer is there when REGIONS comes, and neither
 * agent waits for the other.
 *
 * Only processes of one user are heard. The packet names the engine that they are of: 16 bytes, as
 * struct kvr_revocation_name lies in memory. The prefill-agent writes the packet, and no engine
 * can.
 */
#ifndef KVR_WIRE_REVOCATION_OFFER_H
#define KVR_WIRE_REVOCATION_OFFER_H

#include "wire/revocation_words.h"

/* An engine of that prefill-agent, from its attach to its end. */
struct kvr_revocation_name {
    uint64_t boot;   /* of the prefill-agent */
    uint64_t number; /* of the engine's attach, never given twice in one boot; not 0 */
};
_Static_assert(sizeof(struct kvr_revocation_name) == 16, "it travels as it is");

/* A decode-agent's, of its own boot id. The caller closes *ret_socket. */
KVR_MUST_CHECK kvr_status kvr_revocation_listen(uint64_t boot, int *ret_socket,
                                                struct kvr_error *error);
/* The next offer; what is none is left out. KVR_AGAIN: there is none. */
KVR_MUST_CHECK kvr_status kvr_revocation_hear(int socket, struct kvr_revocation_name *ret_name,
                                              const struct kvr_revocation_words **ret_words);
/* A prefill-agent's, to the decode-agent of that boot id. False: it is on another host, of another
 * user or network namespace, or has too many offers before it. */
bool kvr_revocation_offer(uint64_t boot, const struct kvr_revocation_name *name, int words_fd);

#endif
