/* Two rails of provider local in one process: a well behaved pair, one of which can then be made to
 * write nonsense where it may. */
#ifndef KVR_TESTS_LOCAL_PAIR_H
#define KVR_TESTS_LOCAL_PAIR_H

#include "fabric/local/fabric_local_state.h"

#define PAIR_BYTES 65536u /* of each side's memory */

enum side {
    WRITER,
    TARGET,
};

struct side_of {
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
    struct kvr_memory *memory;
    struct kvr_remote_key key;
    uint8_t *bytes;
    int fd;
};

struct pair {
    struct kvr_fabric fabric;
    struct side_of sides[2];
    uint64_t peer;
    unsigned written, failed, uncopied, arrived; /* uncopied: of those that failed */
    uint32_t immediate;
};

extern unsigned pair_unseen; /* how often the target's rail said that it does not see pages */

/* cmocka's fixtures. */
int pair_setup(void **state);
int pair_teardown(void **state);
void connect_to_target(struct pair *pair);
struct local_target *link_of(struct pair *pair);
unsigned pair_move(struct pair *pair); /* polls both sides once */
void pair_settle(struct pair *pair);   /* until nothing more is to come */
kvr_status pair_post(struct pair *pair, uint32_t immediate, uint64_t offset, bool more);
/* A good write over the link that is there now. */
void pair_writes(struct pair *pair);
/* The link came to its end, which both sides have seen, and a new one works. */
void pair_begins_anew(struct pair *pair);
/* As if the writer had put this command there itself. */
void pair_put(struct pair *pair, const struct local_command *command);
struct local_command pair_good_command(struct pair *pair);
/* Of this process, of a memfd of that name. */
unsigned mappings_of(const char *name);

#endif
