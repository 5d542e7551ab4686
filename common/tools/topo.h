/* What this host has that a rail could use, for `kvrail topo` and `kvrail doctor`, and topo's two
 * ways of showing it. */
#ifndef KVR_TOOLS_TOPO_H
#define KVR_TOOLS_TOPO_H

#include <jansson.h>
#include <stdio.h>

#include "device/device_cuda.h"
#include "fabric/fabric_provider.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "topology/host_groups.h"

/* The host to read, as the rows of topo_parts fill it. */
struct topo_host {
    char provider[16]; /* "": all */
    char xml[4096];    /* a file in place of this host */
    char libfabric[KVR_LIBFABRIC_FOLDER_BYTES];
};
extern const struct kvr_option_table topo_host_options;
extern const struct kvr_option_part topo_parts[]; /* these alone; their struct comes first */

/* Rails of one provider, or why it has none. */
struct topo_provider {
    const char *provider;
    struct kvr_rail_facts *rails; /* in topo's */
    unsigned listed, count;       /* count: there are */
    struct kvr_error error;
};

#define TOPO_TRIAL_BYTES (KVR_DETAIL_BYTES + 40)

/* A dmabuf, registered on a rail. */
struct topo_trial {
    bool wanted; /* the rail may take one */
    enum topo_result { TOPO_UNTRIED, TOPO_TAKEN, TOPO_REFUSED } result;
    struct kvr_error error; /* untried, refused: why */
};

struct topo {
    struct kvr_topology *topology;
    struct topo_provider providers[KVR_PROVIDERS_MAX]; /* none of a file */
    unsigned provider_count;
    struct kvr_rail_facts rails[KVR_HOST_RAILS_MAX]; /* of all providers, one after the other */
    unsigned rail_count;
    struct topo_trial trials[KVR_HOST_RAILS_MAX];           /* of the rails */
    struct kvr_device_cuda_facts gpus[KVR_HOST_GROUPS_MAX]; /* of the driver; none of a file */
    unsigned gpu_count;
    struct kvr_error driver; /* why there is none */
    struct kvr_host_groups groups;
    struct kvr_oddities oddities;
};

/* Fills a zeroed *topo; its topology is the caller's to free. */
KVR_MUST_CHECK kvr_status topo_read(const struct topo_host *host, struct topo *topo,
                                    struct kvr_error *error);
/* Opens rails, and corrects their facts by what they then say. */
void topo_try(struct topo *topo);
#define TOPO_ODDITY_BYTES (2 * KVR_ODDITY_BYTES)
/* With its remedy. Returns ret_text. */
const char *topo_oddity_text(const struct kvr_oddity *oddity, char ret_text[TOPO_ODDITY_BYTES]);
/* The path over a rail of a region that offers every form of device memory. */
void topo_device_path(const struct kvr_rail_facts *rail, const struct topo_trial *trial,
                      struct kvr_path_choice *ret_choice);
const char *topo_order_text(kvr_write_order order); /* when a GPU sees writes of cards */
/* False: there is nothing to say. */
bool topo_trial_text(const struct topo_trial *trial, char text[TOPO_TRIAL_BYTES]);
void topo_print(const struct topo *topo, FILE *stream);
json_t *topo_json(const struct topo *topo);

#endif
