/* A prefill-agent and a decode-agent of the benchmark's own, in a directory of their own: found
 * beside this executable, started on the given rails with free ports, and gone when it ends. */
#ifndef KVR_TOOLS_BENCH_AGENTS_H
#define KVR_TOOLS_BENCH_AGENTS_H

#include <sys/types.h>

#include "base/stamps.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_program.h"
#include "tools/bench/bench_rails.h"

struct bench_agents {
    char directory[BENCH_PATH_BYTES];
    char source_socket[BENCH_PATH_BYTES + 32], target_socket[BENCH_PATH_BYTES + 32];
    char source_address[64];   /* where the prefill-agent listens */
    pid_t source, target;      /* 0: not started */
    struct kvr_stamps *stamps; /* of both, where they were asked for; or NULL */
};

/* others: NAME=VALUE, which both agents take instead of the same options, and tls=yes or tls=no
 * instead of the option `tls`; or NULL. False: said on
 * stderr, with the end of the agent's own log. */
bool bench_agents_start(struct bench_agents *agents, const struct bench_options *options,
                        const struct bench_rails *rails, const struct kvr_option_list *others);
void bench_agents_stop(struct bench_agents *agents);

#endif
