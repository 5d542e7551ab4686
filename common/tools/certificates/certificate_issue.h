/* A certificate of the fleet and its key. Main thread. */
#ifndef KVR_TOOLS_CERTIFICATE_ISSUE_H
#define KVR_TOOLS_CERTIFICATE_ISSUE_H

#include "base/options.h"
#include "tools/certificates/authority.h"
#include "tools/certificates/certificate_name.h"

struct certificate_wish {
    certificate_role role;
    const char *name;                      /* checked */
    const struct kvr_option_list *hosts;   /* DNS names and addresses; checked here */
    const struct kvr_option_list *tenants; /* checked here */
    struct certificate_life life;          /* its end is cut to the CA's */
};

/* Writes NAME-key.pem, NAME.pem and a line of issued.txt; an older certificate of that name is
 * replaced. The time at which the certificate ends is in *ret_end. */
KVR_MUST_CHECK kvr_status certificate_issue(const struct certificate_folder *folder,
                                            const struct authority *authority,
                                            const struct certificate_wish *wish, time_t *ret_end,
                                            struct kvr_error *error);

#endif
