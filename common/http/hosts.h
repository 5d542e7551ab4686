/* By which names a browser may reach an HTTP port.
 *
 * A page of another site can let its own name lead to the program's address (DNS rebinding), and
 * its script then reads answers as if they were of that site. The browser says in Host which name
 * it used. So only these are taken: the address that the connection came to, the names of this
 * host's loopback, this host's own name, and --host. Plain value; no resolver is asked. */
#ifndef KVR_HTTP_HOSTS_H
#define KVR_HTTP_HOSTS_H

#include "base/address.h"
#include "base/options.h"

struct hosts {
    char own[KVR_HOST_BYTES];     /* of this host; may be empty */
    struct kvr_option_list extra; /* --host: names or addresses, without a port */
};

/* header: the value of Host. local: the connection's own address; NULL: not known. */
bool hosts_allow(const struct hosts *hosts, const char *header, const struct kvr_address *local);
/* The Origin of a browser's request is the program itself, as Host names it. */
bool hosts_same_origin(const char *origin, const char *host, bool tls);

#endif
